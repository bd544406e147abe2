//! Decides how far to read ahead of the consumer, and which chunks to keep.
//!
//! Chunks are requested in order from the consumer's position on. Their number doubles each time that the consumer
//! has to wait for one: so there are as many as the route to the store can carry, and no more than the consumer
//! takes, within the limiter's limit and the memory on loan. Of the chunks that the consumer has read or sought past,
//! the nearest is kept until its room is needed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::chunk::Chunk;
use super::ranges::Ranges;
use super::source::ObjectSource;
use crate::memory::budget::{Budget, Reading};
use crate::types::object::Object;

/// The chunks of one reader, by their first byte; they do not overlap.
#[derive(Debug)]
pub(super) struct Ahead {
    reading: Reading,
    runtime: Handle,
    chunks: BTreeMap<u64, Chunk>,
    /// How many chunks should be in flight or received, from the consumer's position on.
    wanted: usize,
    /// The chunk that the consumer last waited for.
    waited: Option<u64>,
    /// The byte before which there is no need to check for missing chunks.
    next_look: u64,
}

impl Ahead {
    /// A chunk is an eighth of the memory that may be lent, so that several are in flight, within these bounds:
    /// smaller requests cost more than they gain; with larger ones the first bytes come late.
    const LEAST: u64 = 256 << 10;
    const MOST: u64 = 8 << 20;
    const FIRST: usize = 2;
    const MOST_CHUNKS: usize = 64;

    /// Anything up to this size is read by one request.
    const ONE_REQUEST: u64 = 8 << 20;

    /// `None` where one request is enough, or no runtime could run requests beside the consumer.
    pub(super) fn for_more_than_one_request(ranges: &Ranges, budget: &Budget) -> Option<Self> {
        if ranges.is_one() && ranges.bytes() <= Self::ONE_REQUEST {
            return None;
        }
        let (reading, runtime) = (budget.reading(), Handle::try_current().ok()?);
        Some(Self {
            reading,
            runtime,
            chunks: BTreeMap::new(),
            wanted: Self::FIRST,
            waited: None,
            next_look: 0,
        })
    }

    /// The size of a chunk now; `None` where too little memory may be lent to gain anything.
    pub(super) fn chunk_size(&self) -> Option<u64> {
        let share = self.reading.share();
        (share >= 2 * Self::LEAST).then(|| (share / 8).clamp(Self::LEAST, Self::MOST))
    }

    /// The chunk that contains byte `at`.
    pub(super) fn at(&self, at: u64) -> Option<&Chunk> {
        let (_, chunk) = self.chunks.range(..=at).next_back()?;
        chunk.range.contains(&at).then_some(chunk)
    }

    /// The first byte of the next chunk from `at` on.
    pub(super) fn next_after(&self, at: u64) -> Option<u64> {
        self.chunks.range(at..).next().map(|(start, _)| *start)
    }

    pub(super) fn drop_at(&mut self, at: u64) {
        if let Some(start) = self.at(at).map(|chunk| chunk.range.start) {
            self.chunks.remove(&start);
        }
    }

    /// The consumer waits for the chunk at `at`.
    pub(super) fn waits_for(&mut self, at: u64) {
        let Some(start) = self.at(at).map(|chunk| chunk.range.start) else { return };
        if self.waited.replace(start) != Some(start) {
            self.wanted = (self.wanted * 2).min(Self::MOST_CHUNKS);
            self.next_look = 0;
        }
    }

    /// Whether to check for missing chunks from `at` on: not at each of a chunk's many pieces.
    pub(super) fn is_due(&self, at: u64) -> bool {
        at >= self.next_look || self.at(at).is_none()
    }

    pub(super) fn looked(&mut self, at: u64) {
        self.next_look = at + Self::LEAST;
    }

    /// The consumer has sought to another place.
    pub(super) fn sought(&mut self) {
        self.next_look = 0;
    }

    /// Requests the missing chunks of `size` bytes from `from` on. Returns whether the first of them is there.
    pub(super) fn fill(
        &mut self,
        source: &Arc<ObjectSource>,
        object: &Arc<Object>,
        from: u64,
        size: u64,
        ranges: &Ranges,
    ) -> bool {
        let step = |at: u64| ranges.from(at).map(|range| range.end.min(range.start.saturating_add(size)));
        let reach = from..(0..self.wanted).try_fold(from, |at, _| step(at).ok_or(at)).unwrap_or_else(|at| at);
        let (mut next, mut count) = (from, 0);
        while count < self.wanted
            && let Some(Range { start, end }) = ranges.from(next)
        {
            next = start;
            if let Some(chunk) = self.at(next) {
                next = chunk.range.end;
            } else {
                let until = end.min(self.next_after(next).unwrap_or(end));
                let range = next..until.min(next.saturating_add(size));
                let Some(begun) = self.begin(source, object, range, &reach) else { break };
                next = begun;
            }
            count += 1;
        }
        self.at(from).is_some()
    }

    /// Begins a chunk. If there is no room for it, removes kept chunks out of `reach` first, the farthest first.
    fn begin(
        &mut self,
        source: &Arc<ObjectSource>,
        object: &Arc<Object>,
        range: Range<u64>,
        reach: &Range<u64>,
    ) -> Option<u64> {
        loop {
            // A consumed chunk is kept in case the consumer seeks back to it.
            let kept = self.chunks.values().map(|chunk| &chunk.range);
            let kept = kept.filter(|kept| kept.end <= reach.start || kept.start >= reach.end);
            let (count, farthest) = (
                kept.clone().count(),
                kept.map(|kept| kept.start).max_by_key(|start| start.abs_diff(reach.start)),
            );
            if count > 1 {
                self.chunks.remove(&farthest?);
                continue;
            }
            if let Some(chunk) = Chunk::begin(source, object, range.clone(), &self.reading, &self.runtime) {
                let Range { start, end } = range;
                self.chunks.insert(start, chunk);
                return Some(end);
            }
            self.chunks.remove(&farthest?);
        }
    }
}
