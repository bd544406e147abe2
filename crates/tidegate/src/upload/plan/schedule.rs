//! How large each part becomes.

use serde::{Deserialize, Serialize};

use crate::backend::Capabilities;
use crate::types::amount::Exactly;

const MIB: u64 = 1 << 20;

/// Part sizes over an object's length.
///
/// Parts are of the base size until an eighth of the parts is used, and from there on an eighth of
/// the parts' worth of what went before: with S3's 10,000 parts each is at least 1/1250 of the bytes
/// before it. That reaches 20 TiB from 16 MiB and 6.5 TiB from 5 MiB, past the 5 TiB of the largest
/// object, while a part is never more than a thousandth of what has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    base: u64,
    /// Largest part: of the store, or what memory holds.
    most: u64,
    /// Bytes before a part over this are its size; 0 where all parts are equal.
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

impl Schedule {
    /// The default part size, where the store and the memory allow it.
    pub(crate) const DEFAULT_PART: u64 = 16 * MIB;
    /// No store takes more parts than this, but where they are equal and appended to each other.
    const MOST_PARTS: u32 = 1_000_000;
    /// No store takes a part as long as this.
    const LONGEST: u64 = 1 << 60;

    /// A schedule of parts for a store.
    ///
    /// `asked` is the caller's part size, `hint` the object's size where it is known, `memory` what can
    /// be held of a part (`None` where parts are streamed from a file). With a `spool`, parts may be
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
        let memory = memory.unwrap_or(u64::MAX);
        // Each part is a connection: with fewer in flight than this, one stream would be slow.
        let wanted = asked.unwrap_or_else(|| Self::DEFAULT_PART.min(memory / 8).clamp(least, most));
        let memory = if spool { u64::MAX } else { memory };
        if wanted > memory {
            return Err(ScheduleError::Memory { part: wanted, memory });
        }
        // A known size is cut evenly, into no more parts than there may be.
        let needed = hint.unwrap_or(0).div_ceil(u64::from(capabilities.max_parts.max(1)));
        let step = wanted.min(MIB);
        let base = if needed > wanted { needed.next_multiple_of(step) } else { wanted };
        // Parts that grow leave half of the memory to other writers.
        let most = most.min((memory / 2).max(wanted));
        if let Some(size) = hint
            && base > most
        {
            return Err(ScheduleError::Reach { size, part: base, most });
        }
        let growth = if capabilities.equal_parts { 0 } else { u64::from(capabilities.max_parts / 8).max(1) };
        Ok(Self { base, most, growth, max_parts: capabilities.max_parts })
    }

    /// Whether it can be one that was made by [`new`](Self::new), whatever it was read from.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=Self::LONGEST).contains(&self.base)
            && self.most >= self.base
            && (self.growth == 0 || self.max_parts <= Self::MOST_PARTS)
    }

    /// A schedule of equal chunks that are appended to each other, each a multiple of `grain` bytes; for the
    /// rest as [`new`](Self::new).
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

    /// The same with parts of `base` bytes, where that is less, until they grow.
    pub(crate) fn narrowed(self, base: u64) -> Self {
        Self { base: base.min(self.base), ..self }
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

    /// Most bytes that this schedule takes, whatever the store's largest object.
    pub(crate) fn reach(&self) -> u64 {
        if self.growth == 0 {
            return self.base.saturating_mul(u64::from(self.max_parts));
        }
        (0..self.max_parts).fold(0u64, |start, _| start.saturating_add(self.part_at(start)))
    }
}
