//! Generates tables of made-up entries.

use serde::Serialize;

use crate::entry::TableEntry;
use crate::error::Result;
use crate::outputs::Outputs;

/// Parameters of a run's entries. The same parameters give the same entries.
#[derive(Clone, Copy, Debug)]
pub struct EntryParameters {
    /// Bytes of all tables of the run; the last entry may exceed it.
    pub size: u64,
    /// Bytes of a value; values do not compress.
    pub value: usize,
    /// Average distance between neighbouring keys. Two runs with the same distance and different seeds share
    /// one in `apart` keys.
    pub apart: u64,
    /// Percentage of entries that are tombstones.
    pub tombstones: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The content of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Built {
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
}

/// Generates one sorted run into `outputs`: entries with ascending keys of 16 hexadecimal digits, until they
/// reach the run's size. Does not finish `outputs`.
///
/// # Errors
/// As [`Outputs::add`].
pub async fn build(made: &EntryParameters, outputs: &mut Outputs) -> Result<Built> {
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
        outputs.add(&TableEntry::new(name.as_bytes(), (!is_tombstone).then_some(&value))).await?;
        built.entries += 1;
        built.tombstones += u64::from(is_tombstone);
    }
    Ok(built)
}
