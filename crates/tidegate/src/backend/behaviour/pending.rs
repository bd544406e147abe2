//! Pending uploads: prepared by one engine, committed or abandoned by another, as by another process.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join;

use super::*;
use crate::store::Manifest;
use crate::sweep::SweepReport;
use crate::upload::{Pending, PrepareBuilder};
use crate::{Error, ErrorKind, Result, Store, Strategy, Tidegate};

/// The size of a part that the engine sends.
pub(super) fn part(store: &TestStore) -> usize {
    store.part.max(store.capabilities().min_part as usize)
}

/// The store as another process sees it.
pub(super) fn process(store: &TestStore) -> Store {
    let tide = Tidegate::builder().part_size(part(store) as u64).build().unwrap();
    tide.store(store.store.clone())
}

async fn write(store: &TestStore, key: &str, bytes: &[u8], create_only: bool) -> PrepareBuilder {
    let builder = process(store).writer(store.key(key));
    let builder = if create_only { builder.create_only() } else { builder };
    let mut writer = builder.await.unwrap();
    writer.write_bytes(Bytes::copy_from_slice(bytes)).await.unwrap();
    writer.prepare()
}

/// Prepares an upload, and sends it to another process.
async fn prepare(store: &TestStore, key: &str, bytes: &[u8], create_only: bool) -> Pending {
    let pending = write(store, key, bytes, create_only).await.await.unwrap();
    let read = Pending::from_json(&pending.to_json()).unwrap();
    assert_eq!(read, pending);
    assert_eq!(
        (read.key(), read.size(), read.checksum()),
        (&*store.key(key), bytes.len() as u64, store.sum(bytes))
    );
    read
}

/// Commits in another process.
async fn commit(store: &TestStore, pending: &Pending) -> Result<Object> {
    process(store).commit(pending).await
}

async fn abandon(store: &TestStore, pending: &Pending) -> Result<()> {
    process(store).abandon(pending).await
}

pub(super) async fn sweep(store: &TestStore) -> SweepReport {
    match process(store).sweep(store.key("")).older_than(Duration::ZERO).await {
        // Such a store removes the parts itself; records are swept even so.
        Err(error) if error.kind() == ErrorKind::Unsupported && !store.capabilities().aborts => {
            SweepReport::default()
        }
        swept => swept.unwrap(),
    }
}

pub(super) fn kind_of<T: std::fmt::Debug>(result: Result<T, Error>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.to_string())
}

/// The records of pending uploads.
pub(super) async fn records(store: &TestStore) -> Vec<String> {
    let listed: Vec<Entry> = store.store.list(".tidegate/", true).try_collect().await.unwrap();
    listed.iter().map(|entry| entry.key().to_owned()).collect()
}

pub(super) async fn a_pending_upload_becomes_an_object_once(store: &TestStore) {
    let grain = store.capabilities().append.unwrap_or(256 << 10) as usize;
    // No byte, less than a part, whole chunks, chunks with a tail of a few bytes and of many, several parts.
    let sizes = [0, 5, grain, grain + 3, grain + 9000, part(store), 2 * part(store).max(grain) + 17];
    for create_only in [false, true] {
        for size in sizes {
            let (key, data) = (format!("p/{create_only}-{size}"), bytes_of(size));
            let pending = prepare(store, &key, &data, create_only).await;
            assert_eq!(kind(store.head(&key)).await.0, FaultKind::NotFound, "{key}");
            assert!(!store.keys("", true).await.contains(&key), "{key}");
            assert_eq!(records(store).await.len(), usize::from(!store.is_local()), "{key}");
            let object = commit(store, &pending).await.unwrap();
            assert_eq!((object.size, &*object.key), (size as u64, &*store.key(&key)));
            assert!(store.read(&key).await == data, "{key}");
            assert_eq!(records(store).await, Vec::<String>::new(), "{key}");
            // Its answer was lost, or another process came first.
            let again = commit(store, &pending).await.unwrap();
            assert!(again.is_same(&store.head(&key).await.unwrap()), "{key}: {again:?}");
            if object.has_identity() {
                assert!(object.is_same(&again) || object.etag.is_none(), "{key}: {object:?} {again:?}");
            }
            let (refused, said) = kind_of(abandon(store, &pending).await);
            assert_eq!(refused, ErrorKind::Closed, "{key}: {said}");
            assert!(store.read(&key).await == data, "{key}");
        }
    }
    store.delete("p/false-5", None).await.unwrap();
}

pub(super) async fn two_commits_at_once_give_one_object(store: &TestStore) {
    for create_only in [false, true] {
        for round in 0..4 {
            let (key, data) = (format!("p/{create_only}-{round}"), bytes_of(part(store) + 1));
            let pending = prepare(store, &key, &data, create_only).await;
            let (one, other) = join(commit(store, &pending), commit(store, &pending)).await;
            let (one, other) = (one.unwrap(), other.unwrap());
            assert_eq!((one.size, other.size), (data.len() as u64, data.len() as u64));
            assert!(store.read(&key).await == data);
        }
    }
}

pub(super) async fn an_abandoned_upload_is_lost(store: &TestStore) {
    for (size, create_only) in [(0, false), (5, true), (300_000, true), (2 * part(store) + 1, false)] {
        let (key, data) = (format!("p/{create_only}-{size}"), bytes_of(size));
        store.put("p/other", b"other").await;
        let pending = prepare(store, &key, &data, create_only).await;
        abandon(store, &pending).await.unwrap();
        abandon(store, &pending).await.unwrap();
        let (refused, said) = kind_of(commit(store, &pending).await);
        assert_eq!(refused, ErrorKind::SessionLost, "{key}: {said}");
        assert!(said.contains("abandoned"), "{said}");
        assert_eq!(kind(store.head(&key)).await.0, FaultKind::NotFound, "{key}");
        assert_eq!(records(store).await, Vec::<String>::new());
        if store.capabilities().aborts {
            assert_eq!(store.open_sessions("p/").await, [], "{key}");
        }
    }
}

pub(super) async fn conditions_of_a_pending_upload_are_decided_by_its_commit(store: &TestStore) {
    // The key is vacant when the upload is prepared.
    let pending = prepare(store, "k", b"ours", true).await;
    store.put("k", b"other").await;
    let (refused, said) = kind_of(commit(store, &pending).await);
    assert_eq!(refused, ErrorKind::AlreadyExists, "{said}");
    assert_eq!(store.read("k").await, b"other");
    abandon(store, &pending).await.unwrap();
    assert_eq!(store.read("k").await, b"other");
    if !store.capabilities().replaces {
        return;
    }
    let before = store.head("k").await.unwrap();
    let (replacing, late) = (process(store), process(store));
    let mut uploads = Vec::new();
    for (face, bytes) in [(&replacing, "replaced"), (&late, "too late")] {
        let mut writer = face.writer(store.key("k")).replaces(before.clone()).await.unwrap();
        writer.write_bytes(bytes.into()).await.unwrap();
        uploads.push(Pending::from_json(&writer.prepare().await.unwrap().to_json()).unwrap());
    }
    commit(store, &uploads[0]).await.unwrap();
    let (refused, said) = kind_of(commit(store, &uploads[1]).await);
    // The commit of the first has discarded Azure's blocks of the second.
    let gone = !store.capabilities().aborts && refused == ErrorKind::SessionLost;
    assert!(gone || refused == ErrorKind::Replaced, "{refused}: {said}");
    abandon(store, &uploads[1]).await.unwrap();
    assert_eq!(store.read("k").await, b"replaced");
}

pub(super) async fn a_pending_upload_carries_its_attributes(store: &TestStore) {
    if !store.capabilities().tokens {
        return; // a disk keeps none
    }
    for create_only in [false, true] {
        let key = format!("a/{create_only}.json");
        let builder = process(store).writer(store.key(&key)).content_type("text/x").metadata("owner", "a b");
        let builder = if create_only { builder.create_only() } else { builder };
        let mut writer = builder.await.unwrap();
        writer.write_bytes("bytes".into()).await.unwrap();
        let pending = writer.prepare().await.unwrap();
        commit(store, &pending).await.unwrap();
        let there = store.head(&key).await.unwrap();
        assert_eq!(there.attributes.content_type.as_deref(), Some("text/x"));
        assert_eq!(there.attributes.metadata, BTreeMap::from([("owner".to_owned(), "a b".to_owned())]));
        assert_eq!(there.token.as_deref(), Some(pending.token()));
    }
}

pub(super) async fn a_sweep_spares_a_pending_upload_for_its_lifetime(store: &TestStore) {
    let data = bytes_of(part(store) + 1);
    let spared = prepare(store, "s/spared", &data, false).await;
    let swept = sweep(store).await;
    assert_eq!((swept.ended, swept.failed), (0, 0), "{swept:?}");
    let is_listed = store.capabilities().aborts && !store.lacks_parts;
    assert_eq!(swept.pending, u64::from(is_listed), "{swept:?}");
    commit(store, &spared).await.unwrap();
    assert!(store.read("s/spared").await == data);
    let over = write(store, "s/over", &data, false).await.lifetime(Duration::from_secs(1)).await.unwrap();
    while std::time::SystemTime::now() <= over.until() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sweep(store).await;
    assert_eq!(records(store).await, Vec::<String>::new());
    if is_listed || store.is_local() {
        let (lost, said) = kind_of(commit(store, &over).await);
        assert_eq!(lost, ErrorKind::SessionLost, "{said}");
        assert!(said.contains("lifetime is over"), "{said}");
        assert_eq!(kind(store.head("s/over")).await.0, FaultKind::NotFound);
    } else {
        abandon(store, &over).await.unwrap();
    }
}

pub(super) async fn a_dropped_writer_that_was_prepared_leaves_its_session(store: &TestStore) {
    let tide = Tidegate::builder().part_size(part(store) as u64).build().unwrap();
    let face = tide.store(store.store.clone());
    for strategy in [Strategy::Auto, Strategy::Chunked, Strategy::Parallel] {
        let mut writer = face.writer(store.key("k")).strategy(strategy).await.unwrap();
        writer.write_bytes(bytes_of(3 * part(store)).into()).await.unwrap();
        let pending = writer.prepare().await.unwrap();
        tide.settled().await;
        assert_eq!(tide.usage().held, 0);
        drop(pending.clone());
        assert_eq!(commit(store, &pending).await.unwrap().size, 3 * part(store) as u64);
        store.delete("k", None).await.unwrap();
    }
}

/// Each kind of upload is checked as it is stored: it is found while it waits, when it is lost, and when it is published.
pub(super) async fn a_set_is_published_whole_or_not_begun(store: &TestStore) {
    let sizes = [0, 5, 9000, 300_000, 2 * part(store) + 1];
    let (mut waiting, mut contents) = (Vec::new(), Vec::new());
    for size in sizes {
        for create_only in [false, true] {
            let (key, data) = (format!("set/{create_only}-{size}"), bytes_of(size));
            let other = prepare(store, "set/other", b"other", false).await;
            let lost = prepare(store, &key, &data, create_only).await;
            abandon(store, &lost).await.unwrap();
            let manifest = Manifest::new(store.key("pointer"), [other, lost]).unwrap();
            let (refused, said) = kind_of(process(store).commit_all(&manifest).await);
            assert_eq!(refused, ErrorKind::SessionLost, "{key}: {said}");
            assert!(said.contains(&*store.key(&key)) && said.contains("not begun"), "{said}");
            for key in ["set/other", &key, "pointer"] {
                assert_eq!(kind(store.head(key)).await.0, FaultKind::NotFound, "{key}");
            }
            process(store).abandon_all(&manifest).await.unwrap();
            assert_eq!(records(store).await, Vec::<String>::new(), "{key}");
            contents.push((key, data, create_only));
        }
    }
    for (key, data, create_only) in &contents {
        waiting.push(prepare(store, key, data, *create_only).await);
    }
    let manifest = Manifest::new(store.key("pointer"), waiting).unwrap();
    for _ in 0..2 {
        let objects = process(store).commit_all(&manifest).await.unwrap();
        assert_eq!(objects.len(), contents.len());
    }
    let (refused, said) = kind_of(process(store).abandon_all(&manifest).await);
    assert_eq!(refused, ErrorKind::Closed, "{said}");
    for (key, data, _) in &contents {
        assert!(store.read(key).await == *data, "{key}");
    }
    assert_eq!(records(store).await, Vec::<String>::new());
}
