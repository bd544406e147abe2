//! Errors for want of memory are told where they must be, and nowhere else.

use tidegate::{ErrorKind, Strategy};

use super::Run;
use crate::actor::Failed;
use crate::disk::{BLOCK, DiskPlan};
use crate::scenario::{Source, WriterPlan};

impl Run<'_> {
    /// Whether an error of the memory's or the spool's has a reason.
    pub(super) fn lacks_memory(&self, number: usize, plan: &WriterPlan, failed: &Failed) -> bool {
        let (from, to) = failed.waited;
        match failed.kind {
            ErrorKind::Starved => {
                let waited = u128::from(to - from) >= self.scenario.memory_wait.as_millis();
                waited && !self.spool_has_room(plan, failed) && self.is_half_filled(plan, failed)
            }
            ErrorKind::Idle => plan.idle_limit.is_some_and(|limit| {
                let others = self.state.witness.waits.iter().filter(|(other, ..)| *other != number);
                to - from >= limit
                    && (self.files_wait() || others.into_iter().any(|(_, _, until)| *until >= from + limit))
            }),
            // Room on a small disk may come and go within the time that a failed disk is left alone.
            ErrorKind::NoSpace => {
                let sound = self.scenario.disks.iter().any(DiskPlan::is_sound);
                plan.strategy == Strategy::Spool && !sound
            }
            _ => false,
        }
    }

    /// Whether what is half-filled stood in the way, and not only what was in flight: without the
    /// latter there would not have been room for a slab more beside the largest part, here or at the
    /// failed writer's own, which has given up its part by now.
    fn is_half_filled(&self, plan: &WriterPlan, failed: &Failed) -> bool {
        let part = self.scenario.writers.iter().map(|plan| self.largest_part(plan)).max().unwrap_or(0);
        let ring = 3 * self.scenario.slab as u64;
        let excused = !self.scenario.everyone_goes_on() || !self.fits();
        excused
            && (Self::is_told_late(plan)
                || failed.usage.half_filled + 2 * part + ring > self.scenario.free_memory())
    }

    /// Whether memory alone is enough. With a spool, parts may be larger than memory, and larger ones are
    /// counted as half of it: where the spool is full or fails, they may stand in each other's way.
    fn fits(&self) -> bool {
        let half = self.scenario.free_memory() / 2;
        let most = |plan: &WriterPlan| match plan.strategy {
            Strategy::Put => plan.size,
            _ => self.largest_part(plan),
        };
        self.scenario.disks.is_empty() || self.scenario.writers.iter().all(|plan| most(plan) <= half)
    }

    /// The most that a part of this writer is: parts grow with the object.
    fn largest_part(&self, plan: &WriterPlan) -> u64 {
        if plan.strategy == Strategy::Put {
            return self.scenario.memory;
        }
        let growing = u64::from(self.scenario.capabilities.max_parts / 8).max(1);
        self.scenario.part(plan).max(plan.size / growing + BLOCK.min(self.scenario.part(plan)))
    }

    /// Whether some disk would have taken what was in the way.
    fn spool_has_room(&self, plan: &WriterPlan, failed: &Failed) -> bool {
        let disks = &self.scenario.disks;
        if disks.iter().any(DiskPlan::is_sound) {
            return true;
        }
        // What several disks hold is known only in sum.
        let [disk] = &disks[..] else { return false };
        let largest = self.scenario.writers.iter().map(|plan| self.largest_part(plan)).max().unwrap_or(0);
        let needed = failed.usage.spooled + largest.next_multiple_of(BLOCK) + 2 * BLOCK;
        // What the failed writer had there itself, it has given back by now.
        let had_none = plan.strategy != Strategy::Spool;
        had_none && !Self::is_told_late(plan) && disk.writes() && !disk.silent && needed < disk.size
    }

    /// Whether the error may have been there for a while: a producer that cancels its writes learns of it
    /// when it comes back, and what was held then is not known.
    fn is_told_late(plan: &WriterPlan) -> bool {
        matches!(&plan.source, Source::Producer(producer) if producer.impatience.is_some())
            || plan.ending.holds().is_some()
    }

    fn files_wait(&self) -> bool {
        self.scenario.writers.iter().any(|plan| matches!(plan.source, Source::File { .. }))
    }

    /// Whether a write to the spool may have failed for another reason than want of room.
    pub(super) fn spool_fails(&self) -> bool {
        !self.scenario.disks.iter().all(DiskPlan::writes)
    }

    /// Whether the spool gave back an error, or other bytes.
    pub(super) fn spool_forgets(&self) -> bool {
        !self.scenario.disks.iter().all(DiskPlan::reads)
    }
}
