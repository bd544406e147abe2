//! Bytes from the producer: gathered, and given to the journal.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::Journaled;
use super::source::failed;
use crate::budget::Lease;
use crate::error::{ErrorKind, Operation, Result};
use crate::progress::Waiting;

impl Journaled {
    /// With this many bytes gathered an append is begun, or waited for.
    const CHUNK: u64 = 1 << 20;
    /// Shared bytes of at least this many are not copied.
    const SHARE: usize = 64 << 10;
    /// What the first byte of an idle writer costs.
    pub(super) const LEAST_SLAB: u64 = 4 << 10;

    /// Takes some of `bytes`, shared where they are large.
    pub(in crate::write) fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<Result<()>> {
        let room = ready!(self.poll_room(cx))?;
        if bytes.len() < Self::SHARE || self.gathered.lock().has_room() {
            let taken = ready!(self.poll_fill(cx, bytes.len().min(room), |spare| {
                let taken = bytes.len().min(spare.len());
                spare[..taken].copy_from_slice(&bytes[..taken]);
                Poll::Ready(Ok(taken))
            }))?;
            bytes::Buf::advance(bytes, taken);
            return Poll::Ready(Ok(()));
        }
        let piece = bytes.len().min(self.budget.slab_size()).min(room);
        let lease = ready!(self.poll_memory(cx, piece as u64))?;
        let piece = piece.min(usize::try_from(lease.bytes()).unwrap_or(usize::MAX));
        self.gathered.lock().share(lease.charge(bytes.split_to(piece)));
        self.took(piece);
        Poll::Ready(Ok(()))
    }

    /// Copies some of `bytes`, and sees to it that they get to the journal.
    pub(in crate::write) fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let room = ready!(self.poll_room(cx))?;
        self.poll_fill(cx, bytes.len().min(room), |spare| {
            let taken = bytes.len().min(spare.len());
            spare[..taken].copy_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        })
        .map_ok(|taken| {
            self.start();
            taken
        })
    }

    /// Has `read` fill the free end of a slab; 0 bytes are the source's end.
    pub(in crate::write) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut [u8]) -> Poll<std::io::Result<usize>>,
    ) -> Poll<Result<std::io::Result<usize>>> {
        let room = ready!(self.poll_room(cx))?;
        let mut failed = None;
        let taken = ready!(self.poll_fill(cx, room, |spare| match ready!(read(spare)) {
            Ok(taken) => Poll::Ready(Ok(taken)),
            Err(error) => {
                failed = Some(error);
                Poll::Ready(Ok(0))
            }
        }))?;
        self.start();
        Poll::Ready(Ok(failed.map_or(Ok(taken), Err)))
    }

    /// Waits until everything that was taken is in the journal, as durable as it makes it.
    pub(in crate::write) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            self.start();
            if self.appending.is_none() {
                return Poll::Ready(self.check(cx));
            }
            ready!(self.poll_append(cx))?;
        }
    }

    /// Waits until more bytes can be gathered; how many the object takes yet.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.check_open()?;
        self.check(cx)?;
        while self.gathered.lock().bytes >= Self::CHUNK {
            self.start();
            ready!(self.poll_append(cx))?;
        }
        let room = self.reach - self.taken;
        if room == 0 {
            let message =
                format!("the object grows past {} bytes, the most that it can have here", self.reach);
            let error = self.upload.error(ErrorKind::TooLarge, Operation::Write, message);
            return Poll::Ready(Err(self.fail(error)));
        }
        Poll::Ready(Ok(usize::try_from(room).unwrap_or(usize::MAX)))
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        let gathered = self.gathered.clone();
        let mut state = loop {
            let state = gathered.lock();
            if state.has_room() {
                break state; // nobody takes it away before it is unlocked
            }
            drop(state);
            let lease = ready!(self.poll_memory(cx, self.slab))?;
            gathered.lock().add_slab(lease);
        };
        let taken = ready!(state.fill(most, fill))?;
        // Slabs follow what comes at once, so that little costs little.
        let slab = if state.has_room() { taken.next_power_of_two() as u64 } else { self.slab * 2 };
        drop(state);
        self.slab = slab.clamp(self.slab / 2, self.slab * 2).max(Self::LEAST_SLAB);
        self.slab = self.slab.min(self.budget.slab_size() as u64);
        self.took(taken);
        Poll::Ready(Ok(taken))
    }

    fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.appender.progress.accepted(bytes as u64);
    }

    fn poll_memory(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease>> {
        if self.memory.as_ref().is_some_and(|(_, _, asked)| *asked > bytes) {
            // A cancelled write asked for more.
            self.memory = None;
        }
        let (acquire, ..) = self.memory.get_or_insert_with(|| {
            (self.budget.lease(bytes), self.appender.progress.waiting(Waiting::Memory), bytes)
        });
        let Poll::Ready(lease) = Pin::new(acquire).poll(cx) else {
            // What is gathered here may be what is waited for.
            self.start();
            return Poll::Pending;
        };
        self.memory = None;
        Poll::Ready(lease.map_err(|starved| {
            let error = self.upload.error(ErrorKind::Starved, Operation::Write, starved.to_string());
            self.fail(error)
        }))
    }

    /// Sees to it that what is gathered is appended, whether or not this is polled again.
    pub(super) fn start(&mut self) {
        if self.gathered.lock().begin() {
            let append = self.appender.clone().append(self.gathered.clone());
            self.appending = Some(self.upload.runtime.spawn(append));
        }
    }

    /// Waits for what is being written to the journal.
    pub(super) fn poll_append(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(appending) = &mut self.appending else { return Poll::Ready(Ok(())) };
        let appended = ready!(Pin::new(appending).poll(cx));
        self.appending = None;
        let error = match appended {
            Ok(Ok(())) => return Poll::Ready(Ok(())),
            Ok(Err(error)) => failed(&self.upload, error),
            Err(ended) => self.upload.ended_early(None, ended),
        };
        Poll::Ready(Err(self.fail(error)))
    }
}
