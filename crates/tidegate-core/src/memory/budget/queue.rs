//! The line of the waiters: who waits, and for what, and what is granted to them.

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::decision::{Claim, Claimant};
use super::{BudgetShared, BudgetState, Decision, Granted, MemorySnapshot, MemoryWaiter, decide};
use crate::types::telemetry;

impl BudgetState {
    /// Counts `bytes` as held.
    pub(super) fn take_memory(&mut self, bytes: u64) {
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        telemetry::memory_taken(bytes);
    }

    /// Counts `bytes` as held no more.
    pub(super) fn return_memory(&mut self, bytes: u64) {
        self.held -= bytes;
        telemetry::memory_returned(bytes);
    }

    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The place in the queue for the next wait of a writer, or for a request.
    pub(super) fn place(&mut self, account: Option<u64>) -> u64 {
        let holding = account.and_then(|account| self.accounts.get_mut(&account));
        match holding {
            Some(holding) => *holding.place.get_or_insert_with(|| {
                self.next_id += 1;
                self.next_id
            }),
            None => self.take_id(),
        }
    }

    pub(super) fn forget_part(&mut self, part: u64) {
        if let Some(count) = self.parts.get_mut(&part) {
            *count -= 1;
            if *count == 0 {
                self.parts.remove(&part);
            }
        }
    }

    pub(super) fn enqueue(&mut self, id: u64, waiter: MemoryWaiter) {
        match waiter.account {
            None => {
                self.requests.insert(id);
            }
            Some(account) => {
                if let Some(holding) = self.accounts.get_mut(&account) {
                    holding.waiting = Some(id);
                    self.holding_waiters.insert((holding.half_filled, account));
                }
            }
        }
        self.by_wait.insert((waiter.since, id));
        self.by_bytes.insert((waiter.bytes, id));
        self.waiters.insert(id, waiter);
    }

    pub(super) fn dequeue(&mut self, id: u64) -> Option<MemoryWaiter> {
        let waiter = self.waiters.remove(&id)?;
        self.requests.remove(&id);
        self.by_wait.remove(&(waiter.since, id));
        self.by_bytes.remove(&(waiter.bytes, id));
        self.runtimes.leave(waiter.runtime);
        if let Some(account) = waiter.account
            && let Some(holding) = self.accounts.get_mut(&account)
        {
            holding.waiting = None;
            self.holding_waiters.remove(&(holding.half_filled, account));
        }
        Some(waiter)
    }

    /// A waiter was polled, perhaps by another runtime than before.
    pub(super) fn moved(&mut self, id: u64, to: Option<Handle>) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        if waiter.runtime != to.as_ref().map(Handle::id) {
            self.runtimes.leave(waiter.runtime);
            waiter.runtime = self.runtimes.enter(to);
        }
    }

    pub(super) fn hold(&mut self, account: u64, bytes: u64) {
        let Some(holding) = self.accounts.get_mut(&account) else { return };
        let before = std::mem::replace(&mut holding.half_filled, bytes);
        self.by_holding.remove(&(before, account));
        self.by_holding.insert((bytes, account));
        if self.holding_waiters.remove(&(before, account)) {
            self.holding_waiters.insert((bytes, account));
        }
        self.half_filled = self.half_filled - before + bytes;
        if before != bytes {
            self.half_moved = Some(Instant::now());
        }
    }

    /// The figures to decide from; all zero where nobody waits.
    pub(super) fn snapshot(&self, total: u64) -> MemorySnapshot {
        let Some((&first, _)) = self.waiters.first_key_value() else { return MemorySnapshot::default() };
        let most = self.by_holding.last().map_or(0, |(held, _)| *held);
        let largest = self.holding_waiters.range((most, 0)..).next();
        let largest = largest.and_then(|(_, account)| self.accounts.get(account)?.waiting);
        MemorySnapshot {
            total,
            held: self.held,
            half_filled: self.half_filled,
            untaken: self.untaken,
            lent: self.lent.bytes,
            largest_part: self.parts.last_key_value().map_or(0, |(part, _)| *part),
            first: self.claim(first),
            request: self.requests.first().and_then(|id| self.claim(*id)),
            largest: largest.and_then(|id| self.claim(id)),
            most_wanted: self.by_bytes.last().map_or(0, |(bytes, _)| *bytes),
            stall: None,
        }
    }

    fn claim(&self, id: u64) -> Option<Claim> {
        let waiter = self.waiters.get(&id)?;
        let writer = |account: u64| {
            let half_filled = self.accounts.get(&account)?.half_filled;
            let mut others = self.by_holding.iter().rev().filter(|(_, other)| *other != account);
            let largest_other = others.next().map_or(0, |(held, _)| *held);
            Some(Claimant::Writer { half_filled, largest_other })
        };
        let claimant = waiter.account.and_then(writer).unwrap_or(Claimant::Request);
        Some(Claim { place: id, bytes: waiter.bytes, claimant })
    }

    /// Grants what can be granted; returns the first decision that is no grant.
    pub(super) fn serve(&mut self, shared: &BudgetShared) -> Decision {
        loop {
            match decide(&self.snapshot(shared.total)) {
                Decision::Grant(id) => self.grant(id, shared),
                decision => return decision,
            }
        }
    }

    fn grant(&mut self, id: u64, shared: &BudgetShared) {
        let Some(waiter) = self.dequeue(id) else { return };
        let (account, bytes) = (waiter.account, waiter.bytes);
        self.take_memory(bytes);
        self.trim(shared.total, shared.slab);
        if let Some(account) = account
            && let Some(holding) = self.accounts.get_mut(&account)
        {
            holding.is_slack = true;
            let half_filled = holding.half_filled;
            self.hold(account, half_filled + bytes);
        }
        self.grant_to(id, Granted { account, bytes, at: Instant::now() });
        waiter.waker.wake();
    }

    fn grant_to(&mut self, id: u64, granted: Granted) {
        if let Some(holding) = granted.account.and_then(|account| self.accounts.get_mut(&account)) {
            holding.granted = Some(id);
        }
        self.granted_bytes += granted.bytes;
        if granted.account.is_none() {
            self.untaken += granted.bytes;
        }
        self.granted.insert(id, granted);
    }

    /// Hands its grant to this waiter.
    pub(super) fn take(&mut self, id: u64) -> Option<Granted> {
        let granted = self.granted.remove(&id)?;
        self.granted_bytes -= granted.bytes;
        if granted.account.is_none() {
            self.untaken -= granted.bytes;
        }
        if let Some(holding) = granted.account.and_then(|account| self.accounts.get_mut(&account)) {
            holding.granted = None;
        }
        Some(granted)
    }

    /// Reclaims a grant that this waiter has not taken, and returns its bytes.
    pub(super) fn return_grant(&mut self, id: u64) -> u64 {
        let Some(Granted { account, bytes, .. }) = self.take(id) else { return 0 };
        self.return_memory(bytes);
        if let Some(account) = account {
            let half_filled = self.accounts.get(&account).map_or(0, |holding| holding.half_filled);
            self.hold(account, half_filled.saturating_sub(bytes));
        }
        bytes
    }

    /// Free blocks count too: together with held memory they stay within the budget, not counting one slab and the
    /// grants whose slabs were not taken out of the pool yet.
    fn trim(&mut self, total: u64, slab: usize) {
        let granted = self.granted_bytes + slab as u64;
        self.pool.trim(total.saturating_sub(self.held).saturating_add(granted));
    }
}
