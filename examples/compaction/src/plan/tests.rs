use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

type Content = BTreeMap<u8, Option<u8>>;

fn summary(number: usize, sequence: u64, content: &Content) -> TableSummary {
    let key = |key: &u8| Bytes::copy_from_slice(&[*key]);
    let keys = content.keys().next().zip(content.keys().next_back()).map(|(a, b)| (key(a), key(b)));
    TableSummary { key: format!("table-{number}"), sequence, keys }
}

fn table(key: &str, sequence: u64, first: &'static str, last: &'static str) -> TableSummary {
    TableSummary { key: key.to_owned(), sequence, keys: Some((first.into(), last.into())) }
}

/// The keys and values that a reader of all these tables sees.
fn seen<'a>(tables: impl IntoIterator<Item = (u64, &'a Content)>) -> BTreeMap<u8, u8> {
    let mut newest: BTreeMap<u8, (u64, Option<u8>)> = BTreeMap::new();
    for (sequence, content) in tables {
        for (key, value) in content {
            let entry = newest.entry(*key).or_insert((sequence, *value));
            if sequence >= entry.0 {
                *entry = (sequence, *value);
            }
        }
    }
    newest.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect()
}

/// Merges in the same way as a compaction.
fn merged(plan: &MergePlan, inputs: &[&Content]) -> Content {
    let mut merged = Content::new();
    for input in &plan.order {
        for (key, value) in inputs[*input] {
            merged.entry(*key).or_insert(*value);
        }
    }
    merged.retain(|key, value| value.is_some() || !plan.may_drop(&[*key]));
    merged
}

/// Tables with narrow key ranges, so that some do not overlap.
fn narrow() -> impl Strategy<Value = Content> {
    let content = btree_map(0u8..8, proptest::option::of(any::<u8>()), 0..6);
    (0u8..24, content)
        .prop_map(|(first, content)| content.into_iter().map(|(key, value)| (first + key, value)).collect())
}

proptest! {
    /// After any merge that a plan allows, readers see the same as before.
    #[test]
    fn a_compaction_changes_nothing_that_is_read(
        drawn in vec((0u64..8, narrow(), any::<bool>()), 1..8),
    ) {
        let mut tables: Vec<(u64, Content, bool)> = Vec::new();
        for table in drawn {
            // Tables with the same sequence belong to one run.
            let is_apart = |other: &(u64, Content, bool)| {
                other.0 != table.0 || !summary(0, other.0, &other.1).overlaps(&summary(0, table.0, &table.1))
            };
            if tables.iter().all(is_apart) {
                tables.push(table);
            }
        }
        let part = |takes: bool| {
            tables.iter().enumerate().filter(move |(_, table)| table.2 == takes)
        };
        let summaries = |takes| part(takes).map(|(number, table)| summary(number, table.0, &table.1)).collect::<Vec<_>>();
        if let Ok(plan) = MergePlan::new(&summaries(true), &summaries(false)) {
            let inputs: Vec<_> = part(true).map(|(_, table)| &table.1).collect();
            let output = merged(&plan, &inputs);
            let after = part(false).map(|(_, table)| (table.0, &table.1)).chain([(plan.sequence, &output)]);
            prop_assert_eq!(seen(after), seen(tables.iter().map(|table| (table.0, &table.1))));
        }
    }

    #[test]
    fn where_all_take_part_every_tombstone_goes(
        tables in vec(btree_map(0u8..30, proptest::option::of(any::<u8>()), 0..6), 1..8),
    ) {
        let all: Vec<_> = tables.iter().enumerate().map(|(number, table)| summary(number, number as u64, table)).collect();
        let plan = MergePlan::new(&all, &[]).unwrap();
        let output = merged(&plan, &tables.iter().collect::<Vec<_>>());
        prop_assert!(output.values().all(Option::is_some));
    }
}

#[test]
fn newest_comes_first_and_gives_the_sequence() {
    let plan =
        MergePlan::new(&[table("a", 3, "a", "z"), table("b", 7, "a", "z"), table("c", 5, "a", "z")], &[])
            .unwrap();
    assert_eq!((plan.sequence, plan.order), (7, vec![1, 2, 0]));
}

#[test]
fn a_tombstone_stays_where_an_older_table_may_have_its_key() {
    let inputs = [table("a", 5, "a", "m"), table("b", 6, "a", "m")];
    let plan = MergePlan::new(&inputs, &[table("old", 2, "c", "e"), table("new", 9, "a", "z")]).unwrap();
    assert_eq!(
        ["b", "c", "d", "e", "f"].map(|key| plan.may_drop(key.as_bytes())),
        [true, false, false, false, true]
    );
}

#[test]
fn a_table_between_the_inputs_is_refused() {
    let inputs = [table("a", 1, "a", "m"), table("b", 6, "a", "z")];
    let refused = MergePlan::new(&inputs, &[table("between", 3, "k", "p")]).unwrap_err().to_string();
    assert!(refused.contains("between") && refused.contains("what is in a"), "{refused}");
    // The table has no key in common with the older input.
    assert!(MergePlan::new(&inputs, &[table("beside", 3, "n", "p")]).is_ok());
    // The table is newer than all inputs.
    assert!(MergePlan::new(&inputs, &[table("newer", 7, "a", "z")]).is_ok());
}

#[test]
fn tables_of_one_sequence_are_of_one_run() {
    assert!(MergePlan::new(&[table("a", 1, "a", "m"), table("b", 1, "n", "z")], &[]).is_ok());
    let refused = MergePlan::new(&[table("a", 1, "a", "m"), table("b", 1, "m", "z")], &[]).unwrap_err();
    assert!(refused.to_string().contains("a and b have keys in common"), "{refused}");
    assert!(MergePlan::new(&[table("a", 1, "a", "m")], &[table("b", 1, "m", "z")]).is_err());
    // The content of `a` would become as new as `c`.
    let inputs = [table("a", 1, "a", "m"), table("b", 6, "n", "z")];
    assert!(MergePlan::new(&inputs, &[table("c", 6, "c", "d")]).is_err());
}

#[test]
fn without_inputs_there_is_no_plan() {
    assert!(matches!(MergePlan::new(&[], &[]), Err(CompactionError::Refused(_))));
}
