//! Memory: one budget in bytes for every writer and reader of a [`Tidegate`](crate::Tidegate).
//!
//! Three kinds of memory are told apart. *Half-filled* memory holds bytes of a part that is not full:
//! only its producer can bring it back. Memory *in flight* belongs to a request, which needs no more
//! to finish: it always comes back. Memory that readers were *lent* comes back when it is called for (`borrow.rs`).
//!
//! # Why it cannot deadlock
//!
//! Let `h(w)` be what writer `w` holds in a half-filled part, and `P` the largest part of any open
//! writer. A grant is made only if afterwards
//!
//! ```text
//! sum of h  -  largest h  +  P  <=  total
//! ```
//!
//! or if it goes to the writer that holds most already, which leaves the first two terms as they are
//! (the rule can be broken for a while when a writer with larger parts is opened). So once everything
//! in flight has come back, the writer that holds most can always fill its part: nobody waits for
//! memory that only a waiting writer could return. When it has, its part is in flight and the next
//! largest takes its place, with no less room.
//!
//! Waiting is first come, first served, by parts: a writer comes when it begins a part, and is behind all
//! others when it begins the next. So memory goes into parts that become whole, not into the beginnings
//! of thousands, and each waits for no more than one part of everyone before it. Where the rule stops the writer at the head, only a writer
//! that holds most and requests (which need nobody else) pass it. A writer does so at most once for
//! each of its parts. Requests may pass without end, and bring the writer at the head nothing: it counts
//! as stopped all the while, so that what half-filled memory keeps from it is dealt with as below, and
//! nobody starves. Where half-filled memory leaves no room for a request at the head (one that streams
//! a file needs three slabs to begin), a writer that holds most passes it likewise.
//!
//! Memory that was granted for a request, and that nobody has come to take, is not in flight: nothing but its
//! waiter would bring it back. Where it stands in the way, it is taken back after a while.
//!
//! What remains is a writer that holds most and whose producer does not go on: a wait that only it
//! can end is seen here ([`Budget::pressure`]), and dealt with in `engine/relief.rs`: its bytes go to
//! the spool, or it has been idle beyond its limit and is ended, or the wait becomes an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

use tokio::runtime::Id;
use tokio::sync::Notify;
use tokio::time::Instant;

mod acquire;
mod borrow;
mod pool;
mod pressure;
mod queue;
mod runtimes;
mod slab;
#[cfg(test)]
mod tests;

pub(crate) use acquire::Acquire;
use borrow::Lent;
pub(crate) use borrow::{Borrower, Loan, Reading};
use pool::Pool;
pub(crate) use pressure::{HalfFilled, Holder, Pressure, Share, Starved};
pub(crate) use runtimes::Relieving;
use runtimes::{Runtimes, Start};
pub(crate) use slab::Slab;

/// One budget; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

/// What a budget holds at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The whole budget.
    pub total: u64,
    /// Held now, in flight, half-filled or lent to those who read ahead.
    pub held: u64,
    /// Held in half-filled parts.
    pub half_filled: u64,
    /// At most this much was ever held at once: with journals it is the sum of two peaks, what producers and
    /// what requests held, which need not have been at the same moment.
    pub peak: u64,
    /// How many writers and requests wait for memory.
    pub waiting: usize,
    /// Space taken in the spool directories.
    pub spooled: u64,
}

struct Shared {
    total: u64,
    slab: usize,
    state: Mutex<State>,
    /// Told when what is waited for may have changed.
    changed: Notify,
    /// Called when half-filled memory stands in the way.
    relief: OnceLock<Start>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("total", &self.total).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    held: u64,
    peak: u64,
    half_filled: u64,
    next_id: u64,
    accounts: BTreeMap<u64, Holding>,
    /// `(half-filled bytes, account)`: the last is the writer that holds most.
    by_holding: BTreeSet<(u64, u64)>,
    /// Those of them that wait: thousands may hold the same, and be passed over at every change.
    holding_waiters: BTreeSet<(u64, u64)>,
    /// Part size and how many open writers have it: the last is `P`.
    parts: BTreeMap<u64, usize>,
    waiters: BTreeMap<u64, Waiter>,
    runtimes: Runtimes,
    /// Those of the waiters that wait for memory in flight.
    requests: BTreeSet<u64>,
    /// `(bytes, waiter)`: the last waits for most.
    by_bytes: BTreeSet<(u64, u64)>,
    /// Since when each of the waiters waits: the first waits longest.
    by_wait: BTreeSet<(Instant, u64)>,
    granted: BTreeMap<u64, Granted>,
    /// The sum of their bytes.
    granted_bytes: u64,
    /// That of those for memory in flight: nobody's request has it yet.
    untaken: u64,
    /// Waits that were ended with an error which was not taken yet, and when.
    refused: BTreeMap<u64, (Starved, Instant)>,
    /// When a wait was last ended with an error.
    refused_at: Option<Instant>,
    /// How often that was since a part last left.
    refusals: u32,
    /// When half-filled memory last became more or less.
    half_moved: Option<Instant>,
    /// Whether half-filled memory stood in the way when it was last looked at.
    stopped: bool,
    lent: Lent,
    pool: Pool,
}

#[derive(Debug)]
struct Holding {
    half_filled: u64,
    part: u64,
    /// Its place in line, from the first byte of its part to the last.
    place: Option<u64>,
    waiting: Option<u64>,
    /// A grant that its writer has not taken yet.
    granted: Option<u64>,
    holder: Weak<dyn Holder>,
}

#[derive(Debug)]
struct Waiter {
    /// The writer whose part grows, or `None` for memory in flight.
    account: Option<u64>,
    bytes: u64,
    since: Instant,
    waker: Waker,
    /// Where it was polled last.
    runtime: Option<Id>,
}

/// Memory that its waiter was told of and has not taken.
#[derive(Debug)]
struct Granted {
    account: Option<u64>,
    bytes: u64,
    at: Instant,
}

impl Budget {
    pub(crate) fn new(total: u64, slab: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                total,
                slab,
                state: Mutex::new(State { pool: Pool::new(slab), ..State::default() }),
                changed: Notify::new(),
                relief: OnceLock::new(),
            }),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.shared.total
    }

    /// Size of a full slab, in bytes.
    pub(crate) fn slab_size(&self) -> usize {
        self.shared.slab
    }

    pub(crate) fn usage(&self) -> Usage {
        let state = self.shared.lock();
        Usage {
            total: self.shared.total,
            held: state.held,
            half_filled: state.half_filled,
            peak: state.peak,
            waiting: state.waiters.len(),
            spooled: 0,
        }
    }

    /// Opens the account of the writer `holder`, whose parts take `part` bytes of memory, at most the
    /// total.
    pub(crate) fn account(&self, part: u64, holder: Weak<dyn Holder>) -> Account {
        let mut state = self.shared.lock();
        let id = state.take_id();
        let holding = Holding { half_filled: 0, part, place: None, waiting: None, granted: None, holder };
        state.accounts.insert(id, holding);
        state.by_holding.insert((0, id));
        *state.parts.entry(part).or_default() += 1;
        Account { budget: self.clone(), id }
    }

    /// Memory of a request in flight where there is some at once, past any that wait.
    pub(crate) fn try_lease(&self, bytes: u64) -> Option<Lease> {
        let mut state = self.shared.lock();
        if state.held + bytes > self.shared.total {
            return None;
        }
        state.held += bytes;
        state.peak = state.peak.max(state.held);
        drop(state);
        Some(Lease { budget: self.clone(), bytes })
    }

    /// Waits for memory of a request in flight.
    pub(crate) fn lease(&self, bytes: u64) -> Acquire {
        Acquire { budget: self.clone(), account: None, bytes, id: None }
    }
}

/// A writer's standing with the budget. Dropping it closes it; leases that it took live on.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Budget,
    id: u64,
}

impl Account {
    /// Waits for memory to fill the current part further; one wait at a time.
    pub(crate) fn grow(&self, bytes: u64) -> Acquire {
        Acquire { budget: self.budget.clone(), account: Some(self.id), bytes, id: None }
    }

    /// The current part was handed to a request: what it held is in flight now.
    pub(crate) fn dispatched(&self) {
        let mut state = self.budget.shared.lock();
        state.hold(self.id, 0);
        state.refusals = 0;
        if let Some(holding) = state.accounts.get_mut(&self.id) {
            holding.place = None;
        }
        self.budget.shared.settle(state);
    }

    /// The next part is of `part` bytes.
    pub(crate) fn set_part(&self, part: u64) {
        let mut state = self.budget.shared.lock();
        let Some(holding) = state.accounts.get_mut(&self.id) else { return };
        let before = std::mem::replace(&mut holding.part, part);
        if before != part {
            state.forget_part(before);
            *state.parts.entry(part).or_default() += 1;
            self.budget.shared.settle(state);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut state = self.budget.shared.lock();
        state.hold(self.id, 0);
        if let Some(holding) = state.accounts.remove(&self.id) {
            state.by_holding.remove(&(0, self.id));
            state.holding_waiters.remove(&(0, self.id));
            state.forget_part(holding.part);
        }
        self.budget.shared.settle(state);
    }
}

/// Bytes of the budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Budget,
    bytes: u64,
}

impl Lease {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Size of a full slab of its budget, in bytes.
    pub(crate) fn slab_size(&self) -> usize {
        self.budget.slab_size()
    }

    /// Takes in another of the same budget.
    fn join(&mut self, other: Option<Self>) {
        if let Some(mut other) = other {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    /// Takes `bytes` of it, at most all, into a lease of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.budget.shared.lock();
        state.held -= self.bytes;
        self.budget.shared.settle(state);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change below is made whole before the lock is given up, so a poisoned state is sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a change: those who wait are served, and lent memory that is in their way is called back.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        state.serve(self);
        let called = state.call_back(self.total);
        // Unlocked, for what is given back goes to those who wait.
        drop(state);
        called.iter().for_each(|borrower| borrower.give_back());
    }
}
