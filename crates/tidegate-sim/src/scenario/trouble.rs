//! Draws the faults of a scenario.

use fastrand::Rng;
use tidegate::Strategy;

use super::{Ending, Scenario, Theme, WriterSource};
use crate::faults::Profile;

impl Scenario {
    pub(super) fn draw_profile(&mut self, random: &mut Rng) -> Profile {
        // Even the shortest latency is longer than the first milliseconds, in which files are opened.
        let least = random.u64(5..=20);
        let latency = (least, least + random.u64(0..=200));
        let calm = Profile { latency, commit_factor: 1.0, ..Profile::default() };
        let spared = match self.theme {
            Theme::Calm => true,
            Theme::Faulty => false,
            theme if theme.is_pressure() => random.u8(0..3) > 0,
            _ => random.u8(0..3) == 0,
        };
        if spared {
            return calm;
        }
        let patience = u64::try_from(self.retry.patience.as_millis()).unwrap_or(u64::MAX);
        // A run has few kinds of fault or many, each rare or frequent.
        let (kinds, most) = (random.f64(), *random.choice(&[0.01, 0.05, 0.2]).unwrap_or(&0.05));
        let mut share = |factor: f64| if random.f64() < kinds { random.f64() * most * factor } else { 0.0 };
        let mut profile = Profile {
            lost_request: share(1.0),
            lost_answer: share(1.0),
            silence: share(0.6),
            cut: share(0.6),
            throttled: share(1.0),
            slow: share(1.0),
            reset: share(1.0),
            integrity: share(0.5),
            ok_with_error: share(1.0),
            denied: share(0.1),
            expired: share(0.1),
            tail: (share(1.0), 0),
            ..calm
        };
        profile.tail.1 = if profile.tail.0 > 0.0 { patience * 2 } else { 0 };
        profile.late = if profile.silence + profile.cut > 0.0 { patience * 15 } else { 0 };
        if self.theme == Theme::Commits {
            profile.commit_factor = 1.0 + random.f64() * 9.0;
        }
        profile
    }

    pub(super) fn draw_foreign(&mut self, random: &mut Rng) {
        for index in 0..self.writers.len() {
            let share = if self.theme == Theme::Races { 3 } else { 12 };
            if random.u8(0..share) == 0 {
                let at = if random.bool() { 0 } else { random.u64(5..=1500) };
                self.foreign.push((self.writers[index].key.clone(), at));
            }
        }
    }

    /// Several writers with many parts each, some of them very slow, so that the engine hedges.
    pub(super) fn draw_stragglers(&mut self, random: &mut Rng) {
        let patience = u64::try_from(self.retry.patience.as_millis()).unwrap_or(u64::MAX);
        self.profile.tail = (0.02 + random.f64() * 0.06, patience * random.u64(1..=3));
        let part = self.capabilities.min_part;
        let most = u64::from(self.capabilities.max_parts).min(self.capabilities.max_object / part);
        for plan in &mut self.writers {
            if plan.source == (WriterSource::File { truncate_after: None }) || plan.ending != Ending::Finish {
                continue;
            }
            plan.strategy = Strategy::Parallel;
            plan.part_size = Some(part);
            plan.parts_in_flight = None;
            // The last part may be short.
            plan.size = part * random.u64(1..=most.max(1)) - random.u64(0..part);
            plan.hint = None;
        }
    }
}
