//! The memory of slabs: chunks the size of a full slab, halved for smaller slabs and joined again (a buddy system:
//! Knowlton, "A fast storage allocator", 1965). With a pool, thousands of small slabs that come and go leave no
//! holes that only the process's allocator would know of; and the pool reuses pages, because fresh ones cost more
//! than the copy into them.

use std::collections::BTreeMap;

use bytes::BytesMut;

/// A chunk, or a half, a quarter … of one. A block of any other size is memory of its own, outside of the chunks.
#[derive(Debug)]
pub(super) struct PoolBlock {
    pub(super) bytes: BytesMut,
    /// Which chunk, and the offset in it.
    place: Option<(u32, usize)>,
}

impl PoolBlock {
    /// Whether the block is memory of its own.
    #[cfg(test)]
    pub(super) fn is_own(&self) -> bool {
        self.place.is_none()
    }
}

/// Free blocks.
#[derive(Debug, Default)]
pub(super) struct Pool {
    chunk: usize,
    /// How many chunks were ever made, and how many there are now.
    made: u32,
    chunks: u32,
    /// By size, then by place: the lowest are used first, so that the higher chunks become whole.
    free: BTreeMap<usize, BTreeMap<(u32, usize), BytesMut>>,
    /// Bytes of all free blocks.
    free_bytes: u64,
    /// Bytes that were given out and belong to no chunk.
    own: u64,
}

impl Pool {
    /// The smallest block.
    const LEAST: usize = 4 << 10;

    /// A pool of chunks of this many bytes.
    pub(super) fn new(chunk: usize) -> Self {
        Self { chunk, ..Self::default() }
    }

    /// A block of `size` bytes.
    pub(super) fn take(&mut self, size: usize) -> PoolBlock {
        if self.piece(size) != Some(size) {
            self.own += size as u64;
            return PoolBlock { bytes: BytesMut::zeroed(size), place: None };
        }
        let found = self.free.range_mut(size..).find_map(|(_, blocks)| blocks.pop_first());
        let ((chunk, offset), mut bytes) = match found {
            Some((place, bytes)) => {
                self.free_bytes -= bytes.len() as u64;
                (place, bytes)
            }
            None => {
                self.made = self.made.wrapping_add(1);
                self.chunks += 1;
                ((self.made, 0), BytesMut::zeroed(self.chunk))
            }
        };
        while bytes.len() > size {
            let half = bytes.split_off(bytes.len() / 2);
            self.insert((chunk, offset + bytes.len()), half);
        }
        PoolBlock { bytes, place: Some((chunk, offset)) }
    }

    /// Takes a block of `size` bytes. If another chunk, or as much memory of its own, would bring the pool to more
    /// than `most` bytes in all, the free memory may lie in pieces: then takes the largest free block of at most
    /// `size` bytes, if there is one.
    pub(super) fn take_at_most(&mut self, size: usize, most: u64) -> PoolBlock {
        let Some(piece) = self.piece(size) else { return self.take(size) };
        let more = if piece == size { self.chunk } else { size };
        let given = u64::from(self.chunks) * self.chunk as u64 + self.own;
        if given + more as u64 <= most {
            return self.take(size);
        }
        let mut free = self.free.iter().rev().filter(|(_, blocks)| !blocks.is_empty());
        let largest = free.next().map(|(largest, _)| piece.min(*largest));
        self.take(largest.unwrap_or(size))
    }

    /// Takes back the end of a block behind its first `keep` bytes, in whole pieces of the smallest size; returns how
    /// many bytes that is. Nothing is copied, except out of memory that belongs to no chunk.
    pub(super) fn shorten(&mut self, block: &mut PoolBlock, keep: usize) -> usize {
        let before = block.bytes.len();
        match block.place {
            Some((chunk, offset)) => {
                let keep = keep.next_multiple_of(self.least());
                if keep < before {
                    let end = block.bytes.split_off(keep);
                    self.give_back(PoolBlock { bytes: end, place: Some((chunk, offset + keep)) });
                }
            }
            None if before - keep >= Self::LEAST => {
                block.bytes = block.bytes[..keep].into();
                self.own -= (before - keep) as u64;
            }
            None => {}
        }
        before - block.bytes.len()
    }

    /// The smallest piece of a chunk.
    fn least(&self) -> usize {
        let mut piece = self.chunk;
        while piece.is_multiple_of(2) && piece / 2 >= Self::LEAST {
            piece /= 2;
        }
        piece.max(1)
    }

    /// The largest piece of a chunk that is no larger than `size`.
    fn piece(&self, size: usize) -> Option<usize> {
        let mut piece = self.chunk;
        while piece > size && piece.is_multiple_of(2) {
            piece /= 2;
        }
        (piece <= size && piece >= Self::LEAST.min(self.chunk)).then_some(piece)
    }

    /// Takes a block back.
    pub(super) fn give_back(&mut self, block: PoolBlock) {
        let Some((chunk, mut offset)) = block.place else {
            self.own -= block.bytes.len() as u64;
            return;
        };
        // A block that was shortened, or its end, is a row of pieces: each as large as its place and its rest allow.
        let (mut rest, least) = (block.bytes, self.least());
        while !rest.is_empty() {
            let longest = 1 << (rest.len() / least).ilog2();
            let at = offset / least;
            let aligned = if at == 0 { longest } else { 1 << at.trailing_zeros() };
            let piece = aligned.min(longest) * least;
            let end = if piece < rest.len() { rest.split_off(piece) } else { BytesMut::new() };
            self.join(chunk, offset, std::mem::replace(&mut rest, end));
            offset += piece;
        }
    }

    /// Adds a free piece, joined with its free neighbours to the largest piece that they make.
    fn join(&mut self, chunk: u32, mut offset: usize, mut bytes: BytesMut) {
        while bytes.len() < self.chunk {
            let size = bytes.len();
            let is_low = (offset / size).is_multiple_of(2);
            let buddy = if is_low { offset + size } else { offset - size };
            let Some(other) = self.free.get_mut(&size).and_then(|blocks| blocks.remove(&(chunk, buddy)))
            else {
                break;
            };
            self.free_bytes -= size as u64;
            // The two lie side by side, so nothing is copied.
            let (mut low, high) = if is_low { (bytes, other) } else { (other, bytes) };
            low.unsplit(high);
            bytes = low;
            offset = offset.min(buddy);
        }
        self.insert((chunk, offset), bytes);
    }

    /// Frees whole chunks until the pool keeps at most `most` free bytes.
    pub(super) fn trim(&mut self, most: u64) {
        let Some(whole) = self.free.get_mut(&self.chunk) else { return };
        while self.free_bytes > most && whole.pop_last().is_some() {
            self.free_bytes -= self.chunk as u64;
            self.chunks -= 1;
        }
    }

    fn insert(&mut self, place: (u32, usize), bytes: BytesMut) {
        self.free_bytes += bytes.len() as u64;
        self.free.entry(bytes.len()).or_default().insert(place, bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK: usize = 64 << 10;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Take(u32),
        Shorten(usize),
        GiveBack,
    }

    fn step() -> impl Strategy<Value = (Step, usize)> {
        let step = prop_oneof![
            3 => (0..6u32).prop_map(Step::Take),
            1 => (0..CHUNK).prop_map(Step::Shorten),
            2 => Just(Step::GiveBack),
        ];
        (step, 0..1000usize)
    }

    proptest! {
        #[test]
        fn no_byte_is_given_twice_and_chunks_become_whole(
            chunk in prop_oneof![Just(CHUNK), Just(CHUNK * 3 / 2)],
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut pool = Pool::new(chunk);
            let mut held: Vec<(u8, PoolBlock)> = Vec::new();
            for (number, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    Step::Take(shift) => {
                        let size = if shift == 5 { 5000 } else { chunk >> shift };
                        let mut block = pool.take(size);
                        prop_assert_eq!(block.bytes.len(), size);
                        let mark = number as u8;
                        block.bytes.fill(mark);
                        held.push((mark, block));
                    }
                    _ if held.is_empty() => {}
                    Step::Shorten(keep) => {
                        let which = which % held.len();
                        let (_, block) = &mut held[which];
                        let (before, keep) = (block.bytes.len(), keep.min(block.bytes.len()));
                        let returned = pool.shorten(block, keep);
                        prop_assert_eq!(block.bytes.len(), before - returned);
                        prop_assert!(block.bytes.len() - keep < 6 << 10);
                    }
                    Step::GiveBack => {
                        let (mark, block) = held.swap_remove(which % held.len());
                        prop_assert!(block.bytes.iter().all(|byte| *byte == mark));
                        pool.give_back(block);
                    }
                }
            }
            for (mark, block) in held {
                prop_assert!(block.bytes.iter().all(|byte| *byte == mark));
                pool.give_back(block);
            }
            let whole = pool.free.remove(&chunk).unwrap_or_default();
            prop_assert_eq!(whole.len() as u32, pool.chunks, "every chunk is whole again");
            prop_assert!(pool.free.values().all(BTreeMap::is_empty));
            prop_assert_eq!(pool.free_bytes, u64::from(pool.chunks) * chunk as u64);
            prop_assert_eq!(pool.own, 0);
        }
    }

    #[test]
    fn where_there_may_be_no_more_chunks_pieces_do() {
        let mut pool = Pool::new(CHUNK);
        let mut blocks: Vec<_> = (0..16).map(|_| pool.take(4 << 10)).collect();
        pool.give_back(blocks.remove(3));
        pool.give_back(blocks.remove(7));
        assert_eq!(pool.take_at_most(32 << 10, CHUNK as u64).bytes.len(), 4 << 10);
        assert_eq!(pool.take_at_most(32 << 10, 2 * CHUNK as u64).bytes.len(), 32 << 10);
        assert_eq!(pool.take_at_most(32 << 10, 2 * CHUNK as u64).bytes.len(), 32 << 10);
        assert_eq!(pool.take_at_most(32 << 10, 2 * CHUNK as u64).bytes.len(), 4 << 10);
    }

    #[test]
    fn small_blocks_share_chunks_and_free_chunks_go() {
        let mut pool = Pool::new(CHUNK);
        let blocks: Vec<_> = (0..33).map(|_| pool.take(4 << 10)).collect();
        assert_eq!(pool.chunks, 3);
        blocks.into_iter().for_each(|block| pool.give_back(block));
        pool.trim(CHUNK as u64);
        assert_eq!(pool.free_bytes, CHUNK as u64);
        pool.trim(0);
        assert_eq!(pool.free_bytes, 0);
    }

    #[test]
    fn what_the_system_gives_is_no_more_than_the_budget() {
        use crate::memory::budget::{Budget, Slab};
        let total = 32 * CHUNK as u64;
        let budget = Budget::new(total, CHUNK);
        // Many writers begin with a small slab, as many as there is room for; a few of them stay.
        let small = || budget.try_lease(4 << 10).map(|lease| Slab::at_most(lease).0);
        let begun: Vec<_> = std::iter::from_fn(small).collect();
        let stay: Vec<_> = begun.into_iter().step_by(16).collect();
        // Then files are sent, through full slabs.
        let full = || budget.try_lease(CHUNK as u64).map(Slab::all_of);
        let sent: Vec<_> = std::iter::from_fn(full).collect();
        let usage = budget.usage();
        assert!(usage.held <= total);
        let taken = u64::from(budget.shared.lock().pool.chunks) * CHUNK as u64;
        assert!(taken <= total + CHUNK as u64, "{taken} bytes for a budget of {total}, {usage:?}");
        drop((stay, sent));
    }

    #[test]
    fn what_lies_in_pieces_is_used_for_small_files_as_well() {
        use crate::memory::budget::{Budget, Slab};
        let total = 32 * CHUNK as u64;
        let budget = Budget::new(total, CHUNK);
        let small = || budget.try_lease(4 << 10).map(|lease| Slab::at_most(lease).0);
        let begun: Vec<_> = std::iter::from_fn(small).collect();
        let stay: Vec<_> = begun.into_iter().step_by(16).collect();
        // Files that fit into one slab are of any size.
        let file = || budget.try_lease(CHUNK as u64 - 100).map(Slab::all_of);
        let sent: Vec<_> = std::iter::from_fn(file).collect();
        assert!(sent.len() >= 30);
        let own = sent.iter().flatten().filter(|slab| slab.is_own()).map(Slab::leased).sum::<u64>();
        let taken = u64::from(budget.shared.lock().pool.chunks) * CHUNK as u64 + own;
        // What is left of each is smaller than the smallest piece.
        let rests = (sent.len() * Pool::LEAST) as u64;
        assert!(taken <= total + CHUNK as u64 + rests, "{taken} bytes for a budget of {total}");
        drop((stay, sent));
        assert_eq!(budget.shared.lock().pool.own, 0);
    }
}
