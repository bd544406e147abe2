//! The journal directories of an engine: their settings, their disks, and which one takes the next journal.

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
pub(crate) mod live;

pub(crate) use disk::{CountedReader, Feed, JournalDisk};

/// The journal directories of an engine, and the settings of every journal in them.
#[derive(Debug)]
pub(crate) struct Journaling {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) durability: Durability,
    /// How many acknowledged bytes a journal keeps, in case the session is lost.
    pub(crate) keep: u64,
    /// How long to wait for a full disk while no bytes leave it.
    pub(crate) patience: Duration,
    /// The memory that journaled bytes are sent through. With journal directories it is set aside when the engine is
    /// built: producers may hold the rest while they wait for room on a disk, and only requests can make that room.
    /// Without directories it is the common budget.
    pub(crate) memory: Budget,
    disks: Mutex<BTreeMap<u64, Arc<JournalDisk>>>,
}

impl Journaling {
    /// One part in this many of the memory is set aside.
    const SHARE: u64 = 4;

    /// How much memory to set aside, of `total` bytes in slabs of `slab`.
    pub(crate) fn reserve(total: u64, slab: u64) -> u64 {
        let ring = RING * slab;
        (total / Self::SHARE / ring).max(1) * ring
    }

    /// How many slabs of this memory requests to one endpoint may hold. While the endpoint is down, its requests keep
    /// their slabs from attempt to attempt, and other endpoints use the rest.
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
        Self { directories, durability, keep, patience, memory, disks: Mutex::default() }
    }

    /// The disk of a journal or of a directory for journals.
    pub(crate) async fn disk(&self, path: &Path) -> Arc<JournalDisk> {
        // If the path can't be examined, the write that follows reports the error.
        let id = tokio::fs::metadata(path).await.map_or(0, |found| found.dev());
        self.disks.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone()
    }

    /// The directories, in order of preference for a new journal.
    pub(crate) async fn order(&self) -> Vec<PathBuf> {
        // With one directory there is no choice: don't count its journals, which may be ten thousand.
        if self.directories.len() < 2 {
            return self.directories.clone();
        }
        let mut places = Vec::new();
        for directory in &self.directories {
            let (cost, counted) = (self.disk(directory).await.cost(), directory.clone());
            places.push(JournalCandidate {
                share: spawn_blocking(move || share(&counted)).await,
                cost,
                directory,
            });
        }
        places.sort_by(JournalCandidate::before);
        places.into_iter().map(|place| place.directory.clone()).collect()
    }
}

/// Removes directories that have another name earlier in the list: their journals would be listed twice.
fn distinct(directories: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    // A directory that can't be examined is kept; reading it reports the error.
    let is_new = |directory: &PathBuf| {
        fs::metadata(directory).map_or(true, |found| known.insert((found.dev(), found.ino())))
    };
    directories.into_iter().filter(is_new).collect()
}

/// A directory with less free space than this for each of its journals ranks below those with more, however fast its
/// disk is.
const ENOUGH: u64 = 1 << 30;

/// A candidate directory for a journal.
struct JournalCandidate<'a> {
    directory: &'a PathBuf,
    /// Free bytes for each of its journals, the new one included.
    share: u64,
    /// From [`JournalDisk::cost`].
    cost: f64,
}

impl JournalCandidate<'_> {
    fn before(&self, other: &Self) -> Ordering {
        let (has, others) = (self.share >= ENOUGH, other.share >= ENOUGH);
        let faster = if has { self.cost.total_cmp(&other.cost) } else { Ordering::Equal };
        others.cmp(&has).then(faster).then(other.share.cmp(&self.share))
    }
}

/// The free space of a directory's disk, divided by its journals: journals that have just begun have not used their
/// space yet.
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
            .map(|(directory, (share, cost))| JournalCandidate { directory, share, cost })
            .collect();
        places.sort_by(JournalCandidate::before);
        let order: Vec<_> = places.iter().map(|place| place.directory.to_str().unwrap()).collect();
        assert_eq!(order, ["twin", "fast", "slow", "full"]);
    }
}
