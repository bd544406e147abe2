//! Draws object sizes: around the boundaries of parts, within the store's limits and slightly past them.

use fastrand::Rng;
use tidegate::{ErrorKind, Strategy};

use super::{Scenario, Theme, WriterPlan, WriterSource};

/// The engine's default part size ("16 MiB, less where the memory budget is below 128 MiB"). For known sizes
/// `Auto` picks whole MiB, which is larger than any object here.
const DEFAULT_PART: u64 = 16 << 20;
/// Largest object in bytes; with larger ones, ten thousand seeds would take long.
const MOST: u64 = 96 << 10;

impl Scenario {
    /// The size of a writer's first part.
    pub fn part(&self, plan: &WriterPlan) -> u64 {
        let (least, most) = (self.capabilities.min_part, self.capabilities.max_part);
        let memory =
            if matches!(plan.source, WriterSource::File { .. }) { u64::MAX } else { self.free_memory() / 8 };
        plan.part_size.unwrap_or_else(|| DEFAULT_PART.min(memory).clamp(least, most))
    }

    /// The memory that is not set aside for sending from the spool. The engine sets aside "an eighth", in rings
    /// of three slabs, and one spare ring where there is room for four.
    pub fn free_memory(&self) -> u64 {
        let ring = 3 * self.slab as u64;
        if self.disks.is_empty() {
            return self.memory;
        }
        let spare = u64::from(self.memory / ring >= 4);
        self.memory - ((self.memory / 8 / ring).max(1) + spare) * ring
    }

    /// The largest single request for this writer and this hint. If the size is unknown, half of the memory is
    /// left to other writers. Spooled bytes need not fit in memory.
    fn put_limit(&self, plan: &WriterPlan, hint: Option<u64>) -> u64 {
        let memory = match (&plan.source, hint) {
            (WriterSource::File { .. }, _) => u64::MAX,
            (WriterSource::Producer(_), _) if !self.disks.is_empty() => u64::MAX,
            (WriterSource::Producer(_), Some(_)) => self.memory,
            (WriterSource::Producer(_), None) => self.memory / 2,
        };
        self.capabilities.max_put.min(memory)
    }

    /// The error with which the engine must refuse this write whatever the store does, if any.
    pub fn refusal(&self, plan: &WriterPlan) -> Option<ErrorKind> {
        let hint = if matches!(plan.source, WriterSource::File { .. }) { Some(plan.size) } else { plan.hint };
        let object = self.capabilities.max_object;
        let (most, bound) = match plan.strategy {
            // A put accepts no more than the hint.
            Strategy::Put => {
                let most = self.put_limit(plan, hint);
                (most, most.min(object).min(hint.map_or(u64::MAX, |hint| hint.max(1))))
            }
            _ => (object, object),
        };
        (hint.is_some_and(|hint| hint > most) || plan.size > bound).then_some(ErrorKind::TooLarge)
    }

    pub(super) fn draw_size(&self, plan: &WriterPlan, random: &mut Rng) -> u64 {
        let part = self.part(plan);
        let base = part * u64::from(self.capabilities.max_parts);
        // Well below the largest object that the parts can make up, whether they grow or not.
        let growing =
            !self.capabilities.equal_parts && self.capabilities.max_part.min(self.memory / 2) >= part * 16;
        let reach = match plan.strategy {
            Strategy::Put => self.put_limit(plan, None),
            _ if growing => base * 2,
            _ => base * 4 / 5,
        };
        let around = |parts: u64, random: &mut Rng| (part * parts + random.u64(0..=2)).saturating_sub(1);
        let parts = if self.theme == Theme::Crowd { 5 } else { 24 };
        let size = match random.u8(0..10) {
            0 => random.u64(0..=2),
            1 => random.u64(0..=part),
            2 | 3 => around(1, random),
            4 => around(2, random),
            5 => {
                let times = random.u64(1..=parts);
                around(times, random)
            }
            6 if random.u8(0..4) == 0 => reach,
            _ => random.u64(0..=part * parts),
        };
        let size = size.min(reach).min(MOST);
        // Now and then slightly past the store's limit, otherwise within it.
        if random.u8(0..12) == 0 { size } else { size.min(self.capabilities.max_object) }
    }

    pub(super) fn draw_hint(&self, plan: &WriterPlan, random: &mut Rng) -> Option<u64> {
        let hint = match random.u8(0..8) {
            0..3 => return None,
            3..6 => plan.size,
            6 => random.u64(0..=plan.size),
            _ => plan.size + random.u64(0..=plan.size),
        };
        // With a larger hint the engine would make the parts larger, and their count would not be known here.
        Some(hint.min(self.part(plan) * u64::from(self.capabilities.max_parts)))
    }
}
