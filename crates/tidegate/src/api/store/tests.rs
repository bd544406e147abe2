//! Objects in one call, listings, removals of many, renames.

use futures::{SinkExt, StreamExt, TryStreamExt};
use tokio::io::AsyncWriteExt;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Fault, FaultKind};
use crate::settings::Concurrency;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::{Entry, Tidegate};

mod bandwidth;
mod bulk_delete;
mod figures;
mod if_unchanged;
mod listed;
mod no_bucket;
mod renamed;

async fn store() -> Store {
    let tide = Tidegate::builder().memory(1 << 20).slab(4096).build().unwrap();
    tide.open("memory://m").await.unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[tokio::test]
async fn an_object_goes_in_and_comes_out_in_one_call() {
    let store = store().await;
    let object = store.put("a", "hello, tide").content_type("text/x").create_only().await.unwrap();
    assert_eq!((object.key.as_str(), object.size), ("a", 11));
    assert_eq!(store.head("a").await.unwrap().attributes.content_type.as_deref(), Some("text/x"));
    assert_eq!(kind(store.put("a", "again").create_only().await), ErrorKind::AlreadyExists);
    assert_eq!(store.get("a").await.unwrap(), "hello, tide");
    assert_eq!(store.get_range("a", 7..).await.unwrap(), "tide");
    assert_eq!(store.get_range("a", 7..100).await.unwrap(), "tide");
    assert_eq!(kind(store.get_range("a", 12..13).await), ErrorKind::InvalidInput);
    store.put("empty", Bytes::new()).await.unwrap();
    assert!(store.get("empty").await.unwrap().is_empty() && store.exists("empty").await.unwrap());
    assert!(!store.exists("missing").await.unwrap());
    assert_eq!(kind(store.get("missing").await), ErrorKind::NotFound);
}

#[tokio::test]
async fn an_object_larger_than_the_budget_is_not_read_into_memory() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..(1 << 20) + 1_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(directory.path().join("large"), &bytes).unwrap();
    let tide = Tidegate::builder().memory(1 << 20).slab(4096).build().unwrap();
    let store = tide.open(directory.path().to_str().unwrap()).await.unwrap();
    let error = store.get("large").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(store.get_range("large", ..1 << 20).await.unwrap(), bytes[..1 << 20]);
    assert_eq!(kind(store.get_range("large", ..).await), ErrorKind::TooLarge);
}

#[tokio::test]
async fn a_writer_is_an_async_write_and_a_sink_and_takes_bytes() {
    let store = store().await;
    let mut writer = store.writer("k").await.unwrap();
    assert_eq!(writer.write(b"a").await.unwrap(), 1);
    writer.write_all(b"b").await.unwrap();
    writer.write_bytes("c".into()).await.unwrap();
    SinkExt::feed(&mut writer, "d".into()).await.unwrap();
    AsyncWriteExt::flush(&mut writer).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(store.get("k").await.unwrap(), "abcd");
}

#[tokio::test]
async fn a_listing_takes_settings_before_its_first_entry() {
    let store = store().await;
    for key in ["t/a", "t/b/1", "t/b/2", "t/c", "u"] {
        store.put(key, "1").await.unwrap();
    }
    let keys = async |entries: ListStream| -> Vec<String> {
        entries.map_ok(|entry: Entry| entry.key().to_owned()).try_collect().await.unwrap()
    };
    assert_eq!(keys(store.list("t/")).await, ["t/a", "t/b/1", "t/b/2", "t/c"]);
    assert_eq!(keys(store.list("t/").recursive(false)).await, ["t/a", "t/b/", "t/c"]);
    assert_eq!(keys(store.list("t/").start_after("t/b/1")).await, ["t/b/2", "t/c"]);
    assert_eq!(keys(store.within("t").list("").start_after("b/1")).await, ["b/2", "c"]);
}

#[tokio::test]
async fn of_many_removals_each_key_says_whether_it_failed() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().concurrency(Concurrency::Fixed(2)).build().unwrap();
    let store = tide.open(directory.path().to_str().unwrap()).await.unwrap();
    let keys: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
    for key in &keys {
        store.put(key, "1").await.unwrap();
    }
    store.put("directory/inside", "1").await.unwrap();
    let all = keys.iter().cloned().chain(["directory".into(), "a//b".into(), "missing".into()]);
    let report = store.delete_many(all.collect::<Vec<_>>()).await;
    assert_eq!(report.deleted, 201, "the missing one counts as removed");
    let mut failed: Vec<&str> = report.failed.iter().filter_map(|(key, _)| key.as_deref()).collect();
    failed.sort_unstable();
    assert_eq!(failed, ["a//b", "directory"]);
    let error = report.into_result().unwrap_err();
    assert!(error.to_string().contains("1 more of the keys"), "{error}");
    let left: Vec<Entry> = store.list("").try_collect().await.unwrap();
    assert_eq!(left.iter().map(Entry::key).collect::<Vec<_>>(), ["directory/inside"]);

    // As a stream, of keys that a listing gives.
    let listed = store.list("").map_ok(|entry| entry.key().to_owned());
    let removed: Vec<_> = store.delete_stream(listed).collect().await;
    assert_eq!((removed.len(), removed[0].key.as_deref()), (1, Some("directory/inside")));
    assert!(removed[0].result.is_ok());
}

#[tokio::test]
async fn a_listing_that_fails_is_a_failure_of_the_removal() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().build().unwrap();
    let missing = tide.open(directory.path().join("missing").to_str().unwrap()).await.unwrap();
    let store = store().await;
    store.put("a", "1").await.unwrap();
    let listed = store.list("").chain(missing.list("")).map_ok(|entry| entry.key().to_owned());
    let report = store.delete_stream(listed).await;
    assert_eq!((report.deleted, report.failed.len()), (1, 1));
    assert_eq!(report.failed[0].0, None);
    assert_eq!(kind(report.into_result()), ErrorKind::NoBucket);
}

#[tokio::test]
async fn keys_to_remove_may_be_borrowed() {
    let store = store().await;
    let keys = vec!["a".to_owned(), "b".to_owned()];
    for key in &keys {
        store.put(key, "1").await.unwrap();
    }
    assert_eq!(store.delete_many(&keys).await.into_result().unwrap(), 2);
    assert_eq!(store.delete_many(keys.iter().map(String::as_str)).await.into_result().unwrap(), 2);
    assert!(!store.exists("a").await.unwrap());
}

/// A store whose tags may not be read.
#[derive(Debug)]
struct Untold;

#[async_trait::async_trait]
impl Script for Untold {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        match call {
            Call::Tags { .. } => Err(Fault::new(FaultKind::Denied, "no tags").with_answered(true)),
            call => below.send(call).await,
        }
    }
}

#[tokio::test]
async fn tags_that_are_refused_were_read_by_no_copy() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Scripted::new(Memory::new("m"), Untold));
    let error = store.tags("k").await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::PermissionDenied, Operation::Head));
}

#[tokio::test]
async fn removals_that_nobody_polls_hold_no_turn() {
    let tide = Tidegate::builder().concurrency(Concurrency::Fixed(1)).build().unwrap();
    let store = tide.open("memory://m").await.unwrap();
    let keys = futures::stream::iter(0..1000).map(|number| Ok(number.to_string()));
    let mut removals = store.delete_stream(keys);
    assert!(removals.next().await.is_some());
    // Others get their turns while the stream is kept and not polled.
    let put = tokio::time::timeout(std::time::Duration::from_secs(20), async { store.put("k", "1").await });
    put.await.expect("no turn is held").unwrap();
    drop(removals);
}

/// Holds each removal for ever.
#[derive(Debug)]
struct Parked;

#[async_trait::async_trait]
impl Script for Parked {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> std::result::Result<Answer, Fault> {
        match call {
            Call::Delete { .. } => std::future::pending().await,
            call => below.send(call).await,
        }
    }
}

#[test]
fn removals_whose_runtime_was_shut_down_are_failures() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let mut removals = first.block_on(async {
        let tide = Tidegate::builder().build().unwrap();
        let store = tide.store(Scripted::new(Memory::new("m"), Parked));
        let mut removals = store.delete_many(["a", "b"]);
        assert!(futures::poll!(removals.next()).is_pending());
        removals
    });
    drop(first);
    let failed: Vec<_> = second.block_on(async {
        let failed = (&mut removals).map(|removal| removal.result.unwrap_err().kind()).collect();
        tokio::time::timeout(std::time::Duration::from_secs(20), failed).await.expect("it ends")
    });
    assert_eq!(failed, [ErrorKind::Closed; 2]);
}
