//! Bytes on their way to the journal: what comes while an append is under way is appended after it,
//! together.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bytes::Bytes;

use crate::memory::budget::{Lease, Slab};
use crate::upload::intake::Filling;

/// What was taken from the producer and is not being appended yet.
#[derive(Debug, Default)]
pub(super) struct Gathered(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pieces: Vec<Bytes>,
    slab: Option<Slab>,
    pub(super) bytes: u64,
    /// Whether a task is at work that takes what is here, until nothing is.
    is_taken: bool,
    /// Whether that task has failed: nothing more gets to the journal.
    is_given_up: bool,
}

impl Gathered {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is made whole before the lock is given up.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether bytes can be copied in.
    pub(super) fn has_room(&self) -> bool {
        self.slab.as_ref().is_some_and(|slab| slab.room() > 0)
    }

    pub(super) fn add_slab(&mut self, lease: Lease) {
        self.seal();
        self.slab = Some(Slab::at_most(lease).0);
    }

    /// Has `fill` put at most `most` bytes at the free end, and say how many; `None` where there is none.
    pub(super) fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>> {
        let slab = self.slab.as_mut().filter(|slab| slab.room() > 0)?;
        let most = most.min(slab.room());
        let filled = fill(&mut slab.spare()[..most]);
        if let Poll::Ready(Ok(taken)) = filled {
            slab.advance(taken);
            self.bytes += taken as u64;
        }
        if slab.filled().is_empty() {
            // Its producer may be quiet for long: nothing but an append that is under way would bring it back.
            self.slab = None;
        }
        Some(filled)
    }

    /// Bytes that are not copied.
    pub(super) fn share(&mut self, bytes: Bytes) {
        self.seal();
        self.bytes += bytes.len() as u64;
        self.pieces.push(bytes);
    }

    /// Nothing of it gets to the journal any more: its memory is others'.
    pub(super) fn give_up(&mut self) {
        *self = Self { is_taken: true, is_given_up: true, ..Self::default() };
    }

    /// Whether [`give_up`](Self::give_up) was called.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Whether a task is to be started for what is here.
    pub(super) fn begin(&mut self) -> bool {
        let begins = !self.is_taken && self.bytes > 0;
        self.is_taken |= begins;
        begins
    }

    /// All that is here, for the task; where that is nothing, the task is at its end.
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
