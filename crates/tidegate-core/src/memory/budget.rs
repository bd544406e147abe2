//! Memory: one budget, in bytes, for all writers and readers of a `Tidegate`.
//!
//! There are three kinds of memory. *Half-filled* memory holds bytes of a part that is not full: only its producer
//! can bring it back. Memory *in flight* belongs to a request, which needs no more memory to finish: it always
//! comes back. Memory that readers were *lent* comes back when it is called back (`borrow.rs`).
//!
//! # Why it cannot deadlock
//!
//! Let `h(w)` be the memory that writer `w` holds in a half-filled part, and `P` the largest part of any open
//! writer. A grant is made only if afterwards
//!
//! ```text
//! sum of h  -  largest h  +  P  <=  total
//! ```
//!
//! or if it goes to the writer that already holds most, which leaves the first two terms as they are. (The rule can
//! be broken for a while when a writer with larger parts is opened.) So once everything in flight has come back,
//! the writer that holds most can always fill its part: nobody waits for memory that only a waiting writer could
//! return. When that part is full it is in flight, and the next largest takes its place, with no less room.
//!
//! Waiting is first come, first served, by parts: a writer joins the queue when it begins a part, and is behind all
//! others when it begins the next. So memory goes into parts that become full, not into the beginnings of
//! thousands, and each writer waits for at most one part of every writer before it. If the rule stops the writer at
//! the head of the queue, only a writer that holds most and requests (which need nobody else) pass the head. A
//! writer does so at most once for each of its parts. Requests may do so without end, and bring the writer at the
//! head nothing, so it counts as stopped all the while: the half-filled memory in its way is dealt with as
//! described below, and nobody starves. If half-filled memory leaves no room for a request at the head (a request
//! that streams a file needs three slabs to begin), a writer that holds most passes the request likewise.
//!
//! Memory that was granted for a request, and that its waiter has not taken, is not in flight: only the waiter
//! would bring it back. Where it stands in the way, it is reclaimed after a while.
//!
//! One case remains: a writer that holds most and whose producer does not continue. A wait that only this producer
//! can end is detected here ([`Decision::Relieve`]) and dealt with in `memory/relief.rs`: the writer's bytes are
//! spilled to the spool, or it gives back the free end of its slab, or it has been idle beyond its limit and is ended,
//! or the wait becomes an error.
//!
//! `decision.rs` makes each of these decisions, from the figures of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

use tokio::runtime::Id;
use tokio::sync::Notify;
use tokio::time::Instant;

mod acquire;
mod borrow;
mod decision;
mod pool;
mod pressure;
mod queue;
mod runtimes;
mod slab;
#[cfg(test)]
mod tests;

pub use acquire::Acquire;
use borrow::Loans;
pub use borrow::{Borrower, Loan, Reading};
pub use decision::{
    Activity, Decision, LOOK_AGAIN, MemorySnapshot, Share, SpoolState, Stall, Tried, UNTAKEN, decide,
};
use pool::Pool;
pub use pressure::{Holder, Starved};
pub use runtimes::Relieving;
use runtimes::{Runtimes, Start};
pub use slab::Slab;

/// One budget; clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<BudgetShared>,
}

/// The figures of a budget at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The whole budget.
    pub total: u64,
    /// Held now: in flight, half-filled, or lent to readers that read ahead.
    pub held: u64,
    /// Held in half-filled parts.
    pub half_filled: u64,
    /// The most that was ever held at once. With journals it is an upper bound: the sum of the peaks of producers
    /// and of requests, which need not have been at the same moment.
    pub peak: u64,
    /// How many writers and requests wait for memory.
    pub waiting: usize,
    /// Space taken in the spool directories.
    pub spooled: u64,
}

struct BudgetShared {
    total: u64,
    slab: usize,
    state: Mutex<BudgetState>,
    /// Notified when the reason of a wait may have changed.
    changed: Notify,
    /// Called when half-filled memory stands in the way of waiters.
    relief: OnceLock<Start>,
}

impl std::fmt::Debug for BudgetShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("total", &self.total).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct BudgetState {
    held: u64,
    peak: u64,
    half_filled: u64,
    next_id: u64,
    accounts: BTreeMap<u64, Holding>,
    /// `(half-filled bytes, account)`: the last entry is the writer that holds most.
    by_holding: BTreeSet<(u64, u64)>,
    /// The entries of writers that wait. They are kept apart because thousands of writers may hold the same, and
    /// would be passed over at every change.
    holding_waiters: BTreeSet<(u64, u64)>,
    /// How many open writers have each part size: the last size is `P`.
    parts: BTreeMap<u64, usize>,
    waiters: BTreeMap<u64, MemoryWaiter>,
    runtimes: Runtimes,
    /// The waiters that wait for memory in flight.
    requests: BTreeSet<u64>,
    /// `(bytes, waiter)`: the last entry waits for most.
    by_bytes: BTreeSet<(u64, u64)>,
    /// Since when each waiter waits: the first waits longest.
    by_wait: BTreeSet<(Instant, u64)>,
    granted: BTreeMap<u64, Granted>,
    /// The sum of the bytes in `granted`.
    granted_bytes: u64,
    /// The sum of those that were granted as memory in flight: no request has them yet.
    untaken: u64,
    /// Waits that ended with an error that the waiter has not taken yet, and when they ended.
    refused: BTreeMap<u64, (Starved, Instant)>,
    /// When a wait was last ended with an error.
    refused_at: Option<Instant>,
    /// How many waits ended with an error since a part was last dispatched.
    refusals: u32,
    /// When half-filled memory last grew or shrank.
    half_moved: Option<Instant>,
    /// Whether waiters were stopped at the last check.
    stopped: bool,
    lent: Loans,
    pool: Pool,
}

#[derive(Debug)]
struct Holding {
    half_filled: u64,
    part: u64,
    /// The writer's place in the queue, from the first byte of its part to the last.
    place: Option<u64>,
    waiting: Option<u64>,
    /// A grant that the writer has not taken yet.
    granted: Option<u64>,
    /// Whether it got memory since the free end of its slab was last taken back.
    is_slack: bool,
    holder: Weak<dyn Holder>,
}

#[derive(Debug)]
struct MemoryWaiter {
    /// The writer whose part grows, or `None` for memory in flight.
    account: Option<u64>,
    bytes: u64,
    since: Instant,
    waker: Waker,
    /// The runtime on which it was polled last.
    runtime: Option<Id>,
}

/// Memory that was granted and that its waiter has not taken.
#[derive(Debug)]
struct Granted {
    account: Option<u64>,
    bytes: u64,
    at: Instant,
}

impl Budget {
    /// A budget of `total` bytes, in slabs of `slab` bytes.
    pub fn new(total: u64, slab: usize) -> Self {
        Self {
            shared: Arc::new(BudgetShared {
                total,
                slab,
                state: Mutex::new(BudgetState { pool: Pool::new(slab), ..BudgetState::default() }),
                changed: Notify::new(),
                relief: OnceLock::new(),
            }),
        }
    }

    /// The size of the budget in bytes.
    pub fn total(&self) -> u64 {
        self.shared.total
    }

    /// Size of a full slab, in bytes.
    pub fn slab_size(&self) -> usize {
        self.shared.slab
    }

    /// What the budget holds and has lent at this moment.
    pub fn usage(&self) -> Usage {
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
    pub fn account(&self, part: u64, holder: Weak<dyn Holder>) -> Account {
        let mut state = self.shared.lock();
        let id = state.take_id();
        let holding = Holding {
            half_filled: 0,
            part,
            place: None,
            waiting: None,
            granted: None,
            is_slack: false,
            holder,
        };
        state.accounts.insert(id, holding);
        state.by_holding.insert((0, id));
        *state.parts.entry(part).or_default() += 1;
        Account { budget: self.clone(), id }
    }

    /// Takes memory for a request if there is enough now, ahead of all waiters.
    pub fn try_lease(&self, bytes: u64) -> Option<Lease> {
        let mut state = self.shared.lock();
        if state.held + bytes > self.shared.total {
            return None;
        }
        state.take_memory(bytes);
        drop(state);
        Some(Lease { budget: self.clone(), bytes })
    }

    /// Waits for memory for a request.
    pub fn lease(&self, bytes: u64) -> Acquire {
        Acquire { budget: self.clone(), account: None, bytes, id: None }
    }
}

/// A writer's account with the budget. Dropping it closes the account; the writer's leases live on.
#[derive(Debug)]
pub struct Account {
    budget: Budget,
    id: u64,
}

impl Account {
    /// Waits for memory to fill the current part further; only one wait at a time.
    pub fn grow(&self, bytes: u64) -> Acquire {
        Acquire { budget: self.budget.clone(), account: Some(self.id), bytes, id: None }
    }

    /// The current part was handed to a request: its memory is in flight now.
    pub fn dispatched(&self) {
        let mut state = self.budget.shared.lock();
        state.hold(self.id, 0);
        state.refusals = 0;
        if let Some(holding) = state.accounts.get_mut(&self.id) {
            holding.place = None;
        }
        self.budget.shared.settle(state);
    }

    /// Sets the size of the next part, in bytes.
    pub fn set_part(&self, part: u64) {
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
pub struct Lease {
    budget: Budget,
    bytes: u64,
}

impl Lease {
    /// The size of the lease in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Size of a full slab of its budget, in bytes.
    pub fn slab_size(&self) -> usize {
        self.budget.slab_size()
    }

    /// Adds another lease of the same budget to this one.
    fn join(&mut self, other: Option<Self>) {
        if let Some(mut other) = other {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }

    /// Moves `bytes` of it, at most all, into a lease of their own.
    pub fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.budget.shared.lock();
        state.return_memory(self.bytes);
        self.budget.shared.settle(state);
    }
}

impl BudgetShared {
    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        // Every change below is complete before the lock is released, so a poisoned state is sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a change: serves the waiters, calls back lent memory that is in their way, and starts the relief if
    /// nothing in flight can end their waits.
    fn settle(&self, mut state: MutexGuard<'_, BudgetState>) {
        let mut called = Vec::new();
        let stopped = loop {
            match state.serve(self) {
                Decision::CallBack(bytes) => called.extend(state.call_back(bytes)),
                decision => break decision == Decision::Relieve,
            }
        };
        state.tell(self, stopped);
        // Unlocked first: giving memory back locks the state again, to serve the waiters.
        drop(state);
        called.iter().for_each(|borrower| borrower.give_back());
    }
}
