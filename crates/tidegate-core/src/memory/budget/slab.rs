//! Buffers that count against the budget.

use bytes::Bytes;

use super::pool::PoolBlock;
use super::{Budget, Lease};

/// A buffer that is filled from its start and then shared as [`Bytes`]. When the last share is dropped, the buffer
/// goes back to the pool and its bytes to the budget.
#[derive(Debug)]
pub struct Slab {
    /// `None` only while the slab is being dropped.
    block: Option<PoolBlock>,
    filled: usize,
    lease: Lease,
}

impl Slab {
    /// A slab of the lease's size, in a budget whose free memory does not lie in pieces.
    #[cfg(any(test, feature = "testkit"))]
    pub fn new(lease: Lease) -> Self {
        Self::cut(lease).0
    }

    /// Slabs that use all of the lease: full ones, and a smaller one for the rest. If the free memory lies in
    /// pieces, the slabs are smaller and more, because another chunk would exceed the budget.
    pub(crate) fn all_of(mut lease: Lease) -> Vec<Self> {
        let full = lease.slab_size().max(1) as u64;
        let mut slabs = Vec::new();
        while lease.bytes > 0 {
            let (slab, unused) = Self::cut(lease.split(full));
            slabs.push(slab);
            lease.join(unused);
        }
        slabs
    }

    /// A slab of the lease's size, or a smaller one if the free memory lies in pieces; and how many bytes of the
    /// lease were given back because of that.
    pub fn at_most(lease: Lease) -> (Self, u64) {
        let (slab, unused) = Self::cut(lease);
        (slab, unused.map_or(0, |unused| unused.bytes))
    }

    /// A slab of the lease's size or a smaller one, and the rest of the lease.
    fn cut(mut lease: Lease) -> (Self, Option<Lease>) {
        let size = usize::try_from(lease.bytes).unwrap_or(usize::MAX);
        let shared = &lease.budget.shared;
        let block = shared.lock().pool.take_at_most(size, shared.total);
        let unused = lease.bytes - block.bytes.len() as u64;
        let unused = (unused > 0).then(|| lease.split(unused));
        (Self { block: Some(block), filled: 0, lease }, unused)
    }

    fn buffer(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.bytes)
    }

    /// The budget that the slab belongs to.
    pub fn budget(&self) -> Budget {
        self.lease.budget.clone()
    }

    /// Whether the slab is memory of its own, not a piece of the pool's chunks.
    #[cfg(test)]
    pub(super) fn is_own(&self) -> bool {
        self.block.as_ref().is_some_and(PoolBlock::is_own)
    }

    /// Bytes of the budget that the slab takes.
    pub fn leased(&self) -> u64 {
        self.lease.bytes
    }

    /// Bytes filled so far.
    pub fn filled(&self) -> &[u8] {
        &self.buffer()[..self.filled]
    }

    /// How many more bytes it takes.
    pub fn room(&self) -> usize {
        self.buffer().len() - self.filled
    }

    /// The unfilled rest, to read into; [`advance`](Self::advance) then counts the bytes that were read.
    pub fn spare(&mut self) -> &mut [u8] {
        self.block.as_mut().map_or(&mut [], |block| &mut block.bytes[self.filled..])
    }

    /// Counts `bytes` more as filled.
    pub fn advance(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.buffer().len());
    }

    /// Gives back the unfilled end, except for less than the smallest block of the pool; returns how many bytes that
    /// was.
    pub fn trim(&mut self) -> u64 {
        if self.room() == 0 {
            return 0;
        }
        let Some(block) = &mut self.block else { return 0 };
        let mut state = self.lease.budget.shared.lock();
        let returned = state.pool.shorten(block, self.filled) as u64;
        drop(state);
        drop(self.lease.split(returned));
        returned
    }

    /// Empties it, to be filled again.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Shares the filled bytes.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Slab {
    fn as_ref(&self) -> &[u8] {
        self.filled()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.lease.budget.shared.lock().pool.give_back(block);
        }
    }
}

/// The caller's own bytes, charged to the budget for as long as anyone holds them.
pub(super) struct Charged {
    pub(super) bytes: Bytes,
    pub(super) _lease: Lease,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Lease {
    /// `bytes` without a copy, holding this lease until the last share is dropped.
    pub fn charge(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _lease: self })
    }
}
