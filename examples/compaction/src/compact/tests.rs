use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::build::{EntryParameters, build};
use crate::outputs::{SeriesParameters, TableWay};
use crate::samples::{Content, block_on, get, put, replace, store};

fn shape(capacity: u64, sequence: u64) -> SeriesParameters {
    SeriesParameters { capacity, block_size: 150, sequence, stem: "out-".to_owned() }
}

fn content() -> impl Strategy<Value = Content> {
    btree_map(vec(0u8..4, 0..4), proptest::option::of(vec(any::<u8>(), 0..30)), 0..60)
}

/// The entries that a reader of these tables sees, tombstones included; the oldest table comes first.
fn overlaid<'a>(tables: impl IntoIterator<Item = &'a Content>) -> Content {
    tables.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn outputs_are_what_a_model_has(
        tables in vec(content(), 1..6),
        kept_aside in any::<bool>(),
        streamed in any::<bool>(),
        capacity in 200u64..2000,
    ) {
        block_on(async {
            let store = store().await;
            let (from, to) = (store.within("from"), store.within("to"));
            for (number, content) in tables.iter().enumerate() {
                put(&from, &format!("{number}.table"), number as u64, 100, content).await.unwrap();
            }
            // The oldest table is an input or stays aside.
            let kept_aside = kept_aside && tables.len() > 1;
            let first = usize::from(kept_aside);
            let named: Vec<_> = (first..tables.len()).map(|number| format!("{number}.table")).collect();
            let (inputs, others) = open(&from, &named).await.unwrap();
            let summaries: Vec<_> = inputs.iter().map(TableReader::summary).collect();
            let plan = MergePlan::new(&summaries, &others).unwrap();
            let (reading, way) = match streamed {
                true => (InputReading::Streamed, TableWay::Streamed),
                false => (InputReading::Whole, TableWay::Whole),
            };
            let mut outputs = Outputs::new(to.clone(), shape(capacity, plan.sequence), way);
            let compacted = compact(&inputs, &plan, reading, &mut outputs).await.unwrap();
            let mut read = Vec::new();
            for table in outputs.finish().await.unwrap() {
                read.extend(get(&to, &table.key).await.unwrap());
            }
            let merged = overlaid(&tables[first..]);
            let hides = |key: &Vec<u8>| kept_aside && tables[0].keys().next() <= Some(key) && Some(key) <= tables[0].keys().next_back();
            let mut expected = merged.clone();
            expected.retain(|key, value| value.is_some() || hides(key));
            let entries: usize = tables[first..].iter().map(Content::len).sum();
            prop_assert_eq!(compacted, Compacted {
                entries_in: entries as u64,
                entries_out: expected.len() as u64,
                superseded: (entries - merged.len()) as u64,
                tombstones_dropped: (merged.len() - expected.len()) as u64,
            });
            prop_assert_eq!(read, expected.into_iter().collect::<Vec<_>>());
            Ok(())
        })?;
    }
}

#[test]
fn a_damaged_input_ends_it_and_nothing_of_it_stays() {
    block_on(async {
        let store = store().await;
        let (from, to) = (store.within("from"), store.within("to"));
        for sequence in 0..2 {
            let content = (0..2000u32).map(|key| (key.to_be_bytes().to_vec(), Some(vec![7; 50]))).collect();
            put(&from, &format!("{sequence}.table"), sequence, 1000, &content).await.unwrap();
        }
        let mut bytes = crate::samples::bytes(&from, "0.table").await;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 16;
        replace(&from, "0.table", bytes).await;
        let (inputs, others) = open(&from, &[]).await.unwrap();
        let summaries: Vec<_> = inputs.iter().map(TableReader::summary).collect();
        let plan = MergePlan::new(&summaries, &others).unwrap();
        let mut outputs = Outputs::new(to.clone(), shape(5000, 1), TableWay::Streamed);
        let error = compact(&inputs, &plan, InputReading::Streamed, &mut outputs).await.unwrap_err();
        let error = outputs.abandon(error).await;
        assert!(matches!(&error, CompactionError::Damaged { table, .. } if table == "0.table"), "{error}");
        assert!(to.list("").try_collect::<Vec<_>>().await.unwrap().is_empty());
    });
}

#[test]
fn made_runs_are_merged_under_a_small_budget() {
    block_on(async {
        let store = store().await;
        let (from, to) = (store.within("from"), store.within("to"));
        let mut entries = 0;
        for sequence in 1..=6 {
            let stem = format!("{sequence}-");
            let mut outputs = Outputs::new(
                from.clone(),
                SeriesParameters { stem, ..shape(400_000, sequence) },
                TableWay::Streamed,
            );
            let made =
                EntryParameters { size: 1 << 20, value: 300, apart: 4, tombstones: 10, seed: sequence };
            entries += build(&made, &mut outputs).await.unwrap().entries;
            assert!(outputs.finish().await.unwrap().len() >= 2);
        }
        let (inputs, others) = open(&from, &[]).await.unwrap();
        let summaries: Vec<_> = inputs.iter().map(TableReader::summary).collect();
        let plan = MergePlan::new(&summaries, &others).unwrap();
        let mut outputs = Outputs::new(to.clone(), shape(300_000, plan.sequence), TableWay::Streamed);
        let compacted = compact(&inputs, &plan, InputReading::Streamed, &mut outputs).await.unwrap();
        let written = outputs.finish().await.unwrap();
        assert_eq!(compacted.entries_in, entries);
        let (superseded, dropped) = (compacted.superseded, compacted.tombstones_dropped);
        assert!(superseded > 0 && dropped > 0, "{compacted:?}");
        assert_eq!(compacted.entries_out, entries - superseded - dropped);
        assert!(written.len() > 10);
    });
}

#[test]
fn a_name_that_is_not_there_is_refused() {
    block_on(async {
        let store = store().await;
        put(&store, "a.table", 1, 100, &Content::new()).await.unwrap();
        let refused = open(&store, &["b.table".to_owned()]).await.unwrap_err();
        assert!(refused.to_string().contains("no table b.table in memory://tables"), "{refused}");
    });
}
