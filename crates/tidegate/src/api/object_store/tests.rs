use std::mem::take;
use std::sync::{Arc, Mutex};

use ::object_store::buffered::BufWriter;
use ::object_store::{ObjectStoreExt, WriteMultipart};
use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::Tidegate;
use crate::backend::memory::Memory;
use crate::backend::{Admin, Fault, FaultKind, WriteOptions};
use crate::memory::payload::Payload;
use crate::prefix::{Layout, Naming, PrefixedStore};
use crate::settings::{Concurrency, RetryPolicy};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::Checksum;

/// Records the requests; after the next `head`, writes to the same key through the store in `next`.
#[derive(Debug)]
struct Watched {
    asked: Mutex<Vec<&'static str>>,
    next: Mutex<Option<Store>>,
}

#[async_trait]
impl Script for Watched {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        match call {
            Call::Head { key } => {
                self.asked.lock().unwrap().push("head");
                let found = below.send(call).await;
                let next = self.next.lock().unwrap().take();
                if let Some(store) = next {
                    write(&store, key, "xyz").await;
                }
                found
            }
            Call::Get { .. } => {
                self.asked.lock().unwrap().push("get");
                below.send(call).await
            }
            call => below.send(call).await,
        }
    }
}

async fn write(store: &Store, key: &str, bytes: &'static str) {
    let mut writer = store.writer(key).start().await.unwrap();
    writer.write_bytes(Bytes::from_static(bytes.as_bytes())).await.unwrap();
    writer.finish().await.unwrap();
}

async fn watched() -> (Arc<Scripted<Watched>>, TidegateStore, Store) {
    let (tide, below) = (Tidegate::builder().build().unwrap(), Memory::new("watched"));
    let plain = tide.store(Arc::new(below.clone()));
    write(&plain, "k", "0123456789").await;
    let watched = Scripted::new(below, Watched { asked: Mutex::default(), next: Mutex::default() });
    (watched.clone(), TidegateStore::new(tide.store(watched)), plain)
}

#[tokio::test]
async fn an_object_is_described_first_where_that_is_needed_and_once() {
    let (watched, store, _) = watched().await;
    let path = Path::from("k");
    let suffix = || GetOptions::new().with_range(Some(GetRange::Suffix(4)));
    let unlike = || Some("another".to_owned());
    let looked: [(GetOptions, &str, &[&str]); 6] = [
        (GetOptions::new(), "0123456789", &["get"]),
        (GetOptions::new().with_range(Some(GetRange::Offset(8))), "89", &["get"]),
        (GetOptions::new().with_if_none_match(unlike()), "0123456789", &["head", "get"]),
        (suffix(), "6789", &["head", "get"]),
        (suffix().with_if_none_match(unlike()), "6789", &["head", "get"]),
        (suffix().with_if_modified_since(Some(std::time::UNIX_EPOCH)), "6789", &["head", "get"]),
    ];
    for (options, bytes, requests) in looked {
        let read = store.get_opts(&path, options.clone()).await.unwrap().bytes().await.unwrap();
        assert_eq!(
            (read, &take(&mut *watched.asked.lock().unwrap())[..]),
            (bytes.into(), requests),
            "{options:?}"
        );
    }
    let same = store.store().head("k").await.unwrap().etag;
    watched.asked.lock().unwrap().clear();
    let read = store.get_opts(&path, suffix().with_if_none_match(same)).await;
    assert!(matches!(read, Err(Error::NotModified { .. })), "{read:?}");
    assert_eq!(take(&mut *watched.asked.lock().unwrap()), ["head"]);
}

#[tokio::test]
async fn the_end_that_is_read_is_that_of_one_object() {
    let (watched, store, plain) = watched().await;
    *watched.next.lock().unwrap() = Some(plain);
    let options = GetOptions::new().with_range(Some(GetRange::Suffix(4)));
    let read = store.get_opts(&Path::from("k"), options).await.unwrap();
    assert_eq!((read.meta.size, &read.range), (3, &(0..3)));
    assert_eq!(read.bytes().await.unwrap(), "xyz");
    assert_eq!(*watched.asked.lock().unwrap(), ["head", "get", "head", "get"]);
}

#[tokio::test]
async fn keys_that_no_path_names_are_left_out_or_an_error() {
    let tide = Tidegate::builder().build().unwrap();
    let plain = tide.open("memory://paths").await.unwrap();
    let store = TidegateStore::new(plain.clone());
    for key in ["d/", "d/k", "e//b"] {
        write(&plain, key, "x").await;
    }
    let below = Path::from("d");
    let listed: Vec<ObjectMeta> = store.list(Some(&below)).try_collect().await.unwrap();
    assert_eq!(listed.iter().map(|meta| meta.location.as_ref()).collect::<Vec<_>>(), ["d/k"]);
    let listed = store.list_with_delimiter(Some(&below)).await.unwrap();
    assert_eq!(listed.objects.iter().map(|meta| meta.location.as_ref()).collect::<Vec<_>>(), ["d/k"]);
    let listed: Result<Vec<_>> = store.list(None).try_collect().await;
    assert!(matches!(listed, Err(Error::InvalidPath { .. })), "{listed:?}");
}

#[tokio::test]
async fn keys_that_are_spread_are_not_copied() {
    let tide = Tidegate::builder().build().unwrap();
    let root = tide.open("memory://spread").await.unwrap();
    let spread = PrefixedStore::init(&root, Layout::new(Naming::Base2, 4).unwrap()).await.unwrap();
    let store = TidegateStore::new(spread.store().clone());
    let (from, to) = (Path::from("a"), Path::from("b"));
    store.put(&from, "x".into()).await.unwrap();
    let copied = [store.copy(&from, &to).await, store.rename(&from, &to).await];
    for copied in copied {
        assert!(matches!(copied, Err(Error::NotSupported { .. })), "{copied:?}");
    }
    assert_eq!(store.get(&from).await.unwrap().bytes().await.unwrap(), "x");
}

/// A store whose completions fail with one kind, and whose aborts may fail too.
#[derive(Debug)]
struct Failing {
    completion: FaultKind,
    aborts_fail: bool,
}

#[async_trait]
impl Script for Failing {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        match call {
            Call::Complete { .. } => {
                Err(Fault::new(self.completion, "the completion failed").with_source("of the store"))
            }
            Call::Abort { .. } if self.aborts_fail => {
                Err(Fault::new(FaultKind::Denied, "no aborts").with_answered(true))
            }
            Call::Abort { .. } => {
                // Slow enough that a caller that does not wait for the abort is done first.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                below.send(call).await
            }
            call => below.send(call).await,
        }
    }
}

/// An engine, the memory below, and a store whose completions fail with `completion`.
fn failing(completion: FaultKind, aborts_fail: bool) -> (Tidegate, Memory, Arc<TidegateStore>) {
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let tide = Tidegate::builder().memory(64 << 20).part_size(5 << 20).retry(retry).build().unwrap();
    let below = Memory::new("failing");
    let store = tide.store(Scripted::new(below.clone(), Failing { completion, aborts_fail }));
    (tide, below, Arc::new(TidegateStore::new(store)))
}

/// True if `error` is the error of the trait, and of this crate, that a failed completion must give.
fn is_of_completion(error: &Error, kind: ErrorKind) -> bool {
    let of_trait = match kind {
        ErrorKind::AlreadyExists => matches!(error, Error::AlreadyExists { .. }),
        ErrorKind::Replaced => matches!(error, Error::Precondition { .. }),
        _ => matches!(error, Error::Generic { .. }),
    };
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<crate::Error>());
    let is_kept = source.is_some_and(|source| {
        source.kind() == kind
            && source.to_string().contains("the completion failed")
            && std::error::Error::source(source).is_some_and(|source| source.to_string() == "of the store")
    });
    of_trait && is_kept
}

const COMPLETIONS: [(FaultKind, ErrorKind); 6] = [
    (FaultKind::Exists, ErrorKind::AlreadyExists),
    (FaultKind::Replaced, ErrorKind::Replaced),
    (FaultKind::Undone, ErrorKind::Unavailable),
    (FaultKind::Transient, ErrorKind::Unavailable),
    (FaultKind::Unsynced, ErrorKind::Uncertain),
    (FaultKind::Denied, ErrorKind::PermissionDenied),
];

async fn open_sessions(below: &Memory) -> usize {
    below.sessions("").try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn the_error_of_a_completion_comes_through_the_crates_own_helpers() {
    let (path, bytes) = (Path::from("k"), vec![7; 12 << 20]);
    for (fault, kind) in COMPLETIONS {
        for aborts_fail in [false, true] {
            if aborts_fail && fault == FaultKind::Transient {
                continue; // the session could still publish the object: a different error
            }
            let is_right = |error: &Error| match kind {
                ErrorKind::PermissionDenied => matches!(error, Error::PermissionDenied { .. }),
                _ => is_of_completion(error, kind),
            };
            let (_tide, below, store) = failing(fault, aborts_fail);
            let mut writer = BufWriter::with_capacity(store.clone(), path.clone(), 1 << 20);
            writer.write_all(&bytes).await.unwrap();
            let error = writer.shutdown().await.unwrap_err();
            let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>()).unwrap();
            assert!(is_right(error), "BufWriter, {kind:?}, {aborts_fail}: {error:?}");
            assert_eq!(open_sessions(&below).await, usize::from(aborts_fail), "it was waited for");

            let (_tide, below, store) = failing(fault, aborts_fail);
            let mut writer = WriteMultipart::new(store.put_multipart(&path).await.unwrap());
            writer.write(&bytes);
            let error = writer.finish().await.unwrap_err();
            assert!(is_right(&error), "WriteMultipart, {kind:?}, {aborts_fail}: {error:?}");
            assert_eq!(open_sessions(&below).await, usize::from(aborts_fail), "it was waited for");

            let (_tide, below, store) = failing(fault, aborts_fail);
            let mut upload = store.put_multipart(&path).await.unwrap();
            upload.put_part(bytes.clone().into()).await.unwrap();
            for _ in 0..2 {
                let error = upload.complete().await.unwrap_err();
                assert!(is_right(&error), "complete, {kind:?}, {aborts_fail}: {error:?}");
            }
            for _ in 0..3 {
                match upload.abort().await {
                    Ok(()) => assert!(!aborts_fail),
                    Err(error) => assert!(aborts_fail && is_right(&error), "{error:?}"),
                }
                assert_eq!(open_sessions(&below).await, usize::from(aborts_fail));
            }
        }
    }
}

#[tokio::test]
async fn an_abort_ends_the_session_once_however_it_is_asked_for() {
    let path = Path::from("k");
    let (_tide, below, store) = failing(FaultKind::Exists, false);
    let begin = async || {
        let mut upload = store.put_multipart(&path).await.unwrap();
        upload.put_part(vec![7; 12 << 20].into()).await.unwrap();
        upload
    };
    // An abort, a second abort, and an abort after a cancelled one.
    let mut upload = begin().await;
    upload.abort().await.unwrap();
    assert_eq!(open_sessions(&below).await, 0);
    upload.abort().await.unwrap();
    assert!(upload.complete().await.is_err() && upload.put_part("late".into()).await.is_err());
    let mut upload = begin().await;
    assert!(futures::poll!(upload.abort()).is_pending());
    upload.abort().await.unwrap();
    assert_eq!(open_sessions(&below).await, 0);
    // An abort after a cancelled completion, and a completion after a cancelled one.
    let mut upload = begin().await;
    assert!(futures::poll!(upload.complete()).is_pending());
    upload.abort().await.unwrap();
    assert_eq!(open_sessions(&below).await, 0);
    let mut upload = begin().await;
    assert!(futures::poll!(upload.complete()).is_pending());
    let error = upload.complete().await.unwrap_err();
    assert!(is_of_completion(&error, ErrorKind::AlreadyExists), "{error:?}");
    drop(upload);
    // An abort before any part was sent.
    store.put_multipart(&path).await.unwrap().abort().await.unwrap();
}

#[tokio::test]
async fn an_abort_behind_a_part_that_failed_succeeds() {
    let tide = Tidegate::builder().memory(1 << 20).build().unwrap();
    let store = TidegateStore::new(tide.open("memory://parts").await.unwrap());
    let capacity = store.store().writer("k").start().await.unwrap().reach();
    assert!(capacity < 4 << 20, "{capacity}");
    let mut upload = store.put_multipart(&Path::from("k")).await.unwrap();
    let refused = upload.put_part(vec![7; 5 << 20].into()).await.unwrap_err();
    let behind = upload.put_part("behind".into()).await.unwrap_err();
    let completed = upload.complete().await.unwrap_err();
    for error in [refused, behind, completed] {
        let source = std::error::Error::source(&error).unwrap().downcast_ref::<crate::Error>().unwrap();
        assert_eq!(source.kind(), ErrorKind::TooLarge, "{error:?}");
    }
    upload.abort().await.unwrap();
    upload.abort().await.unwrap();
}

#[tokio::test]
async fn ranges_are_read_in_any_order_and_none_past_the_end() {
    let (watched, store, _) = watched().await;
    let path = Path::from("k");
    let got = store.get_ranges(&path, &[8..10, 0..1, 3..3, 0..4, 9..200, 10..10]).await.unwrap();
    assert_eq!(got, ["89", "0", "", "0123", "9", ""]);
    assert_eq!(take(&mut *watched.asked.lock().unwrap()), ["get"]);
    assert_eq!(store.get_ranges(&path, &[3..3, 10..10]).await.unwrap(), ["", ""]);
    assert_eq!(store.get_ranges(&path, &[]).await.unwrap(), [] as [&str; 0]);
    #[expect(clippy::reversed_empty_ranges, reason = "such a range is refused")]
    let refused = [vec![11..11], vec![0..3, 11..11], vec![10..12], vec![0..3, 100..200], vec![5..4]];
    for ranges in refused {
        let error = store.get_ranges(&path, &ranges).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().downcast_ref::<crate::Error>().unwrap();
        assert_eq!(source.kind(), ErrorKind::InvalidInput, "{ranges:?}: {error:?}");
    }
}

/// Somebody writes the source of each copy anew once the copy is made.
#[derive(Debug)]
struct Rewritten;

#[async_trait]
impl Script for Rewritten {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        let Call::Copy { from, .. } = call else { return below.send(call).await };
        let copied = below.send(call).await?;
        let bytes = Bytes::from("newer");
        let checksum = Checksum::of(below.store.capabilities().checksum, &bytes);
        let payload = Payload::from_memory(vec![bytes], checksum);
        below.store.put(&from.key, payload, &WriteOptions::default(), below.attempt).await?;
        Ok(copied)
    }
}

#[tokio::test]
async fn a_rename_removes_only_the_object_that_it_copied() {
    let tide = Tidegate::builder().build().unwrap();
    let store = TidegateStore::new(tide.store(Scripted::new(Memory::new("m"), Rewritten)));
    let (from, to) = (Path::from("a"), Path::from("b"));
    store.put(&from, "older".into()).await.unwrap();
    let error = store.rename(&from, &to).await.unwrap_err();
    assert!(matches!(error, Error::Precondition { .. }), "{error:?}");
    assert_eq!(store.get(&from).await.unwrap().bytes().await.unwrap(), "newer");
    assert_eq!(store.get(&to).await.unwrap().bytes().await.unwrap(), "older");
}

#[tokio::test]
async fn removals_that_nobody_polls_hold_no_turn() {
    let tide = Tidegate::builder().concurrency(Concurrency::Fixed(1)).build().unwrap();
    let store = TidegateStore::new(tide.open("memory://m").await.unwrap());
    let paths = stream::iter(0..1000).map(|number| Ok(Path::from(number.to_string())));
    let mut removals = store.delete_stream(paths.boxed());
    assert!(removals.next().await.is_some());
    // Others get their turns while the stream is kept and not polled.
    let (path, bytes) = (Path::from("k"), PutPayload::from("1"));
    let put = tokio::time::timeout(std::time::Duration::from_secs(20), store.put(&path, bytes));
    put.await.expect("no turn is held").unwrap();
    drop(removals);
}

/// An S3 server with a bucket, and its store.
async fn on_s3() -> (tidegate_dev::Server, TidegateStore) {
    let server = tidegate_dev::Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let (access, secret) = server.credentials();
    let settings = crate::settings::S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(crate::settings::Credentials::fixed(access, secret, None));
    let tide = Tidegate::builder().s3(settings).build().unwrap();
    (server, TidegateStore::new(tide.open("s3://bucket").await.unwrap()))
}

fn path(number: usize) -> Path {
    Path::from(format!("k{number:05}"))
}

#[tokio::test]
async fn three_thousand_objects_are_removed_in_three_requests_and_told_in_order() {
    let (server, store) = on_s3().await;
    store.put(&path(7), "1".into()).await.unwrap();
    // An error among the locations comes in its turn, and a location may be named twice.
    let odd = [Err(Error::NotImplemented { operation: "a".into(), implementer: "b".into() }), Ok(path(7))];
    let asked = || (0..2_998).map(|number| Ok(path(number)));
    let locations = stream::iter(asked().chain(odd)).boxed();
    let removed: Vec<Result<Path>> = store.delete_stream(locations).collect().await;
    assert_eq!(removed.len(), 3_000);
    for (removed, expected) in removed.iter().zip(asked()) {
        assert_eq!(removed.as_ref().unwrap(), &expected.unwrap());
    }
    assert!(matches!(removed[2_998], Err(Error::NotImplemented { .. })), "{:?}", removed[2_998]);
    assert_eq!(removed[2_999].as_ref().unwrap(), &path(7));
    assert_eq!((server.counts().get("DeleteObjects"), server.counts().get("DeleteObject")), (3, 0));
    assert!(matches!(store.head(&path(7), &GetOptions::new()).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn as_many_locations_as_there_are_keys_are_removed_while_they_arrive() {
    let (server, store) = on_s3().await;
    let many = delete::TAKEN * 2 + 1;
    let locations = stream::iter((0..many).map(|number| Ok(path(number)))).boxed();
    let removed: Vec<Path> = store.delete_stream(locations).try_collect().await.unwrap();
    assert!(removed.iter().enumerate().all(|(number, removed)| *removed == path(number)));
    // The last one alone is a request of its own.
    let asked = (server.counts().get("DeleteObjects"), server.counts().get("DeleteObject"));
    assert_eq!((removed.len(), asked), (many, (many as u64 / 1_000, 1)));
}

#[tokio::test]
async fn the_last_objects_of_many_are_listed_in_one_request() {
    let (server, store) = on_s3().await;
    server.set_knobs(tidegate_dev::Knobs { longest_page: Some(10), ..tidegate_dev::Knobs::default() });
    for number in 0..100 {
        store.put(&path(number), "1".into()).await.unwrap();
    }
    let listed: Vec<ObjectMeta> = store.list_with_offset(None, &path(94)).try_collect().await.unwrap();
    let listed: Vec<Path> = listed.into_iter().map(|meta| meta.location).collect();
    assert_eq!(listed, (95..100).map(path).collect::<Vec<_>>());
    assert_eq!(server.counts().get("ListObjectsV2"), 1);
}

/// A store whose removals are never answered.
#[derive(Debug)]
struct Silent(std::sync::atomic::AtomicUsize);

#[async_trait]
impl Script for Silent {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        if let Call::Delete { .. } = call {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        below.send(call).await
    }
}

#[test]
fn removals_whose_runtime_has_ended_are_errors_on_another() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let limit = std::time::Duration::from_secs(20);
    let silent = Scripted::new(Memory::new("m"), Silent(0.into()));
    let tide = Tidegate::builder().build().unwrap();
    let store = TidegateStore::new(tide.store(silent.clone()));
    let first = runtime();
    let mut removals = first.block_on(async {
        let mut removals = store.delete_stream(stream::iter([Ok(path(1)), Ok(path(2))]).boxed());
        while silent.0.load(std::sync::atomic::Ordering::Relaxed) < 2 {
            assert!(futures::poll!(removals.next()).is_pending());
            tokio::task::yield_now().await;
        }
        removals
    });
    drop(first);
    runtime().block_on(async {
        for _ in 0..2 {
            let removed = tokio::time::timeout(limit, removals.next()).await.expect("it is told").unwrap();
            assert!(matches!(removed, Err(Error::Generic { .. })), "{removed:?}");
        }
        assert!(removals.next().await.is_none());
    });
}
