//! Points of uploads: what any process continues from, on stores of every kind, and what is left of them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use proptest::prelude::*;

use super::*;
use crate::backend::{Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::upload::{Pending, Resumable, Strategy};

/// As another process reads it.
fn read(point: &Resumable) -> Resumable {
    let read = Resumable::from_json(&point.to_json()).unwrap();
    assert_eq!(read, *point);
    read
}

async fn own_keys(store: &Store) -> usize {
    store.list(".tidegate/").count().await
}

async fn assert_only(tide: &Tidegate, store: &Store, keys: &[&str]) {
    tide.settled().await;
    let listed: Vec<_> = store.list("").map(|entry| entry.unwrap().key().to_owned()).collect().await;
    assert_eq!(listed, keys);
    assert_eq!(store.sessions("").count().await, 0);
}

/// Another engine on the same store.
fn elsewhere(store: &Store) -> (Tidegate, Store) {
    let tide = Tidegate::builder().memory(256 * KIB).slab(8192).part_size(2 * PART).seed(7).build().unwrap();
    let other = tide.store(store.context().backend().clone());
    (tide, other)
}

#[tokio::test]
async fn another_process_continues_at_every_size() -> Result<()> {
    let sizes = [0, 5, 4096, 4097, PART - 1, PART, PART + 1, 3 * PART + 7];
    for first in sizes {
        for second in [0, 9, PART, 2 * PART + 3] {
            let (tide, all) = (engine(), data(first + second));
            let here = store(&tide);
            let mut writer = here.writer("k").metadata("a", "b").await?;
            writer.write_bytes(all.slice(..first as usize)).await?;
            let point = writer.persist().await?;
            assert_eq!((point.key(), point.size()), ("k", first), "{point:?}");
            // Lost with the process: a checkpoint does not cover it.
            writer.write_bytes(data(77)).await?;
            drop(writer);
            tide.settled().await;
            assert_eq!(here.sessions("").count().await, 1, "{first}");
            assert!(!here.exists("k").await?);
            let (there_tide, there) = elsewhere(&here);
            let mut writer = there.resume(&read(&point)).await?;
            assert_eq!(writer.position(), first);
            writer.write_bytes(all.slice(first as usize..)).await?;
            let object = writer.finish().await?;
            assert_eq!((object.size, object.token.as_deref()), (first + second, Some(point.token())));
            assert_eq!(object.attributes.metadata["a"], "b");
            assert_eq!(stored(&here, "k").await, all, "{first} {second}");
            assert_only(&there_tide, &there, &["k"]).await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_writer_goes_on_behind_its_points_and_resumes_from_the_last() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let all = data(10 * PART);
    let mut writer = store.writer("k").await?;
    let (mut at, mut points) = (0, Vec::new());
    for step in [0, 1, 5000, PART, 3, 2 * PART, 100, 6000] {
        writer.write_bytes(all.slice(at..at + step as usize)).await?;
        at += step as usize;
        points.push(read(&writer.persist().await?));
        assert_eq!(points.last().unwrap().size(), at as u64);
    }
    // One record for all of them.
    let records = store.list(".tidegate/pending/").count().await;
    assert_eq!(records, 1);
    for point in [&points[7], &points[5]] {
        let mut writer = store.resume(point).await?;
        writer.write_bytes(all.slice(point.size() as usize..)).await?;
        writer.persist().await?;
    }
    // One that writes other bytes takes the place of what came behind its point.
    let mut writer = store.resume(&points[2]).await?;
    writer.write_bytes(vec![7; 3 * PART as usize].into()).await?;
    writer.persist().await?;
    drop(writer);
    assert_eq!(store.resume(&points[7]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    let mut writer = store.resume(&points[2]).await?;
    writer.write_bytes(all.slice(points[2].size() as usize..)).await?;
    let pending = Pending::from_json(&writer.prepare().await?.to_json())?;
    assert!(own_keys(&store).await > 0, "a process may still need a point");
    store.commit(&pending).await?;
    assert_eq!(stored(&store, "k").await, all);
    assert_only(&tide, &store, &["k"]).await;
    assert_eq!(store.resume(&points[3]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    Ok(())
}

#[tokio::test]
async fn only_an_abort_ends_a_session_that_a_point_names() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let begun = async || {
        let mut writer = store.writer("k").await?;
        writer.write_bytes(data(PART + 5000)).await?;
        let point = writer.persist().await?;
        Ok::<_, crate::Error>((writer, point))
    };
    // A drop, a failed write, and a finish that fails leave it.
    let (writer, point) = begun().await?;
    drop(writer);
    tide.settled().await;
    let mut failing = store.resume(&point).await?;
    failing.set_exact_size(1);
    assert!(failing.write_bytes(data(9)).await.is_err());
    tide.settled().await;
    let mut failing = store.resume(&point).await?;
    failing.set_exact_size(1 << 40);
    failing.write_bytes(data(9)).await?;
    assert!(failing.finish().await.is_err());
    tide.settled().await;
    let resumed = store.resume(&point).await?;
    assert_eq!(resumed.position(), PART + 5000);
    resumed.abort().await?;
    assert_nothing(&tide, &store).await;
    assert_eq!(store.resume(&point).await.unwrap_err().kind(), ErrorKind::SessionLost);
    // So does an abort of a writer that has failed.
    let (mut writer, _) = begun().await?;
    writer.set_exact_size(1);
    assert!(writer.write_bytes(data(9)).await.is_err());
    writer.abort().await?;
    assert_nothing(&tide, &store).await;
    // And an abandon by anyone.
    let (mut writer, point) = begun().await?;
    let point = read(&point);
    let (_, there) = elsewhere(&store);
    there.abandon(&point).await?;
    there.abandon(&point).await?;
    let error = there.resume(&point).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost);
    assert!(error.to_string().contains("given up"), "{error}");
    writer.write_bytes(data(3 * PART)).await.ok();
    assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert_nothing(&tide, &store).await;
    Ok(())
}

#[tokio::test]
async fn what_is_published_is_not_given_up() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").await?;
    writer.write_bytes(data(PART)).await?;
    let point = writer.persist().await?;
    // Two processes have it; the second finds the object of the first.
    let second = store.resume(&point).await?;
    let object = writer.finish().await?;
    assert!(second.finish().await?.is_same(&object));
    assert_eq!(store.abandon(&point).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_only(&tide, &store, &["k"]).await;
    Ok(())
}

#[tokio::test]
async fn the_tail_of_a_point_that_is_superseded_can_go() -> Result<()> {
    let tide = Tidegate::builder().memory(32 << 20).build()?;
    let store = tide.store(Arc::new(Memory::new("test"))); // whose parts have 5 MiB at least
    let mut writer = store.writer("k").await?;
    writer.write_bytes(data(100_000)).await?;
    let first = writer.persist().await?;
    writer.write_bytes(data(7)).await?;
    let second = writer.persist().await?;
    assert_eq!(store.list(".tidegate/tails/").count().await, 2);
    store.forget(&first).await?;
    store.forget(&first).await?;
    assert_eq!(store.resume(&first).await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert_eq!(store.resume(&second).await?.position(), 100_007);
    writer.finish().await?;
    assert_only(&tide, &store, &["k"]).await;
    Ok(())
}

#[tokio::test]
async fn a_sweep_removes_tails_that_no_record_speaks_for() -> Result<()> {
    let tide = Tidegate::builder().memory(32 << 20).build()?;
    let store = tide.store(Arc::new(Memory::new("test")));
    let mut spared = store.writer("spared").await?;
    spared.write_bytes(data(9000)).await?;
    let point = spared.persist().await?;
    let mut over = store.writer("over").await?;
    over.write_bytes(data(9000)).await?;
    let lost = over.persist().lifetime(Duration::from_secs(1)).await?;
    drop((spared, over));
    tide.settled().await;
    while std::time::SystemTime::now() <= lost.until() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let report = store.sweep("").older_than(Duration::ZERO).await?;
    assert_eq!((report.ended, report.pending), (1, 1), "{report:?}");
    assert_eq!(own_keys(&store).await, 2);
    assert_eq!(store.resume(&lost).await.unwrap_err().kind(), ErrorKind::SessionLost);
    let writer = store.resume(&point).await?;
    assert_eq!(writer.finish().await?.size, 9000);
    assert_only(&tide, &store, &["spared"]).await;
    Ok(())
}

/// A store that has no sessions, or fails where it is told to.
#[derive(Debug, Default)]
struct Failing {
    has_no_parts: bool,
    /// How many writes of records and tails fail first.
    records: AtomicUsize,
    opens: AtomicUsize,
}

#[async_trait]
impl Script for Failing {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let fails =
            |left: &AtomicUsize| left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        match &call {
            Call::Open { .. } if self.has_no_parts => {
                Err(Fault::new(FaultKind::Unsupported, "there are no uploads in parts").with_answered(true))
            }
            Call::Open { .. } if fails(&self.opens) => {
                Err(Fault::new(FaultKind::Denied, "nothing may be opened").with_answered(true))
            }
            Call::Put { key, .. } if key.starts_with(".tidegate/") && fails(&self.records) => {
                Err(Fault::new(FaultKind::Denied, "nothing may be written there").with_answered(true))
            }
            _ => below.send(call).await,
        }
    }
}

fn failing(tide: &Tidegate, script: Failing) -> Store {
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    tide.store(Scripted::new(Memory::new("test").with_capabilities(capabilities), script))
}

#[tokio::test]
async fn a_store_without_sessions_keeps_all_bytes_in_the_tail() -> Result<()> {
    let tide = engine();
    let store = failing(&tide, Failing { has_no_parts: true, ..Failing::default() });
    for size in [0, 100, PART] {
        let mut writer = store.writer("k").await?;
        writer.write_bytes(data(size / 2)).await?;
        let first = read(&writer.persist().await?);
        drop(writer);
        let mut writer = store.resume(&first).await?;
        writer.write_bytes(data(size).slice(first.size() as usize..)).await?;
        let second = read(&writer.persist().await?);
        assert_eq!(store.resume(&second).await?.finish().await?.size, size);
        assert_only(&tide, &store, &["k"]).await;
        for gone in [&first, &second] {
            assert_eq!(store.resume(gone).await.unwrap_err().kind(), ErrorKind::SessionLost, "{size}");
        }
        // This writer sends its own request.
        assert_eq!(writer.finish().await?.size, size);
        store.delete("k").await?;
        let mut writer = store.writer("k").await?;
        writer.write_bytes(data(size)).await?;
        let point = writer.persist().await?;
        drop(writer);
        store.abandon(&point).await?;
        assert_eq!(store.resume(&point).await.unwrap_err().kind(), ErrorKind::SessionLost, "{size}");
        assert_nothing(&tide, &store).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_point_that_could_not_be_persisted_leaves_the_writer_open() -> Result<()> {
    let tide = engine();
    let script = Failing { records: AtomicUsize::new(2), opens: AtomicUsize::new(1), ..Failing::default() };
    let store = failing(&tide, script);
    let mut writer = store.writer("k").await?;
    writer.write_bytes(data(9000)).await?;
    for _ in 0..3 {
        assert_eq!(writer.persist().await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
    let point = writer.persist().await?;
    writer.write_bytes(data(4)).await?;
    assert_eq!(writer.finish().await?.size, 9004);
    assert_only(&tide, &store, &["k"]).await;
    assert_eq!(point.size(), 9000);
    // Without a point, a drop leaves nothing.
    let store = failing(&tide, Failing { records: AtomicUsize::new(1), ..Failing::default() });
    let mut writer = store.writer("k").await?;
    writer.write_bytes(data(3 * PART)).await?;
    assert!(writer.persist().await.is_err());
    drop(writer);
    assert_nothing(&tide, &store).await;
    Ok(())
}

#[tokio::test]
async fn a_persist_that_is_dropped_leaves_the_writer_as_it_was() -> Result<()> {
    for polls in 0..40 {
        let tide = engine();
        let store = store(&tide);
        let mut writer = store.writer("k").await?;
        writer.write_bytes(data(2 * PART + 5000)).await?;
        {
            let mut persist = Box::pin(writer.persist().into_future());
            for _ in 0..polls {
                if futures::poll!(&mut persist).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        writer.write_bytes(data(3)).await?;
        if polls % 2 == 0 {
            assert_eq!(writer.finish().await?.size, 2 * PART + 5003, "{polls}");
            assert!(stored(&store, "k").await.starts_with(&data(2 * PART + 5000)), "{polls}");
        } else {
            let point = writer.persist().await?;
            let writer = store.resume(&point).await?;
            assert_eq!(writer.position(), 2 * PART + 5003, "{polls}");
            store.abandon(&point).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_persisted_is_told() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().journal([directory.path()]).build()?;
    let store = store(&tide);
    let mut writer = store.writer("k").strategy(Strategy::Journal).await?;
    writer.write_bytes(data(5)).await?;
    let error = writer.persist().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(writer.finish().await?.size, 5);
    let disk = tide.open(directory.path().to_str().unwrap()).await?;
    let mut writer = disk.writer("k").strategy(Strategy::Put).await?;
    writer.write_bytes(data(5)).await?;
    assert_eq!(writer.persist().await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(writer.finish().await?.size, 5);
    // Another bucket, and a text that is something else.
    let mut writer = store.writer("j").await?;
    let point = writer.persist().await?;
    assert_eq!(disk.resume(&point).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let pending = writer.prepare().await?;
    for text in [pending.to_json(), String::new(), "{}".to_owned()] {
        assert_eq!(Resumable::from_json(&text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
    }
    assert_eq!(Pending::from_json(&point.to_json()).unwrap_err().kind(), ErrorKind::InvalidInput);
    let later = point.to_json().replace("\"version\":1", "\"version\":2");
    assert!(Resumable::from_json(&later).unwrap_err().to_string().contains("later version"));
    store.abandon(&pending).await?;
    Ok(())
}

#[tokio::test]
async fn a_spool_is_sent_by_a_persist() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder()
        .memory(128 * KIB)
        .slab(4096)
        .part_size(PART)
        .spool([directory.path().to_owned()])
        .build()?;
    let store = store(&tide);
    for strategy in [Strategy::Spool, Strategy::Chunked, Strategy::Parallel] {
        let all = data(20 * PART + 9);
        let mut writer = store.writer("k").strategy(strategy).await?;
        writer.write_bytes(all.slice(..5 * PART as usize + 4500)).await?;
        let point = read(&writer.persist().await?);
        writer.write_bytes(data(3 * PART)).await?;
        drop(writer);
        let mut writer = store.resume(&point).await?;
        writer.write_bytes(all.slice(point.size() as usize..)).await?;
        writer.finish().await?;
        assert_eq!(stored(&store, "k").await, all, "{strategy}");
        store.delete("k").await?;
    }
    assert_only(&tide, &store, &[]).await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A text from anywhere gives an error or a point that is whole, never a panic.
    #[test]
    fn a_changed_text_is_refused_or_whole(at in any::<prop::sample::Index>(), with in any::<char>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let point = runtime.block_on(async {
            let tide = engine();
            let mut writer = store(&tide).writer("k").await.unwrap();
            writer.write_bytes(data(3 * PART + 5)).await.unwrap();
            writer.persist().await.unwrap()
        });
        let mut text: Vec<char> = point.to_json().chars().collect();
        let at = at.index(text.len());
        text[at] = with;
        if let Ok(read) = Resumable::from_json(&text.into_iter().collect::<String>()) {
            prop_assert_eq!(read.size(), point.size());
            prop_assert_eq!(read.checksum(), point.checksum());
        }
    }
}

#[tokio::test]
async fn a_text_with_another_checksum_is_refused() -> Result<()> {
    let tide = engine();
    let mut writer = store(&tide).writer("k").await?;
    writer.write_bytes(data(3 * PART + 5)).await?;
    let point = writer.persist().await?;
    let mut text: serde_json::Value = serde_json::from_str(&point.to_json()).unwrap();
    text["checksum"]["value"] = text["parts"][0]["checksum"]["value"].clone();
    let refused = Resumable::from_json(&text.to_string()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("not that of its parts and its tail"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_session_that_is_opened_early_is_still_the_writers() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let lifetime = std::time::Duration::from_secs(86_400);
    // A process that is killed aborts nothing: another one does so.
    let mut writer = store.writer("k").await?;
    let opened = read(&writer.open_session(lifetime).await?);
    assert_eq!((opened.key(), opened.size(), own_keys(&store).await), ("k", 0, 0));
    assert_eq!(store.sessions("").count().await, 1);
    elsewhere(&store).1.abandon(&opened).await?;
    assert_eq!(store.sessions("").count().await, 0);
    drop(writer);
    // A drop aborts.
    let mut writer = store.writer("k").await?;
    writer.open_session(lifetime).await?;
    drop(writer);
    assert_only(&tide, &store, &[]).await;
    // Its object is published as any other, and the value can't take it back.
    for size in [0, 9, 2 * PART + 3] {
        let mut writer = store.writer("k").await?;
        let opened = writer.open_session(lifetime).await?;
        writer.write_bytes(data(size)).await?;
        assert_eq!(writer.open_session(lifetime).await.is_err(), size > 0);
        let pending = writer.prepare().await?;
        store.commit(&pending).await?;
        assert_eq!(store.abandon(&opened).await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(stored(&store, "k").await, data(size));
        assert_only(&tide, &store, &["k"]).await;
    }
    Ok(())
}
