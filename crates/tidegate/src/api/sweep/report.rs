//! The results of a sweep.

use crate::backend::{Held, OpenSession};
use crate::types::error::Error;

/// An unfinished upload, the bytes that it holds, and its process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// The session, as the store lists it.
    pub open: OpenSession,
    /// The parts and bytes that it holds, if this was asked for and the store gives it.
    pub held: Option<Held>,
    /// The process that it belongs to.
    pub process: Process,
}

impl Unfinished {
    pub(super) fn with_held(mut self, held: Option<Held>) -> Self {
        self.held = held;
        self
    }

    /// Who began it, in the store's words, if the store says.
    pub fn initiator(&self) -> Option<&str> {
        let of_parts = self.held.as_ref().and_then(|held| held.initiator.as_deref());
        self.open.initiator.as_deref().or(of_parts)
    }
}

/// The process that an unfinished upload belongs to, by the records of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Process {
    /// No process that is known here.
    Unknown,
    /// A live process, with its id if known.
    Live(Option<u32>),
    /// A process that has ended, with the id that it had.
    Gone(u32),
    /// A live process that tried to abort it and failed.
    GaveUp(u32),
}

/// An unfinished upload and its outcome.
#[derive(Debug)]
#[non_exhaustive]
pub struct Swept {
    /// The upload. Its size is asked for only if it is aborted, or would be.
    pub found: Unfinished,
    /// The outcome.
    pub fate: SweepOutcome,
}

/// The outcome for one unfinished upload.
#[derive(Debug)]
#[non_exhaustive]
pub enum SweepOutcome {
    /// It was aborted, and its parts are freed.
    Ended,
    /// It would have been aborted, but this was a dry run.
    WouldEnd,
    /// It was left alone.
    Kept(KeepReason),
    /// It was already gone.
    AlreadyGone,
    /// It could not be aborted, or a journal that may need it could not be read.
    Failed(Error),
}

/// Why an unfinished upload was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeepReason {
    /// A live process has it.
    Live,
    /// It waits for a commit: its [lifetime](crate::upload::PrepareBuilder::lifetime) is not over.
    Pending,
    /// It is younger than the limit.
    Young,
    /// The store does not say when it began.
    Ageless,
    /// A journal can resume it, and may no longer have the bytes that the store has.
    Journaled,
}

/// Totals of a sweep.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Uploads that were aborted.
    pub ended: u64,
    /// Uploads that would have been aborted, in a dry run.
    pub would_end: u64,
    /// Bytes that these held, as far as the store says.
    pub bytes: u64,
    /// Uploads left alone because a live process has them.
    pub live: u64,
    /// Uploads left alone because they wait for a commit.
    pub pending: u64,
    /// Uploads left alone because they are younger than the limit.
    pub young: u64,
    /// Uploads left alone because the store does not say when they began.
    pub ageless: u64,
    /// Uploads left alone because a journal can resume them.
    pub journaled: u64,
    /// Uploads that could not be aborted.
    pub failed: u64,
    /// The first error of these.
    pub error: Option<Error>,
}

impl SweepReport {
    /// Adds one outcome.
    pub fn add(&mut self, swept: Swept) {
        match swept.fate {
            SweepOutcome::Ended | SweepOutcome::WouldEnd => {
                self.bytes = self.bytes.saturating_add(swept.found.held.map_or(0, |held| held.bytes));
                let ended = matches!(swept.fate, SweepOutcome::Ended);
                *(if ended { &mut self.ended } else { &mut self.would_end }) += 1;
            }
            SweepOutcome::Kept(KeepReason::Live) => self.live += 1,
            SweepOutcome::Kept(KeepReason::Pending) => self.pending += 1,
            SweepOutcome::Kept(KeepReason::Young) => self.young += 1,
            SweepOutcome::Kept(KeepReason::Ageless) => self.ageless += 1,
            SweepOutcome::Kept(KeepReason::Journaled) => self.journaled += 1,
            SweepOutcome::AlreadyGone => {}
            SweepOutcome::Failed(error) => {
                self.failed += 1;
                self.error.get_or_insert(error);
            }
        }
    }
}
