//! The part that is being filled: slabs that bytes are copied into, and shared bytes that are not
//! copied.

use bytes::Bytes;

use crate::budget::{Lease, Slab};
use crate::checksum::{Algorithm, Hasher};
use crate::payload::Payload;

/// The bytes of the current part, in order, with their checksum so far.
#[derive(Debug)]
pub(super) struct Fill {
    pieces: Vec<Bytes>,
    slab: Option<Slab>,
    /// How much of the slab the checksum covers.
    hashed: usize,
    hasher: Hasher,
    algorithm: Algorithm,
}

impl Fill {
    /// Small writes are checksummed together once they come to this many bytes, while still hot.
    const HASH_STEP: usize = 8 << 10;

    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self { pieces: Vec::new(), slab: None, hashed: 0, hasher: Hasher::new(algorithm), algorithm }
    }

    /// The free end of the current slab; empty where a new one is needed.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        self.slab.as_mut().map_or(&mut [], Slab::spare)
    }

    /// `bytes` of the free end were filled.
    pub(super) fn advance(&mut self, bytes: usize) {
        if let Some(slab) = &mut self.slab {
            slab.advance(bytes);
            self.hash(Self::HASH_STEP);
        }
    }

    /// A new slab to be filled.
    pub(super) fn add_slab(&mut self, lease: Lease) {
        self.seal();
        self.slab = Some(Slab::new(lease));
    }

    /// Bytes that are shared, not copied.
    pub(super) fn add_shared(&mut self, lease: Lease, bytes: Bytes) {
        self.seal();
        self.hasher.update(&bytes);
        self.pieces.push(lease.charge(bytes));
    }

    /// All of it, as the payload of a request; what follows is a new part.
    pub(super) fn take(&mut self) -> Payload {
        self.seal();
        let hasher = std::mem::replace(&mut self.hasher, Hasher::new(self.algorithm));
        Payload::from_memory(std::mem::take(&mut self.pieces), hasher.finish())
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

    fn seal(&mut self) {
        self.hash(0);
        self.hashed = 0;
        if let Some(slab) = self.slab.take().filter(|slab| !slab.filled().is_empty()) {
            self.pieces.push(slab.freeze());
        }
    }
}
