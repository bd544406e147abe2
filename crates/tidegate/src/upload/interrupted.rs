//! Whether a producer can know how many of its bytes were taken.
//!
//! A `write` whose future is dropped may have taken some of its bytes, and only [`Writer::position`] tells how many.
//! A producer that goes straight on to `finish` would publish an object with a hole or without its end.
//!
//! [`Writer::position`]: super::writer::Writer::position

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether the producer knows how far its writes so far have come.
#[derive(Debug, Default)]
pub(super) struct Interrupted(Mutex<InterruptedState>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InterruptedState {
    /// Every write has ended: the producer knows how many bytes were taken.
    #[default]
    No,
    /// A write is under way, or its future was dropped; the write began at this byte.
    Writing { from: u64 },
    /// The last `poll_write` was pending. Its caller may be a `write_all` that was dropped after earlier calls had taken
    /// some of its bytes.
    PollPending,
    /// A write was cancelled when some of its bytes were taken, and the producer has not asked how many.
    HalfTaken,
    /// The source is being polled, or has panicked.
    InSource,
}

/// Why the object must not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    HalfTaken,
    Panicked,
}

impl Interrupted {
    /// A write begins at byte `at`.
    pub(super) fn begin(&mut self, at: u64) {
        let state = self.settle(at);
        if *state == InterruptedState::No {
            *state = InterruptedState::Writing { from: at };
        }
    }

    /// The write has ended.
    pub(super) fn end(&mut self) {
        let state = self.state();
        if matches!(state, InterruptedState::Writing { .. }) {
            *state = InterruptedState::No;
        }
    }

    /// A `poll_write` has returned; whether it was pending.
    pub(super) fn write_waits(&mut self, is_pending: bool) {
        let state = self.state();
        match (*state, is_pending) {
            (InterruptedState::No, true) => *state = InterruptedState::PollPending,
            (InterruptedState::PollPending, false) => *state = InterruptedState::No,
            _ => {}
        }
    }

    /// Polls a source, which may panic: from then on nothing is published.
    pub(super) fn poll_source<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(self.state(), InterruptedState::InSource);
        let polled = poll();
        *self.state() = before;
        polled
    }

    /// The producer has asked how many bytes were taken.
    pub(super) fn was_asked(&self) {
        let mut state = self.lock();
        if *state != InterruptedState::InSource {
            *state = InterruptedState::No;
        }
    }

    /// Fails where the producer cannot know that all its bytes are in; `at` is how many are.
    pub(super) fn check(&mut self, at: u64) -> Result<(), Unknown> {
        match self.settle(at) {
            InterruptedState::No | InterruptedState::Writing { .. } => Ok(()),
            InterruptedState::PollPending | InterruptedState::HalfTaken => Err(Unknown::HalfTaken),
            InterruptedState::InSource => Err(Unknown::Panicked),
        }
    }

    /// The caller has the writer to itself, so a write that has not ended was cancelled.
    fn settle(&mut self, at: u64) -> &mut InterruptedState {
        let state = self.state();
        if let InterruptedState::Writing { from } = *state {
            *state = if from == at { InterruptedState::No } else { InterruptedState::HalfTaken };
        }
        state
    }

    fn state(&mut self) -> &mut InterruptedState {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, InterruptedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
