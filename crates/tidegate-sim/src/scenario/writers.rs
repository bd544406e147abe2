//! Draws the plans of a scenario's writers.

use fastrand::Rng;
use tidegate::Strategy;

use super::{Ending, Face, ProducerPlan, Scenario, Theme, WriterPlan, WriterSource};

impl Scenario {
    pub(super) fn draw_writer(&mut self, random: &mut Rng) -> WriterPlan {
        let strategies =
            [Strategy::Auto, Strategy::Auto, Strategy::Put, Strategy::Chunked, Strategy::Parallel];
        let (least, most) = (self.capabilities.min_part, self.capabilities.max_part.min(self.memory));
        let part_size = random.bool().then(|| match random.u8(0..3) {
            0 => least,
            1 => random.u64(least..=most.min(least * 4)),
            _ => random.u64(least..=most),
        });
        let mut plan = WriterPlan {
            key: String::new(),
            size: 0,
            strategy: *random.choice(&strategies).unwrap_or(&Strategy::Auto),
            part_size,
            hint: None,
            parts_in_flight: random.bool().then(|| random.usize(1..=8)),
            create_only: random.u8(0..4) == 0,
            start_after: if random.bool() { 5 } else { random.u64(5..=500) },
            source: WriterSource::Producer(self.draw_producer(random)),
            ending: Ending::Finish,
            idle_limit: None,
            task: None,
        };
        plan.size = self.draw_size(&plan, random);
        plan.hint = self.draw_hint(&plan, random);
        plan.ending = match random.u8(0..20) {
            0 => Ending::Abort(random.u64(0..=plan.size)),
            1 => Ending::Drop(random.u64(0..=plan.size)),
            2 => Ending::DropInFinish(random.u64(0..=300)),
            3 => Ending::SourceFails(random.u64(0..=plan.size)),
            _ => Ending::Finish,
        };
        plan
    }

    pub(super) fn draw_producer(&self, random: &mut Rng) -> ProducerPlan {
        let faces = [Face::Bytes, Face::Bytes, Face::AsyncWrite, Face::Sink, Face::ReadFrom];
        let (slab, part) = (self.slab, usize::try_from(self.capabilities.min_part).unwrap_or(1024));
        let piece = match random.u8(0..6) {
            0 => (1, 100),
            1 => (1, slab),
            2 => (slab, slab),
            3 => (part - 1, part + 1),
            4 => (part, part * 3),
            _ => (500, part * 2),
        };
        let pause = match random.u8(0..3) {
            0 => (0.0, 0),
            1 => (0.1, 50),
            _ => (0.02, if self.theme == Theme::Crowd { 20_000 } else { 2000 }),
        };
        ProducerPlan {
            face: if random.u8(0..4) == 0 { None } else { random.choice(&faces).copied() },
            piece,
            pause,
            impatience: (random.u8(0..6) == 0).then(|| random.u64(1..=60)),
        }
    }

    /// Makes some writers upload files. Opening a file blocks a real thread, and its real time must not decide
    /// the order of events. So each file is opened in one of the first milliseconds, before any answer can
    /// arrive and any other writer starts.
    pub(super) fn draw_files(&mut self, random: &mut Rng) {
        if random.u8(0..8) > 0 {
            return;
        }
        let count = random.usize(1..=3.min(self.writers.len()));
        for index in 0..count {
            let truncate_after = (random.u8(0..5) == 0).then(|| random.u64(5..=200));
            let mut plan = self.writers[index].clone();
            plan.source = WriterSource::File { truncate_after };
            plan.start_after = index as u64;
            plan.ending =
                if random.u8(0..6) == 0 { Ending::DropInFinish(random.u64(5..=300)) } else { Ending::Finish };
            plan.hint = None;
            plan.size = self.draw_size(&plan, random);
            self.writers[index] = plan;
        }
    }
}
