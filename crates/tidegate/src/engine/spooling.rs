//! The spool, and the memory that spooled parts are sent through.

use std::sync::Arc;

use crate::engine::limiter::{Concurrency, Flow, Limiter, Permit};
use crate::memory::budget::Budget;
use crate::memory::payload::{RING, Ring};
use crate::memory::spool::{Draining, Spool};

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
        Self { spool, budget: Budget::new(reserve, slab), turns }
    }

    /// Bytes that are set aside.
    pub(crate) fn reserved(&self) -> u64 {
        self.budget.total()
    }

    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// A writer's place in the queue for rings.
    pub(crate) fn line(self: &Arc<Self>) -> RingTurn {
        RingTurn { spooling: self.clone(), flow: self.turns.flow() }
    }
}

/// A writer's place in the queue for rings.
#[derive(Debug)]
pub(crate) struct RingTurn {
    spooling: Arc<Spooling>,
    flow: Flow,
}

impl RingTurn {
    /// Waits for a ring, which is lent until the guard is dropped.
    pub(crate) async fn ring(&self) -> (Ring, RingLoan) {
        let draining = self.spooling.spool.drain();
        let permit = self.flow.permit().await;
        let budget = &self.spooling.budget;
        // This waits only for slabs that connections still hold after their requests are gone. The wait is never
        // refused: this memory has no relief.
        let ring = match budget.lease(RING * budget.slab_size() as u64).await {
            Ok(lease) => Ring::of(lease).without_hedges(),
            Err(_) => Ring::new(Vec::new()),
        };
        (ring, RingLoan { _permit: permit, _draining: draining })
    }
}

/// The loan of a ring; ends on drop.
#[derive(Debug)]
pub(crate) struct RingLoan {
    _permit: Permit,
    _draining: Draining,
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
