//! The half-filled part of one writer, and the budget's memory that it holds. While the producer does
//! nothing, others can spill the part's bytes to the spool, or end the upload.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

use super::fill::{Fill, Taken};
use super::session::{Ending, Upload};
use crate::memory::budget::{Account, Acquire, Holder, Lease};
use crate::memory::relief::Relief;
use crate::memory::spool::{Spool, SpoolError};
use crate::types::error::{Error, ErrorKind, Operation, Result};

type Spill = BoxFuture<'static, Result<u64, SpoolError>>;

fn going_on(spilling: &Option<WeakShared<Spill>>) -> Option<Shared<Spill>> {
    spilling.as_ref().and_then(WeakShared::upgrade).filter(|spill| spill.peek().is_none())
}

/// A writer's half-filled part.
#[derive(Debug)]
pub(super) struct PartBuffer {
    upload: Arc<Upload>,
    account: Account,
    idle_limit: Option<Duration>,
    state: Mutex<PartBufferState>,
    /// The spill in progress, if any; a later spill waits for it. Each waiter polls it, because the runtime
    /// of the task that began it may stand still.
    spilling: Mutex<Option<WeakShared<Spill>>>,
    /// Dropped after `account`: as long as memory is held, the relief that can reclaim it lives.
    _relief: Arc<Relief>,
}

#[derive(Debug)]
pub(super) struct PartBufferState {
    pub(super) fill: Fill,
    /// How many parts were taken out of `fill`. A spill that was begun for an earlier part is discarded.
    taken: u64,
    last_write: Instant,
    /// Whether all bytes were taken.
    finishing: bool,
    /// How many tasks write bytes to the spool while their producer waits.
    spooling: usize,
    /// Why the upload was ended, if not by its own writer.
    ended: Option<Error>,
}

impl PartBuffer {
    /// For a writer whose parts take `part` bytes of memory.
    pub(super) fn new(
        upload: Arc<Upload>,
        relief: Arc<Relief>,
        part: u64,
        idle_limit: Option<Duration>,
    ) -> Arc<Self> {
        relief.on(&upload.runtime);
        let fill = Fill::new(upload.backend.capabilities().checksum);
        Arc::new_cyclic(|held: &Weak<Self>| Self {
            account: relief.budget().account(part, held.clone()),
            upload,
            idle_limit,
            state: Mutex::new(PartBufferState {
                fill,
                taken: 0,
                last_write: Instant::now(),
                finishing: false,
                spooling: 0,
                ended: None,
            }),
            spilling: Mutex::default(),
            _relief: relief.clone(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PartBufferState> {
        // Every change is complete before the lock is released, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for memory to fill the part further.
    pub(super) fn grow(&self, bytes: u64) -> Acquire {
        self.account.grow(bytes)
    }

    /// Size of the next slab of a part with `filled` bytes, for a write that has `at_hand` bytes more.
    pub(super) fn next_slab(&self, filled: u64, at_hand: u64) -> u64 {
        self.lock().fill.next_slab(filled, at_hand)
    }

    /// Adds memory to fill the part further.
    pub(super) fn add_slab(&self, lease: Lease) {
        let mut state = self.lock();
        let unused = state.fill.add_slab(lease);
        self.account.returned(unused);
    }

    /// Adds bytes that are shared, not copied.
    pub(super) fn share(&self, lease: Lease, bytes: Bytes) {
        let mut state = self.lock();
        let emptied = state.fill.add_shared(lease, bytes);
        self.account.returned(emptied);
    }

    /// Takes the part out, to be sent; the next part takes `next` bytes of memory. Fails where the upload was
    /// ended as idle: its bytes are gone.
    pub(super) fn take(&self, next: u64) -> Result<Taken> {
        let mut state = self.lock();
        state.check()?;
        state.taken += 1;
        let taken = state.fill.take();
        // Before the lock is released: otherwise the writer could be ended as idle for memory that it no
        // longer holds, just before its request is made.
        self.account.dispatched();
        drop(state);
        self.account.set_part(next);
        Ok(taken)
    }

    /// The part's bytes so far, which stay in the part.
    pub(super) fn copy(&self) -> Taken {
        let mut state = self.lock();
        let (copied, trimmed) = state.fill.copy();
        self.account.returned(trimmed);
        copied
    }

    /// Begins to open the session. Fails where the upload was ended as idle: its abort has already begun, and
    /// would miss a session that is opened now.
    pub(super) fn open(&self) -> Result<()> {
        let state = self.lock();
        state.check()?;
        self.upload.open();
        drop(state);
        Ok(())
    }

    /// All bytes were taken: from here on nobody waits for the producer, and the upload is not ended as idle.
    /// Fails where it was ended already.
    pub(super) fn finish(&self) -> Result<()> {
        let mut state = self.lock();
        state.check()?;
        state.finishing = true;
        Ok(())
    }

    /// Gives back the slab that was left empty at the end.
    pub(super) fn release(&self) {
        let rest = self.lock().fill.take();
        drop(rest);
        self.account.close();
    }

    /// Gives up all memory, cancels the requests in flight and aborts the session.
    pub(super) fn end(&self) -> Ending {
        let mut state = self.lock();
        state.taken += 1;
        let fill = state.fill.take();
        drop(state);
        drop(fill);
        self.account.close();
        self.upload.discard()
    }

    /// Fails where the upload was ended as idle.
    pub(super) fn check(&self) -> Result<()> {
        self.lock().check()
    }

    /// While the guard is held, the upload waits for a disk, not for its producer: a `write` or a `finish`
    /// continues when the disk has taken the bytes.
    pub(super) fn spooling(self: &Arc<Self>) -> IsSpooling {
        self.lock().spooling += 1;
        IsSpooling(self.clone())
    }

    /// Waits for the spill in progress, if any.
    pub(super) async fn spilled(&self) {
        let spilling = going_on(&self.lock_spilling());
        if let Some(spilling) = spilling {
            // The caller that began the spill gets its result.
            let _ = spilling.await;
        }
    }

    /// Writes the part's bytes in memory to the spool; returns how many bytes of the budget that gave back.
    pub(super) async fn spill_to(self: &Arc<Self>, spool: &Spool) -> Result<u64, SpoolError> {
        loop {
            let (spill, is_own) = {
                let mut spilling = self.lock_spilling();
                match going_on(&spilling) {
                    Some(another) => (another, false),
                    None => {
                        let (held, spool) = (self.clone(), spool.clone());
                        let spill: Spill = Box::pin(async move { held.spill_now(&spool).await });
                        let spill = spill.shared();
                        *spilling = spill.downgrade();
                        (spill, true)
                    }
                }
            };
            let spilled = spill.await;
            if is_own {
                return spilled;
            }
        }
    }

    fn lock_spilling(&self) -> MutexGuard<'_, Option<WeakShared<Spill>>> {
        self.spilling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn spill_now(&self, spool: &Spool) -> Result<u64, SpoolError> {
        let (pieces, trimmed, before, part) = {
            let mut state = self.lock();
            let (pieces, trimmed) = state.fill.pieces();
            self.account.returned(trimmed);
            (pieces, trimmed, state.fill.stored().clone(), state.taken)
        };
        if pieces.is_empty() {
            return Ok(trimmed);
        }
        let stored = spool.store(&before, &pieces).await?;
        let (released, leased) = {
            let mut state = self.lock();
            if state.taken != part {
                return Ok(trimmed); // the part was sent from memory meanwhile; the blocks are free again
            }
            let (released, leased) = state.fill.spilled(stored, pieces.len());
            // Before the lock is released: it is this part that holds less, not the next one.
            self.account.returned(leased);
            (released, leased)
        };
        tracing::debug!(object = self.upload.requests.object, bytes = leased, "spilled");
        drop((pieces, released));
        self.upload.requests.progress.spilled(leased);
        Ok(trimmed + leased)
    }
}

/// Guards a write to the spool that the producer waits for.
#[derive(Debug)]
pub(super) struct IsSpooling(Arc<PartBuffer>);

impl Drop for IsSpooling {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.spooling -= 1;
        state.goes_on(); // the producer could not write before
    }
}

impl PartBufferState {
    /// Restarts the idle time: bytes were taken, or the writer waited for memory and could take none until
    /// now.
    pub(super) fn goes_on(&mut self) {
        self.last_write = Instant::now();
    }

    fn check(&self) -> Result<()> {
        match &self.ended {
            Some(error) => Err(error.again()),
            None => Ok(()),
        }
    }
}

impl Holder for PartBuffer {
    fn object(&self) -> String {
        self.upload.requests.object.clone()
    }

    fn last_write(&self) -> Instant {
        self.lock().last_write
    }

    fn idle_limit(&self) -> Option<Duration> {
        self.idle_limit
    }

    fn spill(self: Arc<Self>, spool: Spool) -> BoxFuture<'static, Result<u64, SpoolError>> {
        Box::pin(async move { self.spill_to(&spool).await })
    }

    fn trim(&self) -> u64 {
        let mut state = self.lock();
        let trimmed = state.fill.trim();
        self.account.trimmed(trimmed);
        trimmed
    }

    fn end_idle(&self, idle: Duration) -> bool {
        let mut state = self.lock();
        let over = state.finishing || state.spooling > 0 || state.ended.is_some();
        if over || state.last_write.elapsed() < idle || !self.account.is_left() {
            return false;
        }
        let message = format!(
            "it took no byte for {:.1} s while others waited for the memory that it held",
            state.last_write.elapsed().as_secs_f64()
        );
        state.ended = Some(self.upload.error(ErrorKind::Idle, Operation::Write, message));
        drop(state);
        // The abort runs in a task of its own.
        drop(self.end());
        true
    }
}
