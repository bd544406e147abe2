//! A forked child and the engine that it inherits: nothing is sent, nothing of the parent's is changed, and every call
//! says so.

#![allow(clippy::unwrap_used)] // the shared helpers are test code as well

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::IntoFuture;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, poll};
use tidegate::backend::local::Local;
use tidegate::backend::s3::{Credentials, S3, S3Settings};
use tidegate::backend::{Admin, Attempt, Backend, WriteOptions};
use tidegate::checksum::Checksum;
use tidegate::journal::Durability;
use tidegate::payload::Payload;
use tidegate::{ErrorKind, Result, Store, Strategy, Tidegate};
use tidegate_dev::Server;
use tokio::runtime::{Builder, Runtime};

const PART: usize = 5 << 20;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `child` in a forked process; whether it returned without a panic within a minute.
#[expect(unsafe_code, reason = "a process is forked")]
fn forked(child: impl FnOnce()) -> bool {
    // SAFETY: The child calls what a forked child of a program with threads may call with this C library: its memory
    // allocator is usable after a fork. It ends by `_exit`, so nothing of the parent's is dropped or flushed.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "no fork");
    if pid == 0 {
        // SAFETY: No signal handler depends on the alarm, which ends a child that hangs.
        unsafe { libc::alarm(60) };
        // What the test harness captures is lost with the process.
        std::panic::set_hook(Box::new(|panic| {
            let _ = std::fs::write("/dev/stderr", format!("in the child: {panic}\n"));
        }));
        let returned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
        // SAFETY: It ends the process, and runs nothing.
        unsafe { libc::_exit(if returned { 0 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the call, and the process is this one's child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status == 0
}

fn closed<T>(what: &str, result: Result<T>) {
    let Err(error) = result else { panic!("{what} succeeded in a forked child") };
    assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error}");
    assert!(error.to_string().contains("forked"), "{what}: {error}");
}

/// A server, on a runtime of its own, with a bucket that an engine has opened.
fn site(journal: &std::path::Path) -> (Runtime, Server, S3, Tidegate, Store) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(Server::builder().start()).unwrap();
    server.create_bucket("bucket").unwrap();
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let connect = || runtime.block_on(S3::connect("bucket", &settings)).unwrap();
    let tide = Tidegate::builder().part_size(PART as u64).journal([journal]).build().unwrap();
    let store = tide.store(Arc::new(connect()));
    let bucket = connect();
    (runtime, server, bucket, tide, store)
}

#[test]
fn what_a_child_inherits_is_inert_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (served, server, bucket, tide, store) = site(folder.path());
    let ours = runtime();
    let (mut writers, mut reader) = ours.block_on(async {
        store.put("read", vec![7; 3 << 20]).await.unwrap();
        let mut writers = Vec::new();
        for (key, strategy) in
            [("a", Strategy::Parallel), ("b", Strategy::Parallel), ("j", Strategy::Journal)]
        {
            let mut writer = store.writer(key).strategy(strategy).await.unwrap();
            writer.write_bytes(Bytes::from(vec![7; 2 * PART])).await.unwrap();
            writers.push(writer);
        }
        let acknowledged =
            |writer: &tidegate::Writer| writer.progress().snapshot().acknowledged == 2 * PART as u64;
        while server.counts().get("UploadPart") < 6 || !writers.iter().all(acknowledged) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The journal has the records of the parts, too, so that only a child could add to it.
        writers[2].sync().await.unwrap();
        (writers, store.reader("read").await.unwrap())
    });
    let journal_bytes = || {
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        file.metadata().unwrap().len()
    };
    let (requests, journaled) = (server.counts().total(), journal_bytes());

    let is_inert = forked(|| {
        runtime().block_on(async {
            let mut journaled = writers.pop().unwrap();
            closed("a journaled write", journaled.write_bytes(Bytes::from(vec![7; PART])).await);
            closed("a sync", journaled.sync().await);
            closed("a journaled finish", journaled.finish().await);
            let mut writer = writers.pop().unwrap();
            closed("a write", writer.write_bytes(Bytes::from(vec![7; PART])).await);
            closed("a finish", writer.finish().await);
            closed("an abort", writers.pop().unwrap().abort().await);
            closed("a read", reader.next().await.unwrap());
            closed("a put", store.put("k", "1").await);
            closed("a get", store.get("read").await);
            closed("a head", store.head("read").await);
            closed("a removal", store.delete("read").await);
            closed("removals", store.delete_many(["read", "k"]).await.into_result());
            closed("a listing", store.list("").try_next().await);
            closed("a copy", store.copy("read", &store, "copy").await);
            closed("an open", tide.open("memory://m").await);
            assert_eq!(tide.unsettled(), []);
            closed("settled", tide.settled().await.pop().map_or(Ok(()), Err));
        });
    });
    assert!(is_inert, "see what the child printed");
    assert_eq!((server.counts().total(), journal_bytes()), (requests, journaled));

    // The parent's writers, readers and stores still work.
    ours.block_on(async {
        assert_eq!(reader.try_fold(0, async |sum, piece| Ok(sum + piece.len())).await.unwrap(), 3 << 20);
        for mut writer in writers {
            writer.write_bytes("end".into()).await.unwrap();
            assert_eq!(writer.finish().await.unwrap().size, 2 * PART as u64 + 3);
        }
        assert!(tide.settled().await.is_empty());
    });
    assert_eq!(served.block_on(async { bucket.sessions("").count().await }), 0);
}

/// The files of `directory`, and whether somebody has locked each.
fn files(directory: &Path) -> BTreeMap<PathBuf, bool> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), File::open(path).unwrap().try_lock_shared().is_err())).collect()
}

/// Drops `held` in a child, which must leave the files of `directory` and their locks as they are.
fn drop_in_child<T>(held: T, directory: &Path) -> T {
    let before = files(directory);
    assert!(!before.is_empty() && before.values().all(|is_locked| *is_locked), "not in flight: {before:?}");
    let mut held = Some(held);
    assert!(forked(|| drop(held.take())), "see what the child printed");
    assert_eq!(files(directory), before);
    held.unwrap()
}

/// Polls until the directory has `count` files with bytes and their names for the time being. The work goes on when it is
/// polled again.
fn begin<T>(runtime: &Runtime, directory: &Path, count: usize, work: &mut BoxFuture<'_, T>) {
    let is_begun = |entry: &io::Result<fs::DirEntry>| {
        let path = entry.as_ref().unwrap().path();
        path.extension() != Some("unborn".as_ref()) && path.metadata().is_ok_and(|file| file.len() > 0)
    };
    runtime.block_on(async {
        while fs::read_dir(directory).unwrap().filter(|entry| is_begun(entry)).count() < count {
            assert!(poll!(&mut *work).is_pending(), "it has ended already");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// What the tests of drops in a child share: a store on a server, with journals and spools, which has the object `large`.
struct Dropping {
    _served: (Runtime, Server),
    spools: tempfile::TempDir,
    journals: tempfile::TempDir,
    store: Store,
    ours: Runtime,
    bytes: Bytes,
}

impl Dropping {
    fn new() -> Self {
        let [spools, journals] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (served, server, bucket, _, _) = site(journals.path());
        let durability = Durability::Group { bytes: 1 << 30, delay: Duration::from_secs(600) };
        let tide = Tidegate::builder().part_size(PART as u64).journal([journals.path()]);
        let tide = tide.durability(durability).spool([spools.path()]).build().unwrap();
        let store = tide.store(Arc::new(bucket));
        let bytes = Bytes::from((0..8 * PART).map(|at| (at / 4096) as u8).collect::<Vec<_>>());
        Self { _served: (served, server), spools, journals, store, ours: runtime(), bytes }
    }

    fn has(&self, key: &str, bytes: &[u8]) -> bool {
        self.ours.block_on(self.store.get(key).into_future()).unwrap() == bytes
    }
}

#[test]
fn a_download_that_a_child_drops_goes_on_in_its_parent() {
    let site = Dropping::new();
    site.ours.block_on(site.store.put("large", site.bytes.clone()).into_future()).unwrap();
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().join("file");
    let mut download = site.store.download("large", &path).into_future();
    // The partial file, and its note.
    begin(&site.ours, disk.path(), 2, &mut download);
    let download = drop_in_child(download, disk.path());
    site.ours.block_on(download).unwrap();
    assert!(fs::read(&path).unwrap() == site.bytes);
}

#[test]
fn a_file_upload_that_a_child_drops_goes_on_in_its_parent() {
    let site = Dropping::new();
    let disk = tempfile::tempdir().unwrap();
    let (local, options) = (Local::new(disk.path()), WriteOptions::default());
    let checksum = Checksum::of(local.capabilities().checksum, &site.bytes);
    let payload = Payload::from_memory(vec![site.bytes.clone()], checksum);
    let mut put = local.put("put", payload, &options, Attempt::FIRST);
    begin(&site.ours, disk.path(), 1, &mut put);
    let put = drop_in_child(put, disk.path());
    site.ours.block_on(put).unwrap();
    assert!(fs::read(disk.path().join("put")).unwrap() == site.bytes);
}

#[test]
fn a_spooled_upload_that_a_child_drops_goes_on_in_its_parent() {
    let site = Dropping::new();
    let writer = site.ours.block_on(async {
        let mut writer = site.store.writer("spooled").strategy(Strategy::Spool).await.unwrap();
        writer.write_bytes(site.bytes.clone()).await.unwrap();
        writer
    });
    // The spool is an open file without a name.
    let is_spool = |file: &PathBuf| fs::read_link(file).is_ok_and(|to| to.starts_with(site.spools.path()));
    let mut open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let spool = open.find(is_spool).unwrap();
    let spooled = || spool.metadata().unwrap().len();
    let before = spooled();
    assert!(before > 0, "nothing is spooled");
    let mut writer = Some(writer);
    assert!(forked(|| drop(writer.take())), "see what the child printed");
    assert_eq!(spooled(), before, "the child has given back the parent's space");
    site.ours.block_on(writer.unwrap().finish()).unwrap();
    assert!(site.has("spooled", &site.bytes));
}

#[test]
fn a_journaled_upload_that_a_child_drops_goes_on_in_its_parent() {
    let site = Dropping::new();
    let journals = site.journals.path();
    // The first time while it begins, the second time with bytes that are not synced yet.
    let mut begins = site.store.writer("journaled").strategy(Strategy::Journal).into_future();
    begin(&site.ours, journals, 1, &mut begins);
    // Long enough, as a rule, that the thread has ended that makes the journal. Without that the test cannot fail.
    std::thread::sleep(Duration::from_millis(50));
    let begins = drop_in_child(begins, journals);
    let writer = site.ours.block_on(async {
        let mut writer = begins.await.unwrap();
        writer.write_bytes(site.bytes.slice(..PART / 2)).await.unwrap();
        writer
    });
    let content = || fs::read(files(journals).into_keys().next().unwrap()).unwrap();
    let before = content();
    let writer = drop_in_child(writer, journals);
    assert!(content() == before, "the child has written to the journal");
    site.ours.block_on(writer.finish()).unwrap();
    assert!(site.has("journaled", &site.bytes[..PART / 2]));
}
