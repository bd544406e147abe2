//! Pooled buffers: fresh pages cost more than the copy into them.

use bytes::Bytes;

use super::{Budget, Lease};

/// A buffer that is filled from its start and then shared as [`Bytes`]. When the last share is
/// dropped its memory goes back to the pool and its bytes to the budget.
#[derive(Debug)]
pub(crate) struct Slab {
    buffer: Vec<u8>,
    filled: usize,
    lease: Lease,
}

impl Slab {
    /// A slab of the lease's size; from the pool where that is the full size.
    pub(crate) fn new(lease: Lease) -> Self {
        let size = usize::try_from(lease.bytes).unwrap_or(usize::MAX);
        let shared = &lease.budget.shared;
        let pooled = if size == shared.slab { shared.lock().pool.pop() } else { None };
        let buffer = pooled.unwrap_or_else(|| vec![0; size]);
        Self { buffer, filled: 0, lease }
    }

    /// The budget that it is of.
    pub(crate) fn budget(&self) -> Budget {
        self.lease.budget.clone()
    }

    /// What it takes of the budget, in bytes.
    pub(crate) fn leased(&self) -> u64 {
        self.lease.bytes
    }

    /// Bytes filled so far.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// How many more bytes it takes.
    pub(crate) fn room(&self) -> usize {
        self.buffer.len() - self.filled
    }

    /// The unfilled rest, to be read into; [`advance`](Self::advance) says how far.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    /// `bytes` more of it are filled.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.buffer.len());
    }

    /// Gives back what is not filled; how many bytes that was.
    pub(crate) fn trim(&mut self) -> u64 {
        let room = self.room() as u64;
        self.buffer.truncate(self.filled);
        self.buffer.shrink_to_fit();
        drop(self.lease.split(room));
        room
    }

    /// Empties it, to be filled again.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Shares what is filled.
    pub(crate) fn freeze(self) -> Bytes {
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
        let shared = &self.lease.budget.shared;
        if self.buffer.len() == shared.slab {
            shared.lock().pool.push(std::mem::take(&mut self.buffer));
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
    pub(crate) fn charge(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _lease: self })
    }
}
