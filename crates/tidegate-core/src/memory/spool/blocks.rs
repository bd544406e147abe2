//! Tracks which blocks of a spool file are free.

use std::collections::BTreeMap;
use std::ops::Range;

/// The blocks of one file: all below `end` are used, except the free ranges.
#[derive(Debug, Default)]
pub(super) struct BlockAllocator {
    /// Start and length of free ranges; neighbours are joined, and none reaches `end`.
    free: BTreeMap<u32, u32>,
    end: u32,
    /// The highest `end` since the whole file was last free.
    reached: u32,
    used: u32,
}

impl BlockAllocator {
    /// Takes `count` blocks, the lowest free ones first, in few ranges; `None` if the file has no more.
    pub(super) fn take(&mut self, count: u32) -> Option<Vec<Range<u32>>> {
        let grown = self.end.checked_add(count)?;
        let mut taken = Vec::new();
        let mut missing = count;
        while missing > 0
            && let Some((start, length)) = self.free.pop_first()
        {
            let part = length.min(missing);
            if part < length {
                self.free.insert(start + part, length - part);
            }
            taken.push(start..start + part);
            missing -= part;
        }
        if missing > 0 {
            taken.push(self.end..self.end + missing);
            self.end = grown - (count - missing);
        }
        self.used += count;
        self.reached = self.reached.max(self.end);
        Some(taken)
    }

    /// Gives blocks back; `true` if no block is used any more.
    pub(super) fn give_back(&mut self, ranges: &[Range<u32>]) -> bool {
        for range in ranges {
            self.used -= range.end - range.start;
            self.join(range.clone());
        }
        if self.used == 0 {
            self.reached = 0;
        }
        self.used == 0
    }

    /// How many of the blocks that the file has reached are free.
    pub(super) fn free(&self) -> u32 {
        self.reached - self.used
    }

    /// How many blocks are used.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    fn join(&mut self, range: Range<u32>) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        if end == self.end {
            self.end = start;
        } else {
            self.free.insert(start, end - start);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_block_is_given_twice_and_all_come_back(steps in prop::collection::vec((any::<bool>(), 1..40u32), 1..200)) {
            let mut blocks = BlockAllocator::default();
            let mut held: Vec<Vec<Range<u32>>> = Vec::new();
            let mut used = BTreeSet::new();
            for (take, number) in steps {
                if take || held.is_empty() {
                    let taken = blocks.take(number).unwrap();
                    prop_assert_eq!(taken.iter().map(ExactSizeIterator::len).sum::<usize>(), number as usize);
                    for block in taken.iter().cloned().flatten() {
                        prop_assert!(used.insert(block), "block {} is used", block);
                    }
                    held.push(taken);
                } else {
                    let ranges = held.swap_remove(number as usize % held.len());
                    for block in ranges.iter().cloned().flatten() {
                        used.remove(&block);
                    }
                    prop_assert_eq!(blocks.give_back(&ranges), used.is_empty());
                }
                prop_assert_eq!(blocks.used() as usize, used.len());
                prop_assert_eq!(used.last().map_or(0, |last| last + 1), blocks.end);
            }
        }
    }

    #[test]
    fn a_file_ends() {
        let mut blocks =
            BlockAllocator { end: u32::MAX - 1, used: u32::MAX - 1, ..BlockAllocator::default() };
        assert_eq!(blocks.take(2), None);
        assert!(blocks.take(1).is_some());
    }
}
