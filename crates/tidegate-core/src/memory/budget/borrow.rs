//! Memory to read ahead into: lent while nobody else needs it, and called back when somebody does.
//!
//! Memory that holds read-ahead bytes comes back when their consumer takes them, and that consumer may wait for a
//! writer that waits for memory. So the memory is lent, not held: it is lent only while nobody waits, and never
//! more than half of the budget. When a wait could not end as long as lent memory stays where it is, as much as is
//! in the way is called back, the last loan first. A reader whose memory is called back drops the bytes that it has
//! read ahead and continues without: it reads from its open request as its consumer asks, and needs no memory for
//! that. So to everyone else lent memory is like memory in flight: it always comes back, and the argument at the
//! head of `budget.rs` still holds.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use super::{Budget, BudgetState};

/// A reader that was lent memory.
pub trait Borrower: Debug + Send + Sync + 'static {
    /// Drops the read-ahead bytes and their memory, at once.
    fn give_back(&self);
}

/// The loans, oldest first.
#[derive(Debug, Default)]
pub(super) struct Loans {
    /// How many readers are open.
    readers: u64,
    /// The sum of the loans that were not called back.
    pub(super) bytes: u64,
    loans: BTreeMap<u64, (u64, Weak<dyn Borrower>)>,
}

impl Budget {
    /// Opens a reader's account.
    pub fn reading(&self) -> Reading {
        self.shared.lock().lent.readers += 1;
        Reading { budget: self.clone(), held: Arc::default() }
    }
}

impl BudgetState {
    /// The most that may be lent: half of the budget, or less if the largest part leaves less.
    fn lendable(&self, total: u64) -> u64 {
        let largest_part = self.parts.last_key_value().map_or(0, |(part, _)| *part);
        (total / 2).min(total.saturating_sub(largest_part))
    }

    /// The borrowers that must give back so many bytes, the last loan first.
    pub(super) fn call_back(&mut self, mut bytes: u64) -> Vec<Arc<dyn Borrower>> {
        let mut called = Vec::new();
        while bytes > 0
            && let Some((_, (lent, borrower))) = self.lent.loans.pop_last()
        {
            bytes = bytes.saturating_sub(lent);
            self.lent.bytes -= lent;
            // A borrower that is gone has given its memory back, or is about to.
            called.extend(borrower.upgrade());
        }
        called
    }
}

/// A reader's account with the budget, for as long as the reader is open.
#[derive(Debug)]
pub struct Reading {
    budget: Budget,
    /// Bytes that the reader was lent.
    held: Arc<AtomicU64>,
}

impl Reading {
    /// The most that this reader may be lent now, for all that it reads ahead: the same for every reader.
    pub fn share(&self) -> u64 {
        let state = self.budget.shared.lock();
        state.lendable(self.budget.shared.total) / state.lent.readers.max(1)
    }

    /// Lends memory to read ahead into, if nobody else needs it.
    pub fn borrow(&self, bytes: u64, borrower: Weak<dyn Borrower>) -> Option<Loan> {
        let mut state = self.budget.shared.lock();
        let total = self.budget.shared.total;
        let lendable = state.lendable(total);
        let share = lendable / state.lent.readers.max(1);
        let fits = state.waiters.is_empty()
            && state.held + bytes <= total
            && state.lent.bytes + bytes <= lendable
            && self.held.load(Relaxed) + bytes <= share;
        if !fits {
            return None;
        }
        let id = state.take_id();
        state.take_memory(bytes);
        state.lent.bytes += bytes;
        state.lent.loans.insert(id, (bytes, borrower));
        self.held.fetch_add(bytes, Relaxed);
        Some(Loan { budget: self.budget.clone(), id, bytes, held: self.held.clone() })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.budget.shared.lock().lent.readers -= 1;
    }
}

/// Lent memory; given back when dropped.
#[derive(Debug)]
pub struct Loan {
    budget: Budget,
    id: u64,
    bytes: u64,
    held: Arc<AtomicU64>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Relaxed);
        let mut state = self.budget.shared.lock();
        state.return_memory(self.bytes);
        if state.lent.loans.remove(&self.id).is_some() {
            state.lent.bytes -= self.bytes;
        }
        self.budget.shared.settle(state);
    }
}
