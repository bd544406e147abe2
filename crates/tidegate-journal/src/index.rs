//! A sparse index: roughly where in the file the object's bytes are.

use super::format::FramePosition;

/// Object bytes between two entries, at first.
const STRIDE: u64 = 1 << 20;
/// Most entries, of 32 bytes each. Beyond that every other entry is dropped: a journal of a terabyte has one entry
/// for 64 to 128 MiB, and a search reads the headers in between.
const LIMIT: usize = 16 << 10;

/// Places of some frames, in order. The first entry is where the log begins.
#[derive(Clone, Debug)]
pub(super) struct Index {
    places: Vec<FramePosition>,
    stride: u64,
}

impl Index {
    pub(super) fn new(first: FramePosition) -> Self {
        Self { places: vec![first], stride: STRIDE }
    }

    /// A frame begins at `place`, after all known places.
    pub(super) fn push(&mut self, place: FramePosition) {
        let last = self.places.last().map_or(0, |last| last.object);
        if place.object.saturating_sub(last) < self.stride {
            return;
        }
        if self.places.len() >= LIMIT {
            let mut kept = false;
            self.places.retain(|_| {
                kept = !kept;
                kept
            });
            self.stride *= 2;
        }
        self.places.push(place);
    }

    /// The last known place that is not after the byte at `offset`; the first place if the log begins after that
    /// byte.
    pub(super) fn find(&self, offset: u64) -> FramePosition {
        let behind = self.places.partition_point(|place| place.object <= offset);
        self.places[behind.saturating_sub(1)]
    }

    /// The first known place that is after the byte at `offset`.
    pub(super) fn behind(&self, offset: u64) -> Option<FramePosition> {
        self.places.get(self.places.partition_point(|place| place.object <= offset)).copied()
    }

    /// The log begins at `first` now.
    pub(super) fn begin(&mut self, first: FramePosition) {
        self.places.retain(|place| place.file > first.file);
        self.places.insert(0, first);
    }

    /// No frame begins at `end` or after it.
    pub(super) fn cut(&mut self, end: FramePosition) {
        let first = self.places[0];
        self.places.retain(|place| place.file < end.file);
        if self.places.is_empty() {
            self.places.push(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_small_and_finds_what_is_near() {
        let place = |object: u64| FramePosition { file: 4096 + object * 2, object, running: 0, previous: 0 };
        let mut index = Index::new(place(0));
        for mib in 0..1 << 20 {
            index.push(place(mib << 20));
        }
        assert!(index.places.len() <= LIMIT);
        for offset in [0, 1, 1 << 30, (1 << 40) - 1] {
            let found = index.find(offset);
            assert!(found.object <= offset && offset - found.object < index.stride, "{offset}: {found:?}");
            assert!(index.behind(offset).is_none_or(|behind| behind.object > offset));
        }
        index.begin(place(1 << 39));
        assert_eq!(index.find(0), place(1 << 39));
        index.cut(place(1 << 39));
        assert_eq!(index.find(1 << 40), place(1 << 39));
    }
}
