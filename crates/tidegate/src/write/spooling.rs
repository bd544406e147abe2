//! The spool and the buffers through which spooled parts are sent.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::file::RING;
use crate::budget::{Budget, Slab};
use crate::limiter::{Concurrency, Flow, Limiter, Permit};
use crate::payload::Ring;
use crate::spool::Spool;

/// Spooled parts are sent through rings of slabs that were set aside when the engine was built: a part
/// in the spool never waits for memory that only another could give back.
#[derive(Debug)]
pub(crate) struct Spooling {
    spool: Spool,
    reserved: u64,
    rings: Mutex<Vec<Ring>>,
    /// Rings go round the writers, so that one with a thousand parts does not hold up one with two.
    turns: Limiter,
    /// Spooled parts that are being sent, or wait for a ring.
    draining: AtomicUsize,
}

impl Spooling {
    /// This share of the budget is set aside for rings, at least one.
    const SHARE: u64 = 8;

    /// How much memory to set aside, of a budget of `total` bytes in slabs of `slab`.
    pub(crate) fn reserve(total: u64, slab: u64) -> u64 {
        (total / Self::SHARE / (RING * slab)).max(1) * RING * slab
    }

    /// Sends through `reserve` bytes, in slabs of `slab` bytes.
    pub(crate) fn new(spool: Spool, reserve: u64, slab: usize) -> Self {
        // A budget of their own: nobody else can take it, and nobody waits for it.
        let budget = Budget::new(reserve, slab);
        let slabs = std::iter::from_fn(|| budget.try_lease(slab as u64).map(Slab::new));
        let slabs: Vec<_> = slabs.collect();
        let mut rings = Vec::new();
        let mut slabs = slabs.into_iter();
        while slabs.len() as u64 >= RING {
            rings.push(Ring::new(slabs.by_ref().take(RING as usize).collect()));
        }
        let turns = Limiter::new(Concurrency::Fixed(rings.len()));
        Self { spool, reserved: reserve, rings: Mutex::new(rings), turns, draining: AtomicUsize::new(0) }
    }

    /// Bytes that are set aside.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// How many spooled parts are being sent, or wait for that.
    pub(crate) fn draining(&self) -> usize {
        self.draining.load(Relaxed)
    }

    /// A writer's place among those who wait for rings.
    pub(super) fn line(self: &Arc<Self>) -> Line {
        Line { spooling: self.clone(), flow: self.turns.flow() }
    }
}

/// A writer's place among those who wait for rings.
#[derive(Debug)]
pub(super) struct Line {
    spooling: Arc<Spooling>,
    flow: Flow,
}

impl Line {
    /// Waits for a ring.
    pub(super) async fn ring(&self) -> LentRing {
        self.spooling.draining.fetch_add(1, Relaxed);
        let draining = Draining(self.spooling.clone());
        // There are as many permits as rings.
        let permit = self.flow.permit().await;
        let ring = self.spooling.rings.lock().unwrap_or_else(PoisonError::into_inner).pop();
        LentRing { ring, _permit: permit, draining }
    }
}

/// A ring, until it is dropped.
#[derive(Debug)]
pub(super) struct LentRing {
    ring: Option<Ring>,
    _permit: Permit,
    draining: Draining,
}

impl LentRing {
    pub(super) fn ring(&self) -> Ring {
        self.ring.clone().unwrap_or_else(|| Ring::new(Vec::new()))
    }
}

impl Drop for LentRing {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.draining.0.rings.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
        }
    }
}

#[derive(Debug)]
struct Draining(Arc<Spooling>);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.draining.fetch_sub(1, Relaxed);
    }
}
