//! Runs the cases, each against its own server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tidegate::backend::Backend;
use tidegate::backend::gcs::{Gcs, GcsCredentials, GcsSettings, GcsTransport};
use tidegate::backend::s3::{Credentials, S3, S3Settings};
use tidegate::settings::RetryPolicy;
use tidegate::{ErrorKind, Object, Result, Store, Strategy, Tidegate};
use tidegate_dev::{Knobs, Server};

use crate::cases::{self, Case, PART, Says, There, Way};

/// The result of a case.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) says: Says,
    /// The message of the error, if there was one.
    pub(crate) told: String,
    pub(crate) requests: String,
    pub(crate) there: There,
    pub(crate) sessions: usize,
}

/// Runs all cases, a few at a time: some must wait until a request is given up.
pub(crate) async fn all() -> Vec<(Case, Seen)> {
    let runs = cases::all().into_iter().map(|case| async move {
        let seen = run(&case).await;
        (case, seen)
    });
    futures::stream::iter(runs).buffered(8).collect().await
}

async fn run(case: &Case) -> Seen {
    let server = Server::builder().journal(true).start().await.expect("a server");
    server.create_bucket("bucket").expect("a bucket");
    let mut policy = RetryPolicy::default();
    (policy.attempts, policy.first_pause) = (case.attempts, Duration::from_millis(1));
    if case.hangs {
        // The patience for a completion is ten times as long. It is longer too for a part or chunk before it, which
        // is late only on a busy machine.
        (policy.patience, policy.slowest) = (Duration::from_millis(400), 1 << 20);
    }
    let tide = Tidegate::builder().retry(policy).part_size(PART).build().expect("an engine");
    let store = tide.store(backend(case.way, &server).await);
    if case.way.is_google() {
        // An answer shows that the server keeps conditions. Until then create-only writes look first.
        store.head("another").await.expect_err("there is none");
    }
    let before = server.requests().len();
    server.set_knobs(Knobs { faults: case.faults.clone(), ..Knobs::default() });

    let written = write(case, &store).await;
    tide.settled().await;
    let requests = listed(case, &server.requests()[before..]);

    server.set_knobs(Knobs::default());
    let there = match store.head("k").await {
        Ok(object) if object.size == case.size() => There::Ours,
        Ok(_) => There::Another,
        Err(error) if error.kind() == ErrorKind::NotFound => There::Nothing,
        Err(error) => panic!("{case}: {error}"),
    };
    let sessions = store.sessions("").count().await;
    let says = match &written {
        Ok(_) => Says::Committed,
        Err(error) if error.kind() == ErrorKind::Uncertain => Says::Uncertain,
        Err(error) => Says::NotCommitted(error.kind()),
    };
    let told = written.err().map(|error| error.to_string()).unwrap_or_default();
    Seen { says, told, requests, there, sessions }
}

async fn backend(way: Way, server: &Server) -> Arc<dyn Backend> {
    if way.is_google() {
        let settings = GcsSettings::default()
            .with_endpoint_url(server.endpoint())
            .with_credentials(GcsCredentials::anonymous())
            .with_transport(if way.is_grpc() { GcsTransport::Grpc } else { GcsTransport::Http });
        return Arc::new(Gcs::connect("bucket", &settings).await.expect("a store"));
    }
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_kept_conditions(true)
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    Arc::new(S3::connect("bucket", &settings).await.expect("a store"))
}

async fn write(case: &Case, store: &Store) -> Result<Object> {
    let builder = match case.way {
        way if way.is_chunks() => store.writer("k").strategy(Strategy::Chunked),
        _ => store.writer("k"),
    };
    let builder = if case.create_only { builder.create_only() } else { builder };
    let mut writer = builder.await?;
    writer.write_bytes(Bytes::from(vec![b'x'; case.size() as usize])).await?;
    writer.finish().await
}

/// The requests as text, such as `complete x3, head`, without those before the first completion.
fn listed(case: &Case, asked: &[String]) -> String {
    let before = match case.way {
        Way::Put | Way::GooglePut | Way::GrpcPut => 0,
        // The requests that open the session and send the first chunk.
        Way::GoogleChunks | Way::GrpcChunks => 2,
        Way::Parts | Way::GoogleParts => {
            asked.iter().take_while(|name| *name != "CompleteMultipartUpload").count()
        }
    };
    let mut words: Vec<(&str, usize)> = Vec::new();
    for name in &asked[before..] {
        let word = match name.as_str() {
            "PutObject" | "storage.objects.insert" => "put",
            "CompleteMultipartUpload" => "complete",
            "AbortMultipartUpload" => "abort",
            "HeadObject" | "storage.objects.get" => "head",
            "storage.v2.WriteObject" if !case.way.is_chunks() => "put",
            "storage.v2.GetObject" => "head",
            "storage.resumable.append" | "storage.v2.WriteObject" => "append",
            "storage.resumable.query" | "storage.v2.QueryWriteStatus" => "query",
            "storage.resumable.cancel" | "storage.v2.CancelResumableWrite" => "cancel",
            other => other,
        };
        match words.last_mut() {
            Some((last, count)) if *last == word => *count += 1,
            _ => words.push((word, 1)),
        }
    }
    let said = words.into_iter().map(|(word, count)| match count {
        1 => word.to_owned(),
        count => format!("{word} x{count}"),
    });
    said.collect::<Vec<_>>().join(", ")
}
