//! The last drop of a `Tidegate` waits for the aborts of dropped writers, whatever runtime they were started on.

#![allow(clippy::unwrap_used)] // the shared helpers are test code as well

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use tidegate::backend::Admin;
use tidegate::backend::s3::{Credentials, S3, S3Settings};
use tidegate::{Store, Tidegate, Writer};
use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};
use tokio::runtime::{Builder, Runtime};

const PART: usize = 5 << 20;

/// A server with a bucket, on a runtime of its own.
struct Site {
    runtime: Runtime,
    server: Server,
}

/// Whether the program has come far enough to fail.
type Until = fn(&Site) -> bool;

impl Site {
    fn new(faults: Vec<FaultRule>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Server::builder().start()).unwrap();
        server.create_bucket("bucket").unwrap();
        server.set_knobs(Knobs { faults, ..Knobs::default() });
        Self { runtime, server }
    }

    /// What a program's `main` opens: an engine, and a store of this server.
    async fn opened(&self) -> (Tidegate, Store) {
        let tide = Tidegate::builder().part_size(PART as u64).build().unwrap();
        let store = tide.store(Arc::new(self.bucket().await));
        (tide, store)
    }

    async fn bucket(&self) -> S3 {
        let (access, secret) = self.server.credentials();
        let settings = S3Settings::default()
            .with_endpoint_url(self.server.endpoint())
            .with_region("us-east-1")
            .with_credentials(Credentials::fixed(access, secret, None));
        S3::connect("bucket", &settings).await.unwrap()
    }

    fn sessions(&self) -> usize {
        self.runtime.block_on(async { self.bucket().await.sessions("").count().await })
    }

    fn made(&self, operation: &str) -> u64 {
        self.server.counts().get(operation)
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A `main` that writes some parts and fails.
async fn fails(site: &Site, until: Until) -> Result<(), &'static str> {
    let (_tide, store) = site.opened().await;
    let mut writer = store.writer("k").await.unwrap();
    for _ in 0..4 {
        writer.write_bytes(Bytes::from(vec![7; PART])).await.unwrap();
    }
    while !until(site) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err("the program's own error")?;
    writer.finish().await.unwrap();
    Ok(())
}

#[test]
fn an_error_out_of_main_leaves_no_session() {
    for runtime in [multi_thread, current_thread] {
        let slow_open = || vec![FaultRule::new("CreateMultipartUpload", FaultAction::DelayMs(100.0))];
        let slow_part = || vec![FaultRule::new("UploadPart", FaultAction::DelayMs(60_000.0))];
        // The session is being opened; its parts are in flight, more than the limiter lets; its parts are stored.
        let cases: [(Vec<FaultRule>, Until); 4] = [
            (Vec::new(), |_| true),
            (slow_open(), |site| site.made("CreateMultipartUpload") > 0),
            (slow_part(), |site| site.made("UploadPart") >= 3),
            (Vec::new(), |site| site.made("UploadPart") == 4),
        ];
        for (number, (faults, until)) in cases.into_iter().enumerate() {
            let site = Site::new(faults);
            let runtime = runtime();
            let began = Instant::now();
            assert!(runtime.block_on(fails(&site, until)).is_err());
            drop(runtime);
            assert_eq!(site.sessions(), 0, "case {number}");
            assert!(number == 0 || site.made("AbortMultipartUpload") > 0, "case {number}");
            assert!(began.elapsed() < Duration::from_secs(30), "case {number}: {:?}", began.elapsed());
        }
    }
}

#[test]
fn an_error_in_the_task_of_the_only_worker_leaves_no_session() {
    let site =
        Arc::new(Site::new(vec![FaultRule::new("CreateMultipartUpload", FaultAction::DelayMs(100.0))]));
    let runtime = multi_thread();
    let sites = site.clone();
    let task = async move { fails(&sites, |site| site.made("CreateMultipartUpload") > 0).await };
    // The worker is the one that drops the engine.
    assert!(runtime.block_on(runtime.spawn(task)).unwrap().is_err());
    drop(runtime);
    assert_eq!(site.sessions(), 0);
    assert!(site.made("AbortMultipartUpload") > 0);
}

/// A writer with a session and no part in flight.
async fn with_a_session(site: &Site) -> (Tidegate, Writer) {
    let (tide, store) = site.opened().await;
    let mut writer = store.writer("k").await.unwrap();
    writer.write_bytes(Bytes::from(vec![7; 2 * PART])).await.unwrap();
    while site.made("UploadPart") < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (tide, writer)
}

#[test]
fn a_writer_that_is_dropped_outside_of_its_runtime_leaves_no_session() {
    for runtime in [multi_thread, current_thread] {
        let site = Site::new(Vec::new());
        let runtime = runtime();
        let (tide, writer) = runtime.block_on(with_a_session(&site));
        drop((writer, tide));
        assert_eq!(site.sessions(), 0, "the runtime is there, and nobody drives it");
        let (tide, writer) = runtime.block_on(with_a_session(&site));
        drop(runtime);
        drop((tide, writer));
        assert_eq!(site.sessions(), 0, "the runtime is gone, and the writer is the last to hold the engine");
    }
}

#[test]
fn a_writer_whose_task_ends_with_its_runtime_leaves_no_session() {
    for runtime in [multi_thread, current_thread] {
        let site = Site::new(Vec::new());
        let runtime = runtime();
        runtime.block_on(async {
            let held = with_a_session(&site).await;
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert_eq!(site.sessions(), 0);
    }
}

#[test]
fn the_last_drop_waits_two_seconds_at_most() {
    let site = Site::new(vec![FaultRule::new("AbortMultipartUpload", FaultAction::DelayMs(60_000.0))]);
    let runtime = current_thread();
    let (tide, writer) = runtime.block_on(with_a_session(&site));
    drop(writer);
    assert_eq!(tide.unsettled().len(), 1);
    let began = Instant::now();
    drop(tide.clone());
    assert!(began.elapsed() < Duration::from_secs(1), "another clone was left");
    drop(tide);
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[test]
fn the_last_drop_in_a_task_stops_no_other_task() {
    for runtime in [current_thread, multi_thread] {
        let site = Site::new(vec![FaultRule::new("AbortMultipartUpload", FaultAction::DelayMs(60_000.0))]);
        let runtime = runtime();
        let began = runtime.block_on(async {
            let (tide, writer) = with_a_session(&site).await;
            let began = Instant::now();
            tokio::spawn(async move { drop((writer, tide)) }).await.unwrap();
            // The runtime's only worker runs this too.
            tokio::spawn(tokio::time::sleep(Duration::from_millis(1))).await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
            began
        });
        // The program's end waits instead, as long as a drop outside of a runtime does.
        drop(runtime);
        let took = began.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_secs(5)).contains(&took), "{took:?}");
    }
}

#[test]
fn a_drop_with_nothing_to_abort_does_not_wait() {
    let site = Site::new(Vec::new());
    current_thread().block_on(async {
        let (tide, store) = site.opened().await;
        store.writer("k").await.unwrap().finish().await.unwrap();
        let began = Instant::now();
        drop((tide, store));
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    });
}
