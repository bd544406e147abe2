//! Strategies: how the bytes of one object travel.

use super::plan::{Cut, Schedule, ScheduleError};
use crate::backend::Capabilities;
use crate::engine::latency::Best;

mod auto;
mod chunked;
mod journal;
mod parallel;
mod put;
mod spool;

/// How the bytes of one object travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// Picks from what is known: size, store, memory, and how quick the store has been so far. Where no part size is
    /// set, a known size of up to 16 MiB goes in one request, and one of up to 64 MiB in four parts or fewer, of at least
    /// the store's least and at most 16 MiB; the smaller one in parts as well where uploads have shown one connection
    /// to be so slow that they are worth two requests more, and the larger one in no smaller parts where one is fast.
    #[default]
    Auto,
    /// All bytes in one request; memory: the object's size, unless it comes from a file.
    Put,
    /// One part at a time, each acknowledged before the next is taken, in a session that is appended to
    /// where the store has those; memory: one part.
    Chunked,
    /// Parts in flight together while the producer goes on; memory: the parts in flight.
    Parallel,
    /// To a spool directory first, sent from there by `finish`; memory: about none.
    Spool,
    /// To a journal first, durably, and from there to the store while the producer goes on; memory:
    /// about none. A later process can go on with it.
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

impl std::str::FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|strategy| strategy.name() == name);
        found.ok_or_else(|| {
            format!("unknown strategy `{name}`: use auto, put, chunked, parallel, spool or journal")
        })
    }
}

/// What a strategy decides from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) capabilities: &'a Capabilities,
    /// The caller's part size.
    pub(crate) part_size: Option<u64>,
    /// The object's size, where it is known.
    pub(crate) size_hint: Option<u64>,
    /// What memory can hold of one part; `None` where the bytes are streamed from a file.
    pub(crate) memory: Option<u64>,
    /// Whether parts that memory does not hold go to a spool.
    pub(crate) spool: bool,
    /// Whether there are journal directories.
    pub(crate) journal: bool,
    /// Whether the object is to be published only where there is none.
    pub(crate) create_only: bool,
    /// Most parts in flight for one writer.
    pub(crate) concurrency: usize,
    /// Whether the caller asks for several of them at once.
    pub(crate) parallel: bool,
    /// Most requests that may fly at all.
    pub(crate) most: usize,
    /// How quick the store has been.
    pub(crate) best: Best,
}

/// What a strategy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The strategy that it came to.
    pub(crate) strategy: Strategy,
    pub(crate) cut: Cut,
    /// With this many parts in flight, no more bytes are taken.
    pub(crate) in_flight: usize,
    /// Whether nothing is sent before all bytes are in.
    pub(crate) deferred: bool,
    /// The least size of parts that become smaller where memory is short (`upload/adaptive_part_size.rs`); `None` where they stay
    /// as they are scheduled.
    pub(crate) least: Option<u64>,
}

impl Strategy {
    pub(crate) fn policy(self, target: &Target<'_>) -> Result<Policy, ScheduleError> {
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

impl Target<'_> {
    /// What memory must hold of one part.
    fn bound(&self) -> Option<u64> {
        self.memory.filter(|_| !self.spool)
    }

    /// Parts in any order, as many at once as may be; where the store has them not, or none that do what
    /// is asked, one chunk behind the other.
    fn in_parts(&self) -> Result<(Cut, usize), ScheduleError> {
        match self.capabilities.append {
            Some(grain) if self.create_only && !self.capabilities.create_only_parts => self.appended(grain),
            _ => {
                let Self { capabilities, part_size, size_hint, memory, spool, concurrency, .. } = *self;
                let schedule = Schedule::new(capabilities, part_size, size_hint, memory, spool)?;
                Ok((Cut::Parts(schedule), concurrency.max(1)))
            }
        }
    }

    /// One chunk behind the other, appended where the store has that.
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
