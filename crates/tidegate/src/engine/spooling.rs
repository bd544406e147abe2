//! The spool and the buffers through which spooled parts are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::engine::limiter::{Concurrency, Flow, Limiter, Permit};
use crate::memory::budget::Budget;
use crate::memory::payload::{RING, Ring};
use crate::memory::spool::Spool;

/// Spooled parts are sent through rings of slabs out of memory that was set aside when the engine was
/// built: a part in the spool never waits for memory that only another could give back.
///
/// A connection whose peer does not read holds slabs after its request is gone. One ring more is set aside
/// than is lent, where there is memory enough: a retry takes that, or the next who is lent one.
#[derive(Debug)]
pub(crate) struct Spooling {
    spool: Spool,
    /// Of its own: nobody else can take it.
    budget: Budget,
    /// Rings go round the writers, so that one with a thousand parts does not hold up one with two.
    turns: Limiter,
    /// Spooled parts that are being sent, or wait for a ring.
    draining: AtomicUsize,
}

impl Spooling {
    /// This share of the budget is set aside for rings, at least one.
    const SHARE: u64 = 8;

    /// With room for so many rings there is one to spare.
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

    /// How many spooled parts are being sent, or wait for that.
    pub(crate) fn draining(&self) -> usize {
        self.draining.load(Relaxed)
    }

    /// A writer's place among those who wait for rings.
    pub(crate) fn line(self: &Arc<Self>) -> Line {
        Line { spooling: self.clone(), flow: self.turns.flow() }
    }
}

/// A writer's place among those who wait for rings.
#[derive(Debug)]
pub(crate) struct Line {
    spooling: Arc<Spooling>,
    flow: Flow,
}

impl Line {
    /// Waits for a ring, which is lent for as long as the guard is held.
    pub(crate) async fn ring(&self) -> (Ring, Lent) {
        self.spooling.draining.fetch_add(1, Relaxed);
        let draining = Draining(self.spooling.clone());
        let permit = self.flow.permit().await;
        let budget = &self.spooling.budget;
        // What is waited for here are slabs that connections hold whose requests are gone. Nobody refuses
        // such a wait: there is no relief for this memory.
        let ring = match budget.lease(RING * budget.slab_size() as u64).await {
            Ok(lease) => Ring::of(lease).without_hedges(),
            Err(_) => Ring::new(Vec::new()),
        };
        (ring, Lent { _permit: permit, _draining: draining })
    }
}

/// That a ring is lent.
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
