//! Merges tables into new ones.

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tidegate::Store;
use tidegate::backend::Entry as Listed;
use tidegate::merge::{MergeError, MergeStream, Merged};

use crate::entry::TableEntry;
use crate::error::{CompactionError, Result};
use crate::outputs::Outputs;
use crate::plan::{MergePlan, TableSummary};
use crate::reader::{TableEntries, TableReader};

/// How many tables are opened concurrently.
const OPENED_AT_ONCE: usize = 16;

/// Entry counts of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Entries of all inputs.
    pub entries_in: u64,
    /// Entries of all outputs.
    pub entries_out: u64,
    /// Entries replaced by an entry of a newer table.
    pub superseded: u64,
    /// Tombstones dropped because they hid nothing any more.
    pub tombstones_dropped: u64,
}

/// How the inputs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputReading {
    /// As streams of blocks.
    #[default]
    Streamed,
    /// Each input is read into a buffer of its size before the first entry is merged.
    Whole,
}

/// Opens the tables of a database that are to be merged (those named, or all), and returns the summaries of the
/// others.
///
/// # Errors
/// [`CompactionError::Refused`] if a name does not exist; [`CompactionError::Damaged`] if an object whose key ends
/// with `.table` is not a table.
pub async fn open(store: &Store, named: &[String]) -> Result<(Vec<TableReader>, Vec<TableSummary>)> {
    let mut listed: Vec<_> = store
        .list("")
        .try_filter_map(async |entry| {
            Ok(match entry {
                Listed::Object(object) if object.key.ends_with(".table") => Some(object),
                _ => None,
            })
        })
        .try_collect()
        .await?;
    listed.sort_by(|a, b| a.key.cmp(&b.key));
    if let Some(missing) = named.iter().find(|name| !listed.iter().any(|object| object.key == **name)) {
        return Err(CompactionError::Refused(format!("there is no table {missing} in {}", store.location())));
    }
    let (mut inputs, mut others) = (Vec::new(), Vec::new());
    let mut opened =
        stream::iter(listed).map(|object| TableReader::open(store, object)).buffered(OPENED_AT_ONCE);
    while let Some(table) = opened.try_next().await? {
        match named.is_empty() || named.contains(&table.object().key) {
            true => inputs.push(table),
            false => others.push(table.summary()),
        }
    }
    Ok((inputs, others))
}

/// Merges `inputs` into `outputs` according to the plan: keeps the newest entry of each key, and drops
/// tombstones that hide nothing any more.
///
/// Reading, merging and writing overlap: inputs are read ahead, and blocks are uploaded as they are built.
/// Memory holds the inputs' indexes, the blocks read ahead and the parts in flight (both under the engine's
/// memory budget), one block of each input, and one block and the index of the output.
///
/// # Errors
/// The first error of any input or output. The outputs are then neither finished nor removed: call
/// [`Outputs::abandon`].
pub async fn compact(
    inputs: &[TableReader],
    plan: &MergePlan,
    reading: InputReading,
    outputs: &mut Outputs,
) -> Result<Compacted> {
    let newest_first = plan.order.iter().filter_map(|input| inputs.get(*input));
    let entries: Vec<TableEntries> = try_join_all(newest_first.map(async |input| match reading {
        InputReading::Streamed => input.entries().await,
        InputReading::Whole => input.whole().await,
    }))
    .await?;
    let mut merge = MergeStream::new(entries, |a: &TableEntry, b: &TableEntry| a.key().cmp(b.key()));
    let mut compacted = Compacted::default();
    let mut last: Option<Vec<u8>> = None;
    while let Some(merged) = merge.try_next().await.map_err(|MergeError { error, .. }| error)? {
        let Merged { item: entry, .. } = merged;
        compacted.entries_in += 1;
        if last.as_deref() == Some(entry.key()) {
            compacted.superseded += 1;
            continue;
        }
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(entry.key());
        if entry.value().is_none() && plan.may_drop(entry.key()) {
            compacted.tombstones_dropped += 1;
            continue;
        }
        outputs.add(&entry).await?;
        compacted.entries_out += 1;
    }
    Ok(compacted)
}

#[cfg(test)]
mod tests;
