//! What is read ahead of the consumer: how far, and which of it is kept.
//!
//! Chunks are asked for in order from where the consumer is. They are twice as many each time that the consumer
//! has to wait for one, so that there are as many as the way to the store has room for and no more than the
//! consumer takes; the limiter and the memory that is lent are their bounds. Of what is not in the consumer's way
//! any more, because it was consumed or sought past, the nearest chunk is kept until there is no room for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::chunk::Chunk;
use super::ranges::Ranges;
use super::source::Source;
use crate::memory::budget::{Budget, Reading};
use crate::types::object::Object;

/// Chunks of one reader, by where they begin; they do not overlap.
#[derive(Debug)]
pub(super) struct Ahead {
    reading: Reading,
    runtime: Handle,
    chunks: BTreeMap<u64, Chunk>,
    /// How many are to be on their way, or here, from where the consumer is.
    wanted: usize,
    /// The chunk that was waited for last.
    waited: Option<u64>,
    /// The byte before which there is no need to look what is missing.
    next_look: u64,
}

impl Ahead {
    /// A chunk is an eighth of what may be lent, so that several are under way, within these bounds: with less,
    /// requests cost more than they gain; with more, the first bytes come late.
    const LEAST: u64 = 256 << 10;
    const MOST: u64 = 8 << 20;
    const FIRST: usize = 2;
    const MOST_CHUNKS: usize = 64;

    /// What is no larger than this is read by one request.
    const ONE_REQUEST: u64 = 8 << 20;

    /// `None` where one request is enough, or nothing could go on beside the consumer.
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

    /// Bytes of a chunk now; `None` where too little may be lent to gain anything.
    pub(super) fn chunk_size(&self) -> Option<u64> {
        let share = self.reading.share();
        (share >= 2 * Self::LEAST).then(|| (share / 8).clamp(Self::LEAST, Self::MOST))
    }

    /// The chunk that has byte `at`.
    pub(super) fn at(&self, at: u64) -> Option<&Chunk> {
        let (_, chunk) = self.chunks.range(..=at).next_back()?;
        chunk.range.contains(&at).then_some(chunk)
    }

    /// Where the next chunk behind `at` begins.
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

    /// Whether it is to be looked, from `at` on, what is missing: not at each of a chunk's many pieces.
    pub(super) fn is_due(&self, at: u64) -> bool {
        at >= self.next_look || self.at(at).is_none()
    }

    pub(super) fn looked(&mut self, at: u64) {
        self.next_look = at + Self::LEAST;
    }

    /// The consumer is elsewhere.
    pub(super) fn sought(&mut self) {
        self.next_look = 0;
    }

    /// Asks for what is missing of the chunks of `size` bytes from `from` on. Whether the first of them is there.
    pub(super) fn fill(
        &mut self,
        source: &Arc<Source>,
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

    /// Begins a chunk; where there is no room for it, what is kept and lies out of `reach` goes first.
    fn begin(
        &mut self,
        source: &Arc<Source>,
        object: &Arc<Object>,
        range: Range<u64>,
        reach: &Range<u64>,
    ) -> Option<u64> {
        loop {
            // One that was consumed may be sought back to.
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
