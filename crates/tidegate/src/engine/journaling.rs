//! Where an engine's journals are, and how they are kept and sent.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::journal::Durability;
use crate::memory::budget::Budget;
use crate::memory::payload::RING;
use crate::types::spawn_blocking::spawn_blocking;

mod disk;
mod live;

pub(crate) use disk::{Disk, Feed, Leaving};
pub(crate) use live::{InUse, Live};

/// The journal directories of an engine, and what holds for every journal in them.
#[derive(Debug)]
pub(crate) struct Journaling {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) durability: Durability,
    /// How many bytes that the store has acknowledged a journal keeps, against a session that is lost.
    pub(crate) keep: u64,
    /// How long a full disk is waited for while nothing leaves it.
    pub(crate) patience: Duration,
    /// What journaled bytes are sent through: set aside when the engine is built, where it has directories, for
    /// what producers hold may wait for room on a disk that only requests can make. Else that of all.
    pub(crate) memory: Budget,
    disks: Mutex<BTreeMap<u64, Arc<Disk>>>,
    /// The journals that writers of this engine have.
    pub(crate) live: Live,
}

impl Journaling {
    /// This share of the memory is set aside.
    const SHARE: u64 = 4;

    /// How much memory to set aside, of `total` bytes in slabs of `slab`.
    pub(crate) fn reserve(total: u64, slab: u64) -> u64 {
        let ring = RING * slab;
        (total / Self::SHARE / ring).max(1) * ring
    }

    /// How many slabs of that requests to one endpoint may hold: while it is down they keep them from attempt
    /// to attempt, and others go on.
    pub(crate) fn of_endpoint(&self) -> u64 {
        let ring = RING * self.memory.slab_size() as u64;
        (self.memory.total() / 2 / ring).max(1) * RING
    }

    pub(crate) fn new(
        directories: Vec<PathBuf>,
        durability: Durability,
        keep: u64,
        patience: Duration,
        memory: Budget,
    ) -> Self {
        let directories = distinct(directories);
        Self {
            directories,
            durability,
            keep,
            patience,
            memory,
            disks: Mutex::default(),
            live: Live::default(),
        }
    }

    /// The disk that a journal, or a directory for them, is on.
    pub(crate) async fn disk(&self, path: &Path) -> Arc<Disk> {
        // One that can't be asked is told by whoever writes to it.
        let id = tokio::fs::metadata(path).await.map_or(0, |found| found.dev());
        self.disks.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone()
    }

    /// The directories, the best one for a new journal first.
    pub(crate) async fn order(&self) -> Vec<PathBuf> {
        // Where there is nothing to choose, nothing is counted: there may be ten thousand journals.
        if self.directories.len() < 2 {
            return self.directories.clone();
        }
        let mut places = Vec::new();
        for directory in &self.directories {
            let (cost, counted) = (self.disk(directory).await.cost(), directory.clone());
            places.push(Place { share: spawn_blocking(move || share(&counted)).await, cost, directory });
        }
        places.sort_by(Place::before);
        places.into_iter().map(|place| place.directory.clone()).collect()
    }
}

/// Each directory once, by the first of its names: what is in one that has two would be listed twice.
fn distinct(directories: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    // One that can't be asked is told by whoever reads it.
    let is_new = |directory: &PathBuf| {
        fs::metadata(directory).map_or(true, |found| known.insert((found.dev(), found.ino())))
    };
    directories.into_iter().filter(is_new).collect()
}

/// A directory with less space for each of its journals comes behind those with more, however fast its disk.
const ENOUGH: u64 = 1 << 30;

/// A directory that a journal could be in.
struct Place<'a> {
    directory: &'a PathBuf,
    /// Bytes that are free for each of its journals, the new one among them.
    share: u64,
    /// As [`Disk::cost`].
    cost: f64,
}

impl Place<'_> {
    fn before(&self, other: &Self) -> Ordering {
        let (has, others) = (self.share >= ENOUGH, other.share >= ENOUGH);
        let faster = if has { self.cost.total_cmp(&other.cost) } else { Ordering::Equal };
        others.cmp(&has).then(faster).then(other.share.cmp(&self.share))
    }
}

/// What is free of a directory's disk for each of its journals: those that were begun just now have not
/// taken their space yet.
fn share(directory: &Path) -> u64 {
    let free =
        rustix::fs::statvfs(directory).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    free / (1 + fs::read_dir(directory).map_or(0, |entries| entries.count() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_disk_is_chosen_where_it_has_enough_space() {
        let names = ["full", "slow", "fast", "twin"].map(PathBuf::from);
        let facts = [(ENOUGH - 1, 0.0), (9 * ENOUGH, 2.0), (ENOUGH, 1.0), (2 * ENOUGH, 1.0)];
        let mut places: Vec<_> = names
            .iter()
            .zip(facts)
            .map(|(directory, (share, cost))| Place { directory, share, cost })
            .collect();
        places.sort_by(Place::before);
        let order: Vec<_> = places.iter().map(|place| place.directory.to_str().unwrap()).collect();
        assert_eq!(order, ["twin", "fast", "slow", "full"]);
    }
}
