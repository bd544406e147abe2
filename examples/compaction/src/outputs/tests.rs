use tidegate::backend::Entry as Listed;

use super::*;
use crate::samples::{Content, block_on, get, put, store};

const WAYS: [TableWay; 3] = [TableWay::Streamed, TableWay::Whole, TableWay::Beside];

fn shape(capacity: u64) -> SeriesParameters {
    SeriesParameters { capacity, block_size: 200, sequence: 4, stem: "out-".to_owned() }
}

fn entries(count: u32) -> impl Iterator<Item = TableEntry> {
    (0..count).map(|number| {
        TableEntry::new(format!("{number:06}").as_bytes(), (number % 7 > 0).then_some(&[number as u8; 30]))
    })
}

async fn keys(store: &Store) -> Vec<String> {
    use futures::TryStreamExt;
    let listed: Vec<_> = store.list("").try_collect().await.unwrap();
    let key = |entry| match entry {
        Listed::Object(object) => Some(object.key),
        _ => None,
    };
    listed.into_iter().filter_map(key).collect()
}

#[test]
fn tables_have_their_capacity_and_all_entries_in_every_way() {
    block_on(async {
        let mut bytes = Vec::new();
        for way in WAYS {
            let store = store().await;
            let mut outputs = Outputs::new(store.clone(), shape(3000), way);
            for entry in entries(1000) {
                outputs.add(&entry).await.unwrap();
            }
            let said = outputs.size();
            let written = outputs.finish().await.unwrap();
            let sizes: Vec<_> = written.iter().map(|table| table.size).collect();
            assert!(
                sizes.len() > 9 && sizes[..sizes.len() - 1].iter().all(|size| (3000..3300).contains(size)),
                "{sizes:?}"
            );
            assert_eq!(said, sizes.iter().sum::<u64>());
            let mut read = Vec::new();
            for table in &written {
                read.extend(get(&store, &table.key).await.unwrap());
                bytes.push(crate::samples::bytes(&store, &table.key).await);
            }
            let expected: Vec<_> = entries(1000)
                .map(|entry| (entry.key().to_vec(), entry.value().map(<[u8]>::to_vec)))
                .collect();
            assert_eq!(read, expected);
        }
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        assert!(rest.chunks(first.len()).all(|other| other == first), "the same bytes in every way");
    });
}

#[test]
fn without_entries_there_is_no_table() {
    block_on(async {
        for way in WAYS {
            let store = store().await;
            assert_eq!(Outputs::new(store.clone(), shape(1), way).finish().await.unwrap(), []);
            assert!(keys(&store).await.is_empty());
        }
    });
}

#[test]
fn what_is_abandoned_is_removed_and_nothing_else() {
    block_on(async {
        for way in WAYS {
            let store = store().await;
            put(&store, "out-000003.table", 1, 10, &Content::new()).await.unwrap();
            let mut outputs = Outputs::new(store.clone(), shape(1000), way);
            let mut failed = None;
            for entry in entries(1000) {
                if let Err(error) = outputs.add(&entry).await {
                    failed = Some(error);
                    break;
                }
            }
            let failed = failed.expect("its fourth table is there already");
            assert!(!keys(&store).await.is_empty());
            let error = outputs.abandon(failed).await;
            assert!(
                matches!(&error, CompactionError::Store(error) if error.kind() == tidegate::ErrorKind::AlreadyExists),
                "{error}"
            );
            assert_eq!(keys(&store).await, ["out-000003.table"]);
        }
    });
}

#[test]
fn tables_of_another_shape_are_finished_or_abandoned_with_the_others() {
    block_on(async {
        for way in WAYS {
            let store = store().await;
            let made = async || {
                let mut outputs = Outputs::new(store.clone(), shape(1000), way);
                outputs.add(&TableEntry::new(b"a", None)).await.unwrap();
                outputs.reshape(SeriesParameters { stem: "next-".to_owned(), ..shape(1000) }).await.unwrap();
                outputs.add(&TableEntry::new(b"a", None)).await.unwrap();
                outputs
            };
            let error = CompactionError::Refused("enough".to_owned());
            assert_eq!(made().await.abandon(error).await.to_string(), "enough");
            assert!(keys(&store).await.is_empty());
            let written = made().await.finish().await.unwrap();
            let written: Vec<_> = written.iter().map(|table| table.key.as_str()).collect();
            assert_eq!(written, ["next-000000.table", "out-000000.table"]);
            assert_eq!(keys(&store).await, written);
        }
    });
}

#[test]
fn entries_out_of_order_are_refused_in_every_way() {
    block_on(async {
        for way in WAYS {
            let mut outputs = Outputs::new(store().await, shape(1000), way);
            outputs.add(&TableEntry::new(b"b", None)).await.unwrap();
            let refused = outputs.add(&TableEntry::new(b"a", None)).await.unwrap_err();
            assert!(
                matches!(&refused, CompactionError::Entry { table, .. } if table == "out-000000.table"),
                "{refused}"
            );
        }
    });
}
