//! Measures time and memory by size: objects of 1 to 64 GiB through the program `tidegate`, and 1 to 10,000
//! writers open at once on one engine.
//!
//! Time should grow in a straight line with the size, and memory should stay within the budget and a fixed
//! part.
//!
//! Every run is a process of its own, so that the kernel reports its peak memory. The server is another
//! process, and keeps no bytes: a download gets zeros. The reader compares a checksum, so the uploads are zeros
//! too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;

use crate::Result;
use crate::embedded::{Embedded, ServerCounts};
use crate::machine::{self, Conditions};
use crate::measure::{self, ProcessUsage};
use crate::process::Program;
use crate::scratch::Scratch;
use crate::size::{self, MIB};
use report::FigureFit;
use writers::{WRITERS, WriterFeed, WritersSummary};

mod line;
mod report;
#[cfg(test)]
pub(crate) mod tests;
pub mod writers;

pub use line::LineFit;

/// The sizes of objects, and the numbers of writers.
#[derive(Clone, Debug, Serialize, Args)]
pub struct GrowthTrial {
    /// Sizes of objects.
    #[arg(long, value_delimiter = ',', default_value = "1GiB,2GiB,4GiB,8GiB,16GiB,32GiB,64GiB", value_parser = size::parse)]
    pub sizes: Vec<u64>,
    /// Numbers of writers open at once.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000", value_parser = value_parser!(u32).range(1..=100_000))]
    pub writers: Vec<u32>,
    /// Bytes that each writer writes.
    #[arg(long, default_value = "1MiB", value_parser = size::parse)]
    pub writer_size: u64,
    /// Bytes that a writer gets in one turn.
    #[arg(long, default_value = "64KiB", value_parser = size::parse)]
    pub turn_size: u64,
    /// Memory budget of every engine; the default is that of the program.
    #[arg(long, default_value = "256MiB", value_parser = size::parse)]
    pub memory: u64,
    /// Runs of each size and number.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// One run of 64 to 512 MiB and of 1 to 100 writers, with 64 MiB of memory, only to check that everything
    /// works; the figures mean nothing.
    #[arg(long, conflicts_with_all = ["sizes", "writers", "memory", "runs"])]
    pub quick: bool,
    /// Folder for the writers' spool; default: the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Seconds that one run may take.
    #[arg(long, default_value_t = 1200, value_name = "SECONDS")]
    pub limit: u64,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrowthDirection {
    /// `tidegate cp - URL`, fed through a pipe.
    Upload,
    /// `tidegate cat URL`, with the output discarded.
    Download,
}

impl GrowthDirection {
    const ALL: [Self; 2] = [Self::Upload, Self::Download];

    /// The name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
        }
    }
}

/// One measured process.
#[derive(Clone, Debug, Serialize)]
pub struct GrowthRun {
    /// The cost of the process.
    pub usage: ProcessUsage,
    /// Requests that the server counted.
    pub requests: u64,
}

/// The runs with an object of one size.
#[derive(Clone, Debug, Serialize)]
pub struct TransferRuns {
    /// The direction.
    pub direction: GrowthDirection,
    /// The object's size in bytes.
    pub size: u64,
    /// The runs.
    pub runs: Vec<GrowthRun>,
}

/// The runs with one number of writers on one engine.
#[derive(Clone, Debug, Serialize)]
pub struct WriterRuns {
    /// How the writers are fed.
    pub way: WriterFeed,
    /// How many writers are open at once.
    pub writers: u32,
    /// The runs.
    pub runs: Vec<GrowthRun>,
    /// The engine's error in the first run in which writers that wait for each other held all memory.
    pub starved: Option<String>,
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct GrowthReport {
    /// The options of the trial.
    pub trial: GrowthTrial,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Transfers by size.
    pub moved: Vec<TransferRuns>,
    /// Writers by their number.
    pub written: Vec<WriterRuns>,
    /// The straight lines through the figures.
    pub fits: Vec<FigureFit>,
}

impl GrowthTrial {
    /// Runs the trial against the server of the program `tidegate`: in each run all sizes from the smallest on,
    /// then all writers.
    ///
    /// # Errors
    /// If the server does not start, a process fails or takes longer than the limit, or the server did not
    /// receive or send all bytes.
    pub fn hold(&self, tidegate: &Path) -> Result<GrowthReport> {
        let mut trial = self.clone();
        if trial.quick {
            trial.sizes = [64, 128, 256, 512].map(|size| size * MIB).into();
            (trial.writers, trial.memory, trial.runs) = (vec![1, 10, 100], 64 * MIB, 1);
        }
        trial.sizes.sort_unstable();
        trial.sizes.dedup();
        trial.writers.sort_unstable();
        trial.writers.dedup();
        trial.hold_all(tidegate)
    }

    fn hold_all(&self, tidegate: &Path) -> Result<GrowthReport> {
        let place = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let most = self.writers.last().copied().unwrap_or_default();
        let scratch = Scratch::new(Some(&place), u64::from(most) * self.writer_size)?;
        scratch.remove_when_interrupted()?;
        let logs = tempfile::tempdir()?;
        let server = Embedded::start(tidegate, logs.path())?;
        let before = machine::load();
        let bench = Bench { trial: self, server: &server, log: logs.path().join("run.log") };
        let mut moved: Vec<_> = GrowthDirection::ALL
            .into_iter()
            .flat_map(|direction| self.sizes.iter().map(move |size| (direction, *size)))
            .map(|(direction, size)| TransferRuns { direction, size, runs: Vec::new() })
            .collect();
        let mut written: Vec<_> = WriterFeed::ALL
            .into_iter()
            .flat_map(|way| self.writers.iter().map(move |writers| (way, *writers)))
            .map(|(way, writers)| WriterRuns { way, writers, runs: Vec::new(), starved: None })
            .collect();
        for _ in 0..self.runs {
            for moved in &mut moved {
                let run = bench.moves(tidegate, moved.direction, moved.size)?;
                said(&format!("{} of {}", moved.direction.name(), size::format(moved.size)), &run);
                moved.runs.push(run);
            }
            for written in &mut written {
                let (run, starved) = bench.writes(written.way, written.writers, scratch.path())?;
                said(&format!("{} writers, {}", written.writers, written.way.name()), &run);
                written.runs.push(run);
                written.starved = written.starved.take().or(starved);
            }
        }
        let fits = report::fits(&moved, &written);
        Ok(GrowthReport { trial: self.clone(), conditions: Conditions::since(before), moved, written, fits })
    }
}

fn said(what: &str, run: &GrowthRun) {
    let ProcessUsage { wall, peak_kib, .. } = run.usage;
    let (cpu, peak) = (run.usage.cpu(), peak_kib / 1024);
    eprintln!("{what}: {wall:.2} s, {cpu:.2} s CPU, {peak} MiB, {} requests", run.requests);
}

struct Bench<'a> {
    trial: &'a GrowthTrial,
    server: &'a Embedded,
    log: PathBuf,
}

impl Bench<'_> {
    /// Moves one object in one direction.
    fn moves(&self, tidegate: &Path, direction: GrowthDirection, size: u64) -> Result<GrowthRun> {
        let url = format!("s3://{}/{size}", self.server.endpoint().bucket);
        let program = Program::new(tidegate);
        let mut program = match direction {
            GrowthDirection::Upload => program.arg("cp").arg("-").arg(url),
            GrowthDirection::Download => program.arg("cat").arg(url),
        };
        if direction == GrowthDirection::Upload {
            (program.stdin, program.stdin_most) = (Some("/dev/zero".into()), size);
        }
        program.is_discarded = direction == GrowthDirection::Download;
        let (run, counts) = self.run(program.arg("--memory").arg(self.trial.memory.to_string()))?;
        let through = if direction == GrowthDirection::Upload { counts.bytes_in } else { counts.bytes_out };
        if through < size {
            return Err(format!("{}: {through} of {size} bytes went by the server", direction.name()).into());
        }
        Ok(run)
    }

    /// Runs this many writers; also returns the engine's error if they starved.
    fn writes(&self, way: WriterFeed, writers: u32, scratch: &Path) -> Result<(GrowthRun, Option<String>)> {
        let GrowthTrial { writer_size, turn_size, memory, .. } = self.trial;
        let spool = tempfile::tempdir_in(scratch)?;
        let prefix = format!("{}-{writers}-", way.name().replace([',', ' '], ""));
        let mut program = Program::new(std::env::current_exe()?).arg(WRITERS);
        for (name, value) in [
            ("--bucket", self.server.endpoint().bucket.to_owned()),
            ("--prefix", prefix),
            ("--writers", writers.to_string()),
            ("--size", writer_size.to_string()),
            ("--turn", turn_size.to_string()),
            ("--memory", memory.to_string()),
            ("--way", way.argument().to_owned()),
        ] {
            program = program.arg(name).arg(value);
        }
        if way == WriterFeed::SpooledTurns {
            program = program.arg("--spool").arg(spool.path());
        }
        let (run, counts) = self.run(program)?;
        let text = std::fs::read_to_string(&self.log)?;
        let done = text.lines().rev().find_map(|line| serde_json::from_str::<WritersSummary>(line).ok());
        let starved = done.ok_or_else(|| format!("the writers said: {text}"))?.starved;
        let (published, bytes) = (published(&counts), u64::from(writers) * writer_size);
        if starved.is_none() && (published != u64::from(writers) || counts.bytes_in < bytes) {
            let got = counts.bytes_in;
            let way = way.name();
            return Err(format!(
                "{writers} writers, {way}: {published} objects and {got} of {bytes} bytes are with the server"
            )
            .into());
        }
        Ok((run, starved))
    }

    fn run(&self, program: Program) -> Result<(GrowthRun, ServerCounts)> {
        self.server.forget()?;
        let program = program.variables(self.server.endpoint().variables());
        let usage = measure::measure(&program, &self.log, Duration::from_secs(self.trial.limit))?;
        let counts = self.server.counts()?;
        Ok((GrowthRun { usage, requests: counts.total() }, counts))
    }
}

/// The number of published objects.
fn published(counts: &ServerCounts) -> u64 {
    let of = |operation| {
        counts.of(operation).saturating_sub(counts.failed.get(operation).copied().unwrap_or_default())
    };
    of("PutObject") + of("CompleteMultipartUpload")
}
