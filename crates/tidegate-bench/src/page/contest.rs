//! A contest of tools: where Tidegate loses, and bars of what each took.

use serde::Deserialize;

use super::plot::{Plot, Table};
use super::read::{Conditions, Number, Spread, Usage};
use super::rows::{Bar, bars};
use super::section::Section;
use super::{Shown, shown};
use crate::size::{self, GIB};
use crate::stats;
use crate::tool::Tool;

/// What the contests print with `--json`.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    title: String,
    objects: u64,
    bytes: u64,
    runs: u64,
    #[serde(flatten)]
    conditions: Conditions,
    source: String,
    nothing: Usage,
    tools: Vec<Line>,
    missing: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
struct Line {
    tool: String,
    version: Option<String>,
    settings: String,
    wall: Spread,
    cpu: Spread,
    peak_mib: Spread,
    requests: Spread,
    connections: Spread,
    server_cpu: Spread,
}

/// One of a tool's figures.
type Figure = fn(&Line) -> stats::Spread;

fn wall(line: &Line) -> stats::Spread {
    line.wall.into()
}

fn cpu(line: &Line) -> stats::Spread {
    line.cpu.into()
}

/// The most of all runs counts.
fn peak(line: &Line) -> stats::Spread {
    stats::Spread { median: line.peak_mib.max.0, ..line.peak_mib.into() }
}

fn is_peer(line: &Line) -> bool {
    line.tool != Tool::Tidegate.name() && line.tool != Tool::Floor.name()
}

impl Report {
    fn ours(&self) -> Option<&Line> {
        self.tools.iter().find(|line| line.tool == Tool::Tidegate.name())
    }

    /// Where a peer is better, worst first: in the words of the contest's own report, which a test compares.
    fn losses(&self) -> Vec<String> {
        let Some(ours) = self.ours() else { return Vec::new() };
        let mut losses = Vec::new();
        let figures: [(&str, Figure); 3] = [("wall time", wall), ("CPU time", cpu), ("peak memory", peak)];
        let peers = || self.tools.iter().filter(|line| is_peer(line));
        for (name, figure) in figures {
            for line in peers() {
                let (mine, theirs) = (figure(ours), figure(line));
                let times = mine.times(&theirs);
                if times.is_nan() || times <= 1.0 {
                    continue;
                }
                let doubt =
                    if mine.min <= theirs.max { ", though some runs were the other way round" } else { "" };
                let peer = &line.tool;
                losses.push((
                    times,
                    format!("tidegate loses to {peer} in {name}: {times:.2} times as much{doubt}"),
                ));
            }
        }
        losses.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        if losses.is_empty() && peers().next().is_some() {
            return vec!["tidegate loses to none of these in wall time, CPU time or peak memory".to_owned()];
        }
        losses.into_iter().map(|(_, text)| text).collect()
    }

    /// How many times ours a figure is.
    fn ratio(&self, line: &Line, figure: Figure) -> String {
        self.ours().map_or_else(String::new, |ours| format!("{:.2}", figure(line).times(&figure(ours))))
    }

    /// Bars of a figure.
    fn plot(
        &self,
        title: &str,
        unit: &str,
        shown: impl Fn(&stats::Spread) -> String,
        figure: Figure,
    ) -> Plot {
        let mut rows = Vec::new();
        let mut table = Table::new(["tool", unit, "× tidegate"]);
        for line in &self.tools {
            let spread = figure(line);
            let said = shown(&spread);
            table.row([line.tool.clone(), said.clone(), self.ratio(line, figure)]);
            let kind = match line.tool.as_str() {
                tool if tool == Tool::Tidegate.name() => "ours",
                tool if tool == Tool::Floor.name() => "floor",
                _ => "peer",
            };
            rows.push(Bar { name: line.tool.clone(), said, spread, kind });
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

    /// What the server counted.
    fn rest(&self) -> Table {
        let columns = ["tool", "requests", "connections", "server CPU s"];
        let mut table = Table::new(columns);
        for line in &self.tools {
            table.row([
                line.tool.clone(),
                count(&line.requests),
                count(&line.connections),
                format!("{:.2}", line.server_cpu.median.0),
            ]);
        }
        table
    }

    /// What holds it, as far as the report says it; its file is called like the contest.
    fn command(&self, file: &str) -> String {
        let each = size::format(self.bytes / self.objects.max(1)).replace(' ', "");
        let runs = self.runs;
        match file {
            "pipe" | "pipe-shaped" => format!("tidegate-bench peers --only {file} --runs {runs}"),
            "middling" | "small" => {
                format!("tidegate-bench small --files {} --size {each} --runs {runs} --json", self.objects)
            }
            other => {
                let name = other.replace('-', " --");
                format!("tidegate-bench {name} --size {each} --runs {runs} --json")
            }
        }
    }
}

fn count(spread: &Spread) -> String {
    let Spread { median: Number(median), min: Number(min), max: Number(max) } = spread;
    if min == max { median.to_string() } else { format!("{min}–{max}") }
}

impl Shown for Report {
    fn section(&self, file: &str) -> Section {
        let (unit, by) = if self.objects == 1 {
            ("seconds a GiB", self.bytes as f64 / GIB as f64)
        } else {
            ("seconds", 1.0)
        };
        let mut depends: Vec<_> = self
            .missing
            .iter()
            .map(|(name, how)| format!("{name}: missing, not installed ({how})."))
            .collect();
        depends.push(self.conditions.to_string());
        let settings = self.tools.iter().map(|line| {
            let version = line.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
            format!("{}{version}: {}", line.tool, line.settings)
        });
        let settings = settings.chain([self.source.clone()]).collect();
        if let Some(ours) = self.ours() {
            let [of_wall, of_cpu] = [wall, cpu].map(|figure: Figure| figure(ours).noise_percent());
            depends.push(format!(
                "Noise: tidegate's own runs are {of_wall:.0}% apart in wall time, {of_cpu:.0}% in CPU time."
            ));
        }
        let (wall_ms, cpu_ms) = (self.nothing.wall.0 * 1e3, self.nothing.cpu() * 1e3);
        let mib = self.nothing.peak_mib();
        depends.push(format!(
            "The program true, measured like the tools: {wall_ms:.1} ms, {cpu_ms:.1} ms CPU, {mib:.1} MiB."
        ));
        Section {
            title: self.title.clone(),
            first: self.losses(),
            what: format!(
                "Median (least–most) of {} runs, interleaved, after one to warm up. CPU time is the tool's alone.",
                self.runs
            ),
            command: Some(self.command(file)),
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
            more: Some(("Requests, connections and the server's CPU time".to_owned(), self.rest())),
            settings,
            depends,
        }
    }
}
