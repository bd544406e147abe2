//! Slow operations during which the layout changes: a slow listing, a delayed migration.

use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::changes::{Meanwhile, changed};
use super::paged::Paged;
use super::*;
use crate::Progress;
use crate::api::prefix::migrate::MigrationStep;
use crate::api::prefix::places::Known;
use crate::api::prefix::record::LayoutRecord;
use crate::backend::Listing;
use crate::settings::RetryPolicy;

/// Copies all objects that a migration must move, but does not update the record.
pub(super) async fn copied(store: &PrefixedStore) -> u64 {
    let Known { number, record, .. } = store.places.latest().await.unwrap();
    let step = MigrationStep { places: store.places.clone(), number, record };
    let mut done = Migrated::default();
    while done.moved_all(step.moves()).await.unwrap() > 0 {}
    done.moved
}

/// A store whose objects have been copied from four prefixes to 64, and must still be removed from the four.
async fn emptying(memory: &Memory) -> PrefixedStore {
    let store = changed(memory, base2(4), base2(64), &["a"]).await;
    copied(&store).await;
    let record = LayoutRecord { emptying: Some(base2(4)), ..LayoutRecord::new(base2(64)) };
    assert!(store.places.succeed(3, record).await.unwrap());
    store
}

/// The key of the object `a` under four prefixes.
fn older_place() -> String {
    format!("root/{}/a", base2(4).name("a"))
}

/// Ends the migration, changes back to four prefixes, and writes there.
async fn overtake(other: PrefixedStore, notice: Duration) {
    other.migrate(notice).await.unwrap();
    other.change(base2(4)).await.unwrap();
    write(&other, "a", b"newer").await.unwrap();
}

/// Asserts, after every late operation has ended, that the object is the newest one.
async fn is_newer(memory: &Memory) {
    let reader = attentive(&root(&engine(), memory)).await;
    assert_eq!(String::from_utf8(read(&reader, "a").await.unwrap()).unwrap(), "newer");
}

#[tokio::test(start_paused = true)]
async fn a_listing_misses_none_that_is_moved_while_it_is_under_way() {
    let keys: Vec<String> = (0..100).map(|number| format!("k{number:04}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).filter(|key| base2(4).name(key) == "00").collect();
    let keys = &keys[..6];
    for given in 0..=keys.len() {
        let memory = memory();
        let other = changed(&memory, base2(4), base2(64), keys).await;
        let backend = Paged::over(Arc::new(memory.clone()));
        let store = PrefixedStore::open(&engine().store(backend).within("root")).await.unwrap();
        let mut listing = store.list("");
        let mut listed = Vec::new();
        loop {
            if listed.len() == given && other.older().is_some() {
                // As the command does: with all the time that clients need to see the new layout.
                let migrated = other.migrate(2 * PrefixedStore::REFRESH).await.unwrap();
                assert_eq!(migrated.moved, 6);
            }
            match listing.try_next().await.unwrap() {
                Some(Entry::Object(object)) => listed.push(object.key),
                Some(other) => panic!("{other:?}"),
                None => break,
            }
        }
        assert_eq!(listed, keys, "the layout was another after {given}");
    }
}

/// Runs `act` just before the first listing of one prefix.
struct LateList {
    prefix: String,
    act: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl fmt::Debug for LateList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateList")
    }
}

impl Script for LateList {
    fn list(&self, below: &Arc<dyn Backend>, prefix: &str, recursive: bool) -> Listing<Entry> {
        let act = if prefix == self.prefix { self.act.lock().unwrap().take() } else { None };
        let (below, prefix) = (below.clone(), prefix.to_owned());
        let listed = async move {
            if let Some(act) = act {
                act.await;
            }
            below.list(&prefix, recursive)
        };
        futures::stream::once(listed).flatten().boxed().into()
    }
}

#[tokio::test]
async fn a_migration_that_is_late_removes_nothing_that_was_written_under_a_later_layout() {
    let memory = memory();
    let other = emptying(&memory).await;
    let prefix = format!("root/{}/", base2(4).name("a"));
    let act = Mutex::new(Some(overtake(other, Duration::ZERO).boxed()));
    let backend = Scripted::new(memory.clone(), LateList { prefix, act });
    let store = attentive(&engine().store(backend.clone()).within("root")).await;
    store.migrate(Duration::ZERO).await.unwrap();
    assert!(backend.act.lock().unwrap().is_none(), "it was late");
    is_newer(&memory).await;
}

#[tokio::test]
async fn a_migration_that_is_late_copies_nothing_to_where_a_later_layout_does_not_look() {
    for copies in [false, true] {
        copies_nothing_when_it_is_late(memory_that(copies)).await;
    }
}

async fn copies_nothing_when_it_is_late(memory: Memory) {
    let other = changed(&memory, base2(4), base2(64), &["a"]).await;
    let overtaken = async move {
        overtake(other.clone(), Duration::ZERO).await;
        other.migrate(Duration::ZERO).await.unwrap();
    };
    let backend = Meanwhile::new(&memory, older_place(), overtaken);
    let store = attentive(&engine().store(backend).within("root")).await;
    store.migrate(Duration::ZERO).await.unwrap();
    is_newer(&memory).await;
    let left = places(&memory).await;
    assert_eq!(left.iter().filter(|place| place.ends_with("/a")).count(), 1, "{left:?}");
}

/// The fate of the first removal.
enum Removal {
    /// The removal fails after this future has run, and may be retried.
    Fails(BoxFuture<'static, ()>),
    /// The removal takes this long.
    Takes(Duration),
    /// The store throttles the removal.
    IsRefused,
}

struct LateDelete {
    first: Mutex<Option<Removal>>,
}

impl LateDelete {
    fn new(below: &Memory, first: Removal) -> Arc<Scripted<Self>> {
        Scripted::new(below.clone(), Self { first: Mutex::new(Some(first)) })
    }
}

impl fmt::Debug for LateDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateDelete")
    }
}

#[async_trait]
impl Script for LateDelete {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let Call::Delete { .. } = &call else { return below.send(call).await };
        let first = self.first.lock().unwrap().take();
        match first {
            Some(Removal::Fails(act)) => {
                act.await;
                return Err(Fault::new(FaultKind::Undone, "not now"));
            }
            Some(Removal::Takes(time)) => tokio::time::sleep(time).await,
            Some(Removal::IsRefused) => return Err(Fault::new(FaultKind::Throttled, "slow down")),
            None => {}
        }
        below.send(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_is_not_tried_again_under_a_later_layout() {
    let memory = memory();
    let other = emptying(&memory).await;
    let backend = LateDelete::new(&memory, Removal::Fails(overtake(other, Duration::ZERO).boxed()));
    let store = attentive(&engine().store(backend).within("root")).await;
    store.migrate(Duration::ZERO).await.unwrap();
    is_newer(&memory).await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_is_on_its_way_ends_before_the_next_layout() {
    let (memory, notice) = (memory(), 2 * PrefixedStore::REFRESH);
    let other = emptying(&memory).await;
    let backend = LateDelete::new(&memory, Removal::Takes(Duration::from_secs(50)));
    let patience = Duration::from_secs(100);
    let retry = RetryPolicy { patience, least_patience: patience, ..RetryPolicy::default() };
    let tide = Tidegate::builder().retry(retry).build().unwrap();
    let store = PrefixedStore::open(&tide.store(backend).within("root")).await.unwrap();
    let late = async {
        // The notice of the other migration has almost ended, so both remove at the same time.
        tokio::time::sleep(notice - Duration::from_secs(1)).await;
        store.migrate(Duration::ZERO).await.unwrap();
    };
    tokio::join!(late, overtake(other, notice));
    is_newer(&memory).await;
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_refuses_removals_slows_down_no_other() {
    let memory = memory();
    emptying(&memory).await;
    let root = engine().store(LateDelete::new(&memory, Removal::IsRefused)).within("root");
    assert_eq!(attentive(&root).await.migrate(Duration::ZERO).await.unwrap().removed, 1);
    let (endpoint, ever) =
        (root.context().requests("", Progress::default()).endpoint, Duration::from_secs(3600));
    let lane = endpoint.lanes.lane(&format!("memory://m/root/{}", base2(4).name("a")));
    assert!(lane.was_refused(ever) && !endpoint.limiter.was_overloaded(ever));
}

#[tokio::test]
async fn a_layout_is_not_changed_while_removals_may_be_on_their_way() {
    let memory = memory();
    let store = emptying(&memory).await;
    let emptied = LayoutRecord { emptied: Some(base2(4)), ..LayoutRecord::new(base2(64)) };
    assert!(store.places.succeed(4, emptied).await.unwrap());
    assert_eq!(store.older(), Some(base2(4)));
    let error = store.change(base2(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("run `tidegate prefix migrate` first"), "{error}");
    store.migrate(Duration::ZERO).await.unwrap();
    store.change(base2(4)).await.unwrap();
}
