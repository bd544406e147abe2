//! The published table of journaling in Google's Java client, re-run. Its figures for chunks of 16 and of 64 MiB
//! imply a stream of about 128 MiB/s, 54 ms for each chunk's commit, and a producer of about 800 MiB/s that
//! waits while a chunk is sent. The embedded server is made to behave so; where this machine can't carry as
//! many streams, all rates go down and all times up by one factor.
//!
//! Each run is a process of its own ([`uploads`]), so that the kernel says what it held at most.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::measure::{self, Usage};
use crate::scratch::Scratch;
use crate::size::{self, GIB, MIB};
use crate::stats::Spread;
use crate::table::Table;
use disk::Watched;
use uploads::{Done, Load};
use way::Way;

mod disk;
pub mod uploads;
mod way;

pub use way::UPLOADS;

/// What is uploaded, and to what kind of store.
#[derive(Clone, Debug, Serialize, Args)]
pub struct Trial {
    /// Objects at once, each with a producer of its own; one table line for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32", value_parser = value_parser!(u32).range(1..=1000))]
    pub streams: Vec<u32>,
    /// Size of each object.
    #[arg(long, default_value = "1GiB", value_parser = size::parse)]
    pub size: u64,
    /// MiB a second that one stream moves.
    #[arg(long, default_value_t = 128, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub stream_mib: u64,
    /// Milliseconds that a commit takes.
    #[arg(long, default_value_t = 54)]
    pub commit_ms: u32,
    /// MiB a second that a producer makes.
    #[arg(long, default_value_t = 800, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub producer_mib: u64,
    /// MiB a second that this machine is to carry of all streams together; with more of them, rates go down and
    /// times up.
    #[arg(long, default_value_t = 256, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub most_mib: u64,
    /// Runs of each that count.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Only ways whose name has this in it.
    #[arg(long)]
    pub only: Option<String>,
    /// Folder for journals and spools; default: the system's temporary one.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Seconds that one run may take.
    #[arg(long, default_value_t = 1200, value_name = "SECONDS")]
    pub limit: u64,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Seconds of each object.
    pub seconds: Vec<f64>,
    /// What the process cost.
    pub usage: Usage,
    /// The most bytes that the folder of journals or spools had on its disk.
    pub disk: u64,
}

/// All runs of one way with one number of streams.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// How.
    pub way: String,
    /// Objects at once.
    pub streams: u32,
    /// Rates were so many times lower, and times longer.
    pub scale: f64,
    /// MiB a second of each object, at the published rates.
    pub speed: Spread,
    /// The processes.
    pub runs: Vec<Run>,
}

/// What came of a trial; it displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked for.
    pub trial: Trial,
    /// Where and when.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// What was measured.
    pub lines: Vec<Line>,
    /// What is not built.
    pub missing: Vec<String>,
    /// Runs of others' programs that failed.
    pub failed: Vec<String>,
}

impl Trial {
    /// Holds it against the server of the program `tidegate`: for each number of streams all ways in turn.
    ///
    /// # Errors
    /// Where the server does not start, an upload fails, or takes longer than the limit.
    pub fn hold(&self, tidegate: &Path) -> Result<Report> {
        let place = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        // A peer's journal keeps all of each object.
        let most = self.streams.iter().copied().max().unwrap_or_default();
        let scratch = Scratch::new(Some(&place), u64::from(most) * self.size)?;
        scratch.remove_when_interrupted()?;
        let folder = tempfile::tempdir()?;
        let server = Embedded::start(tidegate, folder.path())?;
        let before = machine::load();
        let is_wanted = |way: &Way| self.only.as_ref().is_none_or(|only| way.name().contains(only));
        let ways: Vec<_> = Way::ALL.into_iter().filter(is_wanted).collect();
        let missing = ways.iter().filter(|way| way.find().is_none()).map(|way| way.name()).collect();
        let (mut lines, mut failed) = (Vec::new(), Vec::new());
        for &streams in &self.streams {
            let scale = ((u64::from(streams) * self.stream_mib) as f64 / self.most_mib as f64).max(1.0);
            server.behave(&json!({
                "bandwidth": {"stream_in": ((self.stream_mib * MIB) as f64 / scale) as u64},
                "commit_latency": {"fixed_ms": f64::from(self.commit_ms) * scale},
            }))?;
            let mut runs: Vec<_> = ways.iter().map(|way| (*way, Vec::new())).collect();
            for number in 1..=self.runs {
                for (way, runs) in &mut runs {
                    let Some(program) = way.find() else { continue };
                    let name = format!("{}, {streams} at once, run {number}", way.name());
                    match self.run(*way, &program, &server, scratch.path(), (streams, scale)) {
                        Ok(run) => {
                            let longest = run.seconds.iter().copied().fold(0.0, f64::max);
                            eprintln!("{name}: {longest:.2} s");
                            runs.push(run);
                        }
                        // Of ours nothing may fail.
                        Err(error) if matches!(way, Way::Ours { .. }) => return Err(error),
                        Err(error) => {
                            eprintln!("{name}: {error}");
                            failed.push(name);
                        }
                    }
                }
            }
            lines.extend(runs.into_iter().filter_map(|(way, runs)| self.line(way, streams, scale, runs)));
        }
        Ok(Report { trial: self.clone(), conditions: Conditions::since(before), lines, missing, failed })
    }

    fn run(
        &self,
        way: Way,
        program: &Path,
        server: &Embedded,
        place: &Path,
        (streams, scale): (u32, f64),
    ) -> Result<Run> {
        let (scratch, logs) = (tempfile::tempdir_in(place)?, tempfile::tempdir()?);
        let load = Load {
            url: server.endpoint().url.clone(),
            bucket: server.endpoint().bucket.to_owned(),
            prefix: format!("{streams}-"),
            objects: streams,
            size: self.size,
            produce: ((self.producer_mib * MIB) as f64 / scale) as u64,
        };
        let program = way.program(program, &load, scratch.path());
        let (log, disk) = (logs.path().join("uploads.log"), Watched::new(scratch.path()));
        let usage = measure::measure(&program, &log, Duration::from_secs(self.limit))?;
        Ok(Run { seconds: seconds(&log, streams)?, usage, disk: disk.most() })
    }

    fn line(&self, way: Way, streams: u32, scale: f64, runs: Vec<Run>) -> Option<Line> {
        let mib = self.size as f64 / MIB as f64;
        let seconds = runs.iter().flat_map(|run| run.seconds.iter().copied());
        let speed = Spread::of(seconds.map(|seconds| mib / seconds * scale))?;
        Some(Line { way: way.name(), streams, scale, speed, runs })
    }
}

/// What a process said at its end.
fn seconds(log: &Path, streams: u32) -> Result<Vec<f64>> {
    let said = std::fs::read_to_string(log)?;
    let done = said.lines().rev().find_map(|line| serde_json::from_str::<Done>(line).ok());
    let seconds = done.ok_or_else(|| format!("no figures were said, but: {said}"))?.seconds;
    if seconds.len() != streams as usize {
        return Err(format!("figures of {} objects, not {streams}", seconds.len()).into());
    }
    Ok(seconds)
}

impl Report {
    /// The speed of a way beside these streams.
    fn speed(&self, way: Way, streams: u32) -> Option<f64> {
        let line = self.lines.iter().find(|line| line.way == way.name() && line.streams == streams);
        line.map(|line| line.speed.median)
    }

    fn table(&self) -> Table {
        let columns = [
            "way",
            "streams",
            "scale",
            "MiB/s a stream",
            "of the rate",
            "journal: times this",
            "CPU s/GiB",
            "peak RSS MiB",
            "peak disk MiB",
        ];
        let mut table = Table::new(columns);
        for line in &self.lines {
            let Spread { median, min, max } = line.speed;
            let most = |figure: fn(&Run) -> f64| line.runs.iter().map(figure).fold(0.0, f64::max);
            let gib = line.runs.len() as f64 * f64::from(line.streams) * self.trial.size as f64 / GIB as f64;
            let cpu: f64 = line.runs.iter().map(|run| run.usage.cpu()).sum();
            let gain = self.speed(Way::JOURNAL, line.streams).map(|journal| journal / median);
            table.row([
                line.way.clone(),
                line.streams.to_string(),
                line.scale.to_string(),
                format!("{median:.1} ({min:.1}–{max:.1})"),
                format!("{:.3}", median / self.trial.stream_mib as f64),
                gain.map_or_else(String::new, |gain| format!("{gain:.2}")),
                format!("{:.2}", cpu / gib),
                format!("{:.0}", most(|run| run.usage.peak_kib as f64 / 1024.0)),
                format!("{:.0}", most(|run| run.disk as f64 / MIB as f64)),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trial { stream_mib, commit_ms, producer_mib, most_mib, runs, size, .. } = &self.trial;
        writeln!(
            out,
            "Objects of {} at once; a stream moves {stream_mib} MiB/s, a commit takes {commit_ms} ms, a producer makes \
             {producer_mib} MiB/s;\nmore than {most_mib} MiB/s in all: rates divided and times multiplied by `scale`\n",
            size::format(*size)
        )?;
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "Speed: median (least–most) of all objects, {runs} of each, from an object's first byte to its publication,\n\
             times the scale. Peaks: the most of all runs; disk: of what has a name in the journals' folder.\n"
        )?;
        for way in &self.missing {
            writeln!(
                out,
                "- {way}: MISSING, not built (`mvn -q -f crates/tidegate-bench/peers/java/pom.xml package`)"
            )?;
        }
        for run in &self.failed {
            writeln!(out, "- {run}: FAILED")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}

#[cfg(test)]
mod tests;
