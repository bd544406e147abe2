//! The spool, and the memory that spooled parts are sent through.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::engine::limiter::{Concurrency, Flow, Limiter, Permit};
use crate::memory::budget::Budget;
use crate::memory::payload::{RING, Ring};
use crate::memory::spool::Spool;

/// Spooled parts are sent through rings of slabs, from memory that was set aside when the engine was built: so a
/// spooled part never waits for memory that only another writer could give back.
///
/// A connection whose peer does not read still holds its slabs after its request is gone. So where there is enough
/// memory, one more ring is set aside than may be lent at once: a retry, or the next writer, takes the spare ring.
#[derive(Debug)]
pub(crate) struct Spooling {
    spool: Spool,
    /// Memory for rings alone; nothing else can take it.
    budget: Budget,
    /// Writers take turns for rings, so that a writer with a thousand parts does not hold up one with two.
    turns: Limiter,
    /// Spooled parts that are being sent or wait for a ring.
    draining: AtomicUsize,
}

impl Spooling {
    /// One part in this many of the budget is set aside for rings, at least one ring.
    const SHARE: u64 = 8;

    /// A budget with room for this many rings sets aside a spare one.
    const SPARE_FROM: u64 = 4;

    /// How much memory to set aside, of a budget of `total` bytes in slabs of `slab`.
    pub(crate) fn reserve(total: u64, slab: u64) -> u64 {
        let ring = RING * slab;
        let spare = u64::from(total / ring >= Self::SPARE_FROM);
        ((total / Self::SHARE / ring).max(1) + spare) * ring
    }

    /// Sends through `reserve` bytes, in slabs of `slab` bytes.
    pub(crate) fn new(spool: Spool, reserve: u64, slab: usize) -> Self {
        let rings = reserve / (RING * slab as u64);
        let lent = usize::try_from(rings.saturating_sub(1).max(1)).unwrap_or(usize::MAX);
        let turns = Limiter::new(Concurrency::Fixed(lent));
        Self { spool, budget: Budget::new(reserve, slab), turns, draining: AtomicUsize::new(0) }
    }

    /// Bytes that are set aside.
    pub(crate) fn reserved(&self) -> u64 {
        self.budget.total()
    }

    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// How many spooled parts are being sent or wait for a ring.
    pub(crate) fn draining(&self) -> usize {
        self.draining.load(Relaxed)
    }

    /// A writer's place in the queue for rings.
    pub(crate) fn line(self: &Arc<Self>) -> Line {
        Line { spooling: self.clone(), flow: self.turns.flow() }
    }
}

/// A writer's place in the queue for rings.
#[derive(Debug)]
pub(crate) struct Line {
    spooling: Arc<Spooling>,
    flow: Flow,
}

impl Line {
    /// Waits for a ring, which is lent until the guard is dropped.
    pub(crate) async fn ring(&self) -> (Ring, Lent) {
        self.spooling.draining.fetch_add(1, Relaxed);
        let draining = Draining(self.spooling.clone());
        let permit = self.flow.permit().await;
        let budget = &self.spooling.budget;
        // This waits only for slabs that connections still hold after their requests are gone. The wait is never
        // refused: this memory has no relief.
        let ring = match budget.lease(RING * budget.slab_size() as u64).await {
            Ok(lease) => Ring::of(lease).without_hedges(),
            Err(_) => Ring::new(Vec::new()),
        };
        (ring, Lent { _permit: permit, _draining: draining })
    }
}

/// The loan of a ring; ends on drop.
#[derive(Debug)]
pub(crate) struct Lent {
    _permit: Permit,
    _draining: Draining,
}

#[derive(Debug)]
struct Draining(Arc<Spooling>);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.draining.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_is_set_aside_and_a_ring_for_retries() {
        const SLAB: u64 = 256 << 10;
        let rings = |slabs: u64| Spooling::reserve(slabs * SLAB, SLAB) / SLAB / RING;
        assert_eq!([3, 11, 12, 24, 48, 96].map(rings), [1, 1, 2, 2, 3, 5]);
        assert_eq!(rings(1024), 1024 / 8 / 3 + 1);
    }
}
