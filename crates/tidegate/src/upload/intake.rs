//! Taking bytes in: what the writer in memory and the one through a journal have in common.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use super::given::Given;
use super::state::Upload;
use crate::memory::budget::{Acquire, Lease, Starved};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::{Progress, Wait, Waiting};

/// Smallest slab: what the first byte of an idle writer costs.
pub(super) const LEAST_SLAB: u64 = 4 << 10;

/// Puts bytes where it is told and says how many.
pub(super) type Filling<'a> = &'a mut dyn FnMut(&mut [u8]) -> Poll<io::Result<usize>>;

/// What takes the bytes of one object.
pub(super) trait Taking {
    fn upload(&self) -> &Arc<Upload>;

    /// Bytes taken so far.
    fn position(&self) -> u64;

    /// The largest object that it takes.
    fn reach(&self) -> u64;

    /// Fails where it takes no more bytes.
    fn check_open(&mut self) -> Result<()>;

    /// Whether the object is published.
    fn is_published(&self) -> bool;

    /// Whether a byte that comes next would end a request: an object that ends here is one that has it all.
    fn is_at_cut(&self) -> bool {
        false
    }

    /// Waits until it takes another byte; how many, before it is asked again.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>>;

    /// Waits for memory.
    fn poll_lease(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease, Starved>>;

    /// How large a full slab is, in bytes.
    fn full_slab(&self) -> usize;

    /// How large the next one is to be.
    fn next_slab(&self) -> u64;

    fn add_slab(&mut self, lease: Lease);

    fn has_spare(&self) -> bool;

    /// Has at most `most` bytes put at the free end of a slab; `None` where there is none.
    fn fill(&mut self, most: usize, fill: Filling<'_>) -> Option<Poll<io::Result<usize>>>;

    /// Bytes that are not copied.
    fn share(&mut self, lease: Lease, bytes: Bytes);

    /// So many bytes more are in.
    fn took(&mut self, bytes: usize) -> Result<()>;

    /// Sees to it that what was taken goes its way, whether or not this is polled again.
    fn set_off(&mut self) {}

    /// Waits until a write may return.
    fn poll_written(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Waits until what was taken is as safe as it becomes before the end.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>>;

    /// Publishes the object.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>>;

    /// It is over.
    fn fail(&mut self, error: Error) -> Error;

    /// Takes some of what is given.
    fn poll_take(&mut self, cx: &mut Context<'_>, given: &mut Given) -> Poll<Result<()>> {
        // A slab that has been begun is filled first: what it has of the budget must not lie idle.
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

    /// Copies some of `bytes`; says how many.
    fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(self.check_open().map(|()| 0));
        }
        self.poll_fill(cx, &mut |spare| {
            let taken = bytes.len().min(spare.len());
            spare[..taken].copy_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        })
    }

    /// Waits for room and memory, then has `fill`, the source, put bytes at the free end of a slab.
    fn poll_fill(&mut self, cx: &mut Context<'_>, fill: Filling<'_>) -> Poll<Result<usize>> {
        let room = ready!(self.poll_room(cx))?;
        let filled = loop {
            if let Some(filled) = self.fill(room, fill) {
                break ready!(filled);
            }
            let slab = self.next_slab();
            let lease = ready!(self.poll_memory(cx, slab))?;
            self.add_slab(lease);
        };
        Poll::Ready(match filled {
            Ok(bytes) => self.took(bytes).map(|()| bytes),
            Err(error) => Err(self.source_failed(error)),
        })
    }

    fn poll_memory(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease>> {
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

/// A wait for memory, and for how many bytes. A write that is cancelled leaves it to the next one.
#[derive(Debug, Default)]
pub(super) struct Memory(Option<(Acquire, Wait, u64)>);

impl Memory {
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        bytes: u64,
        progress: &Progress,
        ask: impl FnOnce() -> Acquire,
    ) -> Poll<Result<Lease, Starved>> {
        if self.0.as_ref().is_some_and(|(_, _, asked)| *asked > bytes) {
            // A cancelled write asked for more: granted to this one, it would be charged and not used.
            self.0 = None;
        }
        let (acquire, ..) = self.0.get_or_insert_with(|| (ask(), progress.waiting(Waiting::Memory), bytes));
        let lease = ready!(Pin::new(acquire).poll(cx));
        self.0 = None;
        Poll::Ready(lease)
    }

    /// It is waited for no more.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}
