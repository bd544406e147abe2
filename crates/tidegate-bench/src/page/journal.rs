//! Shows table B, streams of unknown length: the speed of each object, by way and number of streams.

use serde::Deserialize;

use super::axis::Axis;
use super::plot::{Plot, PlotTable};
use super::read::{JsonConditions, JsonUsage, Number, Trial, command, noise, plain};
use super::rows::{Strip, quartiles, strips};
use super::section::PageSection;
use super::{Shown, most};
use crate::size::MIB;

/// The JSON of `b --json`.
#[derive(Debug, Deserialize)]
pub(super) struct JsonJournal {
    trial: Trial,
    #[serde(flatten)]
    conditions: JsonConditions,
    lines: Vec<JsonJournalLine>,
    missing: Vec<String>,
    failed: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct JsonJournalLine {
    way: String,
    streams: u64,
    scale: Number,
    /// The published mean, if there is one.
    published: Option<Number>,
    runs: Vec<JsonJournalRun>,
}

#[derive(Debug, Deserialize)]
struct JsonJournalRun {
    sizes: Vec<u64>,
    seconds: Vec<Number>,
    usage: JsonUsage,
    disk: Number,
}

impl JsonJournalLine {
    /// MiB a second of each object, converted to the published rates.
    fn speeds(&self) -> Vec<f64> {
        let objects = self.runs.iter().flat_map(|run| run.sizes.iter().zip(plain(&run.seconds)));
        objects.map(|(size, seconds)| *size as f64 / MIB as f64 / seconds * self.scale.0).collect()
    }
}

impl JsonJournal {
    fn number(&self, name: &str) -> Option<f64> {
        self.trial.get(name).and_then(serde_json::Value::as_f64)
    }

    /// The rate of a stream, if the store was limited to it.
    fn rate(&self) -> Option<f64> {
        let is_free = ["unshaped", "to"].iter().any(|name| {
            self.trial.get(*name).is_some_and(|value| value.is_string() || value.as_bool() == Some(true))
        });
        self.number("stream_mib").filter(|_| !is_free)
    }

    /// The ways with this number of streams, on an axis that all plots share.
    fn plot(&self, streams: u64, axis: &Axis) -> Plot {
        let lines = self.lines.iter().filter(|line| line.streams == streams);
        let mut rows = Vec::new();
        let mut table = PlotTable::new([
            "way",
            "least",
            "quarter",
            "median",
            "three quarters",
            "most",
            "objects",
            "mean",
            "published mean",
        ]);
        for line in lines {
            let values = line.speeds();
            let cells = quartiles(&values).map(|value| format!("{value:.1}"));
            let count = values.len();
            let mean = values.iter().sum::<f64>() / count as f64;
            let published = line.published.map(|mean| mean.0);
            let said = published.map_or_else(String::new, |mean| format!("{mean:.1}"));
            let means = [count.to_string(), format!("{mean:.1}"), said];
            table.row([line.way.clone()].into_iter().chain(cells).chain(means));
            let kind = if line.way.starts_with("journal") { "ours" } else { "peer" };
            rows.push(Strip { name: line.way.clone(), values, said: published, kind });
        }
        let objects = if streams == 1 { "stream" } else { "streams" };
        let reference = self.rate();
        let dashed =
            reference.map_or_else(String::new, |rate| format!("; dashed: {rate}, the rate of a stream"));
        Plot {
            title: format!("{streams} {objects}: MiB/s of each"),
            says: format!(
                "Rows of points, one a way, of how many MiB a second each of {streams} {objects} moved; boxes from the \
                 lower to the upper quartile where there are many. A hollow diamond is the mean that was published."
            ),
            drawing: strips(&rows, axis, &format!("MiB/s a stream{dashed}"), reference),
            table,
        }
    }

    fn costs(&self) -> PlotTable {
        let columns = ["way", "streams", "scale", "CPU s a run", "peak RSS MiB", "peak disk MiB"];
        let mut table = PlotTable::new(columns);
        for line in &self.lines {
            let cpu: f64 = line.runs.iter().map(|run| run.usage.cpu()).sum();
            table.row([
                line.way.clone(),
                line.streams.to_string(),
                line.scale.0.to_string(),
                format!("{:.2}", cpu / line.runs.len() as f64),
                format!("{:.0}", most(line.runs.iter().map(|run| run.usage.peak_mib()))),
                format!("{:.0}", most(line.runs.iter().map(|run| run.disk.0 / MIB as f64))),
            ]);
        }
        table
    }
}

impl Shown for JsonJournal {
    fn section(&self, _: &str) -> PageSection {
        let speeds = self.lines.iter().flat_map(|line| line.speeds());
        let published = self.lines.iter().filter_map(|line| line.published.map(|mean| mean.0));
        let axis = Axis::from_zero(speeds.chain(published).chain(self.rate()));
        let mut streams: Vec<u64> = self.lines.iter().map(|line| line.streams).collect();
        streams.sort_unstable();
        streams.dedup();
        let missing = self.missing.iter().map(|way| format!("{way}: missing, not built."));
        let failed = self.failed.iter().map(|run| format!("Failed: {run}."));
        let runs = self.lines.iter().map(|line| line.speeds());
        let memory = "Memory is with the bytes that the producer gave away and the writer keeps.".to_owned();
        let depends = [memory, self.conditions.to_string(), noise(runs)];
        PageSection {
            title: "Table B: streams of unknown length".to_owned(),
            what: "How fast each object was, from its first byte to its publication, at the published rates: times \
                   the scale, where rates were divided by it. All plots have one axis; a hollow diamond is the \
                   mean that was published."
                .to_owned(),
            command: Some(command("b", &self.trial)),
            plots: streams.iter().map(|streams| self.plot(*streams, &axis)).collect(),
            more: Some(("What it cost".to_owned(), self.costs())),
            depends: missing.chain(failed).chain(depends).collect(),
            ..PageSection::default()
        }
    }
}
