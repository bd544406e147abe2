//! The figures of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate::{Error, Tidegate};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{ObjectPlan, OpenWriters};
use crate::Result;
use crate::machine;
use crate::size::{KIB, MIB};

/// The counters of a run in progress.
#[derive(Debug)]
pub(super) struct WritersCounters {
    tide: Tidegate,
    committed: AtomicU64,
    verified: AtomicU64,
    verified_bytes: AtomicU64,
    each: AtomicU64,
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    last_commit: Option<Instant>,
    failed: BTreeMap<String, u64>,
    first_error: Option<String>,
    first_error_at: Option<Instant>,
}

impl WritersCounters {
    pub(super) fn new(tide: Tidegate) -> Self {
        Self {
            tide,
            committed: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            verified_bytes: AtomicU64::new(0),
            each: AtomicU64::new(0),
            ends: Mutex::default(),
        }
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that all writers are open, and by how many bytes that made the process larger.
    pub(super) fn opened(&self, writers: usize, bytes: u64) {
        self.each.store(bytes / writers.max(1) as u64, Relaxed);
    }

    pub(super) fn committed(&self) {
        self.committed.fetch_add(1, Relaxed);
        self.ends().last_commit = Some(Instant::now());
    }

    pub(super) fn verified(&self, bytes: u64) {
        self.verified.fetch_add(1, Relaxed);
        self.verified_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn failed(&self, index: u64, error: &Error) {
        let mut ends = self.ends();
        *ends.failed.entry(format!("{:?}", error.kind())).or_default() += 1;
        if ends.first_error.is_none() {
            ends.first_error = Some(format!("writer {index}: {error}"));
            ends.first_error_at = Some(Instant::now());
        }
    }

    /// Bytes that the store has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.tide.progress().snapshot().acknowledged
    }

    pub(super) fn figures(
        &self,
        began: Instant,
        watched: &EnginePeaks,
        plans: &[ObjectPlan],
        run: &OpenWriters,
    ) -> Result<WritersFigures> {
        let ends = self.ends();
        let bytes: u64 = plans.iter().filter(|plan| plan.stops_at.is_none()).map(|plan| plan.size).sum();
        let seconds = ends.last_commit.map_or_else(|| began.elapsed(), |last| last - began).as_secs_f64();
        let progress = self.tide.progress().snapshot();
        Ok(WritersFigures {
            writers: run.count,
            abandoned: plans.iter().filter(|plan| plan.stops_at.is_some()).count() as u64,
            committed: self.committed.load(Relaxed),
            verified: self.verified.load(Relaxed),
            verified_bytes: self.verified_bytes.load(Relaxed),
            failed: ends.failed.clone(),
            first_error: ends.first_error.clone(),
            first_error_after_seconds: ends.first_error_at.map(|at| (at - began).as_secs_f64()),
            bytes,
            seconds,
            times_ideal: run.rate.map(|rate| {
                seconds / (bytes as f64 / rate as f64 + run.stall.unwrap_or_default().as_secs_f64())
            }),
            memory: run.memory,
            peak_buffered: self.tide.usage().peak,
            peak_rss: peak()?,
            rss_per_open_writer: self.each.load(Relaxed),
            spilled: progress.spilled,
            peak_spooled: watched.spooled,
            requests: progress.requests,
            retries: progress.retries,
        })
    }
}

/// The figures of a run; sizes in bytes.
#[derive(Debug, Serialize)]
pub struct WritersFigures {
    writers: u64,
    abandoned: u64,
    committed: u64,
    /// Objects read back and equal to what was written.
    verified: u64,
    verified_bytes: u64,
    /// Writers that failed, by the kind of their error.
    failed: BTreeMap<String, u64>,
    first_error: Option<String>,
    first_error_after_seconds: Option<f64>,
    /// Bytes of the writers that were not abandoned.
    bytes: u64,
    /// Seconds from the first write to the last commit.
    seconds: f64,
    /// The time as a multiple of the time that the server's rate and stall allow.
    times_ideal: Option<f64>,
    memory: u64,
    peak_buffered: u64,
    /// The peak of this process, as the kernel reports it (`VmHWM`).
    peak_rss: u64,
    /// By how much each open writer made the process larger, before its first byte.
    rss_per_open_writer: u64,
    spilled: u64,
    peak_spooled: u64,
    requests: u64,
    retries: u64,
}

impl WritersFigures {
    /// How many writers did not commit, not counting abandoned ones.
    fn missing(&self) -> u64 {
        self.writers - self.abandoned - self.committed
    }

    /// Fails if a writer that was not abandoned did not commit.
    ///
    /// # Errors
    /// How many did not, and the first error.
    pub fn verdict(&self) -> Result<()> {
        let missing = self.missing();
        match &self.first_error {
            _ if missing == 0 => Ok(()),
            Some(error) => Err(format!("{missing} writers did not commit; first, {error}").into()),
            None => Err(format!("{missing} writers did not commit").into()),
        }
    }
}

impl fmt::Display for WritersFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB as f64);
        writeln!(
            f,
            "{} writers, {} abandoned: {} committed, {} read back and equal ({})",
            self.writers,
            self.abandoned,
            self.committed,
            self.verified,
            mib(self.verified_bytes)
        )?;
        if self.missing() == 0 {
            writeln!(f, "{} in {:.1} s to the last commit", mib(self.bytes), self.seconds)?;
            if let Some(times) = self.times_ideal {
                writeln!(f, "{times:.3} times what the store's rate allows")?;
            }
        }
        writeln!(
            f,
            "budget {}, most buffered {}, peak RSS {}, {} bytes an open writer",
            mib(self.memory),
            mib(self.peak_buffered),
            mib(self.peak_rss),
            self.rss_per_open_writer
        )?;
        writeln!(
            f,
            "spilled {}, most in the spool at once {}; {} requests, {} retries",
            mib(self.spilled),
            mib(self.peak_spooled),
            self.requests,
            self.retries
        )?;
        for (kind, count) in &self.failed {
            writeln!(f, "failed, {kind}: {count}")?;
        }
        Ok(())
    }
}

/// Samples the engine while a run is in progress.
#[derive(Debug)]
pub(super) struct EngineWatch {
    stop: oneshot::Sender<()>,
    task: JoinHandle<EnginePeaks>,
}

/// The highest figures that were sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EnginePeaks {
    spooled: u64,
}

impl EngineWatch {
    const EVERY: Duration = Duration::from_millis(50);

    pub(super) fn start(tide: Tidegate) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut watched = EnginePeaks::default();
            loop {
                watched.spooled = watched.spooled.max(tide.usage().spooled);
                if tokio::time::timeout(Self::EVERY, &mut stopped).await.is_ok() {
                    return watched;
                }
            }
        });
        Self { stop, task }
    }

    pub(super) async fn stop(self) -> EnginePeaks {
        drop(self.stop);
        self.task.await.unwrap_or_default()
    }
}

/// The memory of the process now, in bytes.
pub(super) fn resident() -> Result<u64> {
    status("VmRSS")
}

fn peak() -> Result<u64> {
    status("VmHWM")
}

/// The value of a line of `/proc/self/status` (proc(5)), in bytes.
fn status(name: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(machine::kib(&status, name).ok_or_else(|| format!("/proc/self/status has no {name}"))? * KIB)
}
