//! Shows a contest: where tidegate loses, and bars of each figure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::plot::{Plot, PlotTable};
use super::read::{JsonConditions, JsonSpread, JsonUsage, Number};
use super::rows::{PlotBar, bars};
use super::section::PageSection;
use super::{Shown, shown};
use crate::report::noise;
use crate::size::GIB;
use crate::stats;
use crate::tool::Tool;

/// The JSON of a contest.
#[derive(Debug, Deserialize)]
pub(super) struct JsonContest {
    title: String,
    objects: u64,
    bytes: u64,
    runs: usize,
    #[serde(flatten)]
    conditions: JsonConditions,
    source: String,
    nothing: JsonUsage,
    tools: Vec<JsonContestLine>,
    failed: Vec<(String, String)>,
    missing: Vec<(String, String)>,
    /// Absent in older files.
    #[serde(default)]
    left_out: Vec<(String, String)>,
    command: Option<String>,
    losses: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct JsonContestLine {
    tool: String,
    version: Option<String>,
    settings: String,
    wall: JsonSpread,
    cpu: JsonSpread,
    peak_mib: JsonSpread,
    requests: JsonSpread,
    connections: JsonSpread,
    server_cpu: JsonSpread,
    checksums: Vec<String>,
    runs: Vec<IgnoredAny>,
    refused: BTreeMap<String, u64>,
}

/// A figure of one tool.
type Figure = fn(&JsonContestLine) -> stats::RunSpread;

fn wall(line: &JsonContestLine) -> stats::RunSpread {
    line.wall.into()
}

fn cpu(line: &JsonContestLine) -> stats::RunSpread {
    line.cpu.into()
}

/// For memory, the highest peak of all runs counts.
fn peak(line: &JsonContestLine) -> stats::RunSpread {
    stats::RunSpread { median: line.peak_mib.max.0, ..line.peak_mib.into() }
}

impl JsonContest {
    fn ours(&self) -> Option<&JsonContestLine> {
        self.tools.iter().find(|line| line.tool == Tool::Tidegate.name())
    }

    /// A figure as a multiple of tidegate's.
    fn ratio(&self, line: &JsonContestLine, figure: Figure) -> String {
        self.ours().map_or_else(String::new, |ours| format!("{:.2}", figure(line).times(&figure(ours))))
    }

    /// Bars of one figure.
    fn plot(
        &self,
        title: &str,
        unit: &str,
        shown: impl Fn(&stats::RunSpread) -> String,
        figure: Figure,
    ) -> Plot {
        let mut rows = Vec::new();
        let mut table = PlotTable::new(["tool", unit, "× tidegate"]);
        for line in &self.tools {
            let spread = figure(line);
            let said = shown(&spread);
            table.row([line.tool.clone(), said.clone(), self.ratio(line, figure)]);
            let kind = match line.tool.as_str() {
                tool if tool == Tool::Tidegate.name() => "ours",
                tool if tool == Tool::Floor.name() => "floor",
                _ => "peer",
            };
            rows.push(PlotBar { name: line.tool.clone(), said, spread, kind });
        }
        Plot {
            title: format!("{title}: {unit}"),
            says: format!(
                "A bar for each tool, as long as its median; a thinner line from its least to its most. {title} in {unit}."
            ),
            drawing: bars(&rows),
            table,
        }
    }

    /// The counts of the server.
    fn rest(&self) -> PlotTable {
        // Downloaded objects were stored before, so they have no checksums here.
        let has_checksums = self.tools.iter().any(|line| !line.checksums.is_empty());
        let columns = ["tool", "requests", "refused in all runs", "connections", "server CPU s"];
        let mut table = PlotTable::new(columns.into_iter().chain(has_checksums.then_some("checksum stored")));
        for line in &self.tools {
            let cells = [
                line.tool.clone(),
                count(&line.requests),
                line.refused.values().sum::<u64>().to_string(),
                count(&line.connections),
                format!("{:.2}", line.server_cpu.median.0),
            ];
            let none = line.checksums.is_empty();
            let checksum = || if none { "–".to_owned() } else { line.checksums.join(", ") };
            table.row(cells.into_iter().chain(has_checksums.then(checksum)));
        }
        table
    }
}

fn count(spread: &JsonSpread) -> String {
    let JsonSpread { median: Number(median), min: Number(min), max: Number(max) } = spread;
    if min == max { median.to_string() } else { format!("{min}–{max}") }
}

impl Shown for JsonContest {
    fn section(&self, _: &str) -> PageSection {
        let (unit, by) = if self.objects == 1 {
            ("seconds a GiB", self.bytes as f64 / GIB as f64)
        } else {
            ("seconds", 1.0)
        };
        let missing =
            self.missing.iter().map(|(name, how)| format!("{name}: missing, not installed ({how})."));
        let failed = self.failed.iter().map(|(name, why)| format!("{name}: failed: {why}."));
        let left_out = self.left_out.iter().map(|(name, why)| format!("{name}: left out: {why}."));
        let mut depends: Vec<_> = failed.chain(missing).chain(left_out).collect();
        depends.push(self.conditions.to_string());
        let settings = self.tools.iter().map(|line| {
            let version = line.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
            format!("{}{version}: {}", line.tool, line.settings)
        });
        let settings = settings.chain([self.source.clone()]).collect();
        let few = self.tools.iter().filter(|line| line.runs.len() < self.runs);
        depends.extend(few.map(|line| format!("{}: only {} of the runs.", line.tool, line.runs.len())));
        if let Some(ours) = self.ours() {
            depends.push(format!("Noise: {}.", noise(ours.runs.len(), wall(ours), cpu(ours))));
        }
        let (wall_ms, cpu_ms) = (self.nothing.wall.0 * 1e3, self.nothing.cpu() * 1e3);
        let mib = self.nothing.peak_mib();
        depends.push(format!(
            "The program true, measured like the tools: {wall_ms:.1} ms, {cpu_ms:.1} ms CPU, {mib:.1} MiB."
        ));
        PageSection {
            title: self.title.clone(),
            first: self.losses.clone(),
            what: format!(
                "Median (least–most) of {} runs, interleaved, after trials or one to warm up. CPU time is the tool's alone.",
                self.runs
            ),
            command: self.command.clone(),
            plots: vec![
                self.plot("Wall time", "seconds", |wall| shown(wall, 2), wall),
                self.plot("Client CPU time", unit, |cpu| shown(&cpu.per(by), 2), cpu),
                self.plot(
                    "Peak memory",
                    "MiB, the most of all runs",
                    |peak| format!("{:.0}", peak.max),
                    peak,
                ),
            ],
            more: Some(("Requests, connections, the server's CPU time, checksums".to_owned(), self.rest())),
            settings,
            depends,
        }
    }
}
