//! The plan of one upload: a state machine without I/O.
//!
//! Bytes and results go in, [`Action`]s come out. The plan owns the numbering and sizes of parts, when
//! the session is opened, and whether the set of parts is whole.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::backend::{Capabilities, Receipt};
use crate::types::amount::Exactly;
use crate::types::checksum::{Algorithm, Checksum};

mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use schedule::{Schedule, ScheduleError};

/// The next step of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Write the whole object, of this many bytes, in one request.
    Put { size: u64 },
    /// Open a session.
    Open,
    /// Store a part in the session.
    Part { number: u32, range: Range<u64> },
    /// Store the last part of a session that is appended to, which publishes the object.
    Last { number: u32, range: Range<u64> },
    /// Publish the object.
    Complete { size: u64 },
    /// All parts are stored: the session waits for a commit.
    Prepared,
}

/// Why the plan takes no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// Past what the store, or memory, allows.
    #[error(
        "the object grows past {}, the most that {parts} parts hold here (raise the memory, give a size hint, or make \
         the parts larger)",
        Exactly(*reach)
    )]
    PastReach { reach: u64, parts: u32 },
    #[error("the object grows past {}, the most that this store takes", Exactly(*limit))]
    TooLarge { limit: u64 },
    #[error(
        "the object grows past {}, the most that one request takes here (raise the memory, give a size hint, or \
         let it be sent in parts)",
        Exactly(*limit)
    )]
    PastRequest { limit: u64 },
}

/// How an object is cut into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cut {
    /// One request, for an object of up to this many bytes.
    Whole { limit: u64 },
    /// One request where the object is no larger than the first part, parts where it is.
    Parts(Schedule),
    /// Like `Parts`, but parts are appended to each other, and the last one publishes the object.
    Chunks(Schedule),
}

impl Cut {
    /// The sizes of the parts; `None` for a single request.
    pub(crate) fn schedule(&self) -> Option<Schedule> {
        match *self {
            Self::Whole { .. } => None,
            Self::Parts(schedule) | Self::Chunks(schedule) => Some(schedule),
        }
    }

    /// Whether the parts are appended to each other.
    pub(crate) fn appends(&self) -> bool {
        matches!(self, Self::Chunks(_))
    }

    /// The same for another memory budget, which holds the parts; `None` where it need not.
    pub(crate) fn within(self, memory: Option<u64>) -> Result<Self, ScheduleError> {
        Ok(match self {
            Self::Whole { limit } => Self::Whole { limit: limit.min(memory.unwrap_or(u64::MAX)) },
            Self::Parts(schedule) => Self::Parts(schedule.within(memory)?),
            Self::Chunks(schedule) => Self::Chunks(schedule.within(memory)?),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Plan {
    cut: Cut,
    max_object: u64,
    max_parts: u32,
    checksum: Algorithm,
    actions: VecDeque<Action>,
    /// Bytes taken in.
    size: u64,
    /// The part that is being filled: its number, where it begins, how large it becomes.
    number: u32,
    start: u64,
    part: u64,
    /// The smallest size that [`narrow`](Self::narrow) gives a part; `None` where parts keep their scheduled
    /// size.
    least: Option<u64>,
    stage: Stage,
    /// Parts asked for and not yet acknowledged.
    outstanding: BTreeSet<u32>,
    receipts: BTreeMap<u32, Receipt>,
    /// How many parts were ended before they were full.
    ended_early: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No session yet.
    Lazy,
    /// A session is open, or is being opened.
    Open,
    /// All bytes were taken; parts may be outstanding.
    Finishing,
    /// The same, and the object is to be published later, by a commit.
    Preparing,
    /// The last action was given.
    Ended,
}

impl Plan {
    pub(crate) fn new(capabilities: &Capabilities, cut: Cut) -> Self {
        let part = match cut {
            Cut::Whole { limit } => limit,
            Cut::Parts(schedule) | Cut::Chunks(schedule) => schedule.part_at(0),
        };
        let max_parts = cut.schedule().map_or(capabilities.max_parts, |schedule| schedule.max_parts());
        Self {
            cut,
            max_object: capabilities.max_object,
            max_parts,
            checksum: capabilities.checksum,
            actions: VecDeque::new(),
            size: 0,
            number: 1,
            start: 0,
            part,
            least: None,
            stage: Stage::Lazy,
            outstanding: BTreeSet::new(),
            receipts: BTreeMap::new(),
            ended_early: 0,
        }
    }

    /// Goes on behind `stored`, which an open session has. They are in order, and numbered from 1.
    pub(crate) fn resumed(mut self, stored: Vec<Receipt>) -> Self {
        self.size = stored.iter().map(|receipt| receipt.size).sum();
        (self.start, self.stage) = (self.size, Stage::Open);
        self.number = u32::try_from(stored.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.receipts = stored.into_iter().map(|receipt| (receipt.number, receipt)).collect();
        if let Some(schedule) = self.cut.schedule() {
            self.part = schedule.part_at(self.start);
        }
        self
    }

    /// Opens the session at once: the object goes in parts even if it is no larger than the first.
    pub(crate) fn in_session(mut self) -> Self {
        self.stage = Stage::Open;
        self.actions.push_back(Action::Open);
        self
    }

    /// Takes in that the session is opened before there is a part; false if it was asked for before, or if the object
    /// goes in one request.
    pub(crate) fn open_early(&mut self) -> bool {
        let opens = self.stage == Stage::Lazy && self.cut.schedule().is_some();
        if opens {
            self.stage = Stage::Open;
        }
        opens
    }

    /// Takes in that the session could not be opened early.
    pub(crate) fn not_opened(&mut self) {
        if self.stage == Stage::Open && self.number == 1 {
            self.stage = Stage::Lazy;
        }
    }

    /// Ends the part that is being filled, if the store takes so small a part: of `least` bytes or more. Only an eighth of
    /// the parts is ended so, because the others must add up to [`reach`](Self::reach).
    pub(crate) fn end_part_early(&mut self, least: u64) {
        let Cut::Parts(schedule) = self.cut else { return };
        let filled = self.size - self.start;
        if self.stage != Stage::Open || self.number >= self.max_parts {
            return;
        }
        if filled < self.part {
            if filled < least.max(1) || !schedule.grows() || self.ended_early >= self.max_parts / 8 {
                return;
            }
            self.ended_early += 1;
        }
        self.cut_part();
    }

    /// Lets parts become smaller than scheduled, down to `least` bytes.
    pub(crate) fn down_to(self, least: Option<u64>) -> Self {
        Self { least, ..self }
    }

    /// Shrinks the current part, if it has no byte yet, to at most `most` bytes, but not below the smallest
    /// size allowed.
    pub(crate) fn narrow(&mut self, most: u64) {
        if let Some(least) = self.least_part()
            && self.size == self.start
        {
            self.part = self.part.min(most.max(least));
        }
    }

    /// Takes no more than `parts` parts, and makes those larger that have no byte yet.
    pub(crate) fn limit_parts(&mut self, parts: u32) {
        let Cut::Parts(schedule) = &mut self.cut else { return };
        if parts >= self.max_parts {
            return;
        }
        *schedule = schedule.limited(parts);
        self.max_parts = parts;
        if self.size == self.start {
            self.part = schedule.part_at(self.start);
        }
    }

    /// The smallest size of the current part with which the parts still add up to `reach`.
    fn least_part(&self) -> Option<u64> {
        Some(self.cut.schedule()?.narrowed(self.least?).part_at(self.start))
    }

    /// Size of the part that is being filled, in bytes.
    pub(crate) fn part(&self) -> u64 {
        self.part
    }

    /// How many more bytes the current part takes; 0 where the part or the object is full, and
    /// [`more`](Self::more) must be called before the next byte.
    pub(crate) fn room(&self) -> u64 {
        self.part_room().min(self.max_object.saturating_sub(self.size))
    }

    fn part_room(&self) -> u64 {
        self.start + self.part - self.size
    }

    /// The largest object that the plan takes, in bytes, however small its parts become.
    pub(crate) fn reach(&self) -> u64 {
        let reach = match self.cut {
            Cut::Whole { limit } => limit,
            Cut::Parts(schedule) | Cut::Chunks(schedule) => {
                schedule.narrowed(self.least.unwrap_or(u64::MAX)).reach()
            }
        };
        reach.min(self.max_object)
    }

    /// How the object is cut.
    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// How many bytes the part has that is being filled.
    pub(crate) fn filled(&self) -> u64 {
        self.size - self.start
    }

    /// The number of the part that the next byte belongs to.
    pub(crate) fn next_part(&self) -> u32 {
        if self.part_room() == 0 { self.number.saturating_add(1) } else { self.number }
    }

    /// Bytes taken in.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Announces that at least one more byte comes. A full part is cut now: the object is known to go on, so
    /// a full first part is no longer a single PUT.
    pub(crate) fn more(&mut self) -> Result<(), PlanError> {
        debug_assert!(matches!(self.stage, Stage::Lazy | Stage::Open));
        if self.size >= self.max_object {
            return Err(PlanError::TooLarge { limit: self.max_object });
        }
        if self.part_room() > 0 {
            return Ok(());
        }
        if let Cut::Whole { limit } = self.cut {
            return Err(PlanError::PastRequest { limit });
        }
        if self.number >= self.max_parts {
            return Err(PlanError::PastReach { reach: self.size, parts: self.max_parts });
        }
        self.cut_part();
        Ok(())
    }

    /// Counts `bytes` more as taken; at most [`room`](Self::room).
    pub(crate) fn push(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.room());
        self.size += bytes;
        // A full first part waits for `more`: the object may end here, and can then be a single PUT. Every
        // appended part waits as well, because the last one publishes the object.
        let waits = self.cut.appends();
        if self.stage == Stage::Open && !waits && self.part_room() == 0 && self.number < self.max_parts {
            self.cut_part();
        }
    }

    /// Ends the object: no more bytes come.
    pub(crate) fn finish(&mut self) {
        match self.stage {
            Stage::Lazy => {
                self.actions.push_back(Action::Put { size: self.size });
                self.stage = Stage::Ended;
            }
            Stage::Open if self.cut.appends() => {
                self.actions.push_back(Action::Last { number: self.number, range: self.start..self.size });
                self.stage = Stage::Ended;
            }
            Stage::Open => {
                // A session has at least one part, also if it was opened early and there are no bytes.
                if self.size > self.start || self.number == 1 {
                    self.ask_for_part();
                }
                self.stage = Stage::Finishing;
                self.complete_when_whole();
            }
            Stage::Finishing | Stage::Preparing | Stage::Ended => {}
        }
    }

    /// Ends the object without publishing it. Its bytes go to a session in any case, in one part if they are few.
    pub(crate) fn prepare(&mut self) {
        if !matches!(self.stage, Stage::Lazy | Stage::Open) {
            return;
        }
        if self.size > self.start || self.number == 1 {
            self.ask_for_part();
        }
        self.stage = Stage::Preparing;
        self.complete_when_whole();
    }

    /// A part was stored.
    pub(crate) fn stored(&mut self, receipt: Receipt) {
        if self.outstanding.remove(&receipt.number) {
            self.receipts.insert(receipt.number, receipt);
            self.complete_when_whole();
        }
    }

    /// Whether part `number` is the last appended part, which publishes the object.
    pub(crate) fn publishes_with(&self, number: u32) -> bool {
        self.cut.appends() && self.stage == Stage::Ended && number == self.number
    }

    /// Whether part `number` is the last part of an object that is published later.
    pub(crate) fn prepares_with(&self, number: u32) -> bool {
        self.stage == Stage::Preparing && number == self.number
    }

    /// Whether part `number` is known to be the last one.
    pub(crate) fn ends_with(&self, number: u32) -> bool {
        self.is_finished() && number == self.number
    }

    /// How many parts are asked for and not yet acknowledged.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Takes out the next action, in order.
    pub(crate) fn next(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The receipts of all parts in ascending order.
    pub(crate) fn parts(&self) -> Vec<Receipt> {
        self.receipts.values().cloned().collect()
    }

    /// The checksum of all parts that are stored, in order, if they were sent from here.
    pub(crate) fn checksum(&self) -> Checksum {
        let sums = self.receipts.values().filter_map(|receipt| receipt.checksum);
        sums.reduce(|sum, next| sum.then(&next)).unwrap_or_else(|| self.checksum.empty())
    }

    /// Whether all bytes were taken.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Finishing | Stage::Preparing | Stage::Ended)
    }

    /// Whether parts are appended to each other, one at a time.
    pub(crate) fn appends(&self) -> bool {
        self.cut.appends()
    }

    fn cut_part(&mut self) {
        self.ask_for_part();
        self.number += 1;
        self.start = self.size;
        if let Some(schedule) = self.cut.schedule() {
            // The narrowed schedule rounds to steps of its own, so its part can be the larger one.
            self.part = schedule.part_at(self.start).max(self.least_part().unwrap_or(0));
        }
    }

    fn ask_for_part(&mut self) {
        if self.stage == Stage::Lazy {
            self.stage = Stage::Open;
            self.actions.push_back(Action::Open);
        }
        self.outstanding.insert(self.number);
        self.actions.push_back(Action::Part { number: self.number, range: self.start..self.size });
    }

    fn complete_when_whole(&mut self) {
        let action = match self.stage {
            Stage::Finishing => Action::Complete { size: self.size },
            Stage::Preparing => Action::Prepared,
            Stage::Lazy | Stage::Open | Stage::Ended => return,
        };
        let covered: u64 = self.receipts.values().map(|receipt| receipt.size).sum();
        if self.outstanding.is_empty() && covered == self.size {
            self.actions.push_back(action);
            self.stage = Stage::Ended;
        }
    }
}
