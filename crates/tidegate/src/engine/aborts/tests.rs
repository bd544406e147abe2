use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::pending;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Capabilities, Fault};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::{ErrorKind, Tidegate, Writer};

const PART: usize = 16 << 10;

/// A store that never answers completions, nor parts from number `stuck` on, and counts parts and aborts.
#[derive(Debug)]
struct Stuck {
    stuck: u32,
    parts: AtomicUsize,
    aborts: AtomicUsize,
}

#[async_trait]
impl Script for Stuck {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match &call {
            Call::Part { number, .. } => {
                self.parts.fetch_add(1, Ordering::Relaxed);
                if *number >= self.stuck {
                    pending::<()>().await;
                }
            }
            Call::Abort { .. } => {
                self.aborts.fetch_add(1, Ordering::Relaxed);
            }
            Call::Complete { .. } => pending().await,
            _ => {}
        }
        below.send(call).await
    }
}

/// A writer with three parts whose requests have all reached the store.
async fn writer(stuck: u32) -> (Tidegate, Arc<Scripted<Stuck>>, Writer) {
    let capabilities = Capabilities { min_part: 4096, ..Capabilities::default() };
    let memory = Memory::new("stuck").with_capabilities(capabilities);
    let backend = Scripted::new(memory, Stuck { stuck, parts: 0.into(), aborts: 0.into() });
    let tide = Tidegate::builder().memory(1 << 20).slab(4096).part_size(PART as u64).build().unwrap();
    let mut writer = tide.store(backend.clone()).writer("k").start().await.unwrap();
    writer.write_bytes(Bytes::from(vec![7; 3 * PART + 1])).await.unwrap();
    while backend.parts.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (tide, backend, writer)
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_given_up_is_named_until_its_session_is_gone() {
    let (tide, _, writer) = writer(1).await;
    assert_eq!(tide.unsettled(), []);
    drop(writer);
    let left = tide.unsettled();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].object.ends_with("/k") && left[0].session.is_some() && !left[0].may_be_there, "{left:?}");
    tide.settled().await;
    assert_eq!(tide.unsettled(), []);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_aborted_again_where_parts_were_on_their_way() {
    for (stuck, aborts) in [(4, 1), (3, 2), (1, 2)] {
        let (tide, backend, writer) = writer(stuck).await;
        drop(writer);
        assert!(tide.settled().await.is_empty());
        assert_eq!(backend.aborts.load(Ordering::Relaxed), aborts, "stuck from part {stuck} on");

        let (_, backend, writer) = self::writer(stuck).await;
        writer.abort().await.unwrap();
        assert_eq!(backend.aborts.load(Ordering::Relaxed), aborts, "stuck from part {stuck} on");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_may_be_there_is_named_at_once() {
    let (tide, _, writer) = writer(5).await;
    let finish = tokio::time::timeout(Duration::from_secs(1), writer.finish());
    assert!(finish.await.is_err(), "the store never answers");
    let left = tide.unsettled();
    assert!(left.len() == 1 && left[0].may_be_there, "{left:?}");
    assert!(tide.settled().await.is_empty());
    assert_eq!(tide.unsettled(), []);
}

/// The runtime's only thread for blocking work is taken, so that nothing can begin to wait there.
#[test]
fn the_last_drop_in_a_task_blocks_no_thread_although_no_other_thread_is_free() {
    const LONGEST: Duration = Duration::from_millis(600);
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    let (frees, waits) = mpsc::channel::<()>();
    let mut shortest = Duration::MAX;
    runtime.block_on(async {
        let aborts = Aborts::new(AbortsOn::OwnThread);
        let awaited = aborts.awaited();
        let abort = async move {
            std::future::pending::<()>().await;
            drop(awaited);
            Ok(())
        };
        drop(aborts.spawn(abort, None, &Handle::current()));
        tokio::task::spawn_blocking(move || waits.recv());
        // A thread of a busy machine may stand still by itself, but not each time.
        for _ in 0..5 {
            let began = std::time::Instant::now();
            aborts.end_with_engine(LONGEST);
            shortest = shortest.min(began.elapsed());
        }
        assert!(shortest < Duration::from_millis(50), "{shortest:?}");
    });
    // The program's end waits instead, although nothing has begun.
    let began = std::time::Instant::now();
    let freed = std::thread::spawn(move || {
        std::thread::sleep(LONGEST / 12);
        drop(frees);
    });
    drop(runtime);
    freed.join().unwrap();
    assert!(began.elapsed() > LONGEST / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_forked_process_aborts_nothing_and_does_not_wait() {
    let mut aborts = Aborts::new(AbortsOn::OwnThread);
    let runtime = Handle::current();
    let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    let awaited = aborts.awaited();
    let parents = async move {
        let _ = is_done.await;
        drop(awaited);
        Ok(())
    };
    let parents = aborts.spawn(parents, None, &runtime).unwrap();
    let owner = aborts.owner;
    aborts.owner = OwnerProcess::another();
    assert!(aborts.spawn(async { panic!("the abort of another process") }, None, &runtime).is_none());
    let began = std::time::Instant::now();
    aborts.end_with_engine(Duration::from_secs(5));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(aborts.settled().await[0].kind(), ErrorKind::Closed);
    aborts.owner = owner;
    drop(done);
    parents.await.unwrap().unwrap();
    assert!(aborts.settled().await.is_empty());
}
