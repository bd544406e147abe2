//! Ranges that a caller reads into memory of its own, cut into blocks that are read one after the other.

use std::ffi::c_void;
use std::ops::Range;

use crate::error::{Outcome, invalid};
use crate::memory::Target;

/// A range to read: `length` bytes from `offset` on go to `to`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tg_range {
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
    /// Where they go.
    pub to: *mut c_void,
}

/// The most bytes of a block, which is held in memory until it is whole.
const BLOCK: u64 = 1 << 20;

/// Ranges with their memory, in the order of their first bytes.
pub(crate) struct Pieces {
    ranges: Vec<(Range<u64>, Target)>,
    /// All ranges before this one were filled.
    first: usize,
}

impl Pieces {
    /// # Safety
    /// The memory of each range is writable, and used by nobody else, as long as this lives.
    pub(crate) unsafe fn new(ranges: &[tg_range]) -> Outcome<Self> {
        let piece = |range: &tg_range| {
            let end = range.offset.checked_add(range.length as u64);
            let end = end.ok_or_else(|| invalid("a range ends past the last byte that there can be"))?;
            // SAFETY: the caller promises it.
            Ok((range.offset..end, unsafe { Target::new(range.to, range.length) }?))
        };
        let mut ranges = ranges.iter().map(piece).collect::<Outcome<Vec<_>>>()?;
        ranges.sort_by_key(|(range, _)| range.start);
        Ok(Self { ranges, first: 0 })
    }

    /// Blocks in ascending order that hold all bytes of the ranges, and each byte once.
    pub(crate) fn index(&self) -> Vec<Range<u64>> {
        let mut blocks = Vec::new();
        let mut end = 0;
        for (range, _) in &self.ranges {
            let mut start = range.start.max(end);
            while start < range.end {
                let next = range.end.min(start + BLOCK);
                blocks.push(start..next);
                start = next;
            }
            end = end.max(range.end);
        }
        blocks
    }

    /// Fills what the bytes from `start` on belong to. Blocks come in ascending order.
    pub(crate) fn put(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        while self.ranges.get(self.first).is_some_and(|(range, _)| range.end <= start) {
            self.first += 1;
        }
        for (range, target) in &mut self.ranges[self.first..] {
            if range.start >= end {
                break;
            }
            let from = range.start.max(start);
            let until = range.end.min(end);
            if from < until {
                // All within `bytes`, whose length is a `usize`.
                let piece = &bytes[(from - start) as usize..(until - start) as usize];
                target.put_at((from - range.start) as usize, piece);
            }
        }
    }
}
