//! Uploads to servers without sessions of parts, which show that only when the first one is opened.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::try_join_all;
use tidegate_dev::{FaultAction, FaultRule, Knobs, Server};
use tokio::time::timeout;

use crate::backend::gcs::GcsTransport;
use crate::settings::{Concurrency, RetryPolicy};
use crate::testkit::bytes::bytes_of;
use crate::{ErrorKind, Object, Result, Store, Strategy, Tidegate, TidegateBuilder, Writer};
use tidegate_gcs::testkit::{self as google, over_both};

mod journaled;

over_both! {
    the_first_upload_falls_back_and_the_next_one_knows,
    every_length_and_source_gives_the_object,
    an_answer_that_is_lost_is_settled_by_the_session,
    refusals_of_a_part_are_outlasted,
    a_dropped_writer_cancels_its_session,
    the_error_of_a_part_is_told_and_not_that_of_one_behind_it,
}

over_both! {
    on threads: many_writers_share_one_turn_and_little_memory
}

const MIB: u64 = 1 << 20;
const GRAIN: u64 = 256 << 10;
const PART: u64 = 5 * MIB;
const APPEND: &str = "storage.resumable.append";
const LONG: Duration = Duration::from_secs(120);

/// A server without uploads in parts, which takes appended bytes as Google does.
fn lacks_parts() -> FaultRule {
    FaultRule::error("CreateMultipartUpload", 501, "NotImplemented")
}

struct Emulator {
    over: GcsTransport,
    server: Server,
    folder: tempfile::TempDir,
}

impl Emulator {
    async fn new(over: GcsTransport) -> Self {
        let server = Server::builder().journal(true).start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let emulator = Self { over, server, folder: tempfile::tempdir().unwrap() };
        for directory in ["spool", "journal"] {
            std::fs::create_dir(emulator.folder.path().join(directory)).unwrap();
        }
        emulator.goes_wrong(Vec::new());
        emulator
    }

    /// One that also publishes what it has when it is asked how much that is.
    async fn fake_gcs_server() -> Self {
        let emulator = Self::new(GcsTransport::Http).await;
        emulator.server.set_knobs(Knobs { fake_gcs_server: true, ..Knobs::default() });
        emulator
    }

    fn goes_wrong(&self, faults: Vec<FaultRule>) {
        let mut faults = google::rules(faults, self.over);
        faults.push(lacks_parts());
        self.server.set_knobs(Knobs { faults, ..Knobs::default() });
    }

    fn builder(&self) -> TidegateBuilder {
        let policy = RetryPolicy { first_pause: Duration::from_millis(1), ..RetryPolicy::default() };
        let settings = google::settings(&self.server, self.over);
        Tidegate::builder().gcs(settings).memory(64 * MIB).part_size(PART).retry(policy)
    }

    /// An engine that knows nothing of the server yet.
    async fn engine(&self) -> (Tidegate, Store) {
        let tide = self.builder().build().unwrap();
        let store = tide.open("gs://bucket").await.unwrap();
        (tide, store)
    }

    fn asked(&self) -> Vec<String> {
        google::asked(&self.server).into_iter().filter(|name| name != "get" && name != "download").collect()
    }

    fn file(&self, bytes: &Bytes) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        file.write_all(bytes).unwrap();
        file
    }
}

fn data(len: u64) -> Bytes {
    bytes_of(len, 0).into()
}

async fn write(store: &Store, key: &str, bytes: &Bytes) -> Result<Object> {
    let mut writer = store.writer(key).strategy(Strategy::Parallel).start().await?;
    for piece in bytes.chunks(1_000_000) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
    }
    writer.finish().await
}

async fn check(store: &Store, key: &str, bytes: &Bytes) {
    assert!(store.get(key).await.unwrap() == *bytes, "{key}");
}

async fn acknowledged(writer: &Writer, bytes: u64) {
    let enough = async {
        while writer.progress().snapshot().acknowledged < bytes {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, enough).await.expect("the bytes are not acknowledged");
}

async fn is_missing(store: &Store, key: &str) -> bool {
    store.head(key).await.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

async fn the_first_upload_falls_back_and_the_next_one_knows(over: GcsTransport) {
    let emulator = Emulator::new(over).await;
    let (_tide, store) = emulator.engine().await;
    let bytes = data(2 * PART + 9);
    assert_eq!(store.writer("k").start().await.unwrap().strategy(), Strategy::Parallel);
    write(&store, "k", &bytes).await.unwrap();
    let first = ["CreateMultipartUpload", "start", "append", "append", "append"];
    // The word for a request of the XML API is its whole name.
    assert_eq!(emulator.asked(), first);
    assert_eq!(store.writer("k").start().await.unwrap().strategy(), Strategy::Chunked);
    write(&store, "k2", &bytes).await.unwrap();
    assert_eq!(emulator.asked()[first.len()..], first[1..]);
    check(&store, "k", &bytes).await;
    check(&store, "k2", &bytes).await;
}

async fn every_length_and_source_gives_the_object(over: GcsTransport) {
    let emulator = Emulator::new(over).await;
    let bytes = data(4 * PART);
    let lengths = [
        0,
        1,
        PART,
        PART + 1,
        PART + GRAIN,
        2 * PART - 1,
        2 * PART,
        2 * PART + GRAIN - 1,
        3 * PART,
        3 * PART + GRAIN + 7,
    ];
    for (at, len) in lengths.into_iter().enumerate() {
        let bytes = bytes.slice(..len as usize);
        let spool = emulator.folder.path().join("spool");
        for source in ["stream", "file", "spool", "auto"] {
            // A part size that is no multiple of what may be appended is rounded up.
            let builder = emulator.builder().part_size(PART + at as u64 % 2 * 1000);
            let tide = builder.spool([&spool]).build().unwrap();
            let store = tide.open("gs://bucket").await.unwrap();
            let object = match source {
                "file" => store.writer("k").upload(emulator.file(&bytes).path()).await,
                "spool" => {
                    let mut writer = store.writer("k").strategy(Strategy::Spool).start().await.unwrap();
                    writer.write_bytes(bytes.clone()).await.unwrap();
                    writer.finish().await
                }
                "auto" => store.put("k", bytes.clone()).await,
                _ => write(&store, "k", &bytes).await,
            };
            assert_eq!(object.unwrap().size, len, "{source} {len}");
            check(&store, "k", &bytes).await;
        }
    }
}

async fn an_answer_that_is_lost_is_settled_by_the_session(over: GcsTransport) {
    let bytes = data(2 * PART + 5);
    for skip in 0..3 {
        let emulator = Emulator::new(over).await;
        let (_tide, store) = emulator.engine().await;
        let lost = FaultRule::new(APPEND, FaultAction::LoseAnswer).skip(skip).times(1);
        emulator.goes_wrong(vec![lost]);
        assert_eq!(write(&store, "k", &bytes).await.unwrap().size, bytes.len() as u64);
        let mut expected = vec!["CreateMultipartUpload", "start", "append", "append", "append"];
        expected.insert(3 + skip as usize, "query");
        assert_eq!(emulator.asked(), expected, "nothing is sent twice");
        check(&store, "k", &bytes).await;
    }
}

async fn refusals_of_a_part_are_outlasted(over: GcsTransport) {
    let bytes = data(3 * PART + 5);
    for skip in 0..3 {
        let emulator = Emulator::new(over).await;
        let (_tide, store) = emulator.engine().await;
        emulator.goes_wrong(vec![FaultRule::error(APPEND, 503, "backendError").skip(skip).times(2)]);
        assert_eq!(write(&store, "k", &bytes).await.unwrap().size, bytes.len() as u64);
        check(&store, "k", &bytes).await;
    }
}

async fn a_dropped_writer_cancels_its_session(over: GcsTransport) {
    let emulator = Emulator::new(over).await;
    let (tide, store) = emulator.engine().await;
    let mut writer = store.writer("k").strategy(Strategy::Parallel).start().await.unwrap();
    writer.write_bytes(data(3 * PART)).await.unwrap();
    acknowledged(&writer, PART).await;
    drop(writer);
    assert!(tide.settled().await.is_empty());
    assert_eq!(emulator.asked().last().map(String::as_str), Some("cancel"), "{:?}", emulator.asked());
    assert!(is_missing(&store, "k").await);
}

async fn the_error_of_a_part_is_told_and_not_that_of_one_behind_it(over: GcsTransport) {
    for _ in 0..5 {
        let emulator = Emulator::new(over).await;
        let (tide, store) = emulator.engine().await;
        emulator.goes_wrong(vec![
            FaultRule::new(APPEND, FaultAction::DelayMs(50.0)),
            FaultRule::error(APPEND, 403, "forbidden").skip(1),
        ]);
        let error = write(&store, "k", &data(4 * PART)).await.unwrap_err();
        assert_eq!((error.kind(), error.part().unwrap().0), (ErrorKind::PermissionDenied, 2), "{error}");
        assert!(tide.settled().await.is_empty());
        assert!(is_missing(&store, "k").await);
    }
}

async fn many_writers_share_one_turn_and_little_memory(over: GcsTransport) {
    let emulator = Emulator::new(over).await;
    let bytes = data(3 * PART + GRAIN + 1);
    for with_spool in [false, true] {
        let builder = emulator.builder().memory(12 * MIB).slab(64 << 10).parts_in_flight(8);
        let builder = builder.concurrency(Concurrency::Fixed(1)).memory_wait(Duration::from_secs(30));
        let builder =
            if with_spool { builder.spool([emulator.folder.path().join("spool")]) } else { builder };
        let tide = builder.build().unwrap();
        let store = tide.open("gs://bucket").await.unwrap();
        let file = emulator.file(&bytes);
        // All begin before any of them learns what the server lacks.
        let streams = (0..6).map(|at| {
            let (store, bytes) = (&store, &bytes);
            async move { write(store, &format!("stream-{at}"), bytes).await }
        });
        let files = (0..3).map(|at| {
            let writer = store.writer(format!("file-{at}")).strategy(Strategy::Parallel);
            writer.upload(file.path())
        });
        let all = futures::future::try_join(try_join_all(streams), try_join_all(files));
        let (streams, files) = timeout(LONG, all).await.expect("they wait for each other").unwrap();
        // The writers' engine has too little memory for the whole of an object.
        let (_engine, reading) = emulator.engine().await;
        for object in streams.iter().chain(&files) {
            check(&reading, &object.key, &bytes).await;
        }
    }
}

/// Nobody polls the writer whose part failed, and others need the memory of its later parts.
#[tokio::test]
async fn a_part_that_failed_keeps_no_memory_of_those_behind_it() {
    let emulator = Emulator::new(GcsTransport::Http).await;
    let tide = emulator.builder().memory(24 * MIB).slab(64 << 10).build().unwrap();
    let store = tide.open("gs://bucket").await.unwrap();
    emulator.goes_wrong(vec![FaultRule::error(APPEND, 403, "forbidden")]);
    let mut stopped = store.writer("stopped").strategy(Strategy::Parallel).start().await.unwrap();
    // Its failure may show during this write already.
    let _ = stopped.write_bytes(data(4 * PART)).await;
    let refused = async {
        while !emulator.server.counts().failed.contains_key(APPEND) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, refused).await.expect("nothing is appended");
    emulator.goes_wrong(Vec::new());
    let bytes = data(2 * PART);
    timeout(LONG, write(&store, "k", &bytes)).await.expect("the memory does not come back").unwrap();
    check(&store, "k", &bytes).await;
}

#[tokio::test]
async fn a_server_that_publishes_when_asked_is_not_asked() {
    let emulator = Emulator::fake_gcs_server().await;
    let (_tide, store) = emulator.engine().await;
    for (at, len) in [PART + 1, 2 * PART, 3 * PART + 7].into_iter().enumerate() {
        let (bytes, key) = (data(len), format!("k{at}"));
        write(&store, &key, &bytes).await.unwrap();
        check(&store, &key, &bytes).await;
    }
    assert_eq!(emulator.server.counts().requests.get("CreateMultipartUpload"), Some(&1));
    assert_eq!(emulator.server.counts().requests.get("storage.resumable.query"), None);
}

#[tokio::test]
async fn such_a_server_has_no_unfinished_uploads_to_list() {
    let emulator = Emulator::fake_gcs_server().await;
    let (_tide, store) = emulator.engine().await;
    store.put("k", data(10)).await.unwrap();
    assert!(store.sessions("").try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(store.writer("k").start().await.unwrap().strategy(), Strategy::Chunked, "that says it all");
}

#[tokio::test]
async fn a_refusal_of_such_a_server_is_tried_again() {
    let emulator = Emulator::fake_gcs_server().await;
    let (_tide, store) = emulator.engine().await;
    let busy = FaultRule::error(APPEND, 503, "backendError").skip(1).times(1);
    emulator.server.set_knobs(Knobs { fake_gcs_server: true, faults: vec![busy], ..Knobs::default() });
    let bytes = data(2 * PART + 5);
    write(&store, "k", &bytes).await.unwrap();
    check(&store, "k", &bytes).await;
}

#[tokio::test]
async fn a_lost_answer_of_such_a_server_ends_the_upload_and_publishes_nothing() {
    let bytes = data(2 * PART + 5);
    for skip in 0..3 {
        let emulator = Emulator::fake_gcs_server().await;
        let (tide, store) = emulator.engine().await;
        let lost = FaultRule::new(APPEND, FaultAction::LoseAnswer).skip(skip).times(1);
        emulator.server.set_knobs(Knobs { fake_gcs_server: true, faults: vec![lost], ..Knobs::default() });
        let written = write(&store, "k", &bytes).await;
        assert!(tide.settled().await.is_empty());
        if skip == 2 {
            assert_eq!(written.unwrap().size, bytes.len() as u64, "the object itself is found");
            check(&store, "k", &bytes).await;
            continue;
        }
        let error = written.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
        assert!(error.to_string().contains("does not tell"), "{error}");
        assert!(is_missing(&store, "k").await);
    }
}
