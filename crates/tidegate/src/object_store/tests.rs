use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use ::object_store::ObjectStoreExt;
use bytes::Bytes;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Backend, Body, Fault, Layer};
use crate::{Layout, Naming, PrefixedStore, Tidegate};

/// Notes what is asked, and writes this to the key once it has been described.
#[derive(Debug)]
struct Watched {
    below: Memory,
    asked: Mutex<Vec<&'static str>>,
    next: Mutex<Option<Store>>,
}

#[async_trait]
impl Layer for Watched {
    fn below(&self) -> &dyn Backend {
        &self.below
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        self.asked.lock().unwrap().push("head");
        let found = self.below.head(key).await;
        let next = self.next.lock().unwrap().take();
        if let Some(store) = next {
            write(&store, key, "xyz").await;
        }
        found
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        self.asked.lock().unwrap().push("get");
        self.below.get(key, range, same).await
    }
}

async fn write(store: &Store, key: &str, bytes: &'static str) {
    let mut writer = store.writer(key).start().await.unwrap();
    writer.write(Bytes::from_static(bytes.as_bytes())).await.unwrap();
    writer.finish().await.unwrap();
}

async fn watched() -> (Arc<Watched>, TidegateStore, Store) {
    let (tide, below) = (Tidegate::builder().build().unwrap(), Memory::new("watched"));
    let plain = tide.store(Arc::new(below.clone()));
    write(&plain, "k", "0123456789").await;
    let watched = Arc::new(Watched { below, asked: Mutex::default(), next: Mutex::default() });
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
