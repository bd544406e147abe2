//! Faults in an answer that carries an object's bytes.

use std::ops::Range;
use std::time::Duration;

use super::milliseconds;
use crate::knobs::FaultAction;

/// The faults of one answer; the first rule of each kind stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Answering {
    /// The body ends after this many bytes.
    pub(crate) end_after: Option<u64>,
    /// The body offset in bytes, and how long the pause there lasts.
    pub(crate) stall: Option<(u64, Duration)>,
    /// The offset of the body's byte in which one bit is flipped.
    pub(crate) corrupt: Option<u64>,
    pub(crate) misrange: Option<Misrange>,
}

/// How the server misreads a requested range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misrange {
    Ignored,
    Other { shift: i64 },
    Misstated { shift: i64 },
    Shortened { bytes: u64 },
}

impl Answering {
    /// Applies `action` if it is a fault of the answer; returns whether it is.
    pub(super) fn apply(&mut self, action: &FaultAction) -> bool {
        match *action {
            FaultAction::EndResponse { after_bytes } => {
                self.end_after.get_or_insert(after_bytes);
            }
            FaultAction::StallResponse { after_bytes, ms } => {
                self.stall.get_or_insert((after_bytes, milliseconds(ms)));
            }
            FaultAction::CorruptResponse { at } => {
                self.corrupt.get_or_insert(at);
            }
            FaultAction::IgnoreRange => self.misunderstands(Misrange::Ignored),
            FaultAction::OtherRange { shift } => self.misunderstands(Misrange::Other { shift }),
            FaultAction::MisstateRange { shift } => self.misunderstands(Misrange::Misstated { shift }),
            FaultAction::ShortenRange { bytes } => self.misunderstands(Misrange::Shortened { bytes }),
            _ => return false,
        }
        true
    }

    fn misunderstands(&mut self, misrange: Misrange) {
        self.misrange.get_or_insert(misrange);
    }
}

impl Misrange {
    /// The range that is sent for `asked`, and the range that the answer states, in an object of `size` bytes.
    pub(crate) fn of(self, asked: &Range<u64>, size: u64) -> (Range<u64>, Range<u64>) {
        let length = asked.end - asked.start;
        let moved = |shift| {
            let start = asked.start.saturating_add_signed(shift).min(size - length);
            start..start + length
        };
        match self {
            Self::Ignored => (asked.clone(), asked.clone()),
            Self::Other { shift } => (moved(shift), moved(shift)),
            Self::Misstated { shift } => (asked.clone(), moved(shift)),
            Self::Shortened { bytes } => {
                let short = asked.start..asked.start + length.min(bytes.max(1));
                (short.clone(), short)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_moved_within_the_object() {
        let of = |misrange: Misrange| misrange.of(&(10..20), 25);
        assert_eq!(of(Misrange::Ignored), (10..20, 10..20));
        assert_eq!(of(Misrange::Other { shift: 3 }), (13..23, 13..23));
        assert_eq!(of(Misrange::Other { shift: 300 }), (15..25, 15..25));
        assert_eq!(of(Misrange::Other { shift: -300 }), (0..10, 0..10));
        assert_eq!(of(Misrange::Misstated { shift: -3 }), (10..20, 7..17));
        assert_eq!(of(Misrange::Shortened { bytes: 4 }), (10..14, 10..14));
        assert_eq!(of(Misrange::Shortened { bytes: 400 }), (10..20, 10..20));
    }

    #[test]
    fn the_first_of_a_kind_stands() {
        let mut answering = Answering::default();
        assert!(answering.apply(&FaultAction::EndResponse { after_bytes: 5 }));
        assert!(answering.apply(&FaultAction::EndResponse { after_bytes: 6 }));
        assert!(answering.apply(&FaultAction::OtherRange { shift: -1 }));
        assert!(answering.apply(&FaultAction::IgnoreRange));
        assert!(!answering.apply(&FaultAction::LoseAnswer));
        let misrange = Some(Misrange::Other { shift: -1 });
        assert_eq!(answering, Answering { end_after: Some(5), misrange, ..Answering::default() });
    }
}
