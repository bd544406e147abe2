//! What a compaction may do. No I/O.

use bytes::Bytes;

use crate::error::{Error, Result};

/// What of a table decides how it can be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its key in the store.
    pub key: String,
    /// Of two tables that have a key, the one with the higher number has the newer value.
    pub sequence: u64,
    /// Its first and its last key; none where it is empty.
    pub keys: Option<(Bytes, Bytes)>,
}

impl Summary {
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

/// Which tables are merged, in which order, and which tombstones they are then rid of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sequence of the outputs: the highest of the inputs.
    pub sequence: u64,
    /// The inputs' places in what was given, the newest first: of equal keys the first is the one that counts.
    pub order: Vec<usize>,
    /// Tables that take no part and may have values that a tombstone of the inputs is there to hide.
    older: Vec<Summary>,
}

impl Plan {
    /// Plans to merge `inputs`, where `others` are all other tables of the same database.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no input; where two tables with a key in common have the same sequence, so that
    /// none is newer; and where another table lies between: it is no newer than the newest input and has keys in common
    /// with an input that is no newer than it is, whose values would come to be as new as its own or newer.
    pub fn new(inputs: &[Summary], others: &[Summary]) -> Result<Self> {
        let Some(sequence) = inputs.iter().map(|input| input.sequence).max() else {
            return Err(Error::Refused("there is no table to merge".to_owned()));
        };
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        order.sort_by_key(|input| std::cmp::Reverse(inputs[*input].sequence));
        // Those of one sequence must not overlap: sorted by their first keys, neighbours tell.
        let mut by_sequence: Vec<&Summary> = inputs.iter().filter(|input| input.keys.is_some()).collect();
        by_sequence.sort_by(|a, b| (a.sequence, &a.keys).cmp(&(b.sequence, &b.keys)));
        for pair in by_sequence.windows(2) {
            if pair[0].sequence == pair[1].sequence && pair[0].overlaps(pair[1]) {
                let (one, other) = (&pair[0].key, &pair[1].key);
                let message = format!(
                    "{one} and {other} have keys in common and the same sequence, so that none is newer"
                );
                return Err(Error::Refused(message));
            }
        }
        for other in others.iter().filter(|other| other.sequence <= sequence) {
            let below = |input: &&Summary| input.sequence <= other.sequence && input.overlaps(other);
            if let Some(input) = inputs.iter().find(below) {
                let message = format!(
                    "{} is not merged, but its sequence {} lies between those of the inputs: what is in {} would \
                     become newer",
                    other.key, other.sequence, input.key
                );
                return Err(Error::Refused(message));
            }
        }
        let is_older =
            |other: &&Summary| other.sequence < sequence && inputs.iter().any(|input| input.overlaps(other));
        Ok(Self { sequence, order, older: others.iter().filter(is_older).cloned().collect() })
    }

    /// Whether a tombstone for `key` has nothing left to hide: no older table that takes no part can have the key.
    pub fn may_drop(&self, key: &[u8]) -> bool {
        !self.older.iter().any(|table| table.covers(key))
    }
}

#[cfg(test)]
mod tests;
