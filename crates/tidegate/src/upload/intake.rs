//! Takes bytes in: the code that the writer in memory and the journaled writer share.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use super::given::Given;
use super::session::Upload;
use crate::memory::budget::{Acquire, Lease, Starved};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::{Progress, Wait, Waiting};

/// Smallest slab, in bytes: the memory that the first byte of an idle writer costs.
pub(super) const LEAST_SLAB: u64 = 4 << 10;

/// Writes bytes into the slice and returns how many.
pub(super) type Filling<'a> = &'a mut dyn FnMut(&mut [u8]) -> Poll<io::Result<usize>>;

/// Takes the bytes of one object.
pub(super) trait Intake {
    fn upload(&self) -> &Arc<Upload>;

    /// Bytes taken so far.
    fn position(&self) -> u64;

    /// The largest object that can be taken, in bytes.
    fn reach(&self) -> u64;

    /// Fails where no more bytes are taken.
    fn check_open(&mut self) -> Result<()>;

    /// Whether the object is published.
    fn is_published(&self) -> bool;

    /// True when the part is exactly full: an object that ends here can still be a single PUT.
    fn is_at_cut(&self) -> bool {
        false
    }

    /// Waits until another byte can be taken; returns how many can be before the next call.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>>;

    /// Waits for memory.
    fn poll_lease(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease, Starved>>;

    /// How large a full slab is, in bytes.
    fn full_slab(&self) -> usize;

    /// Size of the next slab, in bytes, for a write that has `at_hand` bytes to fill it with.
    fn next_slab(&self, at_hand: usize) -> u64;

    fn add_slab(&mut self, lease: Lease);

    fn has_spare(&self) -> bool;

    /// Lets `fill` write at most `most` bytes into the free end of a slab; `None` where no slab has room.
    fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>>;

    /// Takes bytes without a copy.
    fn share(&mut self, lease: Lease, bytes: Bytes);

    /// Takes in that `bytes` more were taken.
    fn took(&mut self, bytes: usize) -> Result<()>;

    /// Starts a task for the bytes taken so far, where they need one, so that they move on even if nobody
    /// polls again.
    fn set_off(&mut self) {}

    /// Waits until a write may return.
    fn poll_written(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Waits until the bytes taken so far are as durable as they become before `finish`.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>>;

    /// Publishes the object.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>>;

    /// Ends the writer with `error`; returns the error to report.
    fn fail(&mut self, error: Error) -> Error;

    /// Takes some of `given`.
    fn poll_take(&mut self, cx: &mut Context<'_>, given: &mut Given) -> Poll<Result<()>> {
        // A slab that has been begun is filled first, so that its memory does not lie idle.
        if !given.is_shared || self.has_spare() {
            let taken = ready!(self.poll_copy(cx, &given.bytes))?;
            given.bytes.advance(taken);
            return Poll::Ready(Ok(()));
        }
        let room = ready!(self.poll_room(cx))?;
        let piece = given.len().min(self.full_slab()).min(room);
        let lease = ready!(self.poll_memory(cx, piece as u64))?;
        // A wait that was begun for another size is granted with that size.
        let piece = piece.min(usize::try_from(lease.bytes()).unwrap_or(usize::MAX));
        self.share(lease, given.bytes.split_to(piece));
        Poll::Ready(self.took(piece))
    }

    /// Copies some of `bytes`; returns how many.
    fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(self.check_open().map(|()| 0));
        }
        self.poll_fill(cx, bytes.len(), &mut |spare| {
            let taken = bytes.len().min(spare.len());
            spare[..taken].copy_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        })
    }

    /// Waits for room and memory, then lets `fill`, the source, write into the free end of a slab. The source is known
    /// to have `at_hand` bytes; it may have more.
    fn poll_fill(&mut self, cx: &mut Context<'_>, at_hand: usize, fill: Filling<'_>) -> Poll<Result<usize>> {
        let room = ready!(self.poll_room(cx))?;
        let filled = loop {
            if let Some(filled) = self.fill(room, fill) {
                break ready!(filled);
            }
            let slab = self.next_slab(at_hand);
            let lease = ready!(self.poll_memory(cx, slab))?;
            self.add_slab(lease);
        };
        Poll::Ready(match filled {
            Ok(bytes) => self.took(bytes).map(|()| bytes),
            Err(error) => Err(self.source_failed(error)),
        })
    }

    fn poll_memory(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease>> {
        self.upload().check_owner(Operation::Write)?;
        let lease = ready!(self.poll_lease(cx, bytes));
        Poll::Ready(lease.map_err(|starved| {
            let error = self.upload().error(ErrorKind::Starved, Operation::Write, starved.to_string());
            self.fail(error)
        }))
    }

    fn source_failed(&mut self, error: io::Error) -> Error {
        let message = format!("reading the source failed at byte {}: {error}", self.position());
        let failed = self.upload().error(ErrorKind::Source, Operation::Write, message);
        self.fail(failed.with_source(error))
    }
}

/// A wait for memory, and for how many bytes. A cancelled write leaves its wait to the next write.
#[derive(Debug, Default)]
pub(super) struct MemoryWait(Option<(Acquire, Option<Wait>, u64)>);

impl MemoryWait {
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        bytes: u64,
        progress: &Progress,
        ask: impl FnOnce() -> Acquire,
    ) -> Poll<Result<Lease, Starved>> {
        if self.0.as_ref().is_some_and(|(_, _, asked)| *asked > bytes) {
            // A cancelled write asked for more: granted to this write, the rest would be charged and not
            // used.
            self.0 = None;
        }
        let (acquire, wait, _) = self.0.get_or_insert_with(|| (ask(), None, bytes));
        let polled = Pin::new(acquire).poll(cx);
        if polled.is_ready() {
            self.0 = None;
        } else {
            wait.get_or_insert_with(|| progress.waiting(Waiting::Memory));
        }
        polled
    }

    /// Ends the wait.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}
