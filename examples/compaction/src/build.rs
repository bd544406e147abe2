//! Tables of made-up entries.

use serde::Serialize;

use crate::entry::Entry;
use crate::error::Result;
use crate::outputs::Outputs;

/// What the entries of a run are like. The same numbers give the same entries.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Bytes of all tables of the run; the last entry reaches past it.
    pub size: u64,
    /// Bytes of a value. They do not compress.
    pub value: usize,
    /// How far a key is from the next, on average. Of runs with the same number, and different seeds, one in so many keys
    /// of one is in the other.
    pub apart: u64,
    /// Of a hundred entries, so many are tombstones.
    pub tombstones: u32,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// What a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Built {
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
}

/// Makes one sorted run: entries in ascending order of their keys, of 16 hexadecimal digits, until they are so many
/// bytes. They go to `outputs`, which are not finished.
///
/// # Errors
/// As [`Outputs::add`].
pub async fn build(made: &Made, outputs: &mut Outputs) -> Result<Built> {
    let mut random = fastrand::Rng::with_seed(made.seed);
    let mut built = Built::default();
    let mut value = vec![0; made.value];
    let mut key = 0;
    let end = outputs.size() + made.size;
    while outputs.size() < end {
        key += random.u64(1..=made.apart.max(1) * 2 - 1);
        let is_tombstone = random.u32(0..100) < made.tombstones;
        random.fill(&mut value);
        let name = format!("{key:016x}");
        outputs.add(&Entry::new(name.as_bytes(), (!is_tombstone).then_some(&value))).await?;
        built.entries += 1;
        built.tombstones += u64::from(is_tombstone);
    }
    Ok(built)
}
