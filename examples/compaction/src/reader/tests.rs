use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::samples::{Content, block_on, bytes, get, put, replace, store};

fn content() -> impl Strategy<Value = Content> {
    btree_map(vec(any::<u8>(), 0..8), proptest::option::of(vec(any::<u8>(), 0..60)), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(content in content(), block_size in 1usize..400) {
        block_on(async {
            let store = store().await;
            put(&store, "t", 3, block_size, &content).await.unwrap();
            let table = TableReader::open(&store, store.head("t").await.unwrap()).await.unwrap();
            prop_assert_eq!(table.len(), content.len() as u64);
            let expected: Vec<_> = content.into_iter().collect();
            prop_assert_eq!(&get(&store, "t").await.unwrap(), &expected);
            let whole: Vec<TableEntry> = table.whole().await.unwrap().try_collect().await.unwrap();
            let whole: Vec<_> = whole.iter().map(|entry| (entry.key().to_vec(), entry.value().map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(whole, expected);
            Ok(())
        })?;
    }

    #[test]
    fn a_flipped_bit_is_an_error(content in content(), at: prop::sample::Index, bit in 0u8..8, block_size in 1usize..400) {
        block_on(async {
            let store = store().await;
            put(&store, "t", 3, block_size, &content).await.unwrap();
            let mut bytes = bytes(&store, "t").await;
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            replace(&store, "t", bytes).await;
            let error = get(&store, "t").await.unwrap_err();
            prop_assert!(matches!(error, CompactionError::Damaged { .. }), "{}", error);
            Ok(())
        })?;
    }

    #[test]
    fn another_length_is_an_error(content in content(), cut in 1usize..60, block_size in 1usize..400) {
        block_on(async {
            let store = store().await;
            put(&store, "t", 3, block_size, &content).await.unwrap();
            let bytes = bytes(&store, "t").await;
            // The table's end is intact, but bytes at its beginning are missing or repeated.
            for other in [bytes[cut.min(bytes.len())..].to_vec(), [&bytes[..cut.min(bytes.len())], &bytes[..]].concat()] {
                replace(&store, "t", other).await;
                let error = get(&store, "t").await.unwrap_err();
                prop_assert!(matches!(error, CompactionError::Damaged { .. }), "{}", error);
            }
            Ok(())
        })?;
    }
}

/// The error for a table whose blocks, index and footer have correct checksums but contradict each other.
async fn forged(entries: &[(&str, &str)], first: &str, last: &str, count: u64) -> CompactionError {
    let mut table = Vec::new();
    for (key, value) in entries {
        BlockEntries::add(&mut table, key.as_bytes(), Some(value.as_bytes()));
    }
    BlockEntries::seal(&mut table);
    let mut index = TableIndex::begin(first.as_bytes());
    TableIndex::add(&mut index, table.len(), last.as_bytes());
    BlockEntries::seal(&mut index);
    table.extend_from_slice(&index);
    Footer { index: index.len() as u32, blocks: 1, entries: count, sequence: 1 }.write(&mut table);
    let store = store().await;
    replace(&store, "t", table).await;
    get(&store, "t").await.unwrap_err()
}

#[test]
fn parts_of_a_table_that_do_not_fit_each_other_are_an_error() {
    block_on(async {
        let entries = [("a", "1"), ("b", "2"), ("c", "3")];
        let order = "table t: block 0: a key is not in its place in the order";
        assert_eq!(forged(&entries, "0", "c", 3).await.to_string(), order);
        assert_eq!(forged(&entries, "a", "d", 3).await.to_string(), order);
        assert_eq!(forged(&[("a", "1"), ("c", "2"), ("b", "3")], "a", "c", 3).await.to_string(), order);
        assert_eq!(forged(&[("a", "1"), ("a", "2")], "a", "a", 2).await.to_string(), order);
        let count = "there are not as many blocks or entries as the footer says";
        assert_eq!(forged(&entries, "a", "c", 4).await.to_string(), format!("table t: as a whole: {count}"));
        assert_eq!(forged(&entries, "a", "c", 2).await.to_string(), format!("table t: block 0: {count}"));
    });
}

#[test]
fn an_error_is_the_last_that_it_gives() {
    block_on(async {
        let store = store().await;
        let content: Content = (0..100u8).map(|key| (vec![key], Some(vec![key; 20]))).collect();
        put(&store, "t", 1, 100, &content).await.unwrap();
        let mut bytes = bytes(&store, "t").await;
        bytes[1000] ^= 1;
        replace(&store, "t", bytes).await;
        let table = TableReader::open(&store, store.head("t").await.unwrap()).await.unwrap();
        let entries: Vec<_> = table.entries().await.unwrap().collect().await;
        let (last, before) = entries.split_last().unwrap();
        assert!(last.is_err() && !before.is_empty() && before.iter().all(Result::is_ok));
    });
}

#[test]
fn an_index_beyond_the_tail_is_read_as_well() {
    block_on(async {
        let store = store().await;
        let key = |number: u32| format!("{number:0100}").into_bytes();
        let content: Content = (0..2000).map(|number| (key(number), Some(Vec::new()))).collect();
        put(&store, "t", 1, 1, &content).await.unwrap();
        let expected: Vec<_> = content.into_iter().collect();
        assert_eq!(get(&store, "t").await.unwrap(), expected);
    });
}

#[test]
fn a_table_that_was_replaced_since_is_an_error() {
    block_on(async {
        let store = store().await;
        let content: Content = (0..9u8).map(|key| (vec![key], None)).collect();
        put(&store, "t", 1, 10, &content).await.unwrap();
        let object = store.head("t").await.unwrap();
        let table = TableReader::open(&store, object.clone()).await.unwrap();
        let again = bytes(&store, "t").await.iter().chain(b"!").copied().collect();
        replace(&store, "t", again).await;
        for error in [table.entries().await.err(), TableReader::open(&store, object).await.err()] {
            assert!(
                matches!(&error, Some(CompactionError::Store(error)) if error.kind() == tidegate::ErrorKind::Replaced),
                "{error:?}"
            );
        }
    });
}
