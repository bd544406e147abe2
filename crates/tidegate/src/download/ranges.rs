//! The ranges of an object that are read. No I/O.

use std::ops::Range;

/// Ranges in ascending order that do not touch; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    list: Vec<Range<u64>>,
}

impl Ranges {
    pub(super) fn one(range: Range<u64>) -> Self {
        Self { list: vec![range] }
    }

    /// The ranges that cover all of `parts`, which are in ascending order: parts with a gap of at most `gap` between
    /// them are joined. `None` if they have no byte.
    pub(super) fn joined(parts: impl IntoIterator<Item = Range<u64>>, gap: u64) -> Option<Self> {
        let mut list: Vec<Range<u64>> = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            match list.last_mut() {
                Some(last) if part.start - last.end <= gap => last.end = part.end,
                _ => list.push(part),
            }
        }
        (!list.is_empty()).then_some(Self { list })
    }

    /// From the first byte to the last.
    pub(super) fn span(&self) -> Range<u64> {
        match (self.list.first(), self.list.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    pub(super) fn first(&self) -> Range<u64> {
        self.list.first().cloned().unwrap_or_default()
    }

    pub(super) fn is_one(&self) -> bool {
        self.list.len() == 1
    }

    pub(super) fn bytes(&self) -> u64 {
        self.list.iter().map(|range| range.end - range.start).sum()
    }

    /// The rest of the range that contains byte `at`, or else the next range.
    pub(super) fn from(&self, at: u64) -> Option<Range<u64>> {
        let next = self.list.partition_point(|range| range.end <= at);
        let range = self.list.get(next)?;
        Some(range.start.max(at)..range.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_of_every_part_is_there_once_and_no_far_gap(
            lengths in prop::collection::vec((0_u64..50, 0_u64..30), 1..40),
            gap in 0_u64..20,
        ) {
            let mut at = 0;
            let parts: Vec<_> = lengths.iter().map(|(skip, len)| {
                let start = at + skip;
                at = start + len;
                start..at
            }).collect();
            let Some(ranges) = Ranges::joined(parts.clone(), gap) else {
                prop_assert!(parts.iter().all(|part| part.is_empty()));
                return Ok(());
            };
            let wanted: Vec<u64> = parts.iter().cloned().flatten().collect();
            let has = |byte| ranges.list.iter().filter(|range| range.contains(&byte)).count();
            prop_assert!(wanted.iter().all(|byte| has(*byte) == 1));
            // A small gap is read, although its bytes were not asked for.
            let mut last = wanted[0];
            for byte in &wanted[1..] {
                prop_assert_eq!(has((last + byte) / 2) == 1, byte - last <= gap + 1 , "{}..{}", last, byte);
                last = *byte;
            }
            prop_assert_eq!(ranges.from(0), Some(ranges.first()));
            prop_assert_eq!(ranges.from(ranges.span().end), None);
            let middle = ranges.list[ranges.list.len() / 2].clone();
            prop_assert_eq!(ranges.from(middle.end - 1), Some(middle.end - 1..middle.end));
        }
    }
}
