//! Draws scenarios of memory pressure: many writers that hold memory and make no progress, abandoned or fed in
//! turn by one task, with a spool, a bad spool, or no spool.

use std::time::Duration;

use fastrand::Rng;
use tidegate::Strategy;

use super::{Ending, KIB, Scenario, Theme};
use crate::disk::DiskPlan;

/// Bytes of all objects; with more, ten thousand seeds would take long.
const MOST: u64 = 6 << 20;

impl Scenario {
    pub(super) fn draw_pressure(&mut self, random: &mut Rng) {
        self.memory = self.memory.max(64 * KIB);
        self.memory_wait = Duration::from_secs(random.u64(2..=60));
        self.disks = match self.theme {
            Theme::Spooled => self.draw_disks(random),
            Theme::BadSpool => self.draw_bad_disks(random),
            _ => Vec::new(),
        };
        if !self.disks.is_empty() && random.bool() {
            // Spooled parts need not fit in memory.
            self.capabilities.max_part = self.capabilities.min_part * random.u64(4..=64);
            self.capabilities.max_put = self.capabilities.max_part * 2;
        }
        self.profile = self.draw_profile(random);
        if self.profile.is_calm() && random.u8(0..3) == 0 {
            self.stall = Some((random.u64(0..=3000), random.u64(10_000..=60_000)));
            // Longer than any stall, so that no request gives up.
            self.retry.patience = Duration::from_secs(120);
        }
        self.draw_crowd(random);
        if random.u8(0..4) == 0 {
            let tasks = random.usize(1..=3);
            for plan in &mut self.writers {
                plan.task = Some(random.usize(0..tasks));
            }
        }
        self.draw_files(random);
    }

    fn draw_crowd(&mut self, random: &mut Rng) {
        let count = match random.u8(0..60) {
            0 => random.usize(300..=2000),
            1..8 => random.usize(60..=300),
            8..40 => random.usize(10..=60),
            _ => random.usize(2..=12),
        };
        let abandoned = *random.choice(&[0.0, 0.0, 0.1, 0.33, 0.8]).unwrap_or(&0.0);
        let returning = if random.bool() { 0.0 } else { 0.3 };
        let everyone = (random.u8(0..3) == 0).then(|| random.u64(500..=10_000));
        let deferred = *random.choice(&[0.0, 0.2, 1.0]).unwrap_or(&0.0);
        let patient = random.bool();
        let most = (MOST / count as u64).max(3 * KIB);
        for number in 0..count {
            let mut plan = self.draw_writer(random);
            plan.key = format!("key-{number}");
            plan.size = plan.size.min(most);
            plan.ending = plan.ending.within(plan.size);
            plan.hint = plan.hint.map(|hint| hint.min(most));
            if !self.disks.is_empty() && plan.strategy != Strategy::Put && random.f64() < deferred {
                plan.strategy = Strategy::Spool;
            }
            if patient {
                self.never_pauses(&mut plan);
            }
            plan.idle_limit = everyone.or_else(|| (random.u8(0..20) == 0).then(|| random.u64(500..=10_000)));
            if random.f64() < abandoned {
                let at = self.draw_stop(&plan, random);
                plan.ending = Ending::Abandon(at);
            } else if random.f64() < returning {
                let at = self.draw_stop(&plan, random);
                plan.ending = Ending::Return(at);
            }
            self.writers.push(plan);
        }
    }

    /// Draws the offset where a producer stops: in the middle of a part, or at its end.
    fn draw_stop(&self, plan: &super::WriterPlan, random: &mut Rng) -> u64 {
        let part = self.part(plan);
        let at = match random.u8(0..4) {
            0 => random.u64(0..=plan.size),
            1 => part * random.u64(1..=2) + random.u64(0..=1),
            _ => part * random.u64(0..=2) + random.u64(1..=part),
        };
        at.min(plan.size)
    }

    fn never_pauses(&self, plan: &mut super::WriterPlan) {
        if let super::WriterSource::Producer(producer) = &mut plan.source {
            producer.pause = (0.0, 0);
        }
    }

    /// Whether every producer writes whenever the engine lets it, so that no writer may be starved.
    pub fn everyone_goes_on(&self) -> bool {
        self.writers.iter().all(|plan| {
            let pauses = match &plan.source {
                super::WriterSource::Producer(producer) => producer.pause.1 > 0 && producer.pause.0 > 0.0,
                super::WriterSource::File { .. } => false,
            };
            plan.task.is_none() && plan.ending.holds().is_none() && !pauses
        })
    }

    /// Draws disks; at least one has room and works.
    fn draw_disks(&self, random: &mut Rng) -> Vec<DiskPlan> {
        let mut disks = vec![DiskPlan { silent: random.u8(0..8) == 0, ..DiskPlan::sound(random) }];
        while random.u8(0..3) == 0 {
            disks.push(if random.bool() { DiskPlan::sound(random) } else { DiskPlan::bad_writer(random) });
        }
        random.shuffle(&mut disks);
        disks
    }

    fn draw_bad_disks(&self, random: &mut Rng) -> Vec<DiskPlan> {
        (0..random.usize(1..=3)).map(|_| DiskPlan::bad(random)).collect()
    }
}
