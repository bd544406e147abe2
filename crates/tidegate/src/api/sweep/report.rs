//! What a sweep finds, and what becomes of it.

use crate::backend::{Held, OpenSession};
use crate::types::error::Error;

/// An unfinished upload, what it holds, and whose it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// The session, as the store lists it.
    pub open: OpenSession,
    /// What it holds, where that was asked for and the store says.
    pub held: Option<Held>,
    /// Whose it is.
    pub process: Process,
}

impl Unfinished {
    pub(super) fn with_held(mut self, held: Option<Held>) -> Self {
        self.held = held;
        self
    }

    /// Who began it, in the store's words, where it says.
    pub fn initiator(&self) -> Option<&str> {
        let of_parts = self.held.as_ref().and_then(|held| held.initiator.as_deref());
        self.open.initiator.as_deref().or(of_parts)
    }
}

/// Whose an unfinished upload is, as far as the records of this machine say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Process {
    /// Of nobody that is known here.
    Unknown,
    /// Of a process that lives; its id, where that is known.
    Live(Option<u32>),
    /// Of a process that is gone; the id that it had.
    Gone(u32),
    /// Of a process that lives and could not end it.
    GaveUp(u32),
}

/// An unfinished upload, and what became of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Swept {
    /// What was found. What it holds is asked for only where it is ended.
    pub found: Unfinished,
    /// What became of it.
    pub fate: Fate,
}

/// What became of an unfinished upload.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fate {
    /// It was ended, and what it held is free.
    Ended,
    /// It would have been ended, were this not a dry run.
    WouldEnd,
    /// It was left alone.
    Kept(Kept),
    /// It had ended before.
    AlreadyGone,
    /// It could not be ended.
    Failed(Error),
}

/// Why an unfinished upload was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// A live process has it.
    Live,
    /// It is younger than the limit.
    Young,
    /// The store does not say when it was begun.
    Ageless,
    /// A journal goes on with it, and may have given back what it holds.
    Journaled,
}

/// What a whole sweep did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// Uploads that were ended.
    pub ended: u64,
    /// Uploads that would have been ended, in a dry run.
    pub would_end: u64,
    /// Bytes that these held, as far as the store says.
    pub bytes: u64,
    /// Uploads left alone because a live process has them.
    pub live: u64,
    /// Uploads left alone because they are younger than the limit.
    pub young: u64,
    /// Uploads left alone because the store does not say when they were begun.
    pub ageless: u64,
    /// Uploads left alone because a journal goes on with them.
    pub journaled: u64,
    /// Uploads that could not be ended.
    pub failed: u64,
    /// The first error of one that could not be ended.
    pub error: Option<Error>,
}

impl SweepReport {
    /// Counts one more.
    pub fn add(&mut self, swept: Swept) {
        match swept.fate {
            Fate::Ended | Fate::WouldEnd => {
                self.bytes = self.bytes.saturating_add(swept.found.held.map_or(0, |held| held.bytes));
                let ended = matches!(swept.fate, Fate::Ended);
                *(if ended { &mut self.ended } else { &mut self.would_end }) += 1;
            }
            Fate::Kept(Kept::Live) => self.live += 1,
            Fate::Kept(Kept::Young) => self.young += 1,
            Fate::Kept(Kept::Ageless) => self.ageless += 1,
            Fate::Kept(Kept::Journaled) => self.journaled += 1,
            Fate::AlreadyGone => {}
            Fate::Failed(error) => {
                self.failed += 1;
                self.error.get_or_insert(error);
            }
        }
    }
}
