//! Measures the memory of a merge of sorted tables: read and written as streams under a budget, and whole in
//! memory. This is one part of the published table D.
//!
//! The tables are made once for each number of inputs, in the embedded server's storage on disk or in a real
//! store. Then each way merges them, and all ways must produce the same number of entries and bytes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::embedded::Embedded;
use crate::example::{self, Example, ExampleRun, ExampleStore, ExampleTotal, ExampleWay};
use crate::machine::{self, Conditions};
use crate::scratch::Scratch;
use crate::size::{self, GIB, MIB};
use crate::table::MarkdownTable;

/// The memory curve of a run has at most this many points, each the peak of a stretch of time.
const POINTS: usize = 300;

/// The tables to merge.
#[derive(Clone, Debug, Serialize, Args)]
pub struct CompactionTrial {
    /// Numbers of tables to merge; one trial for each number.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32", value_parser = value_parser!(u32).range(1..=1000))]
    pub inputs: Vec<u32>,
    /// Size of each table.
    #[arg(long, default_value = "64MiB", value_parser = size::parse)]
    pub size: u64,
    /// Close an output when it has this many bytes.
    #[arg(long, default_value = "64MiB", value_parser = size::parse)]
    pub table_size: u64,
    /// Memory budget of the engine; of the ways that hold tables whole, only requests in flight count against
    /// it.
    #[arg(long, default_value = "64MiB", value_parser = size::parse)]
    pub memory: u64,
    /// Use a real store, such as s3://BUCKET/PREFIX. All tables are removed after use, unless the run is
    /// interrupted.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// The ways.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "streamed,whole")]
    pub ways: Vec<ExampleWay>,
    /// Counted runs of each way.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Few small tables, only to check that everything works.
    #[arg(long, conflicts_with_all = ["inputs", "size", "table_size"])]
    pub quick: bool,
    /// Folder for the server's storage; default: the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Seconds that one run may take.
    #[arg(long, default_value_t = 1200, value_name = "SECONDS")]
    pub limit: u64,
}

/// All runs of one way with one number of inputs.
#[derive(Clone, Debug, Serialize)]
pub struct CompactionLine {
    /// The way.
    pub way: ExampleWay,
    /// How many tables were merged.
    pub inputs: u32,
    /// The runs.
    pub runs: Vec<ExampleRun>,
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct CompactionReport {
    /// The options of the trial.
    pub trial: CompactionTrial,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The results by way and number of inputs.
    pub lines: Vec<CompactionLine>,
}

impl CompactionTrial {
    /// Runs the trial against the named store, or the server of the program `tidegate`: all ways in turn for
    /// each number of inputs.
    ///
    /// # Errors
    /// If the server does not start, a run fails or takes longer than the limit, or two ways produce different
    /// outputs.
    pub fn hold(&self, tidegate: &Path) -> Result<CompactionReport> {
        let mut trial = self.clone();
        if trial.quick {
            (trial.inputs, trial.size, trial.table_size) = (vec![2, 4, 8], 8 * MIB, 16 * MIB);
        }
        let (logs, mut scratch) = (tempfile::tempdir()?, None);
        let place = match &trial.to {
            Some(url) => ExampleStore::within(url),
            None => {
                let storage = format!("disk:{}", scratch.insert(trial.scratch()?).path().display());
                ExampleStore::embedded(Embedded::storing(tidegate, logs.path(), &storage)?)
            }
        };
        let example = Example::find(place, logs.path(), Duration::from_secs(trial.limit))?;
        let before = machine::load();
        let lines = example.hold(|| trial.lines(&example))?;
        Ok(CompactionReport { trial, conditions: Conditions::since(before), lines })
    }

    /// A folder for the server's storage.
    fn scratch(&self) -> Result<Scratch> {
        let place = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let most = self.inputs.iter().copied().max().unwrap_or_default();
        // Room for inputs, outputs, and parts of outputs that are not completed yet.
        let scratch = Scratch::new(Some(&place), 3 * u64::from(most) * self.size)?;
        scratch.remove_when_interrupted()?;
        Ok(scratch)
    }

    fn lines(&self, example: &Example<'_>) -> Result<Vec<CompactionLine>> {
        let mut lines = Vec::new();
        for &inputs in &self.inputs {
            self.build(example, inputs)?;
            let runs = example::in_turn(&self.ways, self.runs, &format!("{inputs} inputs"), |way, _| {
                self.merge(example, way, inputs)
            })?;
            example.clear("in/")?;
            check_same(inputs, &runs)?;
            lines.extend(runs.into_iter().map(|(way, runs)| CompactionLine { way, inputs, runs }));
        }
        Ok(lines)
    }

    fn build(&self, example: &Example<'_>, inputs: u32) -> Result<()> {
        let to = example.location("in/");
        let arguments = ["build", &to, "--runs", &inputs.to_string(), "--run-size", &self.size.to_string()];
        example.run(&arguments.map(str::to_owned)).map(drop)
    }

    fn merge(&self, example: &Example<'_>, way: ExampleWay, inputs: u32) -> Result<ExampleRun> {
        let (from, to) = (example.location("in/"), example.location("out/"));
        let (size, memory) = (self.table_size.to_string(), self.memory.to_string());
        let arguments =
            ["compact", &from, &to, "--table-size", &size, "--memory", &memory, "--way", way.name()];
        let run = example.run(&arguments.map(str::to_owned))?;
        example.clear("out/")?;
        let bytes = run.figures.bytes_in;
        if bytes < u64::from(inputs) * self.size {
            return Err(format!("{} merged {bytes} bytes only", way.name()).into());
        }
        Ok(run)
    }
}

/// All ways must produce the same number of entries and bytes from the same inputs.
fn check_same(inputs: u32, runs: &[(ExampleWay, Vec<ExampleRun>)]) -> Result<()> {
    let made = |run: &ExampleRun| (run.figures.entries_out, run.figures.bytes_out);
    let mut runs = runs.iter().flat_map(|(way, runs)| runs.iter().map(move |run| (way.name(), made(run))));
    let Some((one, first)) = runs.next() else { return Ok(()) };
    match runs.find(|(_, made)| *made != first) {
        None => Ok(()),
        Some((another, other)) => {
            Err(format!("{inputs} inputs: {one} made (entries, bytes) {first:?}, {another} {other:?}").into())
        }
    }
}

impl CompactionReport {
    fn line(&self, way: ExampleWay, inputs: u32) -> Option<&CompactionLine> {
        self.lines.iter().find(|line| line.way == way && line.inputs == inputs)
    }

    /// Reports a broken claim: a merge of streams should need less memory than a merge of whole tables.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let most = self.trial.inputs.iter().copied().max().unwrap_or_default();
        let peak = |way| self.line(way, most).and_then(|line| Some(ExampleTotal::of(&line.runs)?.peak_mib));
        match (peak(ExampleWay::Streamed), peak(ExampleWay::Whole)) {
            (Some(streamed), Some(whole)) if streamed >= whole => {
                vec![format!("{most} inputs: {streamed:.0} MiB as streams, {whole:.0} MiB whole")]
            }
            _ => Vec::new(),
        }
    }

    /// The memory over time of the merge with the most inputs, as in `memory.json`: the first run of each way,
    /// at most 300 points.
    #[must_use]
    pub fn memory(&self) -> Value {
        let most = self.trial.inputs.iter().copied().max().unwrap_or_default();
        let series = self.lines.iter().filter(|line| line.inputs == most).filter_map(|line| {
            let memory = &line.runs.first()?.memory;
            let points: Vec<_> = memory
                .chunks(memory.len().div_ceil(POINTS).max(1))
                .filter_map(|some| some.iter().max_by_key(|(_, kib)| *kib))
                .map(|(seconds, kib)| (*seconds, *kib as f64 / 1024.0))
                .collect();
            Some(json!({"name": line.way.name(), "points": points}))
        });
        let title = format!("A merge of {most} tables of {}", size::format(self.trial.size));
        json!({"title": title, "unit": "MiB", "series": series.collect::<Vec<_>>()})
    }

    fn table(&self) -> MarkdownTable {
        let columns = [
            "way",
            "inputs",
            "MiB in",
            "MiB out",
            "wall s",
            "MiB in a second",
            "CPU s/GiB in",
            "peak RSS MiB",
            "peak budget MiB",
            "requests",
        ];
        let mut table = MarkdownTable::new(columns);
        for CompactionLine { way, inputs, runs } in &self.lines {
            let Some(total) = ExampleTotal::of(runs) else { continue };
            let ExampleTotal { figures, wall, cpu, peak_mib, peak_budget_mib } = total;
            let mib = figures.bytes_in as f64 / MIB as f64;
            table.row([
                way.name().to_owned(),
                inputs.to_string(),
                format!("{mib:.0}"),
                format!("{:.0}", figures.bytes_out as f64 / MIB as f64),
                format!("{:.2} ({:.2}–{:.2})", wall.median, wall.min, wall.max),
                format!("{:.0}", mib / wall.median),
                format!("{:.2}", cpu.median / (figures.bytes_in as f64 / GIB as f64)),
                format!("{peak_mib:.0}"),
                format!("{peak_budget_mib:.0}"),
                figures.requests.to_string(),
            ]);
        }
        table
    }
}

impl fmt::Display for CompactionReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CompactionTrial { size, table_size, memory, runs, to, .. } = &self.trial;
        let store = match to {
            Some(url) => format!("in {url}"),
            None => "server on the same machine, unshaped, on disk".to_owned(),
        };
        writeln!(
            out,
            "Tables of {} merged into tables of {}; memory budget {}; {store}\n",
            size::format(*size),
            size::format(*table_size),
            size::format(*memory)
        )?;
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "Wall: median (least–most), CPU: median, peaks: the most, of {runs} runs of each, one process each, without one to\n\
             warm up. Whole: every input read into memory first, every output made in memory before it is uploaded.\n"
        )?;
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}

#[cfg(test)]
mod tests;
