//! What one seed stands for: an engine, a store and its troubles, and writers with their plans.

use std::time::Duration;

use fastrand::Rng;
use tidegate::backend::Capabilities;
use tidegate::checksum::Algorithm;
use tidegate::{RetryPolicy, Strategy};

use crate::content::mix;
use crate::faults::Profile;

mod size;
mod trouble;

const KIB: u64 = 1 << 10;

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Nothing goes wrong: requests are the fewest possible.
    Calm,
    /// A bit of everything goes wrong.
    Faulty,
    /// Many writers on little memory.
    Crowd,
    /// Small objects on a store that answers commits badly.
    Commits,
    /// Several writers on the same keys.
    Races,
}

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// What it is about.
    pub theme: Theme,
    /// Memory budget in bytes.
    pub memory: u64,
    /// Slab in bytes.
    pub slab: usize,
    /// Fixed limit of requests, or found by the engine.
    pub concurrency: Option<usize>,
    /// Parts in flight of one writer.
    pub parts_in_flight: usize,
    /// How requests are made again.
    pub retry: RetryPolicy,
    /// What the store takes.
    pub capabilities: Capabilities,
    /// Whether the store says that a session is aborted also where there is none, as MinIO does.
    pub lenient_abort: bool,
    /// Whether the tags of two copies of a part differ, as under some encryption.
    pub copies_differ: bool,
    /// What goes wrong.
    pub profile: Profile,
    /// The writers.
    pub writers: Vec<WriterPlan>,
    /// Objects that appear without the engine: key and virtual milliseconds.
    pub foreign: Vec<(String, u64)>,
}

/// What one writer does.
#[derive(Clone, Debug)]
pub struct WriterPlan {
    /// Its object.
    pub key: String,
    /// Bytes of it.
    pub size: u64,
    /// How.
    pub strategy: Strategy,
    /// Its part size, where it sets one.
    pub part_size: Option<u64>,
    /// What it believes its size to be.
    pub hint: Option<u64>,
    /// Its own bound of parts in flight.
    pub parts_in_flight: Option<usize>,
    /// Only where there is no object.
    pub create_only: bool,
    /// Virtual milliseconds before it starts.
    pub start_after: u64,
    /// Where its bytes come from.
    pub source: Source,
    /// How it ends.
    pub ending: Ending,
}

/// Where the bytes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A task that writes.
    Producer(Producer),
    /// A file; truncated after so many milliseconds where that is set.
    File {
        /// When.
        truncate_after: Option<u64>,
    },
}

/// How a task writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Producer {
    /// By which face; by a drawn one for each piece where it is `None`.
    pub face: Option<Face>,
    /// Least and most bytes of a piece.
    pub piece: (usize, usize),
    /// Share of pieces after which it pauses, and the longest pause in milliseconds.
    pub pause: (f64, u64),
    /// It cancels a write after so many milliseconds, and goes on.
    pub impatience: Option<u64>,
}

/// A way to give bytes to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// `write`.
    Bytes,
    /// `AsyncWrite`.
    AsyncWrite,
    /// `Sink`.
    Sink,
    /// `read_from`.
    ReadFrom,
}

/// How a writer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `finish`.
    Finish,
    /// `abort` at this offset.
    Abort(u64),
    /// Dropped at this offset.
    Drop(u64),
    /// `finish`, dropped after so many milliseconds.
    DropInFinish(u64),
    /// Its source fails at this offset.
    SourceFails(u64),
}

impl Scenario {
    /// What `seed` stands for.
    pub fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(mix(seed));
        let theme = match random.u8(0..100) {
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
        };
        scenario.profile = scenario.draw_profile(&mut random);
        scenario.draw_writers(&mut random);
        scenario.draw_foreign(&mut random);
        scenario.draw_copies(&mut Rng::with_seed(mix(seed ^ 0x636f_7069_6573)));
        scenario
    }

    /// What came to be drawn later has a random stream of its own: the seeds keep their meaning.
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

    /// Many writers fill small parts, and then one joins whose part takes the whole memory: what was
    /// safe to hold until then is not any more.
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

    fn draw_writer(&mut self, random: &mut Rng) -> WriterPlan {
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
            source: Source::Producer(self.draw_producer(random)),
            ending: Ending::Finish,
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

    fn draw_producer(&self, random: &mut Rng) -> Producer {
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
        Producer {
            face: if random.u8(0..4) == 0 { None } else { random.choice(&faces).copied() },
            piece,
            pause,
            impatience: (random.u8(0..6) == 0).then(|| random.u64(1..=60)),
        }
    }

    /// Some writers send files. What is blocking in that must not run beside anything else, or its
    /// real time would decide what comes first: files are opened in the first milliseconds, one in
    /// each, before any answer can arrive and any other writer starts.
    fn draw_files(&mut self, random: &mut Rng) {
        if random.u8(0..8) > 0 {
            return;
        }
        let count = random.usize(1..=3.min(self.writers.len()));
        for index in 0..count {
            let truncate_after = (random.u8(0..5) == 0).then(|| random.u64(5..=200));
            let mut plan = self.writers[index].clone();
            plan.source = Source::File { truncate_after };
            plan.start_after = index as u64;
            plan.ending =
                if random.u8(0..6) == 0 { Ending::DropInFinish(random.u64(5..=300)) } else { Ending::Finish };
            plan.hint = None;
            plan.size = self.draw_size(&plan, random);
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
