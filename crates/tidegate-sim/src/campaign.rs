//! Runs many seeds on several threads; each run has one thread to itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::faults::NAMES;
use crate::{Plant, RunReport, Settings, pending, run};

/// Real time after which a seed counts as stuck; most take a millisecond.
const LONGEST: Duration = Duration::from_secs(60);

/// The seeds to run, and how.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The first seed.
    pub start: u64,
    /// The step from one seed to the next.
    pub step: u64,
    /// How many seeds.
    pub seeds: u64,
    /// How many threads.
    pub jobs: usize,
    /// The bug to plant.
    pub plant: Option<Plant>,
    /// Whether the seeds are those of pending uploads.
    pub pending: bool,
}

/// The results of all runs.
#[derive(Clone, Debug, Default)]
pub struct CampaignSummary {
    /// How many seeds were run.
    pub seeds: u64,
    /// Faults injected, in the order of [`NAMES`].
    pub troubles: [u64; NAMES.len()],
    /// How many writers had each outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests that reached the stores.
    pub requests: u64,
    /// Hedges: slow parts that were sent again.
    pub hedges: u64,
    /// Bytes of memory that were brought back by the spool.
    pub spilled: u64,
    /// Bytes in committed objects.
    pub committed: u64,
    /// Virtual time of all runs.
    pub simulated: Duration,
    /// Real time.
    pub took: Duration,
    /// Failed seeds in order, each with its violations.
    pub failed: BTreeMap<u64, Vec<String>>,
}

impl Campaign {
    /// Runs all seeds; calls `progress` at most every half second, and `stuck` for a seed that has run for more
    /// than a minute of real time, which no virtual clock can end.
    pub fn run(
        &self,
        progress: impl Fn(&CampaignSummary) + Sync,
        stuck: impl Fn(u64) + Sync,
    ) -> CampaignSummary {
        let (began, next, running) = (Instant::now(), AtomicU64::new(0), Mutex::new(BTreeMap::new()));
        let summary = Mutex::new((CampaignSummary::default(), began));
        std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..self.jobs.max(1))
                .map(|job| {
                    let (next, summary, running, progress) = (&next, &summary, &running, &progress);
                    scope.spawn(move || {
                        while let Some(done) =
                            Some(next.fetch_add(1, Relaxed)).filter(|done| *done < self.seeds)
                        {
                            let seed = self.start + done * self.step.max(1);
                            lock(running).insert(job, (seed, Instant::now()));
                            let settings = Settings { seed, plant: self.plant, trace: false };
                            let report = if self.pending { pending::run(&settings) } else { run(&settings) };
                            let mut summary = lock(summary);
                            summary.0.add(report);
                            summary.0.took = began.elapsed();
                            if summary.1.elapsed() >= Duration::from_millis(500) {
                                summary.1 = Instant::now();
                                progress(&summary.0);
                            }
                        }
                        lock(running).remove(&job);
                    })
                })
                .collect();
            while jobs.iter().any(|job| !job.is_finished()) {
                std::thread::park_timeout(Duration::from_millis(5));
                let late: Vec<u64> = lock(&running)
                    .values()
                    .filter(|run| run.1.elapsed() > LONGEST)
                    .map(|run| run.0)
                    .collect();
                late.into_iter().for_each(&stuck);
            }
        });
        let (mut summary, _) = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.took = began.elapsed();
        summary
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CampaignSummary {
    fn add(&mut self, report: RunReport) {
        self.seeds += 1;
        for (sum, count) in self.troubles.iter_mut().zip(report.troubles) {
            *sum += count;
        }
        for (outcome, count) in report.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.requests += report.requests;
        self.hedges += report.hedges;
        self.spilled += report.spilled;
        self.committed += report.committed;
        self.simulated += report.elapsed;
        if !report.failures.is_empty() {
            self.failed.insert(report.seed, report.failures);
        }
    }
}

impl fmt::Display for CampaignSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let (seeds, took) = (self.seeds, self.took.as_secs_f64());
        let (requests, hedges, spilled) = (self.requests, self.hedges, self.spilled);
        writeln!(
            f,
            "{seeds} seeds in {took:.1} s: {hours:.1} virtual hours, {requests} requests, {hedges} hedges, {spilled} bytes \
             spilled"
        )?;
        write!(f, "faults:  ")?;
        for (name, count) in NAMES.iter().zip(self.troubles) {
            write!(f, " {name} {count},")?;
        }
        write!(f, "\nwriters: ")?;
        for (outcome, count) in &self.outcomes {
            write!(f, " {outcome} {count},")?;
        }
        write!(f, "\n{} seeds failed", self.failed.len())
    }
}

/// The command that replays a seed.
pub fn replay_command(seed: u64, plant: Option<Plant>) -> String {
    let plant = plant.map_or_else(String::new, |plant| format!(" --plant {}", plant.name()));
    format!("cargo run --release -p tidegate-sim -- replay --seed {seed}{plant}")
}
