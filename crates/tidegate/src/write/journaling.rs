//! Where an engine's journals are, and how they are kept and sent.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::journal::Disk;
use super::streamed::RING;
use crate::budget::Budget;
use crate::journal::Durability;

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
        Self { directories, durability, keep, patience, memory, disks: Mutex::default() }
    }

    /// The disk that a journal is on.
    pub(super) async fn disk(&self, journal: &Path) -> Arc<Disk> {
        // One that can't be asked is told by whoever writes to it.
        let id = tokio::fs::metadata(journal).await.map_or(0, |found| found.dev());
        self.disks.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone()
    }
}
