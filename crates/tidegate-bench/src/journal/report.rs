//! Reports table B: the speed and the cost of the uploads.

use std::fmt;

use serde::Serialize;

use super::way::JournalWay;
use super::{JournalTrial, OBJECTS};
use crate::machine::Conditions;
use crate::measure::ProcessUsage;
use crate::size::{self, GIB, MIB};
use crate::stats::Distribution;
use crate::table::MarkdownTable;

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct JournalRun {
    /// Bytes of each object.
    pub sizes: Vec<u64>,
    /// Seconds of each object.
    pub seconds: Vec<f64>,
    /// The cost of the process.
    pub usage: ProcessUsage,
    /// The most bytes on disk of the folder of journals or spools.
    pub disk: u64,
}

/// All runs of one way with one number of streams.
#[derive(Clone, Debug, Serialize)]
pub struct JournalLine {
    /// The way.
    pub way: String,
    /// Objects at once.
    pub streams: u32,
    /// The factor by which rates were lower and times longer.
    pub scale: f64,
    /// MiB a second of each object, converted to the published rates.
    pub speed: Distribution,
    /// The published mean, if there is one.
    pub published: Option<f64>,
    /// The runs.
    pub runs: Vec<JournalRun>,
}

impl JournalLine {
    pub(super) fn of(way: JournalWay, streams: u32, scale: f64, runs: Vec<JournalRun>) -> Option<Self> {
        let objects = runs.iter().flat_map(|run| run.sizes.iter().zip(&run.seconds));
        let speed = Distribution::of(objects.map(|(size, took)| *size as f64 / MIB as f64 / took * scale))?;
        Some(Self { way: way.name(), streams, scale, speed, published: way.published(streams), runs })
    }
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct JournalReport {
    /// The options of the trial.
    pub trial: JournalTrial,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The results by way and streams.
    pub lines: Vec<JournalLine>,
}

impl JournalReport {
    /// The median speed of a way with this number of streams.
    fn speed(&self, way: JournalWay, streams: u32) -> Option<f64> {
        let line = self.lines.iter().find(|line| line.way == way.name() && line.streams == streams);
        line.map(|line| line.speed.p50)
    }

    /// Reports broken claims: journaling should be faster than chunks of either size, if the streams of the
    /// store are the limit.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        if !self.trial.is_shaped() {
            return broken;
        }
        for streams in &self.trial.streams {
            for chunked in JournalWay::CHUNKED {
                let speeds = (self.speed(JournalWay::JOURNAL, *streams), self.speed(chunked, *streams));
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

    /// The number of runs, in words.
    fn runs(&self) -> String {
        let runs = match self.trial.runs {
            None => format!("as many runs of each, in turn, as make {OBJECTS} objects"),
            Some(1) => "1 run of each, in turn".to_owned(),
            Some(runs) => format!("{runs} runs of each, in turn"),
        };
        if self.trial.quick {
            return format!("{runs}, and none to warm up");
        }
        format!("{runs}, after one with objects of an eighth of the size, which warms up and does not count")
    }

    fn speeds(&self) -> MarkdownTable {
        let columns =
            ["way", "streams", "count", "mean", "published", "std", "min", "50%", "75%", "90%", "99%", "max"];
        let mut table = MarkdownTable::new(columns);
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

    fn costs(&self) -> MarkdownTable {
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
        let mut table = MarkdownTable::new(columns);
        for line in &self.lines {
            let most = |figure: fn(&JournalRun) -> f64| line.runs.iter().map(figure).fold(0.0, f64::max);
            let bytes: u64 = line.runs.iter().flat_map(|run| &run.sizes).sum();
            let cpu: f64 = line.runs.iter().map(|run| run.usage.cpu()).sum();
            let median = line.speed.p50;
            let gain = self.speed(JournalWay::JOURNAL, line.streams).map(|journal| journal / median);
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

impl fmt::Display for JournalReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JournalTrial { stream_mib, commit_ms, producer_mib, most_mib, size, largest, to, .. } =
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
            "MiB/s of each object, from its first byte to its publication, times the scale; {}. Published: the mean.\n",
            self.runs()
        )?;
        writeln!(out, "{}", self.costs())?;
        writeln!(
            out,
            "Of the rate, and times: by the median. Peaks: the most of all runs; memory: with the bytes that the producer \
             gave away and the writer keeps; disk: of what has a name in the journals' folder.\n"
        )?;
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}
