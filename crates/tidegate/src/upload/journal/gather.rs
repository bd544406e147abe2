//! Bytes on their way to the journal: those that come during an append are gathered, and appended together
//! after it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bytes::Bytes;

use crate::memory::budget::{Lease, Slab};
use crate::upload::intake::Filling;

/// Bytes that were taken from the producer and are not being appended yet.
#[derive(Debug, Default)]
pub(super) struct Gathered(Mutex<GatheredState>);

#[derive(Debug, Default)]
pub(super) struct GatheredState {
    pieces: Vec<Bytes>,
    slab: Option<Slab>,
    pub(super) bytes: u64,
    /// Whether a task is appending these bytes, until there are no more.
    is_taken: bool,
    /// Whether that task has failed: no more bytes get to the journal.
    is_given_up: bool,
}

impl Gathered {
    pub(super) fn lock(&self) -> MutexGuard<'_, GatheredState> {
        // Every change is complete before the lock is released, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GatheredState {
    /// Whether bytes can be copied in.
    pub(super) fn has_room(&self) -> bool {
        self.slab.as_ref().is_some_and(|slab| slab.room() > 0)
    }

    pub(super) fn add_slab(&mut self, lease: Lease) {
        self.seal();
        self.slab = Some(Slab::at_most(lease).0);
    }

    /// Lets `fill` write at most `most` bytes into the free end, and return how many; `None` where there is
    /// no free end.
    pub(super) fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>> {
        let slab = self.slab.as_mut().filter(|slab| slab.room() > 0)?;
        let most = most.min(slab.room());
        let filled = fill(&mut slab.spare()[..most]);
        if let Poll::Ready(Ok(taken)) = filled {
            slab.advance(taken);
            self.bytes += taken as u64;
        }
        if slab.filled().is_empty() {
            // The producer may be quiet for long, and nothing but an append would give an empty slab back.
            self.slab = None;
        }
        Some(filled)
    }

    /// Adds bytes without a copy.
    pub(super) fn share(&mut self, bytes: Bytes) {
        self.seal();
        self.bytes += bytes.len() as u64;
        self.pieces.push(bytes);
    }

    /// Drops the bytes: they never get to the journal, and others can use their memory.
    pub(super) fn give_up(&mut self) {
        *self = Self { is_taken: true, is_given_up: true, ..Self::default() };
    }

    /// Whether [`give_up`](Self::give_up) was called.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Whether a task must be started to append these bytes; then it counts as started.
    pub(super) fn begin(&mut self) -> bool {
        let begins = !self.is_taken && self.bytes > 0;
        self.is_taken |= begins;
        begins
    }

    /// Takes all bytes out for the task; where there are none, the task must end.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.seal();
        self.bytes = 0;
        self.is_taken = !self.pieces.is_empty();
        std::mem::take(&mut self.pieces)
    }

    fn seal(&mut self) {
        if let Some(slab) = self.slab.take().filter(|slab| !slab.filled().is_empty()) {
            self.pieces.push(slab.freeze());
        }
    }
}
