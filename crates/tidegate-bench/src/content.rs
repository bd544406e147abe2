//! The bytes that a run writes and expects to read back.

use bytes::Bytes;

/// A block of pseudorandom bytes. Each object reads the block cyclically from a start of its own, so objects differ
/// and need no memory of their own.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    block: Bytes,
}

impl Content {
    /// The length is a prime, so that the bytes of a misplaced slab or part never match by chance.
    const LENGTH: usize = 1_048_573;

    pub(crate) fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let words = std::iter::repeat_with(|| {
            // splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators")
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        let mut bytes = Vec::with_capacity(Self::LENGTH);
        bytes.extend(words.flat_map(u64::to_le_bytes).take(Self::LENGTH));
        Self { block: bytes.into() }
    }

    /// A pseudorandom number from 0 to 1, determined by `index`.
    pub(crate) fn draw(index: u64) -> f64 {
        let mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The bytes of object `index` from `offset` on: at most `length`, and only up to the end of the block. Not
    /// copied.
    pub(crate) fn piece(&self, index: u64, offset: u64, length: u64) -> Bytes {
        let from = ((index.wrapping_mul(104_729) + offset) % Self::LENGTH as u64) as usize;
        let length = length.min((Self::LENGTH - from) as u64) as usize;
        self.block.slice(from..from + length)
    }

    /// Whether `bytes` are the bytes of object `index` from `offset` on.
    pub(crate) fn is_at(&self, index: u64, offset: u64, mut bytes: &[u8]) -> bool {
        let mut offset = offset;
        while !bytes.is_empty() {
            let piece = self.piece(index, offset, bytes.len() as u64);
            let Some(rest) = bytes.strip_prefix(&*piece) else { return false };
            offset += piece.len() as u64;
            bytes = rest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_told_from_any_other() {
        let content = Content::new();
        let far = Content::LENGTH as u64 - 10;
        let mut bytes = content.piece(7, far, 1 << 20).to_vec();
        while bytes.len() < 100_000 {
            bytes.extend_from_slice(&content.piece(7, far + bytes.len() as u64, 60_000));
        }
        assert!(content.is_at(7, far, &bytes));
        assert!(!content.is_at(8, far, &bytes) && !content.is_at(7, far + 1, &bytes));
        bytes[99_999] ^= 1;
        assert!(!content.is_at(7, far, &bytes));
        assert!((0..1000).map(Content::draw).all(|drawn| (0.0..1.0).contains(&drawn)));
    }
}
