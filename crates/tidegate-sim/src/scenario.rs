//! Draws a scenario from a seed: an engine, a store with its faults, and writers with their plans.

use std::time::Duration;

use fastrand::Rng;
use tidegate::Strategy;
use tidegate::backend::Capabilities;
use tidegate::checksum::Algorithm;
use tidegate::settings::RetryPolicy;

use crate::content::mix;
use crate::disk::DiskPlan;
use crate::faults::Profile;

mod plan;
mod pressure;
mod size;
mod trouble;
mod writers;

pub use plan::{Ending, Face, ProducerPlan, WriterPlan, WriterSource};

const KIB: u64 = 1 << 10;

/// The focus of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// No faults: writers must make the fewest possible requests.
    Calm,
    /// Faults of every kind.
    Faulty,
    /// Many writers with little memory.
    Crowd,
    /// Small objects on a store that answers commits badly.
    Commits,
    /// Several writers of the same keys.
    Races,
    /// Writers that stop, or that one task feeds in turn, with little memory and no spool.
    Pressure,
    /// The same, with a spool that has room and works.
    Spooled,
    /// The same, with a spool that is small or fails.
    BadSpool,
}

impl Theme {
    /// Whether the theme has writers that hold memory and make no progress.
    pub fn is_pressure(self) -> bool {
        matches!(self, Self::Pressure | Self::Spooled | Self::BadSpool)
    }
}

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The theme.
    pub theme: Theme,
    /// Memory budget in bytes.
    pub memory: u64,
    /// Slab in bytes.
    pub slab: usize,
    /// Fixed limit of requests in flight; `None` lets the engine find the limit.
    pub concurrency: Option<usize>,
    /// Most parts in flight of one writer.
    pub parts_in_flight: usize,
    /// The retry policy.
    pub retry: RetryPolicy,
    /// The store's limits.
    pub capabilities: Capabilities,
    /// Whether the store confirms the abort of a session that does not exist, as MinIO does.
    pub lenient_abort: bool,
    /// Whether the tags of two copies of a part differ, as under some encryption.
    pub copies_differ: bool,
    /// Latencies and fault rates.
    pub profile: Profile,
    /// The writers.
    pub writers: Vec<WriterPlan>,
    /// Objects that appear without the engine: key and virtual milliseconds.
    pub foreign: Vec<(String, u64)>,
    /// The spool's disks.
    pub disks: Vec<DiskPlan>,
    /// How long a writer may wait for memory that no request in flight can free.
    pub memory_wait: Duration,
    /// When the store stops answering, and for how long, in virtual milliseconds.
    pub stall: Option<(u64, u64)>,
    /// How far the store's clock is ahead of the client's, in milliseconds; at most what a store accepts.
    pub clock_ahead: i64,
    /// Whether another writer replaces each object whose publication was answered with an error.
    pub is_contested: bool,
}

impl Scenario {
    /// First and step of the seeds with memory pressure.
    pub const PRESSURE: (u64, u64) = (4, 5);

    /// Draws the scenario of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(mix(seed));
        let theme = match random.u8(0..100) {
            drawn if seed % Self::PRESSURE.1 == Self::PRESSURE.0 => match drawn {
                0..30 => Theme::Pressure,
                30..65 => Theme::Spooled,
                _ => Theme::BadSpool,
            },
            0..25 => Theme::Calm,
            25..60 => Theme::Faulty,
            60..75 => Theme::Crowd,
            75..90 => Theme::Commits,
            _ => Theme::Races,
        };
        let memory = random.u64(16..=256) * KIB;
        let mut retry = RetryPolicy::default();
        retry.attempts = random.u32(2..=5);
        retry.first_pause = Duration::from_millis(random.u64(5..=100));
        retry.longest_pause = Duration::from_millis(random.u64(200..=2000));
        retry.patience = Duration::from_secs(random.u64(1..=5));
        let mut scenario = Self {
            seed,
            theme,
            memory,
            slab: 1 << random.u32(10..=12),
            concurrency: random.bool().then(|| random.usize(1..=12)),
            parts_in_flight: random.usize(1..=16),
            retry,
            capabilities: capabilities(&mut random, memory),
            lenient_abort: random.u8(0..4) == 0,
            copies_differ: false,
            profile: Profile::default(),
            writers: Vec::new(),
            foreign: Vec::new(),
            disks: Vec::new(),
            memory_wait: Duration::from_secs(60),
            stall: None,
            clock_ahead: 0,
            is_contested: false,
        };
        if theme.is_pressure() {
            scenario.draw_pressure(&mut random);
            return scenario;
        }
        scenario.profile = scenario.draw_profile(&mut random);
        scenario.draw_writers(&mut random);
        scenario.draw_foreign(&mut random);
        scenario.draw_copies(&mut Rng::with_seed(mix(seed ^ 0x636f_7069_6573)));
        scenario.draw_others(&mut Rng::with_seed(mix(seed ^ 0x006f_7468_6572)));
        scenario
    }

    /// Draws newer settings from a random stream of their own, so that older seeds keep their meaning.
    fn draw_copies(&mut self, random: &mut Rng) {
        self.capabilities.hedge = random.u8(0..4) > 0;
        self.copies_differ = random.bool();
        self.retry.least_patience = self.retry.patience / random.u32(1..=8);
        if random.u8(0..4) == 0 {
            (self.retry.reserve, self.retry.trickle) = (random.u32(1..=8), random.u32(1..=10));
        }
        if matches!(self.theme, Theme::Faulty | Theme::Crowd) && random.u8(0..4) == 0 {
            self.draw_stragglers(random);
        }
    }

    /// Draws the store's clock and the other writers that replace what was just published, from a random stream of their
    /// own.
    fn draw_others(&mut self, random: &mut Rng) {
        const MOST: i64 = 14 * 60 * 1000;
        if random.u8(0..3) > 0 {
            self.clock_ahead = random.i64(-MOST..=MOST);
        }
        self.is_contested = match self.theme {
            Theme::Commits | Theme::Races => random.bool(),
            Theme::Faulty => random.u8(0..4) == 0,
            _ => false,
        };
    }

    fn draw_writers(&mut self, random: &mut Rng) {
        let count = match self.theme {
            Theme::Crowd => random.usize(8..=32),
            Theme::Races => random.usize(2..=6),
            _ => {
                let most = random.choice([1, 3, 12]).unwrap_or(1);
                random.usize(1..=most)
            }
        };
        let keys = if self.theme == Theme::Races { random.usize(1..=2) } else { count };
        let everyone_creates = random.bool();
        for writer in 0..count {
            let mut plan = self.draw_writer(random);
            plan.key = format!("key-{}", writer % keys);
            plan.create_only |= self.theme == Theme::Races && everyone_creates;
            self.writers.push(plan);
        }
        if self.theme == Theme::Crowd && random.bool() {
            self.draw_latecomer(random);
        }
        self.draw_files(random);
    }

    /// Many writers fill small parts, then one joins whose part takes the whole memory: the amount that was
    /// safe to hold before is now too much.
    fn draw_latecomer(&mut self, random: &mut Rng) {
        let (least, most) = (self.capabilities.min_part, self.capabilities.max_part.min(self.memory));
        for plan in &mut self.writers {
            plan.part_size = Some(random.u64(least..=most.min(least * 2)));
            plan.strategy = Strategy::Parallel;
            plan.start_after = 5;
        }
        if let Some(last) = self.writers.last_mut() {
            last.part_size = Some(most);
            last.start_after = random.u64(5..=300);
        }
        for index in 0..self.writers.len() {
            let mut plan = self.writers[index].clone();
            plan.size = self.draw_size(&plan, random);
            plan.hint = None;
            plan.ending = Ending::Finish;
            self.writers[index] = plan;
        }
    }
}

fn capabilities(random: &mut Rng, memory: u64) -> Capabilities {
    let mut limits = Capabilities::default();
    limits.min_part = KIB << random.u32(0..=2);
    limits.max_part = (limits.min_part * random.u64(4..=64)).min(memory);
    limits.max_parts = random.u32(16..=64);
    limits.max_put = limits.max_part * random.u64(1..=2);
    limits.max_object = if random.u8(0..4) == 0 { random.u64(8..=128) * KIB } else { 1 << 40 };
    limits.equal_parts = random.u8(0..4) == 0;
    limits.checksum = if random.u8(0..4) == 0 { Algorithm::Crc32c } else { Algorithm::Crc64Nvme };
    limits
}
