//! Sets of names, in a few bytes a name.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// A set of names that keeps their hashes: 16 bytes a name, where whole keys would take hundreds. Two names of ten million
/// share one in 400,000 runs: a name that was never added then counts as added.
#[derive(Debug, Default)]
pub(crate) struct HashedNames {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl HashedNames {
    /// Adds a name; false if the set has it.
    pub(crate) fn add(&mut self, name: &(impl Hash + ?Sized)) -> bool {
        self.hashes.insert(self.hasher.hash_one(name))
    }

    pub(crate) fn has(&self, name: &(impl Hash + ?Sized)) -> bool {
        self.hashes.contains(&self.hasher.hash_one(name))
    }
}
