use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate_dev::{FaultRule, Knobs, Server};

use super::*;
use crate::Tidegate;
use crate::backend::gcs::{Gcs, GcsCredentials, GcsSettings};
use crate::backend::local::Local;
use crate::backend::memory::Memory;
use crate::backend::s3::{Credentials, S3, S3Settings};
use crate::backend::{
    Admin, Append, Attempt, Backend, Fault, FaultKind, OpenSession, PartOrigin, Parts, WriteOptions,
};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::{Algorithm, Checksum};

mod rules;

const PART: usize = 64 << 10;

/// Engines, as if of several processes, that record the sessions they open in one directory.
struct Machine {
    records: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { records: tempfile::tempdir().unwrap() }
    }

    fn process(&self) -> Tidegate {
        Tidegate::builder()
            .memory(1 << 20)
            .slab(4096)
            .part_size(PART as u64)
            .records(self.records.path())
            .build()
            .unwrap()
    }

    fn files(&self) -> usize {
        let entries = std::fs::read_dir(self.records.path()).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some()).count()
    }
}

fn payload(bytes: &[u8]) -> Payload {
    let checksum = Checksum::of(Algorithm::Crc64Nvme, bytes);
    Payload::from_memory(vec![Bytes::copy_from_slice(bytes)], checksum)
}

/// Opens a session that is not in the records, with one part of `bytes` bytes.
async fn stray(backend: &dyn Backend, key: &str, bytes: usize) -> Session {
    let parts = backend.need_parts().unwrap();
    let session = parts.open(key, &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    parts.part(&session, 1, 0, payload(&vec![7; bytes]).into(), Attempt::FIRST).await.unwrap();
    session
}

async fn keys(store: &Store) -> Vec<String> {
    store.sessions("").map_ok(|open| open.session.key).try_collect().await.unwrap()
}

/// A memory store with small parts, which all engines share.
fn memory() -> Arc<Memory> {
    let mut capabilities = Memory::new("m").capabilities().clone();
    capabilities.min_part = 1;
    Arc::new(Memory::new("m").with_capabilities(capabilities))
}

#[tokio::test]
async fn what_is_old_enough_and_nobodys_is_ended_and_weighed() {
    let memory = memory();
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(memory.clone());
    stray(&*memory, "logs/a", 1000).await;
    stray(&*memory, "logs/b", 24).await;
    stray(&*memory, "other", 5).await;

    let report = store.sweep("").run().await.unwrap();
    assert_eq!((report.ended, report.young), (0, 3));
    let report = store.sweep("logs/").older_than(Duration::ZERO).dry_run(true).run().await.unwrap();
    assert_eq!((report.would_end, report.ended, report.bytes), (2, 0, 1024));
    assert_eq!(keys(&store).await.len(), 3);
    let report = store.within("logs").sweep("").older_than(Duration::ZERO).run().await.unwrap();
    assert_eq!((report.ended, report.bytes, report.failed), (2, 1024, 0));
    assert_eq!(keys(&store).await, ["other"]);
}

#[tokio::test]
async fn a_live_process_keeps_its_sessions_and_commits() {
    let (machine, memory) = (Machine::new(), memory());
    let (writing, sweeping) = (machine.process(), machine.process());
    let mut writer = writing.store(memory.clone()).writer("live").start().await.unwrap();
    writer.write_bytes(vec![1; 3 * PART].into()).await.unwrap();
    let beside = sweeping.store(memory.clone());
    while keys(&beside).await.is_empty() {
        tokio::task::yield_now().await;
    }
    for store in [&beside, &writing.store(memory.clone())] {
        let report = store.sweep("").older_than(Duration::ZERO).run().await.unwrap();
        assert_eq!((report.ended, report.live), (0, 1));
        let found: Vec<Unfinished> = store.unfinished("").try_collect().await.unwrap();
        assert_eq!(found[0].process, Process::Live(Some(std::process::id())));
    }
    assert_eq!(writer.finish().await.unwrap().size, 3 * PART as u64);
    assert_eq!(machine.files(), 0);
}

#[tokio::test]
async fn what_was_aborted_or_dropped_is_written_down_no_more() {
    let (machine, memory) = (Machine::new(), memory());
    let tide = machine.process();
    let store = tide.store(memory);
    for abort in [true, false] {
        let mut writer = store.writer("k").start().await.unwrap();
        writer.write_bytes(vec![1; 3 * PART].into()).await.unwrap();
        if abort {
            writer.abort().await.unwrap();
        } else {
            drop(writer);
        }
        tide.settled().await;
        assert_eq!(machine.files(), 0);
    }
    assert_eq!(keys(&store).await, [""; 0]);
}

/// Records that a process opened the session and died.
fn obituary(machine: &Machine, endpoint: &str, object: &str, id: &str) {
    let text = format!("open 1 1700000000 {endpoint} {object}\nnamed 1 {id}\n");
    std::fs::write(machine.records.path().join("4711-0.sessions"), text).unwrap();
}

#[tokio::test]
async fn a_dead_process_is_told_and_its_record_goes_with_its_session() {
    let (machine, memory) = (Machine::new(), memory());
    let store = machine.process().store(memory.clone());
    let session = stray(&*memory, "a/dead", 10).await;
    obituary(&machine, memory.endpoint(), "memory://m/a/dead", &session.id);

    // The age decides about the sessions of dead processes too.
    let report = store.sweep("").run().await.unwrap();
    assert_eq!((report.ended, report.young), (0, 1));
    // A session under another prefix stays.
    store.sweep("b").older_than(Duration::ZERO).run().await.unwrap();
    assert_eq!(machine.files(), 1);
    let swept: Vec<Swept> = store.sweep("").older_than(Duration::ZERO).stream().try_collect().await.unwrap();
    let [swept] = &swept[..] else { panic!("{swept:?}") };
    assert_eq!(swept.found.process, Process::Gone(4711));
    assert!(matches!(swept.fate, SweepOutcome::Ended));
    assert_eq!(machine.files(), 0);
}

#[tokio::test]
async fn records_that_cannot_be_read_end_the_sweep_before_anything_else() {
    let (file, memory) = (tempfile::NamedTempFile::new().unwrap(), memory());
    let store = Tidegate::builder().records(file.path()).build().unwrap().store(memory.clone());
    stray(&*memory, "k", 1).await;
    let error = store.sweep("").older_than(Duration::ZERO).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source, "{error}");
    assert_eq!(keys(&store).await, ["k"]);
}

#[tokio::test]
async fn unfinished_files_on_a_local_disk_are_sessions() {
    let (machine, disk) = (Machine::new(), tempfile::tempdir().unwrap());
    let root = disk.path().join("out");
    let tide = machine.process();
    stray(&Local::new(&root), "a/stray", 1000).await;
    let below = tide.store(Arc::new(Local::new(root.join("a"))));
    let mut writer = below.writer("live").start().await.unwrap();
    writer.write_bytes(vec![1; 3 * PART].into()).await.unwrap();
    // A sweep of the directory above still recognizes the live session.
    let above = machine.process().store(Arc::new(Local::new(&root)));
    while keys(&above).await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let report = above.sweep("").older_than(Duration::ZERO).run().await.unwrap();
    assert_eq!((report.ended, report.live, report.bytes), (1, 1, 1000));
    writer.finish().await.unwrap();
    assert_eq!(keys(&above).await, [""; 0]);
}

#[tokio::test]
async fn a_locked_file_is_of_a_live_process() {
    let disk = tempfile::tempdir().unwrap();
    let file = disk.path().join(".tidegate-0123456789abcdef-k.part");
    let held = std::fs::File::create(&file).unwrap();
    held.lock().unwrap();
    let store = Tidegate::builder().build().unwrap().store(Arc::new(Local::new(disk.path())));
    let report = store.sweep("").older_than(Duration::ZERO).run().await.unwrap();
    assert_eq!((report.ended, report.live), (0, 1));
    let session = Session { key: "k".into(), id: "0123456789abcdef-k".into() };
    assert_eq!(store.abort_session(&session).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    drop(held);
    assert_eq!(store.sweep("").older_than(Duration::ZERO).run().await.unwrap().ended, 1);
    assert!(!file.exists());
}

/// A bucket of the embedded server.
async fn s3() -> (Server, Arc<S3>) {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let bucket = S3::connect("bucket", &settings).await.unwrap();
    (server, Arc::new(bucket))
}

#[tokio::test]
async fn sessions_of_s3_are_listed_weighed_and_ended() {
    let (_server, bucket) = s3().await;
    let store = Tidegate::builder().build().unwrap().store(bucket.clone());
    let session = stray(&*bucket, "a b/ü", 3000).await;
    bucket.part(&session, 2, 3000, payload(&[1; 96]).into(), Attempt::FIRST).await.unwrap();
    let found: Vec<Unfinished> = store.unfinished("a b/").try_collect().await.unwrap();
    let [found] = &found[..] else { panic!("{found:?}") };
    let held = found.held.as_ref().unwrap();
    assert_eq!((held.parts, held.bytes), (Some(2), 3096));
    assert!(found.age().unwrap() < Duration::from_secs(60));
    let report = store.sweep("").older_than(Duration::ZERO).run().await.unwrap();
    assert_eq!((report.ended, report.bytes), (1, 3096));
    assert_eq!(store.held(&session).await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert_eq!(store.abort_session(&session).await.unwrap_err().kind(), ErrorKind::SessionLost);
}

#[tokio::test]
async fn what_the_records_name_is_ended_where_the_listing_is_refused() {
    for (status, code) in [(403, "AccessDenied"), (404, "NoSuchKey"), (400, "InvalidArgument")] {
        let (machine, (server, bucket)) = (Machine::new(), s3().await);
        let store = machine.process().store(bucket.clone());
        let session = stray(&*bucket, "a/k", 10).await;
        obituary(&machine, bucket.endpoint(), "s3://bucket/a/k", &session.id);
        for questions in ["ListMultipartUploads|ListParts", "ListMultipartUploads"] {
            let faults = vec![FaultRule::error(questions, status, code)];
            server.set_knobs(Knobs { faults, ..Knobs::default() });
            let dry = questions.contains("ListParts");
            let mut sweep = store.sweep("").older_than(Duration::ZERO).dry_run(dry).stream();
            let swept = sweep.try_next().await.unwrap().unwrap();
            assert_eq!(matches!(swept.fate, SweepOutcome::Ended), !dry, "{code}: {swept:?}");
            assert!(sweep.try_next().await.is_err(), "{code}: others may be there");
            assert_eq!(machine.files(), usize::from(dry), "{code}: the record goes with its session");
        }
        server.set_knobs(Knobs::default());
        assert_eq!(store.held(&session).await.unwrap_err().kind(), ErrorKind::SessionLost, "{code}");
    }
}

#[tokio::test]
async fn where_pending_uploads_are_unknown_sessions_are_listed_and_none_is_ended() {
    let (machine, (server, bucket)) = (Machine::new(), s3().await);
    let store = machine.process().store(bucket.clone());
    let session = stray(&*bucket, "a/k", 10).await;
    let faults = vec![FaultRule::error("ListObjectsV2", 403, "AccessDenied")];
    server.set_knobs(Knobs { faults, ..Knobs::default() });
    let found: Vec<_> = store.unfinished("").try_collect().await.unwrap();
    assert_eq!(found.len(), 1);
    let sweep = store.sweep("").older_than(Duration::ZERO);
    assert_eq!(sweep.clone().dry_run(true).run().await.unwrap().would_end, 1);
    let refused = sweep.run().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("wait for a commit"), "{refused}");
    server.set_knobs(Knobs::default());
    store.held(&session).await.unwrap();
}

/// A bucket of the embedded server, as Google Cloud Storage.
async fn gcs() -> (Server, Arc<Gcs>) {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let settings = GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(GcsCredentials::anonymous());
    let bucket = Gcs::connect("bucket", &settings).await.unwrap();
    (server, Arc::new(bucket))
}

#[tokio::test]
async fn resumable_uploads_of_google_are_found_by_the_records() {
    const GRAIN: usize = 256 << 10;
    let (machine, (_server, bucket)) = (Machine::new(), gcs().await);
    let store = machine.process().store(bucket.clone());
    let bytes = |len| {
        let checksum = Checksum::of(Algorithm::Crc32c, &vec![7; len]);
        (Payload::from_memory(vec![vec![7; len].into()], checksum), checksum)
    };
    for finished in [false, true] {
        let session = Append::open(&*bucket, "a/k", &WriteOptions::default(), Attempt::FIRST).await.unwrap();
        bucket.append(&session, 0, bytes(GRAIN).0, None, Attempt::FIRST).await.unwrap();
        // The form in which the records have the id.
        let id = utf8_percent_encode(&session.id, NON_ALPHANUMERIC).to_string();
        obituary(&machine, bucket.endpoint(), "gs://bucket/a/k", &id);
        if finished {
            let whole = bytes(GRAIN + 1).1;
            bucket.append(&session, GRAIN as u64, bytes(1).0, Some(&whole), Attempt::FIRST).await.unwrap();
        } else {
            let found: Vec<Unfinished> = store.unfinished("a/").try_collect().await.unwrap();
            let [found] = &found[..] else { panic!("{found:?}") };
            assert_eq!((&*found.open.session.key, found.process), ("a/k", Process::Gone(4711)));
            assert_eq!(found.held.as_ref().unwrap().bytes, GRAIN as u64);
        }
        let report = store.sweep("").older_than(Duration::ZERO).run().await.unwrap();
        assert_eq!((report.ended, report.failed), (u64::from(!finished), 0));
        assert_eq!(machine.files(), 0, "the record goes with it");
        let gone = bucket.held(&session, Attempt::FIRST).await.unwrap_err();
        assert_eq!(gone.kind, crate::backend::FaultKind::NoSession, "{gone}");
    }
    assert_eq!(store.head("a/k").await.unwrap().size, GRAIN as u64 + 1, "what was finished stays");
}

/// A store that rejects every request about one of its sessions.
#[derive(Debug)]
struct Barred {
    id: String,
    kind: FaultKind,
}

impl Barred {
    fn check(&self, session: &Session) -> Result<(), Fault> {
        let is_it = session.id == self.id;
        if is_it { Err(Fault::new(self.kind, "not yours")) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl Script for Barred {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        if let Call::Position { session } | Call::Held { session } | Call::Abort { session } = &call {
            self.check(session)?;
        }
        below.send(call).await
    }
}

#[tokio::test]
async fn one_resumable_upload_that_cannot_be_looked_at_does_not_end_the_sweep() {
    for kind in [FaultKind::Denied, FaultKind::Invalid, FaultKind::Unsupported] {
        let (machine, (_server, bucket)) = (Machine::new(), gcs().await);
        let mut ids = Vec::new();
        for (pid, key) in [(4711, "a"), (4712, "b")] {
            let session =
                Append::open(&*bucket, key, &WriteOptions::default(), Attempt::FIRST).await.unwrap();
            let id = utf8_percent_encode(&session.id, NON_ALPHANUMERIC).to_string();
            obituary(&machine, bucket.endpoint(), &format!("gs://bucket/{key}"), &id);
            let records = machine.records.path();
            std::fs::rename(records.join("4711-0.sessions"), records.join(format!("{pid}-1.sessions")))
                .unwrap();
            ids.push(session.id);
        }
        let barred = Scripted::over(bucket, Barred { id: ids.swap_remove(0), kind });
        let store = machine.process().store(barred);
        let report = store.sweep("").older_than(Duration::ZERO).run().await.unwrap();
        assert_eq!((report.ended, report.failed), (1, 1));
        assert_eq!(machine.files(), 1, "what is still there is remembered");
    }
}
