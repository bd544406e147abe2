use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use tokio::io::AsyncReadExt;

use super::*;
use crate::backend::local::Local;
use crate::backend::memory::Memory;
use crate::backend::{Backend, Capabilities, Entry, Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::{Object, Tidegate};

mod changes;
mod conditions;
mod cost;
mod gate;
mod late;
mod layouts;
mod model;
mod paged;
mod records;

const PART: usize = 16 << 10;

fn engine() -> Tidegate {
    Tidegate::builder().memory(1 << 20).slab(4096).part_size(PART as u64).seed(1).build().unwrap()
}

fn memory() -> Memory {
    memory_that(false)
}

/// A memory store. If it `copies`, it makes create-only copies itself, as Google Cloud Storage and a disk do;
/// otherwise it makes no copies, as S3 makes no create-only copies.
fn memory_that(copies: bool) -> Memory {
    let copying = Capabilities { create_only_copy: copies, max_copy: 1 << 40, ..Capabilities::default() };
    let plain = if copies { copying } else { Capabilities::default() };
    Memory::new("m").with_capabilities(Capabilities { min_part: 4096, replaces: true, ..plain })
}

fn root(tide: &Tidegate, memory: &Memory) -> Store {
    tide.store(Arc::new(memory.clone())).within("root")
}

fn base2(count: u32) -> Layout {
    Layout::new(Naming::Base2, count).unwrap()
}

/// A client that reads the record before each request.
async fn attentive(root: &Store) -> PrefixedStore {
    PrefixedStore::open_with(root, Duration::ZERO).await.unwrap()
}

async fn write(store: &PrefixedStore, key: &str, bytes: &[u8]) -> Result<Object> {
    let mut writer = store.writer(key).start().await?;
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await?;
    writer.finish().await
}

async fn create(store: &PrefixedStore, key: &str, bytes: &[u8]) -> Result<Object> {
    let mut writer = store.writer(key).create_only().start().await?;
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await?;
    writer.finish().await
}

async fn read(store: &PrefixedStore, key: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut reader = store.reader(key).start().await?;
    reader.read_to_end(&mut bytes).await.map_err(|error| error.downcast::<Error>().unwrap())?;
    Ok(bytes)
}

async fn list(store: &PrefixedStore, prefix: &str, recursive: bool) -> Vec<String> {
    names(store.list(prefix).recursive(recursive).try_collect().await.unwrap())
}

fn names(entries: Vec<Entry>) -> Vec<String> {
    let name = |entry| match entry {
        Entry::Object(object) => object.key,
        Entry::Prefix(prefix) => format!("{prefix}…"),
        Entry::Other { key, kind } => format!("{key}: {kind}"),
    };
    entries.into_iter().map(name).collect()
}

/// Every key in the backend.
async fn places(memory: &Memory) -> Vec<String> {
    let entries: Vec<Entry> = memory.list("", true).try_collect().await.unwrap();
    let object = |entry| match entry {
        Entry::Object(object) => Some(object.key),
        Entry::Prefix(_) | Entry::Other { .. } => None,
    };
    entries.into_iter().filter_map(object).collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("an error").kind()
}

#[tokio::test]
async fn keys_are_where_the_layout_has_them_and_nothing_shows_it() {
    let (tide, memory) = (engine(), memory());
    let store = PrefixedStore::init(&root(&tide, &memory), base2(64)).await.unwrap();
    assert_eq!(store.location(), "memory://m/root");
    write(&store, "t/part-0", b"some bytes").await.unwrap();
    let large = vec![7; 3 * PART + 5];
    write(&store, "a", &large).await.unwrap();
    assert_eq!(
        places(&memory).await,
        ["root/.tidegate-prefixes/00000001.json", "root/011110/t/part-0", "root/110010/a"]
    );
    assert_eq!(read(&store, "a").await.unwrap(), large);
    let mut part = String::new();
    let mut reader = store.reader("t/part-0").range(5..).start().await.unwrap();
    reader.read_to_string(&mut part).await.unwrap();
    assert_eq!(part, "bytes");
    let object = store.head("t/part-0").await.unwrap();
    assert_eq!((&*object.key, object.size), ("t/part-0", 10));
    assert_eq!(store.place("t/part-0"), "011110/t/part-0");

    let error = store.head("t/none").await.unwrap_err();
    assert_eq!((error.kind(), error.object()), (ErrorKind::NotFound, "memory://m/root/t/none"));
    assert_eq!(kind(create(&store, "a", b"other").await), ErrorKind::AlreadyExists);
    store.delete("a").await.unwrap();
    store.delete("a").await.unwrap();
    assert_eq!(kind(read(&store, "a").await), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_store_below_it_has_keys_of_its_own() {
    let (tide, memory) = (engine(), memory());
    let store = PrefixedStore::init(&root(&tide, &memory), base2(8)).await.unwrap();
    write(&store, "t/u/1", b"1").await.unwrap();
    let below = store.store().within("t");
    assert_eq!(below.location(), "memory://m/root/t");
    assert_eq!(below.head("u/1").await.unwrap().key, "u/1");
    let entries: Vec<Entry> = below.list("").recursive(false).try_collect().await.unwrap();
    assert_eq!(entries, [Entry::Prefix("u/".into())]);
}

#[tokio::test]
async fn a_listing_is_in_key_order_and_has_each_prefix_once() {
    let (tide, memory) = (engine(), memory());
    let store = PrefixedStore::init(&root(&tide, &memory), base2(16)).await.unwrap();
    let mut keys: Vec<String> = (0..300).map(|number| format!("t{}/{number}", number % 7)).collect();
    keys.extend(["t1".to_owned(), "t1.x".to_owned(), "z".to_owned()]);
    for key in &keys {
        write(&store, key, key.as_bytes()).await.unwrap();
    }
    keys.sort();
    assert_eq!(list(&store, "", true).await, keys);
    let some: Vec<_> = keys.iter().filter(|key| key.starts_with("t1")).cloned().collect();
    assert_eq!(list(&store, "t1", true).await, some);
    assert_eq!(
        list(&store, "", false).await,
        ["t0/…", "t1", "t1.x", "t1/…", "t2/…", "t3/…", "t4/…", "t5/…", "t6/…", "z"]
    );
    assert_eq!(list(&store, "none/", true).await, [""; 0]);
}

#[tokio::test]
async fn it_lies_on_a_directory_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let tide = engine();
    let root = tide.store(Arc::new(Local::new(directory.path().join("new"))));
    assert_eq!(kind(PrefixedStore::open(&root).await), ErrorKind::NotFound);
    let store = PrefixedStore::init(&root, base2(4)).await.unwrap();
    for key in ["b/1", "a", "b/2"] {
        write(&store, key, key.as_bytes()).await.unwrap();
    }
    assert_eq!(list(&store, "", true).await, ["a", "b/1", "b/2"]);
    assert_eq!(kind(create(&store, "a", b"other").await), ErrorKind::AlreadyExists);
    store.change(base2(8)).await.unwrap();
    store.migrate(Duration::ZERO).await.unwrap();
    assert_eq!(list(&store, "", false).await, ["a", "b/…"]);
    assert_eq!(read(&store, "b/2").await.unwrap(), b"b/2");
}

#[tokio::test]
async fn what_is_of_the_store_itself_is_refused() {
    let (tide, memory) = (engine(), memory());
    let root = root(&tide, &memory);
    let store = PrefixedStore::init(&root, base2(4)).await.unwrap();
    let sessions: Result<Vec<_>> = store.store().sessions("").try_collect().await;
    assert_eq!(kind(sessions), ErrorKind::Unsupported);
    let unfinished: Result<Vec<_>> = store.store().unfinished("").try_collect().await;
    assert_eq!(kind(unfinished), ErrorKind::Unsupported);
    assert_eq!(kind(store.store().ensure_lifecycle().await), ErrorKind::Unsupported);
    assert_eq!(kind(PrefixedStore::init(store.store(), base2(4)).await), ErrorKind::InvalidInput);
    assert_eq!(kind(PrefixedStore::open(store.store()).await), ErrorKind::InvalidInput);

    // The store of the root sees the sessions under their real keys.
    let mut writer = store.writer("t/part-0").start().await.unwrap();
    writer.write_bytes(vec![7; 2 * PART].into()).await.unwrap();
    while root.sessions("").try_collect::<Vec<_>>().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let open: Vec<_> = root.sessions("").try_collect().await.unwrap();
    assert_eq!(open[0].session.key, "01/t/part-0");
    drop(writer);
    assert!(tide.settled().await.is_empty());
    assert!(root.sessions("").try_collect::<Vec<_>>().await.unwrap().is_empty());
}

/// Fails the listing of one prefix.
#[derive(Debug)]
struct Lame {
    prefix: &'static str,
}

impl Script for Lame {
    fn list(
        &self,
        below: &Arc<dyn Backend>,
        prefix: &str,
        recursive: bool,
    ) -> crate::backend::Listing<crate::backend::Entry> {
        use futures::StreamExt;
        let listed = below.list(prefix, recursive);
        if prefix != self.prefix {
            return listed;
        }
        let fault = Fault::new(FaultKind::Denied, "no");
        listed.take(1).chain(futures::stream::iter([Err(fault)])).boxed().into()
    }
}

#[tokio::test]
async fn a_failed_request_ends_a_listing_with_an_error() {
    let (tide, memory) = (engine(), memory());
    let store = PrefixedStore::init(&root(&tide, &memory), base2(2)).await.unwrap();
    for number in 0..50 {
        write(&store, &number.to_string(), b"x").await.unwrap();
    }
    let lame = Scripted::new(memory.clone(), Lame { prefix: "root/1/" });
    let store = PrefixedStore::open(&tide.store(lame).within("root")).await.unwrap();
    let (mut listed, mut errors) = (Vec::new(), Vec::new());
    let mut entries = store.list("");
    loop {
        match entries.try_next().await {
            Ok(Some(entry)) => listed.push(entry),
            Ok(None) => break,
            Err(error) => errors.push(error.kind()),
        }
    }
    assert_eq!(errors, [ErrorKind::PermissionDenied]);
    assert!(listed.len() < 50, "{}", listed.len());
}
