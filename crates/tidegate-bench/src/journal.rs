//! Table B, the published one of journaling in Google's Java client, re-run. Its figures for chunks of 16 and of 64 MiB
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
use crate::stats::Distribution;
use crate::table::Table;
use disk::Watched;
use uploads::{Done, Load, Place};
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
    /// Least size of an object.
    #[arg(long, default_value = "1GiB", value_parser = size::parse)]
    pub size: u64,
    /// Most; each has one at random, the same for all ways.
    #[arg(long, default_value = "2GiB", value_parser = size::parse)]
    pub largest: u64,
    /// No limits but this machine's, and the producers': what a stream moves and a commit takes means nothing then.
    #[arg(long, conflicts_with = "to")]
    pub unshaped: bool,
    /// A real store instead, such as s3://BUCKET/PREFIX, and our ways only: the objects stay there, one for each stream.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
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
    /// One run of 1 and 4 streams of 128 to 256 MiB, in the ways that were published: whether it works, and the order
    /// of the ways.
    #[arg(long, conflicts_with_all = ["streams", "size", "largest", "runs"])]
    pub quick: bool,
    /// All of it, which is the default and takes an hour.
    #[arg(long, conflicts_with = "quick")]
    #[serde(skip)]
    pub full: bool,
    /// Only ways whose name has one of these words in it, such as chunked,spool.
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub only: Vec<String>,
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
    /// Bytes of each object.
    pub sizes: Vec<u64>,
    /// Seconds of each.
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
    pub speed: Distribution,
    /// The mean that was published, where it was.
    pub published: Option<f64>,
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
        if self.largest < self.size {
            return Err("--largest is less than --size".into());
        }
        let mut trial = self.clone();
        if trial.quick {
            (trial.streams, trial.size, trial.largest, trial.runs) = (vec![1, 4], 128 * MIB, 256 * MIB, 1);
        }
        trial.hold_all(tidegate)
    }

    fn hold_all(&self, tidegate: &Path) -> Result<Report> {
        let place = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        // A peer's journal keeps all of each object.
        let most = self.streams.iter().copied().max().unwrap_or_default();
        let scratch = Scratch::new(Some(&place), u64::from(most) * self.largest)?;
        scratch.remove_when_interrupted()?;
        let folder = tempfile::tempdir()?;
        let server = match self.to {
            Some(_) => None,
            None => Some(Embedded::start(tidegate, folder.path())?),
        };
        let before = machine::load();
        let is_wanted = |way: &Way| {
            (self.only.is_empty() || self.only.iter().any(|only| way.name().contains(only)))
                && (!self.quick || way.published(1).is_some())
                && self.to.as_deref().is_none_or(|url| way.goes_to(url))
        };
        let ways: Vec<_> = Way::ALL.into_iter().filter(is_wanted).collect();
        let missing = ways.iter().filter(|way| way.find().is_none()).map(|way| way.name()).collect();
        let (mut lines, mut failed) = (Vec::new(), Vec::new());
        for &streams in &self.streams {
            let scale = self.scale(streams);
            if let (Some(server), true) = (&server, self.is_shaped()) {
                server.behave(&json!({
                    "bandwidth": {"stream_in": ((self.stream_mib * MIB) as f64 / scale) as u64},
                    "commit_latency": {"fixed_ms": f64::from(self.commit_ms) * scale},
                }))?;
            }
            let place = self.place(server.as_ref(), streams);
            let mut runs: Vec<_> = ways.iter().map(|way| (*way, Vec::new())).collect();
            for number in 1..=self.runs {
                for (way, runs) in &mut runs {
                    let Some(program) = way.find() else { continue };
                    let name = format!("{}, {streams} at once, run {number}", way.name());
                    let sizes = self.sizes(streams, number);
                    match self.run(*way, &program, &place, scratch.path(), (sizes, scale)) {
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
            lines.extend(runs.into_iter().filter_map(|(way, runs)| Self::line(way, streams, scale, runs)));
        }
        Ok(Report { trial: self.clone(), conditions: Conditions::since(before), lines, missing, failed })
    }

    /// Whether the store is made to behave as the published figures imply.
    fn is_shaped(&self) -> bool {
        !self.unshaped && self.to.is_none()
    }

    fn scale(&self, streams: u32) -> f64 {
        let wanted = (u64::from(streams) * self.stream_mib) as f64;
        if self.is_shaped() { (wanted / self.most_mib as f64).max(1.0) } else { 1.0 }
    }

    fn place(&self, server: Option<&Embedded>, streams: u32) -> Place {
        let prefix = format!("{streams}-");
        match server.map(Embedded::endpoint) {
            Some(endpoint) => Place {
                store: format!("gs://{}/", endpoint.bucket),
                url: endpoint.url.clone(),
                bucket: endpoint.bucket.to_owned(),
                prefix,
            },
            None => {
                let store = self.to.as_deref().unwrap_or_default().trim_end_matches('/');
                Place { store: format!("{store}/"), url: String::new(), bucket: String::new(), prefix }
            }
        }
    }

    /// Of the objects of one run.
    fn sizes(&self, streams: u32, number: u32) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(u64::from(streams) << 32 | u64::from(number));
        (0..streams).map(|_| random.u64(self.size..=self.largest)).collect()
    }

    fn run(
        &self,
        way: Way,
        program: &Path,
        place: &Place,
        folder: &Path,
        (sizes, scale): (Vec<u64>, f64),
    ) -> Result<Run> {
        let (scratch, logs) = (tempfile::tempdir_in(folder)?, tempfile::tempdir()?);
        let load =
            Load { place: place.clone(), sizes, produce: ((self.producer_mib * MIB) as f64 / scale) as u64 };
        let program = way.program(program, &load, scratch.path());
        let (log, disk) = (logs.path().join("uploads.log"), Watched::new(scratch.path()));
        let usage = measure::measure(&program, &log, Duration::from_secs(self.limit))?;
        Ok(Run { seconds: seconds(&log, load.sizes.len())?, sizes: load.sizes, usage, disk: disk.most() })
    }

    fn line(way: Way, streams: u32, scale: f64, runs: Vec<Run>) -> Option<Line> {
        let objects = runs.iter().flat_map(|run| run.sizes.iter().zip(&run.seconds));
        let speed = Distribution::of(objects.map(|(size, took)| *size as f64 / MIB as f64 / took * scale))?;
        Some(Line { way: way.name(), streams, scale, speed, published: way.published(streams), runs })
    }
}

/// What a process said at its end.
fn seconds(log: &Path, streams: usize) -> Result<Vec<f64>> {
    let said = std::fs::read_to_string(log)?;
    let done = said.lines().rev().find_map(|line| serde_json::from_str::<Done>(line).ok());
    let seconds = done.ok_or_else(|| format!("no figures were said, but: {said}"))?.seconds;
    if seconds.len() != streams {
        return Err(format!("figures of {} objects, not {streams}", seconds.len()).into());
    }
    Ok(seconds)
}

impl Report {
    /// The median speed of a way beside these streams.
    fn speed(&self, way: Way, streams: u32) -> Option<f64> {
        let line = self.lines.iter().find(|line| line.way == way.name() && line.streams == streams);
        line.map(|line| line.speed.p50)
    }

    /// What does not hold of what the table is to show: that journaling is above either size of chunks, where a store's
    /// streams are what is waited for.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        if !self.trial.is_shaped() {
            return broken;
        }
        for streams in &self.trial.streams {
            for chunked in Way::CHUNKED {
                let speeds = (self.speed(Way::JOURNAL, *streams), self.speed(chunked, *streams));
                if let (Some(journal), Some(speed)) = speeds
                    && journal <= speed
                {
                    let name = chunked.name();
                    broken.push(format!("{streams} streams: journal {journal:.1} MiB/s, {name} {speed:.1}"));
                }
            }
        }
        broken
    }

    fn speeds(&self) -> Table {
        let columns =
            ["way", "streams", "count", "mean", "published", "std", "min", "50%", "75%", "90%", "99%", "max"];
        let mut table = Table::new(columns);
        for line in &self.lines {
            let Distribution { count, mean, std, min, p50, p75, p90, p99, max } = line.speed;
            let mut row =
                vec![line.way.clone(), line.streams.to_string(), count.to_string(), format!("{mean:.1}")];
            row.push(line.published.map_or_else(String::new, |mean| format!("{mean:.1}")));
            row.extend([std, min, p50, p75, p90, p99, max].map(|speed| format!("{speed:.1}")));
            table.row(row);
        }
        table
    }

    fn costs(&self) -> Table {
        let columns = [
            "way",
            "streams",
            "scale",
            "of the rate",
            "journal: times this",
            "CPU s/GiB",
            "peak RSS MiB",
            "peak disk MiB",
        ];
        let mut table = Table::new(columns);
        for line in &self.lines {
            let most = |figure: fn(&Run) -> f64| line.runs.iter().map(figure).fold(0.0, f64::max);
            let bytes: u64 = line.runs.iter().flat_map(|run| &run.sizes).sum();
            let cpu: f64 = line.runs.iter().map(|run| run.usage.cpu()).sum();
            let median = line.speed.p50;
            let gain = self.speed(Way::JOURNAL, line.streams).map(|journal| journal / median);
            table.row([
                line.way.clone(),
                line.streams.to_string(),
                line.scale.to_string(),
                if self.trial.is_shaped() {
                    format!("{:.3}", median / self.trial.stream_mib as f64)
                } else {
                    String::new()
                },
                gain.map_or_else(String::new, |gain| format!("{gain:.2}")),
                format!("{:.2}", cpu / (bytes as f64 / GIB as f64)),
                format!("{:.0}", most(|run| run.usage.peak_kib as f64 / 1024.0)),
                format!("{:.0}", most(|run| run.disk as f64 / MIB as f64)),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trial { stream_mib, commit_ms, producer_mib, most_mib, runs, size, largest, to, .. } =
            &self.trial;
        let store = match to {
            Some(url) => format!("to {url}"),
            None if self.trial.unshaped => "to the embedded server, unshaped".to_owned(),
            None => format!(
                "a stream moves {stream_mib} MiB/s, a commit takes {commit_ms} ms; more than {most_mib} MiB/s in all: \
                 rates divided and times multiplied by `scale`"
            ),
        };
        writeln!(
            out,
            "Objects of {} to {} at once, of producers that make {producer_mib} MiB/s each;\n{store}\n",
            size::format(*size),
            size::format(*largest)
        )?;
        writeln!(out, "{}", self.speeds())?;
        writeln!(
            out,
            "MiB/s of each object, from its first byte to its publication, times the scale; {runs} runs of each. \
             Published: the mean.\n"
        )?;
        writeln!(out, "{}", self.costs())?;
        writeln!(
            out,
            "Of the rate, and times: by the median. Peaks: the most of all runs; disk: of what has a name in the \
             journals' folder.\n"
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
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}

#[cfg(test)]
mod tests;
