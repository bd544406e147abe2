//! While layouts change and migrations stop anywhere, a prefixed store behaves like a sorted map.

use std::collections::BTreeMap;

use futures::StreamExt;
use proptest::prelude::*;
use tokio::task::JoinHandle;

use super::gate::Gate;
use super::paged::Paged;
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    Create(usize, u8),
    Delete(usize),
    Read(usize),
    /// Lists the keys with this prefix; after so many entries, the current migration makes so many requests.
    List(&'static str, bool, usize, usize),
    Change(Layout),
    /// Begins a migration unless one is under way, and lets it make so many requests.
    Migrate(usize),
    /// Kills the process that migrates.
    Kill,
}

const KEYS: [&str; 9] = ["a", "b/1", "b/2", "b/2/x", "c", "1.data", "2.data", "d/e/f", "d.g"];

fn layout() -> impl Strategy<Value = Layout> {
    let layout = |(naming, count)| Layout::new(naming, count).unwrap();
    prop_oneof![
        prop::sample::select(vec![1, 2, 4, 32]).prop_map(|count| (Naming::Base2, count)),
        prop::sample::select(vec![1, 3, 10]).prop_map(|count| (Naming::Decimal, count)),
        prop::sample::select(vec![2, 7]).prop_map(|count| (Naming::DecimalId, count)),
    ]
    .prop_map(layout)
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, byte)| Step::Write(key, byte)),
        2 => (key.clone(), any::<u8>()).prop_map(|(key, byte)| Step::Create(key, byte)),
        3 => key.clone().prop_map(Step::Delete),
        2 => key.prop_map(Step::Read),
        3 => (prop::sample::select(vec!["", "b", "b/", "d"]), any::<bool>(), 0usize..6, 0usize..200)
            .prop_map(|(prefix, recursive, given, requests)| Step::List(prefix, recursive, given, requests)),
        2 => layout().prop_map(Step::Change),
        5 => (1usize..60).prop_map(Step::Migrate),
        1 => Just(Step::Kill),
    ]
}

type Migration = Option<(Gate, JoinHandle<Result<Migrated>>)>;

/// Lets the migration make `requests` requests, and run until it waits at the gate again, or has ended.
async fn proceed(migration: &mut Migration, requests: usize) {
    let Some((gate, task)) = migration else { return };
    gate.open(requests);
    let mut still = 0;
    while still < 100 {
        still = if task.is_finished() || gate.is_closed() { still + 1 } else { 0 };
        tokio::task::yield_now().await;
    }
    if task.is_finished()
        && let Some((_, task)) = migration.take()
    {
        task.await.unwrap().unwrap();
    }
}

/// The expected listing of these keys.
fn shown(map: &BTreeMap<&'static str, Vec<u8>>, prefix: &str, recursive: bool) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for key in map.keys().filter(|key| key.starts_with(prefix)) {
        let name = match key[prefix.len()..].find('/') {
            Some(slash) if !recursive => format!("{}…", &key[..=prefix.len() + slash]),
            _ => (*key).to_owned(),
        };
        if shown.last() != Some(&name) {
            shown.push(name);
        }
    }
    shown
}

async fn run(copies: bool, first: Layout, steps: Vec<Step>) {
    let (tide, memory) = (engine(), memory_that(copies));
    let root = tide.store(Paged::over(Arc::new(memory.clone()))).within("root");
    PrefixedStore::init(&root, first).await.unwrap();
    let store = attentive(&root).await;
    let mut map = BTreeMap::new();
    let mut migration: Migration = None;
    for step in steps {
        match step {
            Step::Write(key, byte) => {
                write(&store, KEYS[key], &[byte]).await.unwrap();
                map.insert(KEYS[key], vec![byte]);
            }
            Step::Create(key, byte) => {
                let created = create(&store, KEYS[key], &[byte]).await;
                match map.contains_key(KEYS[key]) {
                    true => assert_eq!(kind(created), ErrorKind::AlreadyExists),
                    false => {
                        created.unwrap();
                        map.insert(KEYS[key], vec![byte]);
                    }
                }
            }
            Step::Delete(key) => {
                store.delete(KEYS[key]).await.unwrap();
                map.remove(KEYS[key]);
            }
            Step::Read(key) => match (read(&store, KEYS[key]).await, map.get(KEYS[key])) {
                (Ok(bytes), Some(expected)) => assert_eq!(bytes, *expected, "{}", KEYS[key]),
                (Err(error), None) => assert_eq!(error.kind(), ErrorKind::NotFound),
                (found, expected) => panic!("{}: {found:?} where {expected:?} was written", KEYS[key]),
            },
            Step::List(prefix, recursive, given, requests) => {
                let mut entries = store.list(prefix).recursive(recursive);
                let mut listed: Vec<Entry> = entries.by_ref().take(given).try_collect().await.unwrap();
                proceed(&mut migration, requests).await;
                listed.extend(entries.try_collect::<Vec<_>>().await.unwrap());
                assert_eq!(names(listed), shown(&map, prefix, recursive));
            }
            Step::Change(layout) => {
                let record = store.places.latest().await.unwrap().record;
                let changed = store.change(layout).await;
                match record.current == layout || record.before().is_none() {
                    true => changed.unwrap(),
                    false => assert_eq!(kind(changed), ErrorKind::InvalidInput),
                }
            }
            Step::Migrate(requests) => {
                migration.get_or_insert_with(|| {
                    let gate = Gate::new();
                    let root = engine().store(Paged::over(gate.before(memory.clone()))).within("root");
                    let migrate = async move { attentive(&root).await.migrate(Duration::ZERO).await };
                    (gate, tokio::spawn(migrate))
                });
                proceed(&mut migration, requests).await;
            }
            Step::Kill => {
                if let Some((_, task)) = migration.take() {
                    task.abort();
                    assert!(task.await.is_err());
                }
            }
        }
    }
    if let Some((gate, task)) = migration {
        gate.open(1_000_000);
        task.await.unwrap().unwrap();
    }
    store.migrate(Duration::ZERO).await.unwrap();
    for (key, expected) in &map {
        assert_eq!(read(&store, key).await.unwrap(), *expected, "{key}");
    }
    // Every object is only where the last layout places it.
    let mut expected: Vec<String> = map.keys().map(|key| format!("root/{}", store.place(key))).collect();
    expected.sort();
    let found = places(&memory).await.into_iter().filter(|place| !place.contains(".tidegate-"));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_sorted_map_whatever_its_layout(
        copies in any::<bool>(),
        first in layout(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(run(copies, first, steps));
    }
}
