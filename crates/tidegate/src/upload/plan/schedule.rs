//! The size of each part of an object.

use serde::{Deserialize, Serialize};

use crate::backend::Capabilities;
use crate::types::amount::Exactly;
use crate::types::error::ErrorKind;

const MIB: u64 = 1 << 20;

/// The schedule of part sizes along an object.
///
/// Parts have the base size until an eighth of the parts is used. From there on, the size of a part is the
/// bytes before it divided by an eighth of the number of parts: with S3's 10,000 parts, at least 1/1250 of
/// the bytes before it. That reaches 20 TiB from 16 MiB and 6.5 TiB from 5 MiB, past the 5 TiB of the largest
/// object, while a part that has grown is never more than a thousandth of the bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    base: u64,
    /// Largest part, in bytes: bounded by the store or by memory.
    most: u64,
    /// The size of a part is the bytes before it divided by this; 0 where all parts are equal.
    growth: u64,
    max_parts: u32,
}

/// Why there is no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error(
        "a part size of {} is outside of what this store takes, {} to {}",
        Exactly(*asked), Exactly(*least), Exactly(*most)
    )]
    PartSize { asked: u64, least: u64, most: u64 },
    #[error(
        "parts of {} do not fit in a memory budget of {} (raise the memory, or lower the part size)",
        Exactly(*part), Exactly(*memory)
    )]
    Memory { part: u64, memory: u64 },
    #[error("{} are more than the {} that this store takes in one object", Exactly(*size), Exactly(*limit))]
    TooLarge { size: u64, limit: u64 },
    #[error("{} are more than the {} that this store takes in one request", Exactly(*size), Exactly(*limit))]
    PastRequest { size: u64, limit: u64 },
    #[error(
        "{} are more than the memory budget of {}, which the strategy `put` has to hold all of (raise the memory, set \
         a spool directory, or choose another strategy)",
        Exactly(*size), Exactly(*limit)
    )]
    PastMemory { size: u64, limit: u64 },
    #[error("the strategy `spool` needs a spool directory, and none is set")]
    NoSpool,
    #[error("the strategy `journal` needs a journal directory, and none is set")]
    NoJournal,
    #[error(
        "{} need parts of {}, more than the {} that one part can have here (raise the memory, or send a file)",
        Exactly(*size), Exactly(*part), Exactly(*most)
    )]
    Reach { size: u64, part: u64, most: u64 },
}

impl ScheduleError {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::PartSize { .. } | Self::Memory { .. } | Self::NoSpool | Self::NoJournal => {
                ErrorKind::InvalidInput
            }
            Self::TooLarge { .. }
            | Self::PastRequest { .. }
            | Self::PastMemory { .. }
            | Self::Reach { .. } => ErrorKind::TooLarge,
        }
    }
}

impl Schedule {
    /// The default part size, where the store and the memory allow it.
    pub(crate) const DEFAULT_PART: u64 = 16 * MIB;
    /// No store takes more parts than this, except equal parts that are appended to each other.
    const MOST_PARTS: u32 = 1_000_000;
    /// No store takes a part as long as this.
    const LONGEST: u64 = 1 << 60;

    /// A schedule of parts for a store.
    ///
    /// `asked` is the caller's part size, `hint` the object's size where it is known, `memory` the budget
    /// that holds the parts (`None` where parts are streamed from a file). With a `spool`, parts may be
    /// larger than memory.
    pub(crate) fn new(
        capabilities: &Capabilities,
        asked: Option<u64>,
        hint: Option<u64>,
        memory: Option<u64>,
        spool: bool,
    ) -> Result<Self, ScheduleError> {
        let (least, most) = (capabilities.min_part, capabilities.max_part);
        if let Some(asked) = asked.filter(|asked| !(least..=most).contains(asked)) {
            return Err(ScheduleError::PartSize { asked, least, most });
        }
        if let Some(size) = hint.filter(|size| *size > capabilities.max_object) {
            return Err(ScheduleError::TooLarge { size, limit: capabilities.max_object });
        }
        // A server may turn out to have only sessions that are appended to, in multiples of this.
        let grain = capabilities.append.unwrap_or(1).max(1);
        let asked = asked.map(|asked| asked.checked_next_multiple_of(grain).unwrap_or(asked));
        let memory = memory.unwrap_or(u64::MAX);
        // Each part in flight is a connection. An eighth of the memory lets eight be in flight; fewer would
        // make a single upload slow.
        let wanted = asked.unwrap_or_else(|| {
            let default = Self::DEFAULT_PART.min(memory / 8);
            (default / grain * grain).clamp(least, most)
        });
        let memory = if spool { u64::MAX } else { memory };
        if wanted > memory {
            return Err(ScheduleError::Memory { part: wanted, memory });
        }
        // A known size is cut evenly, into no more parts than the store takes.
        let needed = hint.unwrap_or(0).div_ceil(u64::from(capabilities.max_parts.max(1)));
        let step = wanted.min(MIB);
        let base = if needed > wanted { needed.next_multiple_of(step) } else { wanted };
        // Parts that grow leave half of the memory to other writers.
        let most = most.min((memory / 2 / grain * grain).max(wanted));
        if let Some(size) = hint
            && base > most
        {
            return Err(ScheduleError::Reach { size, part: base, most });
        }
        let growth = if capabilities.equal_parts { 0 } else { u64::from(capabilities.max_parts / 8).max(1) };
        Ok(Self { base, most, growth, max_parts: capabilities.max_parts })
    }

    /// Whether [`new`](Self::new) could have made this schedule, which may have been read from a damaged
    /// journal.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=Self::LONGEST).contains(&self.base)
            && self.most >= self.base
            && (self.growth == 0 || self.max_parts <= Self::MOST_PARTS)
    }

    /// A schedule of equal chunks that are appended to each other, each a multiple of `grain` bytes;
    /// otherwise like [`new`](Self::new).
    pub(crate) fn appended(
        capabilities: &Capabilities,
        grain: u64,
        asked: Option<u64>,
        hint: Option<u64>,
        memory: Option<u64>,
        spool: bool,
    ) -> Result<Self, ScheduleError> {
        let limits = Capabilities {
            min_part: grain,
            max_part: capabilities.max_object.next_multiple_of(grain),
            max_parts: u32::MAX,
            equal_parts: true,
            ..capabilities.clone()
        };
        let default = Self::DEFAULT_PART.min(memory.unwrap_or(u64::MAX) / 4).max(grain);
        let whole = |asked: u64| asked.max(1).checked_next_multiple_of(grain).unwrap_or(asked);
        let wanted = asked.map_or(default / grain * grain, whole);
        Self::new(&limits, Some(wanted), hint, memory, spool)
    }

    /// The same schedule with a base size of at most `base` bytes.
    pub(crate) fn narrowed(self, base: u64) -> Self {
        Self { base: base.min(self.base), ..self }
    }

    /// The same schedule for a store that takes at most `parts` parts: those that follow become larger.
    pub(crate) fn limited(self, parts: u32) -> Self {
        let max_parts = self.max_parts.min(parts);
        let growth = if self.growth == 0 { 0 } else { u64::from(max_parts / 8).max(1) };
        Self { growth, max_parts, ..self }
    }

    /// Whether parts may differ in size.
    pub(crate) fn grows(&self) -> bool {
        self.growth > 0
    }

    /// The same schedule for another memory budget, which holds the parts; `None` where it need not.
    pub(crate) fn within(self, memory: Option<u64>) -> Result<Self, ScheduleError> {
        let Some(memory) = memory else { return Ok(self) };
        if self.base > memory {
            return Err(ScheduleError::Memory { part: self.base, memory });
        }
        Ok(Self { most: self.most.min((memory / 2).max(self.base)), ..self })
    }

    /// Most parts of one object.
    pub(crate) fn max_parts(&self) -> u32 {
        self.max_parts
    }

    /// Size of the part that begins after `start` bytes.
    pub(crate) fn part_at(&self, start: u64) -> u64 {
        match self.growth {
            0 => self.base,
            growth => {
                let grown = start.div_ceil(growth);
                if grown <= self.base {
                    self.base
                } else {
                    let step = self.base.min(MIB);
                    grown.checked_next_multiple_of(step).map_or(self.most, |grown| grown.min(self.most))
                }
            }
        }
    }

    /// Most bytes that this schedule takes, regardless of the store's largest object.
    pub(crate) fn reach(&self) -> u64 {
        if self.growth == 0 {
            return self.base.saturating_mul(u64::from(self.max_parts));
        }
        (0..self.max_parts).fold(0u64, |start, _| start.saturating_add(self.part_at(start)))
    }
}
