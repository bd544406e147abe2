//! Strategies: how the bytes of one object get to the store.

use super::plan::{Cut, Schedule, ScheduleError};
use crate::backend::Capabilities;
use crate::engine::latency::Best;
use crate::types::unknown_name::UnknownName;

mod auto;
mod chunked;
mod journal;
mod parallel;
mod put;
mod spool;

/// How the bytes of one object get to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// Picks from the size, the store, the memory, and how fast the store has been so far. Where no part size
    /// is set, an object of a known size of up to 16 MiB goes in one request, and one of up to 64 MiB in four
    /// parts or fewer, of at least the store's least and at most 16 MiB. The smaller object goes in parts as
    /// well where uploads have shown one connection to be so slow that parts are worth two requests more; the
    /// larger one goes in parts of the usual size where one connection is fast.
    #[default]
    Auto,
    /// All bytes in one request; memory: the object's size, unless it comes from a file.
    Put,
    /// One part at a time, each acknowledged before the next is taken, in a session that is appended to where
    /// the store has such sessions; memory: one part.
    Chunked,
    /// Parts in flight together while the producer continues; memory: the parts in flight.
    Parallel,
    /// To a spool directory first, sent from there by `finish`; memory: about none.
    Spool,
    /// To a journal first, durably, and from there to the store while the producer continues; memory: about
    /// none. A later process can resume the upload.
    Journal,
}

impl Strategy {
    const ALL: [Self; 6] = [Self::Auto, Self::Put, Self::Chunked, Self::Parallel, Self::Spool, Self::Journal];

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Put => "put",
            Self::Chunked => "chunked",
            Self::Parallel => "parallel",
            Self::Spool => "spool",
            Self::Journal => "journal",
        }
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Strategy {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("strategy", name, &Self::ALL, Self::name)
    }
}

/// The facts that a strategy decides from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrategyFacts<'a> {
    pub(crate) capabilities: &'a Capabilities,
    /// Whether the server may have sessions of parts, as its protocol does.
    pub(crate) may_have_parts: bool,
    /// The caller's part size.
    pub(crate) part_size: Option<u64>,
    /// The object's size, where it is known.
    pub(crate) size_hint: Option<u64>,
    /// The memory budget, in bytes; `None` where the bytes are streamed from a file.
    pub(crate) memory: Option<u64>,
    /// Whether parts that memory does not hold go to a spool.
    pub(crate) spool: bool,
    /// Whether there are journal directories.
    pub(crate) journal: bool,
    /// Whether the commit depends on a condition: that the key has no object, or still has the one that is
    /// replaced.
    pub(crate) create_only: bool,
    /// Most parts in flight for one writer.
    pub(crate) concurrency: usize,
    /// Whether the caller asks for several parts in flight at once.
    pub(crate) parallel: bool,
    /// Most requests that may be in flight at all.
    pub(crate) most: usize,
    /// How fast the store has been.
    pub(crate) best: Best,
}

/// The decision of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The strategy in use; never `Auto`.
    pub(crate) strategy: Strategy,
    pub(crate) cut: Cut,
    /// With this many parts in flight, no more bytes are taken.
    pub(crate) in_flight: usize,
    /// Whether nothing is sent before all bytes are in.
    pub(crate) spool_first: bool,
    /// The smallest size of parts that shrink while memory is short (`upload/adaptive_part_size.rs`); `None`
    /// where parts keep their scheduled size.
    pub(crate) least: Option<u64>,
}

impl Strategy {
    pub(crate) fn policy(self, target: &StrategyFacts<'_>) -> Result<Policy, ScheduleError> {
        match self {
            Self::Auto => auto::policy(target),
            Self::Put => put::policy(target),
            Self::Chunked => chunked::policy(target),
            Self::Parallel => parallel::policy(target),
            Self::Spool => spool::policy(target),
            Self::Journal => journal::policy(target),
        }
    }
}

impl StrategyFacts<'_> {
    /// The memory budget that parts must fit in; `None` where they go to a spool or are streamed from a file.
    fn bound(&self) -> Option<u64> {
        self.memory.filter(|_| !self.spool)
    }

    /// Parts in any order, as many at once as allowed. Where the server has no parts, or they can't keep the condition
    /// of the commit, chunks that are appended one after the other.
    fn in_parts(&self) -> Result<(Cut, usize), ScheduleError> {
        match self.capabilities.append {
            Some(grain) if !self.may_have_parts => self.appended(grain),
            Some(grain) if self.create_only && !self.capabilities.create_only_parts => self.appended(grain),
            _ => {
                let Self { capabilities, part_size, size_hint, memory, spool, concurrency, .. } = *self;
                let schedule = Schedule::new(capabilities, part_size, size_hint, memory, spool)?;
                Ok((Cut::Parts(schedule), concurrency.max(1)))
            }
        }
    }

    /// One chunk after the other: appended where the store has sessions for that, otherwise as parts.
    fn in_order(&self) -> Result<Cut, ScheduleError> {
        match self.capabilities.append {
            Some(grain) => self.appended(grain).map(|(cut, _)| cut),
            None => self.in_parts().map(|(cut, _)| cut),
        }
    }

    fn appended(&self, grain: u64) -> Result<(Cut, usize), ScheduleError> {
        let Self { capabilities, part_size, size_hint, memory, spool, .. } = *self;
        let schedule = Schedule::appended(capabilities, grain, part_size, size_hint, memory, spool)?;
        Ok((Cut::Chunks(schedule), 1))
    }
}
