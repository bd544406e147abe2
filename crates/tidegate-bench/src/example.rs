//! Runs the example `compaction` as a program, each run as a process of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tidegate::Tidegate;
use tidegate::backend::Entry;

use crate::Result;
use crate::measure::{self, ProcessUsage};
use crate::process::Program;
use crate::size::MIB;
use crate::stats::RunSpread;

mod place;
#[cfg(test)]
mod tests;

pub use place::ExampleStore;

/// How the example moves tables; its `--way`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ExampleWay {
    /// As streams.
    Streamed,
    /// Whole in memory, uploaded while the next is made.
    Beside,
    /// Whole in memory, one table after the other.
    Whole,
}

impl ExampleWay {
    /// The option's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streamed => "streamed",
            Self::Beside => "beside",
            Self::Whole => "whole",
        }
    }
}

/// The figures that a run of the example printed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExampleFigures {
    /// Seconds from before the first request to after the last.
    pub seconds: f64,
    /// Bytes of all inputs.
    pub bytes_in: u64,
    /// Bytes of all outputs.
    pub bytes_out: u64,
    /// Entries of all outputs of a merge.
    #[serde(default)]
    pub entries_out: u64,
    /// Requests, retries included.
    pub requests: u64,
    /// Retries.
    pub retries: u64,
    /// The most of the memory budget that was held at a time.
    pub peak_budget_bytes: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct ExampleRun {
    /// The figures that the run printed.
    pub figures: ExampleFigures,
    /// The cost that the kernel reported.
    pub usage: ProcessUsage,
    /// Resident memory over time: seconds from the start, and KiB.
    pub memory: Vec<(f64, u64)>,
}

/// Runs all ways in turn, `runs` times, so that other load on the machine affects each way alike. `run` gets
/// the way and the number of the run, from 1 on; progress is printed under the name `what`.
///
/// # Errors
/// The first error of a run.
pub fn in_turn(
    ways: &[ExampleWay],
    runs: u32,
    what: &str,
    mut run: impl FnMut(ExampleWay, u32) -> Result<ExampleRun>,
) -> Result<Vec<(ExampleWay, Vec<ExampleRun>)>> {
    let mut done: Vec<_> = ways.iter().map(|way| (*way, Vec::new())).collect();
    for number in 1..=runs {
        for (way, runs) in &mut done {
            let run = run(*way, number)?;
            let (seconds, mib) = (run.usage.wall, run.usage.peak_kib / 1024);
            eprintln!("{}, {what}, run {number}: {seconds:.2} s, {mib} MiB", way.name());
            runs.push(run);
        }
    }
    Ok(done)
}

/// The combined result of several runs.
#[derive(Clone, Debug)]
pub struct ExampleTotal<'a> {
    /// The figures of the first run.
    pub figures: &'a ExampleFigures,
    /// Wall time in seconds.
    pub wall: RunSpread,
    /// Seconds of CPU time.
    pub cpu: RunSpread,
    /// The highest peak of resident memory of any run, in MiB.
    pub peak_mib: f64,
    /// The most of the memory budget that any run held at a time, in MiB.
    pub peak_budget_mib: f64,
}

impl<'a> ExampleTotal<'a> {
    /// The total of these runs; `None` if there are no runs.
    #[must_use]
    pub fn of(runs: &'a [ExampleRun]) -> Option<Self> {
        let most = |figure: fn(&ExampleRun) -> u64| runs.iter().map(figure).max().unwrap_or_default() as f64;
        Some(Self {
            figures: &runs.first()?.figures,
            wall: RunSpread::of(runs.iter().map(|run| run.usage.wall))?,
            cpu: RunSpread::of(runs.iter().map(|run| run.usage.cpu()))?,
            peak_mib: most(|run| run.usage.peak_kib) / 1024.0,
            peak_budget_mib: most(|run| run.figures.peak_budget_bytes) / MIB as f64,
        })
    }
}

/// The example's program and the store that it works on.
#[derive(Debug)]
pub struct Example<'a> {
    path: PathBuf,
    place: ExampleStore,
    folder: &'a Path,
    limit: Duration,
}

impl<'a> Example<'a> {
    /// The program beside this one, or the program that `COMPACTION_BIN` names. Its logs go to `folder`.
    ///
    /// # Errors
    /// If the program is not built.
    pub fn find(place: ExampleStore, folder: &'a Path, limit: Duration) -> Result<Self> {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name("compaction"));
        let path = std::env::var_os("COMPACTION_BIN").map(PathBuf::from).or_else(beside);
        let path = path.filter(|path| path.is_file()).ok_or(
            "there is no program compaction: cargo build --release -p compaction, or COMPACTION_BIN",
        )?;
        Ok(Self { path, place, folder, limit })
    }

    /// A location in the store.
    #[must_use]
    pub fn location(&self, prefix: &str) -> String {
        self.place.location(prefix)
    }

    /// Does `work`, then removes its objects from a real store, even if the work failed. Only an interrupted
    /// run leaves objects, below the location that is printed first. The embedded server and its objects end
    /// when this value is dropped.
    ///
    /// # Errors
    /// The error of the work, or of the removal.
    pub fn hold<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.place.is_real() {
            return work();
        }
        let root = self.location("");
        eprintln!("below {root}");
        let left = |error| format!("what is below {root} could not be removed: {error}");
        match (work(), self.clear("")) {
            (done, Ok(())) => done,
            (Ok(_), Err(error)) => Err(left(error).into()),
            (Err(why), Err(error)) => Err(format!("{why}; {}", left(error)).into()),
        }
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// If the program fails, takes longer than the limit, or prints no figures.
    pub fn run(&self, arguments: &[String]) -> Result<ExampleRun> {
        let mut program = Program::new(&self.path).variables(self.place.variables());
        program.is_elsewhere = self.place.is_real();
        for argument in arguments {
            program = program.arg(argument);
        }
        let log = self.folder.join("compaction.log");
        let usage = measure::measure(&program, &log, self.limit)?;
        Ok(ExampleRun {
            memory: measure::memory(&log)?,
            figures: figures(&std::fs::read_to_string(log)?)?,
            usage,
        })
    }

    /// Removes every object and unfinished upload session below a prefix.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn clear(&self, prefix: &str) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = self.place.open(&Tidegate::builder().build()?).await?;
            let listed: Vec<_> = store.list(prefix).try_collect().await?;
            for entry in listed {
                if let Entry::Object(object) = entry {
                    store.delete(&object.key).await?;
                }
            }
            let sessions: Vec<_> = store.sessions(prefix).try_collect().await?;
            for session in sessions {
                store.abort_session(&session.session).await?;
            }
            Ok(())
        })
    }
}

/// Reads the figures that the program printed at its end.
fn figures(said: &str) -> Result<ExampleFigures> {
    let figures = said.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    figures.ok_or_else(|| format!("no figures were said, but: {said}").into())
}
