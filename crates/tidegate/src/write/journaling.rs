//! Where an engine's journals are, and how they are kept.

use std::path::PathBuf;
use std::time::Duration;

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
}
