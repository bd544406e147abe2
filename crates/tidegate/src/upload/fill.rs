//! The part that is being filled: its bytes in the spool, slabs that bytes are copied into, and shared bytes
//! that are not copied.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::spooling::{RingLoan, RingTurn};
use crate::memory::budget::{Lease, Slab};
use crate::memory::payload::{Payload, Spooled};
use crate::memory::spool::{Spool, SpoolError, Stored};
use crate::types::checksum::{Algorithm, Checksum, Hasher};
use crate::upload::intake::LEAST_SLAB;

/// The bytes of the current part, in order, with their checksum so far.
#[derive(Debug)]
pub(super) struct Fill {
    /// The bytes in the spool; they come before those in memory.
    stored: Stored,
    pieces: Vec<Piece>,
    slab: Option<Slab>,
    growth: Growth,
    /// How much of the slab the checksum covers.
    hashed: usize,
    hasher: Hasher,
    algorithm: Algorithm,
}

/// How large the next slab of a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It grows with the part, so that a small object takes little memory and a large part few slabs.
    WithPart,
    /// Others wait for memory and this part had to give back the free end of a slab: it is as large as the write.
    WithWrite,
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    /// Bytes of the budget that the piece takes.
    leased: u64,
}

impl Fill {
    /// Small writes are checksummed together once they come to this many bytes, while still hot.
    const HASH_STEP: usize = 8 << 10;

    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            stored: Stored::default(),
            pieces: Vec::new(),
            slab: None,
            growth: Growth::WithPart,
            hashed: 0,
            hasher: Hasher::new(algorithm),
            algorithm,
        }
    }

    /// The free end of the current slab; empty where a new one is needed.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        self.slab.as_mut().map_or(&mut [], Slab::spare)
    }

    /// Takes in that `bytes` of the free end were filled.
    pub(super) fn advance(&mut self, bytes: usize) {
        if let Some(slab) = &mut self.slab {
            slab.advance(bytes);
            self.hash(Self::HASH_STEP);
        }
    }

    /// Size of the next slab of a part with `filled` bytes, for a write that has `at_hand` bytes more. So a part has
    /// at most half as much free memory as it has bytes (or 4 KiB), and a large write is not cut into small slabs.
    pub(super) fn next_slab(&self, filled: u64, at_hand: u64) -> u64 {
        let grown = match self.growth {
            Growth::WithPart => filled / 2,
            Growth::WithWrite => 0,
        };
        1 << grown.max(at_hand).max(LEAST_SLAB).ilog2()
    }

    /// Adds a slab to be filled; returns how many bytes of the lease it did not need.
    pub(super) fn add_slab(&mut self, lease: Lease) -> u64 {
        let emptied = self.seal();
        let (slab, unused) = Slab::at_most(lease);
        self.slab = Some(slab);
        emptied + unused
    }

    /// Adds bytes that are shared, not copied; returns how many bytes of the budget an empty slab gave back.
    pub(super) fn add_shared(&mut self, lease: Lease, bytes: Bytes) -> u64 {
        let emptied = self.seal();
        self.hasher.update(&bytes);
        self.pieces.push(Piece { leased: lease.bytes(), bytes: lease.charge(bytes) });
        emptied
    }

    /// Gives back the free end of the slab, and keeps the next slabs of the part small; returns how many bytes that
    /// was.
    pub(super) fn trim(&mut self) -> u64 {
        self.growth = Growth::WithWrite;
        self.slab.as_mut().map_or(0, Slab::trim)
    }

    /// Bytes in memory, without those in the slab that is being filled.
    pub(super) fn in_memory(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
    }

    /// The bytes in memory, to be spooled after [`stored`](Self::stored), and how many unfilled bytes of the
    /// slab went back to the budget. Later bytes go into a new slab, even where the spool fails, and the part
    /// must not take more than its size.
    pub(super) fn pieces(&mut self) -> (Vec<Bytes>, u64) {
        let trimmed = self.slab.as_mut().map_or(0, Slab::trim) + self.seal();
        (self.pieces.iter().map(|piece| piece.bytes.clone()).collect(), trimmed)
    }

    /// The part's bytes so far, which stay in the part; and how many unfilled bytes of the slab went back to the budget,
    /// as of [`pieces`](Self::pieces).
    pub(super) fn copy(&mut self) -> (Taken, u64) {
        let (pieces, trimmed) = self.pieces();
        let pieces = pieces.into_iter().filter(|bytes| !bytes.is_empty()).collect();
        (Taken { stored: self.stored.clone(), pieces, checksum: self.hasher.clone().finish() }, trimmed)
    }

    pub(super) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Takes in that the first `count` pieces are in the spool now, as `stored` says. Returns these pieces,
    /// to be dropped, and how many bytes of the budget they took.
    pub(super) fn spilled(&mut self, stored: Stored, count: usize) -> (Vec<Bytes>, u64) {
        self.stored = stored;
        self.growth = Growth::WithPart;
        // The released list takes its capacity along, which would cost each of thousands of writers tens of
        // KiB.
        let kept = self.pieces.split_off(count);
        let released = std::mem::replace(&mut self.pieces, kept);
        let leased = released.iter().map(|piece| piece.leased).sum();
        (released.into_iter().map(|piece| piece.bytes).collect(), leased)
    }

    /// Takes the whole part out, to be sent; later bytes begin a new part.
    pub(super) fn take(&mut self) -> Taken {
        self.seal();
        self.growth = Growth::WithPart;
        let hasher = std::mem::replace(&mut self.hasher, Hasher::new(self.algorithm));
        Taken {
            stored: std::mem::take(&mut self.stored),
            pieces: std::mem::take(&mut self.pieces)
                .into_iter()
                .map(|piece| piece.bytes)
                .filter(|bytes| !bytes.is_empty())
                .collect(),
            checksum: hasher.finish(),
        }
    }

    fn hash(&mut self, least: usize) {
        if let Some(slab) = &self.slab {
            let fresh = &slab.filled()[self.hashed..];
            if fresh.len() >= least || slab.room() == 0 {
                self.hasher.update(fresh);
                self.hashed = slab.filled().len();
            }
        }
    }

    /// Ends the slab. An empty one is dropped; returns how many bytes of the budget that gave back.
    fn seal(&mut self) -> u64 {
        self.hash(0);
        self.hashed = 0;
        let Some(slab) = self.slab.take() else { return 0 };
        let leased = slab.leased();
        if slab.filled().is_empty() {
            return leased;
        }
        self.pieces.push(Piece { leased, bytes: slab.freeze() });
        0
    }
}

/// A whole part: its bytes in the spool, and those in memory after them.
#[derive(Debug)]
pub(super) struct Taken {
    stored: Stored,
    pieces: Vec<Bytes>,
    checksum: Checksum,
}

impl Taken {
    pub(super) fn in_memory(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Moves the bytes in memory to the spool as well.
    pub(super) async fn spool(mut self, spool: &Spool) -> Result<Self, (Self, SpoolError)> {
        match spool.store(&self.stored, &self.pieces).await {
            Ok(stored) => {
                self.stored = stored;
                self.pieces.clear();
                Ok(self)
            }
            Err(error) => Err((self, error)),
        }
    }

    /// The part as the body of a request. A part in the spool waits for the buffers that it is read through,
    /// which are lent for as long as the guard is held.
    pub(super) async fn payload(self, line: Option<Arc<RingTurn>>) -> (Payload, Option<RingLoan>) {
        match line.filter(|_| self.stored.len() > 0) {
            None => (Payload::from_memory(self.pieces, self.checksum), None),
            Some(line) => {
                let (ring, lent) = line.ring().await;
                let spooled = Spooled::new(self.stored, self.pieces, self.checksum);
                (Payload::from_spool(spooled, ring), Some(lent))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;

    #[test]
    fn what_left_keeps_no_room() {
        let budget = Budget::new(1 << 20, 4096);
        let mut fill = Fill::new(Algorithm::Crc64Nvme);
        let add = |fill: &mut Fill, pieces: usize| {
            for _ in 0..pieces {
                let lease = budget.try_lease(100).unwrap();
                fill.add_shared(lease, Bytes::from_static(&[7; 100]));
            }
        };
        add(&mut fill, 200);
        let (pieces, _) = fill.pieces();
        add(&mut fill, 3);
        let (released, leased) = fill.spilled(Stored::default(), pieces.len());
        assert_eq!((released.len(), leased, fill.in_memory()), (200, 20_000, 300));
        assert!(fill.pieces.capacity() <= 4, "{}", fill.pieces.capacity());
        assert_eq!(fill.take().pieces.len(), 3);
        assert_eq!(fill.pieces.capacity(), 0);
    }

    /// 2,816 bytes are no piece of the pool, and too few to be trimmed.
    #[test]
    fn an_empty_slab_is_given_back_whole() {
        let budget = Budget::new(1 << 20, 64 << 10);
        for bytes in [2816, 4096, 64 << 10] {
            let mut fill = Fill::new(Algorithm::default());
            assert_eq!(fill.add_slab(budget.try_lease(bytes).unwrap()), 0);
            let (pieces, given_back) = fill.pieces();
            assert!(pieces.is_empty());
            assert_eq!((given_back, budget.usage().held), (bytes, 0));
        }
    }
}
