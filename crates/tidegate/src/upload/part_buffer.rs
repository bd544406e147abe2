//! What a writer holds of the budget: the part that is being filled. Others can reach it: its bytes can
//! go to the spool while its producer does nothing, or be given up.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

use super::fill::{Fill, Taken};
use super::state::{Tasks, Upload};
use crate::engine::relief::Relief;
use crate::memory::budget::{Account, Acquire, Holder, Lease};
use crate::memory::spool::{Spool, SpoolError};
use crate::types::error::{Error, ErrorKind, Operation, Result};

type Spill = BoxFuture<'static, Result<u64, SpoolError>>;

/// The end of an upload that publishes nothing: its requests are stopped and its session is aborted.
pub(super) type Ending = Shared<BoxFuture<'static, Result<(), Arc<Error>>>>;

fn going_on(spilling: &Option<WeakShared<Spill>>) -> Option<Shared<Spill>> {
    spilling.as_ref().and_then(WeakShared::upgrade).filter(|spill| spill.peek().is_none())
}

/// A writer's half-filled part and its requests in flight.
#[derive(Debug)]
pub(super) struct Held {
    upload: Arc<Upload>,
    account: Account,
    idle_limit: Option<Duration>,
    state: Mutex<State>,
    /// The spill that goes on, if any: what comes later goes behind it. Whoever waits for it moves it on, for
    /// the runtime of the one who began it may stand still.
    spilling: Mutex<Option<WeakShared<Spill>>>,
    /// Locked before the state.
    ending: Mutex<Option<Ending>>,
    /// After the account: as long as memory is held, there is someone to bring it back.
    _relief: Arc<Relief>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) fill: Fill,
    pub(super) tasks: Tasks,
    /// How many parts were taken out of `fill`: what was begun for an earlier one is of no use.
    taken: u64,
    last_write: Instant,
    /// Whether all bytes are in.
    finishing: bool,
    /// How many tasks bring bytes to the spool before their producer may go on.
    spooling: usize,
    /// Why the upload was ended by another than its writer.
    ended: Option<Error>,
}

impl Held {
    /// Of a writer whose parts take `part` bytes of memory.
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
            state: Mutex::new(State {
                fill,
                tasks: Tasks::new(),
                taken: 0,
                last_write: Instant::now(),
                finishing: false,
                spooling: 0,
                ended: None,
            }),
            spilling: Mutex::default(),
            ending: Mutex::default(),
            _relief: relief.clone(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is made whole before the lock is given up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for memory to fill the part further.
    pub(super) fn grow(&self, bytes: u64) -> Acquire {
        self.account.grow(bytes)
    }

    /// Takes memory to fill the part further.
    pub(super) fn add_slab(&self, lease: Lease) {
        let mut state = self.lock();
        let unused = state.fill.add_slab(lease);
        self.account.returned(unused);
    }

    /// The part, to be sent; the next one takes `next` bytes of memory. Fails where another has ended the
    /// upload: what was given up then is not there to be sent.
    pub(super) fn take(&self, next: u64) -> Result<Taken> {
        let mut state = self.lock();
        state.check()?;
        state.taken += 1;
        let taken = state.fill.take();
        // Before the lock is given up: nobody ends the writer as idle for what it does not hold any more,
        // with its request about to be made.
        self.account.dispatched();
        drop(state);
        self.account.set_part(next);
        Ok(taken)
    }

    /// Asks for the session. Fails where another has ended the upload: that has aborted what there was, and
    /// nobody would abort what comes after.
    pub(super) fn open(&self) -> Result<()> {
        let state = self.lock();
        state.check()?;
        self.upload.open();
        drop(state);
        Ok(())
    }

    /// All bytes are in: from here on its producer is not what is waited for, and nobody else ends it.
    /// Fails where another has.
    pub(super) fn finish(&self) -> Result<()> {
        let mut state = self.lock();
        state.check()?;
        state.finishing = true;
        Ok(())
    }

    /// Gives back a slab that nothing came into before the end.
    pub(super) fn release(&self) {
        let rest = self.lock().fill.take();
        drop(rest);
        self.account.close();
    }

    /// Gives up everything that is held, stops the requests in flight and aborts the session. Everyone who asks
    /// waits for the same end; an abort that failed is tried once more for whoever asks after it.
    pub(super) fn end(&self) -> Ending {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = &*ending
            && !matches!(begun.peek(), Some(Err(_)))
        {
            return begun.clone();
        }
        let ended = self.upload.abort(self.give_up());
        let ended = async move { ended.await.map_err(Arc::new) }.boxed().shared();
        ending.insert(ended).clone()
    }

    fn give_up(&self) -> Tasks {
        let mut state = self.lock();
        state.taken += 1;
        let (fill, tasks) = (state.fill.take(), mem::take(&mut state.tasks));
        drop(state);
        drop(fill);
        self.account.close();
        tasks
    }

    /// Fails where another has ended the upload.
    pub(super) fn check(&self) -> Result<()> {
        self.lock().check()
    }

    /// For as long as it is held, a disk is what is waited for, not the producer: a `write` or a `finish`
    /// goes on when it has taken the bytes.
    pub(super) fn spooling(self: &Arc<Self>) -> IsSpooling {
        self.lock().spooling += 1;
        IsSpooling(self.clone())
    }

    /// Waits until the spill that goes on, if any, is over.
    pub(super) async fn spilled(&self) {
        let spilling = going_on(&self.lock_spilling());
        if let Some(spilling) = spilling {
            // Whoever began it is told how it went.
            let _ = spilling.await;
        }
    }

    /// Writes what is in memory of the part to the spool; says how many bytes that brought back.
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
                return Ok(trimmed); // it was sent from memory meanwhile; the blocks are free again
            }
            let (released, leased) = state.fill.spilled(stored, pieces.len());
            // Before the lock is given up: it is this part that holds less, not the one after it.
            self.account.returned(leased);
            (released, leased)
        };
        tracing::debug!(object = self.upload.requests.object, bytes = leased, "spilled");
        drop((pieces, released));
        self.upload.requests.progress.spilled(leased);
        Ok(trimmed + leased)
    }
}

/// Bytes of a writer are on their way to the spool, and its producer waits for that.
#[derive(Debug)]
pub(super) struct IsSpooling(Arc<Held>);

impl Drop for IsSpooling {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.spooling -= 1;
        state.goes_on(); // could not before
    }
}

impl State {
    /// Bytes were taken in; or memory was waited for, so that they could not be until now.
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

impl Holder for Held {
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
        // It goes on in a task of its own.
        drop(self.end());
        true
    }
}
