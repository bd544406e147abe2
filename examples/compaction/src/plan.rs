//! Decides which merges are allowed, without I/O.

use bytes::Bytes;

use crate::error::{CompactionError, Result};

/// The facts about a table that decide how it can be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The table's key in the store.
    pub key: String,
    /// If two tables have the same key, the table with the higher sequence has the newer value.
    pub sequence: u64,
    /// The table's first and last key; `None` if it is empty.
    pub keys: Option<(Bytes, Bytes)>,
}

impl TableSummary {
    fn overlaps(&self, other: &Self) -> bool {
        match (&self.keys, &other.keys) {
            (Some((first, last)), Some((others_first, others_last))) => {
                first <= others_last && others_first <= last
            }
            _ => false,
        }
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.keys.as_ref().is_some_and(|(first, last)| first <= key && key <= last)
    }
}

/// A merge: its inputs in order, and the tombstones that it may drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePlan {
    /// The sequence of the outputs: the highest of the inputs.
    pub sequence: u64,
    /// The inputs' indexes in the given list, newest first: of equal keys, the first one wins.
    pub order: Vec<usize>,
    /// Tables that are not inputs and may have values hidden by a tombstone of the inputs.
    older: Vec<TableSummary>,
}

impl MergePlan {
    /// Plans to merge `inputs`, where `others` are all other tables of the same database.
    ///
    /// # Errors
    /// [`CompactionError::Refused`] if there is no input; if two tables with a key in common have the same sequence, so
    /// that neither is newer; or if another table lies between the inputs. Such a table is no newer than the
    /// newest input and has keys in common with an input no newer than itself: the merge would make that
    /// input's values as new as the table's, or newer.
    pub fn new(inputs: &[TableSummary], others: &[TableSummary]) -> Result<Self> {
        let Some(sequence) = inputs.iter().map(|input| input.sequence).max() else {
            return Err(CompactionError::Refused("there is no table to merge".to_owned()));
        };
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        order.sort_by_key(|input| std::cmp::Reverse(inputs[*input].sequence));
        // Tables with the same sequence must not overlap: after sorting by first key, comparing neighbours is
        // enough.
        let mut by_sequence: Vec<&TableSummary> =
            inputs.iter().filter(|input| input.keys.is_some()).collect();
        by_sequence.sort_by(|a, b| (a.sequence, &a.keys).cmp(&(b.sequence, &b.keys)));
        for pair in by_sequence.windows(2) {
            if pair[0].sequence == pair[1].sequence && pair[0].overlaps(pair[1]) {
                let (one, other) = (&pair[0].key, &pair[1].key);
                let message = format!(
                    "{one} and {other} have keys in common and the same sequence, so that none is newer"
                );
                return Err(CompactionError::Refused(message));
            }
        }
        for other in others.iter().filter(|other| other.sequence <= sequence) {
            let below = |input: &&TableSummary| input.sequence <= other.sequence && input.overlaps(other);
            if let Some(input) = inputs.iter().find(below) {
                let message = format!(
                    "{} is not merged, but its sequence {} lies between those of the inputs: what is in {} would \
                     become newer",
                    other.key, other.sequence, input.key
                );
                return Err(CompactionError::Refused(message));
            }
        }
        let is_older = |other: &&TableSummary| {
            other.sequence < sequence && inputs.iter().any(|input| input.overlaps(other))
        };
        Ok(Self { sequence, order, older: others.iter().filter(is_older).cloned().collect() })
    }

    /// Whether a tombstone for `key` hides nothing any more: no older table outside the merge can have the key.
    pub fn may_drop(&self, key: &[u8]) -> bool {
        !self.older.iter().any(|table| table.covers(key))
    }
}

#[cfg(test)]
mod tests;
