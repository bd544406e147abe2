//! Takes bytes from the producer, gathers them and gives them to the journal.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::Journaled;
use crate::memory::budget::{Lease, Starved};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::driver::WriterState;
use crate::upload::intake::{Filling, Intake, LEAST_SLAB};
use crate::upload::session::Upload;
use crate::upload::source::journal::failed;

/// With this many bytes gathered, an append begins, or the producer waits for one.
const CHUNK: u64 = 1 << 20;

impl Intake for Journaled {
    fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    fn position(&self) -> u64 {
        self.taken
    }

    fn reach(&self) -> u64 {
        self.reach
    }

    fn check_open(&mut self) -> Result<()> {
        // A forked child would append to its parent's journal.
        self.upload.check_owner(Operation::Write)?;
        if matches!(self.state, WriterState::Open) { Ok(()) } else { Err(self.closed()) }
    }

    fn is_published(&self) -> bool {
        matches!(self.state, WriterState::Published(_))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.check_open()?;
        self.check(cx)?;
        let mut gathered = self.gathered.lock();
        while gathered.bytes >= CHUNK || gathered.is_given_up() {
            drop(gathered);
            self.set_off();
            ready!(self.poll_append(cx))?;
            gathered = self.gathered.lock();
        }
        drop(gathered);
        let room = self.reach - self.taken;
        if room == 0 {
            let message =
                format!("the object grows past {} bytes, the most that it can have here", self.reach);
            let error = self.upload.error(ErrorKind::TooLarge, Operation::Write, message);
            return Poll::Ready(Err(self.fail(error)));
        }
        Poll::Ready(Ok(usize::try_from(room).unwrap_or(usize::MAX)))
    }

    fn poll_lease(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease, Starved>> {
        let lease = self.memory.poll(cx, bytes, &self.appender.progress, || self.budget.lease(bytes));
        if lease.is_pending() {
            // The bytes gathered here may hold the memory that this waits for.
            self.set_off();
        }
        lease
    }

    fn full_slab(&self) -> usize {
        self.budget.slab_size()
    }

    fn next_slab(&self, _: usize) -> u64 {
        self.slab
    }

    fn add_slab(&mut self, lease: Lease) {
        self.gathered.lock().add_slab(lease);
    }

    fn has_spare(&self) -> bool {
        self.gathered.lock().has_room()
    }

    fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>> {
        let mut gathered = self.gathered.lock();
        let filled = gathered.fill(most, fill)?;
        if let Poll::Ready(Ok(taken @ 1..)) = filled {
            // The size of slabs follows the size of writes, so that small writes take little memory.
            let slab = if gathered.has_room() { taken.next_power_of_two() as u64 } else { self.slab * 2 };
            let slab = slab.clamp(self.slab / 2, self.slab * 2).max(LEAST_SLAB);
            self.slab = slab.min(self.budget.slab_size() as u64);
        }
        Some(filled)
    }

    fn share(&mut self, lease: Lease, bytes: Bytes) {
        self.gathered.lock().share(lease.charge(bytes));
    }

    fn took(&mut self, bytes: usize) -> Result<()> {
        self.taken += bytes as u64;
        self.appender.progress.accepted(bytes as u64);
        let mut gathered = self.gathered.lock();
        if gathered.is_given_up() {
            gathered.give_up(); // the bytes that came since
        }
        Ok(())
    }

    fn set_off(&mut self) {
        if self.gathered.lock().begin() {
            let append = self.appender.clone().append(self.gathered.clone());
            self.appending = Some(self.upload.runtime.spawn(append));
        }
    }

    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_flush(cx)
    }

    /// Waits until all bytes taken so far are in the journal, as durable as the journal makes them.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if matches!(self.state, WriterState::Failed) {
            // Bytes that were taken may not be in the journal, and never will be.
            return Poll::Ready(Err(self.closed()));
        }
        loop {
            self.set_off();
            if self.appending.is_none() {
                return Poll::Ready(self.check(cx));
            }
            ready!(self.poll_append(cx))?;
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        self.poll_publish(cx)
    }

    /// Marks the writer as failed; its journal stays.
    fn fail(&mut self, error: Error) -> Error {
        self.state = WriterState::Failed;
        self.memory.forget();
        self.set_off();
        let path = self.appender.journal.path().display();
        error.and(&format!("{path} keeps the bytes written so far: they can be resumed (`tidegate journal`)"))
    }
}

impl Journaled {
    /// Waits for what is being written to the journal.
    pub(super) fn poll_append(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(appending) = &mut self.appending else { return Poll::Ready(Ok(())) };
        let appended = ready!(Pin::new(appending).poll(cx));
        self.appending = None;
        let error = match appended {
            Ok(Ok(())) => return Poll::Ready(Ok(())),
            Ok(Err(error)) => self.no_room(failed(&self.upload, error)),
            Err(ended) => self.upload.ended_early(None, ended),
        };
        self.gathered.lock().give_up();
        Poll::Ready(Err(self.fail(error)))
    }

    /// Adds to the error of a full disk where the upload can't make room, because it has fewer bytes than the
    /// store takes at once.
    fn no_room(&self, error: Error) -> Error {
        let grain = self.upload.backend.capabilities().append.filter(|_| self.upload.appends());
        let figures = self.appender.progress.snapshot();
        let waits = figures.journaled.saturating_sub(figures.acknowledged);
        match grain {
            Some(grain) if error.kind() == ErrorKind::NoSpace && waits < grain => error.and(&format!(
                "before it is finished the store takes no less than {grain} bytes of it at once, and {waits} wait there"
            )),
            _ => error,
        }
    }
}
