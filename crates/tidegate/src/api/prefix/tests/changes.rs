//! A series of layouts: no object is lost, and no deleted object comes back.

use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::future::BoxFuture;

use super::late::copied;
use super::*;
use crate::api::prefix::places::Known;
use crate::api::prefix::record::LayoutRecord;
use crate::settings::RetryPolicy;

/// A store with the layout `to`, whose objects were written with the layout `from`.
pub(super) async fn changed(memory: &Memory, from: Layout, to: Layout, keys: &[&str]) -> PrefixedStore {
    let tide = engine();
    let root = root(&tide, memory);
    PrefixedStore::init(&root, from).await.unwrap();
    let store = attentive(&root).await;
    for key in keys {
        write(&store, key, key.as_bytes()).await.unwrap();
    }
    store.change(to).await.unwrap();
    store
}

#[tokio::test]
async fn old_objects_are_found_overwritten_and_removed() {
    let memory = memory();
    let store = changed(&memory, base2(4), base2(64), &["a", "b", "c"]).await;
    assert_eq!((store.layout(), store.older()), (base2(64), Some(base2(4))));
    assert_eq!(read(&store, "a").await.unwrap(), b"a");
    assert_eq!(store.head("b").await.unwrap().key, "b");
    write(&store, "a", b"new").await.unwrap();
    assert_eq!(read(&store, "a").await.unwrap(), b"new");
    assert_eq!(list(&store, "", true).await, ["a", "b", "c"]);
    let sizes: Vec<Entry> = store.list("a").try_collect().await.unwrap();
    assert!(matches!(&sizes[..], [Entry::Object(object)] if object.size == 3), "{sizes:?}");
    for key in ["a", "b"] {
        store.delete(key).await.unwrap();
        assert_eq!(kind(read(&store, key).await), ErrorKind::NotFound, "{key}");
    }
    assert_eq!(list(&store, "", true).await, ["c"]);
}

#[tokio::test]
async fn a_second_change_waits_for_the_first_one_s_migration() {
    let memory = memory();
    let store = changed(&memory, base2(4), base2(64), &["a"]).await;
    let error = store.change(base2(16)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("run `tidegate prefix migrate` first"), "{error}");
    store.change(base2(64)).await.expect("it is so already");
    store.migrate(Duration::ZERO).await.unwrap();
    assert_eq!(store.older(), None);
    store.change(base2(16)).await.unwrap();
    assert_eq!(read(&store, "a").await.unwrap(), b"a");
}

#[tokio::test]
async fn a_migration_moves_all_with_what_they_carry() {
    for copies in [false, true] {
        moves_all_with_what_they_carry(memory_that(copies)).await;
    }
}

async fn moves_all_with_what_they_carry(memory: Memory) {
    let store = changed(&memory, base2(4), Layout::new(Naming::Decimal, 10).unwrap(), &["a", "b"]).await;
    let plain = store.places.store();
    let mut writer = plain
        .writer(format!("{}/c.txt", base2(4).name("c.txt")))
        .metadata("who", "me")
        .start()
        .await
        .unwrap();
    writer.write_bytes(vec![7; 3 * PART].into()).await.unwrap();
    writer.finish().await.unwrap();
    write(&store, "a", b"new").await.unwrap();
    let migrated = store.migrate(Duration::ZERO).await.unwrap();
    assert_eq!((migrated.moved, migrated.bytes, migrated.removed), (2, 3 * PART as u64 + 1, 3));
    assert_eq!(store.older(), None);
    let moved = store.head("c.txt").await.unwrap();
    assert_eq!(moved.attributes.metadata["who"], "me");
    assert_eq!(moved.attributes.content_type.as_deref(), Some("text/plain"));
    assert_eq!(read(&store, "a").await.unwrap(), b"new");
    let left = places(&memory).await;
    assert_eq!(left.iter().filter(|place| !place.contains(".tidegate")).count(), 3, "{left:?}");
    assert_eq!(store.migrate(Duration::ZERO).await.unwrap(), Migrated::default());
}

#[tokio::test]
async fn places_that_both_layouts_share_stay() {
    let memory = memory();
    let layout = |count| Layout::new(Naming::Decimal, count).unwrap();
    let keys: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let store = changed(&memory, layout(4), layout(8), &keys).await;
    let shared = keys.iter().filter(|key| layout(4).name(key) == layout(8).name(key)).count();
    assert!((5..35).contains(&shared));
    let migrated = store.migrate(Duration::ZERO).await.unwrap();
    assert_eq!(migrated.moved, (40 - shared) as u64);
    assert_eq!(list(&store, "", true).await.len(), 40);
    for key in keys {
        assert_eq!(read(&store, key).await.unwrap(), key.as_bytes());
    }
}

#[tokio::test]
async fn an_upload_that_began_before_a_change_is_not_published_where_nobody_looks() {
    let memory = memory();
    let tide = engine();
    let root = root(&tide, &memory);
    PrefixedStore::init(&root, base2(4)).await.unwrap();
    let store = attentive(&root).await;
    let mut writer = store.writer("a").start().await.unwrap();
    writer.write_bytes(vec![7; 2 * PART].into()).await.unwrap();
    while root.sessions("").try_collect::<Vec<_>>().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    store.change(base2(64)).await.unwrap();
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.to_string().contains("laid out anew"), "{error}");
    assert!(tide.settled().await.is_empty());
    assert!(root.sessions("").try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(kind(store.head("a").await), ErrorKind::NotFound);
}

#[tokio::test]
async fn of_two_who_change_it_at_once_one_is_told() {
    let memory = memory();
    let store = changed(&memory, base2(4), base2(8), &[]).await;
    store.migrate(Duration::ZERO).await.unwrap();
    let other = attentive(store.places.store()).await;
    let (one, two) = tokio::join!(store.change(base2(16)), other.change(base2(32)));
    let outcomes = [one.is_ok(), two.is_ok()];
    assert_eq!(outcomes.iter().filter(|is_ok| **is_ok).count(), 1, "{outcomes:?}");
    let Known { number, record, .. } = store.places.latest().await.unwrap();
    let won = if outcomes[0] { 16 } else { 32 };
    assert_eq!((number, record.current, record.older), (6, base2(won), Some(base2(8))));
}

#[tokio::test]
async fn two_migrations_at_once_lose_nothing() {
    let memory = memory();
    let keys: Vec<String> = (0..60).map(|number| format!("k{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let store = changed(&memory, base2(4), base2(32), &keys).await;
    let other = attentive(store.places.store()).await;
    let (one, two) = tokio::join!(store.migrate(Duration::ZERO), other.migrate(Duration::ZERO));
    assert!(one.unwrap().moved + two.unwrap().moved >= 50);
    assert_eq!(list(&store, "", true).await.len(), 60);
    for key in keys {
        assert_eq!(read(&store, key).await.unwrap(), key.as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_migration_gives_notice_before_each_step() {
    let memory = memory();
    let store = changed(&memory, base2(4), base2(8), &["a"]).await;
    let began = tokio::time::Instant::now();
    store.migrate(Duration::from_secs(60)).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 180);
}

/// Runs `act` just before the first request for a place.
pub(super) struct Meanwhile {
    place: String,
    act: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Meanwhile {
    pub(super) fn new(
        below: &Memory,
        place: String,
        act: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Scripted<Self>> {
        Scripted::new(below.clone(), Self { place, act: Mutex::new(Some(Box::pin(act))) })
    }

    async fn meanwhile(&self, key: &str) {
        let act = if key == self.place { self.act.lock().unwrap().take() } else { None };
        if let Some(act) = act {
            act.await;
        }
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

#[async_trait]
impl Script for Meanwhile {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        if let Call::Head { key } | Call::Get { key, .. } = &call {
            self.meanwhile(key).await;
        }
        below.send(call).await
    }
}

#[tokio::test]
async fn an_object_that_is_moved_between_two_looks_is_found() {
    for copies in [false, true] {
        is_found_while_it_is_moved(memory_that(copies)).await;
    }
}

async fn is_found_while_it_is_moved(memory: Memory) {
    let other = changed(&memory, base2(4), base2(64), &["a"]).await;
    let older = format!("root/{}/a", base2(4).name("a"));
    let moving = async move { assert_eq!(other.migrate(Duration::ZERO).await.unwrap().moved, 1) };
    let backend = Meanwhile::new(&memory, older, moving);
    let store = PrefixedStore::open(&engine().store(backend).within("root")).await.unwrap();
    assert_eq!(store.head("a").await.unwrap().size, 1);
    assert_eq!(store.older(), Some(base2(4)), "it has not looked at the record again");
}

#[tokio::test]
async fn an_object_that_is_replaced_while_it_is_moved_is_moved_as_it_is_then() {
    for copies in [false, true] {
        is_moved_as_it_is_when_it_is_replaced(memory_that(copies)).await;
    }
}

async fn is_moved_as_it_is_when_it_is_replaced(memory: Memory) {
    changed(&memory, base2(4), base2(64), &["a"]).await;
    let place = format!("{}/a", base2(4).name("a"));
    let (plain, key) = (root(&engine(), &memory), place.clone());
    let late = async move {
        let mut writer = plain.writer(key).start().await.unwrap();
        writer.write_bytes(Bytes::from_static(b"newer")).await.unwrap();
        writer.finish().await.unwrap();
    };
    let backend = Meanwhile::new(&memory, format!("root/{place}"), late);
    let store = attentive(&engine().store(backend).within("root")).await;
    assert_eq!(store.migrate(Duration::ZERO).await.unwrap().moved, 1);
    assert_eq!(read(&store, "a").await.unwrap(), b"newer");
}

#[tokio::test]
async fn what_is_deleted_while_old_places_are_emptied_is_seen_by_nobody() {
    let memory = memory();
    let store = changed(&memory, base2(4), base2(64), &["a"]).await;
    let other = PrefixedStore::open(store.places.store()).await.unwrap();
    assert_eq!(copied(&store).await, 1);
    let emptying = LayoutRecord { emptying: Some(base2(4)), ..LayoutRecord::new(base2(64)) };
    assert!(store.places.succeed(3, emptying).await.unwrap());
    store.delete("a").await.unwrap();
    // The other client still uses the previous record.
    assert_eq!(other.places.record().older, Some(base2(4)));
    assert_eq!(kind(other.head("a").await), ErrorKind::NotFound);
    assert_eq!(store.migrate(Duration::ZERO).await.unwrap(), Migrated::default());
}

/// A store that publishes slowly.
#[derive(Debug)]
struct Slow(Duration);

#[async_trait]
impl Script for Slow {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        if let Call::Put { .. } = &call {
            tokio::time::sleep(self.0).await;
        }
        below.send(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_takes_longer_than_a_migration_waits_is_not_said_to_be_there() {
    for (time, is_told) in [(Duration::from_secs(20), false), (Duration::from_secs(50), true)] {
        let memory = memory();
        let other = changed(&memory, base2(4), base2(8), &[]).await;
        other.migrate(Duration::ZERO).await.unwrap();
        let slow = Scripted::new(memory.clone(), Slow(time));
        let patience = Duration::from_secs(100);
        let retry = RetryPolicy { patience, least_patience: patience, ..RetryPolicy::default() };
        let tide = Tidegate::builder().retry(retry).build().unwrap();
        let store = PrefixedStore::open(&tide.store(slow).within("root")).await.unwrap();
        let change = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            other.change(base2(64)).await.unwrap();
        };
        let (written, ()) = tokio::join!(write(&store, "a", b"1"), change);
        match is_told {
            true => assert_eq!(kind(written), ErrorKind::Uncertain),
            false => {
                written.unwrap();
                assert_eq!(read(&other, "a").await.unwrap(), b"1");
            }
        }
    }
}
