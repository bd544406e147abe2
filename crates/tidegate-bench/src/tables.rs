//! Measures the time to build and store sorted tables: each part uploaded while the next is made, whole tables
//! uploaded beside the next one, and whole tables one after the other. The store has latency and a limit on
//! each connection, or is a real store. This is one part of the published table D.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::embedded::Embedded;
use crate::example::{self, Example, ExampleRun, ExampleStore, ExampleTotal, ExampleWay};
use crate::machine::{self, Conditions};
use crate::size::{self, GIB, MIB};
use crate::stats::RunSpread;
use crate::table::MarkdownTable;

/// The tables to build, and the kind of store.
#[derive(Clone, Debug, Serialize, Args)]
pub struct TablesTrial {
    /// Size of all tables of a run together.
    #[arg(long, default_value = "1GiB", value_parser = size::parse)]
    pub size: u64,
    /// Sizes of a table; one trial for each size.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8MiB,16MiB,32MiB,64MiB,128MiB,256MiB,512MiB",
        value_parser = size::parse
    )]
    pub table_sizes: Vec<u64>,
    /// Memory budget of the engine; of the ways that hold tables whole, only requests in flight count against
    /// it.
    #[arg(long, default_value = "64MiB", value_parser = size::parse)]
    pub memory: u64,
    /// No limits but this machine's; --megabytes and --latency-ms have no effect then.
    #[arg(long, conflicts_with = "to")]
    pub unshaped: bool,
    /// Use a real store, such as s3://BUCKET/PREFIX, with its own limits. The tables of each run are removed
    /// after the run.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// MB (of 1000000 bytes) a second of one connection.
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub megabytes: u64,
    /// Milliseconds of latency before the server handles each request.
    #[arg(long, default_value_t = 20)]
    pub latency_ms: u64,
    /// The ways.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "streamed,beside,whole")]
    pub ways: Vec<ExampleWay>,
    /// Counted runs of each way.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Few small tables, only to check that everything works.
    #[arg(long, conflicts_with_all = ["size", "table_sizes", "runs"])]
    pub quick: bool,
    /// Seconds that one run may take.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub limit: u64,
}

/// All runs of one way with one size of table.
#[derive(Clone, Debug, Serialize)]
pub struct TablesLine {
    /// The way.
    pub way: ExampleWay,
    /// Bytes of a table.
    pub table_size: u64,
    /// The runs.
    pub runs: Vec<ExampleRun>,
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct TablesReport {
    /// The options of the trial.
    pub trial: TablesTrial,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The results by way and size of table.
    pub lines: Vec<TablesLine>,
}

impl TablesTrial {
    /// Runs the trial against the named store, or the server of the program `tidegate`: all ways in turn for
    /// each size of table.
    ///
    /// # Errors
    /// If the server does not start, or a run fails, stores less than it should, or takes longer than the
    /// limit.
    pub fn hold(&self, tidegate: &Path) -> Result<TablesReport> {
        let mut trial = self.clone();
        if trial.quick {
            (trial.size, trial.table_sizes, trial.runs) = (64 * MIB, vec![8 * MIB, 32 * MIB], 1);
        }
        let logs = tempfile::tempdir()?;
        let place = match &trial.to {
            Some(url) => ExampleStore::within(url),
            None => ExampleStore::embedded(trial.server(tidegate, logs.path())?),
        };
        let example = Example::find(place, logs.path(), Duration::from_secs(trial.limit))?;
        let before = machine::load();
        let lines = example.hold(|| trial.lines(&example))?;
        Ok(TablesReport { trial, conditions: Conditions::since(before), lines })
    }

    fn server(&self, tidegate: &Path, folder: &Path) -> Result<Embedded> {
        let server = Embedded::start(tidegate, folder)?;
        if !self.unshaped {
            server.behave(&json!({
                "latency": {"fixed_ms": self.latency_ms as f64},
                "bandwidth": {"connection_in": self.megabytes * 1_000_000},
            }))?;
        }
        Ok(server)
    }

    fn lines(&self, example: &Example<'_>) -> Result<Vec<TablesLine>> {
        let mut lines = Vec::new();
        for &table_size in &self.table_sizes {
            let what = format!("tables of {}", size::format(table_size));
            let runs = example::in_turn(&self.ways, self.runs, &what, |way, number| {
                let prefix = format!("{}-{table_size}-{number}/", way.name());
                let run = self.build(example, way, table_size, &prefix)?;
                if self.to.is_some() {
                    example.clear(&prefix)?;
                }
                Ok(run)
            })?;
            lines.extend(runs.into_iter().map(|(way, runs)| TablesLine { way, table_size, runs }));
        }
        Ok(lines)
    }

    fn build(
        &self,
        example: &Example<'_>,
        way: ExampleWay,
        table_size: u64,
        prefix: &str,
    ) -> Result<ExampleRun> {
        let to = example.location(prefix);
        let [size, table_size, memory] = [self.size, table_size, self.memory].map(|size| size.to_string());
        let arguments = [
            "build",
            &to,
            "--run-size",
            &size,
            "--table-size",
            &table_size,
            "--memory",
            &memory,
            "--way",
            way.name(),
        ];
        let run = example.run(&arguments.map(str::to_owned))?;
        if run.figures.bytes_out < self.size {
            return Err(format!("{} stored {} bytes only", way.name(), run.figures.bytes_out).into());
        }
        Ok(run)
    }
}

impl TablesReport {
    /// Reports broken claims: streams should not be slower than whole tables one after the other.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let spread = |way, table_size| {
            let line = self.lines.iter().find(|line| line.way == way && line.table_size == table_size)?;
            RunSpread::of(line.runs.iter().map(|run| run.usage.wall))
        };
        let sizes = self.trial.table_sizes.iter();
        let slower = sizes.filter_map(|size| {
            let (streamed, whole) = (spread(ExampleWay::Streamed, *size)?, spread(ExampleWay::Whole, *size)?);
            let times = streamed.times(&whole);
            let told = || {
                format!("tables of {}: streamed takes {times:.2} times as long as whole", size::format(*size))
            };
            streamed.is_above(&whole).then(told)
        });
        slower.collect()
    }

    /// The median time of a way with tables of this size.
    fn wall(&self, way: ExampleWay, table_size: u64) -> Option<f64> {
        let line = self.lines.iter().find(|line| line.way == way && line.table_size == table_size)?;
        RunSpread::of(line.runs.iter().map(|run| run.usage.wall)).map(|wall| wall.median)
    }

    fn table(&self) -> MarkdownTable {
        let columns = [
            "way",
            "table MiB",
            "wall s",
            "× streamed",
            "MiB/s",
            "CPU s/GiB",
            "peak RSS MiB",
            "peak budget MiB",
            "requests",
        ];
        let mut table = MarkdownTable::new(columns);
        for TablesLine { way, table_size, runs } in &self.lines {
            let Some(total) = ExampleTotal::of(runs) else { continue };
            let ExampleTotal { figures, wall, cpu, peak_mib, peak_budget_mib } = total;
            let times = self.wall(ExampleWay::Streamed, *table_size).map(|streamed| wall.median / streamed);
            table.row([
                way.name().to_owned(),
                format!("{:.0}", *table_size as f64 / MIB as f64),
                format!("{:.2} ({:.2}–{:.2})", wall.median, wall.min, wall.max),
                times.map_or_else(String::new, |times| format!("{times:.2}")),
                format!("{:.0}", figures.bytes_out as f64 / MIB as f64 / wall.median),
                format!("{:.2}", cpu.median / (figures.bytes_out as f64 / GIB as f64)),
                format!("{peak_mib:.0}"),
                format!("{peak_budget_mib:.0}"),
                figures.requests.to_string(),
            ]);
        }
        table
    }
}

impl fmt::Display for TablesReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TablesTrial { size, memory, megabytes, latency_ms, runs, .. } = &self.trial;
        let store = match &self.trial.to {
            Some(url) => format!("to {url}"),
            None if self.trial.unshaped => "to the embedded server, unshaped".to_owned(),
            None => format!("{megabytes} MB/s a connection, {latency_ms} ms of latency"),
        };
        writeln!(
            out,
            "Tables of {} in all; {store}; memory budget {}\n",
            size::format(*size),
            size::format(*memory)
        )?;
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "Wall: median (least–most), CPU: median, peaks: the most, of {runs} runs of each, one process each, without one to\n\
             warm up. Beside: a table is made whole in memory, and uploaded while the next is made. Whole: one after the\n\
             other.\n"
        )?;
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}

#[cfg(test)]
mod tests;
