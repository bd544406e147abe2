//! Where an engine's journals are, and how they are kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::file::RING;
use crate::journal::Durability;

/// The journal directories of an engine, and what holds for every journal in them.
#[derive(Clone, Debug)]
pub(crate) struct Journaling {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) durability: Durability,
    /// How many bytes that the store has acknowledged a journal keeps, against a session that is lost.
    pub(crate) keep: u64,
    /// How long a full disk is waited for while nothing leaves it.
    pub(crate) patience: Duration,
    /// As many as there may be requests with buffers in hand: while a store is down they keep them from
    /// attempt to attempt, and producers need memory to go on.
    pub(super) sending: Arc<Semaphore>,
}

impl Journaling {
    /// In these directories, with `memory` bytes for all writers, in slabs of `slab`.
    pub(crate) fn new(
        directories: Vec<PathBuf>,
        durability: Durability,
        keep: u64,
        patience: Duration,
        memory: u64,
        slab: usize,
    ) -> Self {
        let rings = memory / 2 / (RING * slab.max(1) as u64);
        let rings = usize::try_from(rings).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS);
        Self { directories, durability, keep, patience, sending: Arc::new(Semaphore::new(rings)) }
    }
}
