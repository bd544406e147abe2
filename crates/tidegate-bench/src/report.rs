//! Reports the result of a contest: where tidegate loses, the table, and everything that the figures depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::contest::{AGAIN, ContestRun, Entrant};
use crate::machine::Conditions;
use crate::measure::ProcessUsage;
use crate::size::{GIB, MIB};
use crate::stats::RunSpread;
use crate::table::MarkdownTable;
use crate::tool::{Tool, TransferSource};

/// The report of one contest; `--json` prints this as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct ContestReport {
    /// The measurement in one sentence.
    pub title: String,
    /// Objects that each run made or read.
    pub objects: u64,
    /// Bytes that each run moved.
    pub bytes: u64,
    /// Counted runs of each tool, fewer for a tool whose runs took long; a warm-up run or trials came before.
    pub runs: u32,
    /// How many seconds count as long.
    pub enough: u64,
    /// Whether each tool had its best settings.
    pub best: bool,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The source of the bytes: `source: …`.
    pub source: String,
    /// The cost of a program that does nothing.
    pub nothing: ProcessUsage,
    /// One line for each tool.
    pub tools: Vec<ContestLine>,
    /// Peers that failed and ran no more, and why.
    pub failed: Vec<(&'static str, String)>,
    /// Tools that are not installed, and how to get them.
    pub missing: Vec<(&'static str, &'static str)>,
    /// Tools that are not in this contest, and why.
    pub left_out: Vec<(&'static str, &'static str)>,
    /// The command that repeats the measurement, if one command does.
    pub command: Option<String>,
    /// Where a peer is better than tidegate, worst first.
    pub losses: Vec<String>,
}

/// The results of one tool.
#[derive(Clone, Debug, Serialize)]
pub struct ContestLine {
    /// The tool's name.
    pub tool: &'static str,
    /// The tool's version, if known.
    pub version: Option<String>,
    /// The tool's settings, in words.
    pub settings: String,
    /// Seconds from start to end.
    pub wall: RunSpread,
    /// CPU seconds of the tool.
    pub cpu: RunSpread,
    /// Peak resident memory, in MiB.
    pub peak_mib: RunSpread,
    /// Requests that the server counted.
    pub requests: RunSpread,
    /// Connections that the server counted.
    pub connections: RunSpread,
    /// CPU seconds of the server.
    pub server_cpu: RunSpread,
    /// The checksums that the objects were stored with; empty if they had no checksum.
    pub checksums: Vec<String>,
    /// Requests of all runs that the server refused or did not answer, by the operation's name.
    pub refused: BTreeMap<String, u64>,
    /// All counted runs.
    pub runs: Vec<ContestRun>,
}

impl ContestLine {
    /// The results of a tool's runs; `None` if the tool has no runs, or no settings for this source.
    #[must_use]
    pub fn of(entrant: &Entrant, source: &TransferSource, best: bool) -> Option<Self> {
        let spread = |value: fn(&ContestRun) -> f64| RunSpread::of(entrant.runs.iter().map(value));
        Some(Self {
            tool: entrant.tool.name(),
            version: entrant.tool.version(&entrant.path),
            settings: settings(entrant, source, best)?,
            wall: spread(|run| run.usage.wall)?,
            cpu: spread(|run| run.usage.cpu())?,
            peak_mib: spread(|run| run.usage.peak_kib as f64 / 1024.0)?,
            requests: spread(|run| run.counts.total() as f64)?,
            connections: spread(|run| run.counts.connections as f64)?,
            server_cpu: spread(|run| run.server_cpu)?,
            checksums: checksums(&entrant.runs),
            refused: refused(&entrant.runs),
            runs: entrant.runs.clone(),
        })
    }
}

/// The tool's settings, in words.
fn settings(entrant: &Entrant, source: &TransferSource, best: bool) -> Option<String> {
    let defaults = entrant.tool.settings(source)?;
    if !best {
        let told = |tuning| format!("{tuning}, {defaults}");
        return Some(entrant.tuning.map_or_else(|| defaults.to_owned(), told));
    }
    let told = |tuning| entrant.tool.told(source, tuning).map(|told| format!("`{told}`"));
    let tried: Vec<_> = entrant.tool.tried(source).into_iter().filter_map(told).collect();
    if tried.is_empty() {
        return Some(format!("{defaults}; nothing else was tried"));
    }
    let found = entrant.tuning.and_then(told).unwrap_or_else(|| "the defaults".to_owned());
    let tried = tried.join(", ");
    Some(format!(
        "{defaults}; here {found}, the fastest of the defaults, {tried}: each once, and the best {AGAIN} again, unless \
         one run is enough"
    ))
}

/// Refused requests in all runs together, by operation.
fn refused(runs: &[ContestRun]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (name, count) in runs.iter().flat_map(|run| &run.counts.failed) {
        *all.entry(name.clone()).or_default() += count;
    }
    all
}

/// The checksums that objects were stored with in any run.
fn checksums(runs: &[ContestRun]) -> Vec<String> {
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.counts.checksums.keys()).collect();
    names.into_iter().filter(|name| *name != "none").cloned().collect()
}

/// A figure of one tool.
type Figure = fn(&ContestLine) -> RunSpread;

impl ContestReport {
    fn ours(&self) -> Option<&ContestLine> {
        self.tools.iter().find(|line| line.tool == Tool::Tidegate.name())
    }

    /// Adds the losses: where a peer is better by the median, for memory by the highest peak of all runs.
    #[must_use]
    pub fn judged(self) -> Self {
        Self { losses: self.found_losses(), ..self }
    }

    fn found_losses(&self) -> Vec<String> {
        let Some(ours) = self.ours() else { return Vec::new() };
        let most = |line: &ContestLine| RunSpread { median: line.peak_mib.max, ..line.peak_mib };
        let figures: [(&str, Figure); 3] =
            [("wall time", |line| line.wall), ("CPU time", |line| line.cpu), ("peak memory", most)];
        let mut losses = Vec::new();
        for (name, figure) in figures {
            for line in self.tools.iter().filter(|line| is_peer(line)) {
                let (mine, theirs) = (figure(ours), figure(line));
                let times = mine.times(&theirs);
                // A difference that two digits do not show is not a loss.
                if times >= 1.005 {
                    let doubt = if mine.min <= theirs.max {
                        ", though some runs were the other way round"
                    } else {
                        ""
                    };
                    let peer = line.tool;
                    losses.push((
                        times,
                        format!("tidegate loses to {peer} in {name}: {times:.2} times as much{doubt}"),
                    ));
                }
            }
        }
        losses.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        if losses.is_empty() && self.tools.iter().any(is_peer) {
            return vec!["tidegate loses to none of these in wall time, CPU time or peak memory".to_owned()];
        }
        losses.into_iter().map(|(_, text)| text).collect()
    }

    /// Whether a tool had fewer runs because they took too long.
    fn is_cut(&self, line: &ContestLine) -> bool {
        let has_failed = self.failed.iter().any(|(name, _)| *name == line.tool);
        line.runs.len() < self.runs as usize && !has_failed
    }

    fn is_upload(&self) -> bool {
        let mut runs = self.tools.iter().flat_map(|line| &line.runs);
        runs.any(|run| !run.counts.checksums.is_empty())
    }

    /// CPU time is per GiB for one large object, otherwise per run.
    fn cpu_unit(&self) -> (&'static str, f64) {
        if self.objects == 1 { ("CPU s/GiB", self.bytes as f64 / GIB as f64) } else { ("CPU s", 1.0) }
    }

    fn table(&self) -> MarkdownTable {
        let (cpu, by) = self.cpu_unit();
        let columns = [
            "tool",
            "wall s",
            "× wall",
            cpu,
            "× CPU",
            "peak RSS MiB",
            "requests",
            "connections",
            "server CPU s",
            "checksum stored",
        ];
        // Downloaded objects were stored before, so no checksum is reported.
        let columns = if self.is_upload() { &columns[..] } else { &columns[..columns.len() - 1] };
        let mut table = MarkdownTable::new(columns.iter().copied());
        for line in &self.tools {
            let ratio = |figure: Figure| {
                self.ours()
                    .map_or_else(String::new, |ours| format!("{:.2}", figure(line).times(&figure(ours))))
            };
            let mut row = vec![
                line.tool.to_owned(),
                shown(&line.wall, 2),
                ratio(|line| line.wall),
                shown(&line.cpu.per(by), 2),
                ratio(|line| line.cpu),
                format!("{:.0}", line.peak_mib.max),
                shown_count(&line.requests),
                shown_count(&line.connections),
                format!("{:.2}", line.server_cpu.median),
            ];
            if self.is_upload() {
                let none = || "–".to_owned();
                row.push(if line.checksums.is_empty() { none() } else { line.checksums.join(", ") });
            }
            table.row(row);
        }
        table
    }
}

impl fmt::Display for ContestReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}\n", self.title)?;
        for loss in &self.losses {
            writeln!(out, "- {loss}")?;
        }
        writeln!(out, "\n{}", self.table())?;
        writeln!(
            out,
            "Median (least–most) of {} runs, interleaved, after {}; ×: times tidegate's",
            self.runs,
            if self.best { "the trials, or one to warm up where there were none" } else { "one to warm up" }
        )?;
        writeln!(
            out,
            "median; peak RSS: the most of all runs; requests, connections, server CPU and checksums as the server has"
        )?;
        writeln!(out, "them (COMPOSITE: of the parts' checksums, not of the object's bytes; –: none).\n")?;
        for (name, why) in &self.failed {
            writeln!(out, "- {name}: FAILED: {why}")?;
        }
        for (name, how) in &self.missing {
            writeln!(out, "- {name}: MISSING, not installed (`{how}`)")?;
        }
        for (name, why) in &self.left_out {
            writeln!(out, "- {name}: left out: {why}")?;
        }
        for line in self.tools.iter().filter(|line| self.is_cut(line)) {
            let (tool, runs, enough) = (line.tool, line.runs.len(), self.enough);
            writeln!(
                out,
                "- {tool}: only {runs} of these runs, for its runs have taken {enough} s or more in all"
            )?;
        }
        for line in &self.tools {
            let version = line.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
            writeln!(out, "- {}{version}: {}", line.tool, line.settings)?;
        }
        for line in self.tools.iter().filter(|line| !line.refused.is_empty()) {
            let refused = line.refused.iter().map(|(name, count)| format!("{name} {count}"));
            let refused = refused.collect::<Vec<_>>().join(", ");
            writeln!(
                out,
                "- {}: requests of all runs that were answered with an error: {refused}",
                line.tool
            )?;
        }
        writeln!(out, "- {}", self.source)?;
        writeln!(out, "{}", self.conditions)?;
        if let Some(ours) = self.ours() {
            writeln!(out, "- noise: {}", noise(ours.runs.len(), ours.wall, ours.cpu))?;
        }
        let (wall, cpu) = (self.nothing.wall * 1e3, self.nothing.cpu() * 1e3);
        let peak = self.nothing.peak_kib as f64 * 1024.0 / MIB as f64;
        writeln!(out, "- `true`, measured like the tools: {wall:.1} ms, {cpu:.1} ms CPU, {peak:.1} MiB")
    }
}

/// The noise: how far our own runs are apart.
pub(crate) fn noise(runs: usize, wall: RunSpread, cpu: RunSpread) -> String {
    if runs < 2 {
        return "not known, for tidegate has no two runs".to_owned();
    }
    let (wall, cpu) = (wall.noise_percent(), cpu.noise_percent());
    format!("tidegate's own runs are {wall:.0}% apart in wall time, {cpu:.0}% in CPU time")
}

fn is_peer(line: &ContestLine) -> bool {
    line.tool != Tool::Tidegate.name() && line.tool != Tool::Floor.name()
}

fn shown(spread: &RunSpread, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$}–{:.digits$})", spread.median, spread.min, spread.max)
}

/// A count, or the range of the counts of all runs.
fn shown_count(spread: &RunSpread) -> String {
    if spread.min == spread.max {
        spread.median.to_string()
    } else {
        format!("{}–{}", spread.min, spread.max)
    }
}

#[cfg(test)]
mod tests;
