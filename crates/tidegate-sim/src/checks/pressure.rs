//! Checks that errors for lack of memory or of spool space come only where they must.

use tidegate::{ErrorKind, Strategy};

use super::RunChecks;
use crate::actor::WriterFailure;
use crate::disk::{BLOCK, DiskPlan};
use crate::scenario::{WriterPlan, WriterSource};

impl RunChecks<'_> {
    /// Whether a `Starved`, `Idle` or `NoSpace` error has a reason.
    pub(super) fn lacks_memory(&self, number: usize, plan: &WriterPlan, failed: &WriterFailure) -> bool {
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
            // A small disk may run full and have room again while the engine leaves a failed disk alone.
            ErrorKind::NoSpace => {
                let sound = self.scenario.disks.iter().any(DiskPlan::is_sound);
                plan.strategy == Strategy::Spool && !sound
            }
            _ => false,
        }
    }

    /// Whether half-filled parts were in the way, and not only parts in flight: even with nothing in flight,
    /// there was no room for three slabs and two of the largest parts, one of them the failed writer's own,
    /// which that writer has given up by now.
    fn is_half_filled(&self, plan: &WriterPlan, failed: &WriterFailure) -> bool {
        let part = self.scenario.writers.iter().map(|plan| self.largest_part(plan)).max().unwrap_or(0);
        let ring = 3 * self.scenario.slab as u64;
        let excused = !self.scenario.everyone_goes_on() || !self.fits();
        excused
            && (Self::is_told_late(plan)
                || failed.usage.half_filled + 2 * part + ring > self.scenario.free_memory())
    }

    /// Whether memory alone is enough. With a spool, parts may be larger than memory, and a larger part counts
    /// as half of the memory: where the spool is full or fails, such parts may block each other.
    fn fits(&self) -> bool {
        let half = self.scenario.free_memory() / 2;
        let most = |plan: &WriterPlan| match plan.strategy {
            Strategy::Put => plan.size,
            _ => self.largest_part(plan),
        };
        self.scenario.disks.is_empty() || self.scenario.writers.iter().all(|plan| most(plan) <= half)
    }

    /// The largest part of this writer: parts grow with the object.
    fn largest_part(&self, plan: &WriterPlan) -> u64 {
        if plan.strategy == Strategy::Put {
            return self.scenario.memory;
        }
        let growing = u64::from(self.scenario.capabilities.max_parts / 8).max(1);
        self.scenario.part(plan).max(plan.size / growing + BLOCK.min(self.scenario.part(plan)))
    }

    /// Whether some disk had room for the parts that were in the way.
    fn spool_has_room(&self, plan: &WriterPlan, failed: &WriterFailure) -> bool {
        let disks = &self.scenario.disks;
        if disks.iter().any(DiskPlan::is_sound) {
            return true;
        }
        // With several disks, only the sum of the spooled bytes is known.
        let [disk] = &disks[..] else { return false };
        let largest = self.scenario.writers.iter().map(|plan| self.largest_part(plan)).max().unwrap_or(0);
        let needed = failed.usage.spooled + largest.next_multiple_of(BLOCK) + 2 * BLOCK;
        // A spool-first writer that failed has given back its own space on the disk by now.
        let had_none = plan.strategy != Strategy::Spool;
        had_none && !Self::is_told_late(plan) && disk.writes() && !disk.silent && needed < disk.size
    }

    /// Whether the error may be older than its report: a producer that cancels its writes, or that holds,
    /// learns of the error when it returns, and the memory usage at the time of the error is not known.
    fn is_told_late(plan: &WriterPlan) -> bool {
        matches!(&plan.source, WriterSource::Producer(producer) if producer.impatience.is_some())
            || plan.ending.holds().is_some()
    }

    fn files_wait(&self) -> bool {
        self.scenario.writers.iter().any(|plan| matches!(plan.source, WriterSource::File { .. }))
    }

    /// Whether a write to the spool may have failed for a reason other than lack of room.
    pub(super) fn spool_fails(&self) -> bool {
        !self.scenario.disks.iter().all(DiskPlan::writes)
    }

    /// Whether a read from the spool may have failed or returned wrong bytes.
    pub(super) fn spool_forgets(&self) -> bool {
        !self.scenario.disks.iter().all(DiskPlan::reads)
    }
}
