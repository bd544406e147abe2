//! Shows sorted tables: the memory of merging them, and the time to build them.

use serde::Deserialize;

use super::axis::Axis;
use super::lines::{Lines, Series};
use super::plot::{LOOKS, Plot, PlotTable};
use super::read::{JsonConditions, JsonRun, Trial, command, noise};
use super::section::PageSection;
use super::{Shown, most, shown};
use crate::size;
use crate::stats::RunSpread;

/// The JSON of `compaction --json`.
#[derive(Debug, Deserialize)]
pub(super) struct Compaction {
    trial: Trial,
    #[serde(flatten)]
    conditions: JsonConditions,
    lines: Vec<JsonMerge>,
}

#[derive(Debug, Deserialize)]
struct JsonMerge {
    way: String,
    inputs: u64,
    runs: Vec<JsonRun>,
}

/// The JSON of `tables --json`.
#[derive(Debug, Deserialize)]
pub(super) struct Tables {
    trial: Trial,
    #[serde(flatten)]
    conditions: JsonConditions,
    lines: Vec<JsonBuild>,
}

#[derive(Debug, Deserialize)]
struct JsonBuild {
    way: String,
    table_size: u64,
    runs: Vec<JsonRun>,
}

/// One way at one value.
struct Point<'a> {
    way: &'a str,
    x: u64,
    y: f64,
}

fn walls(runs: &[JsonRun]) -> Vec<f64> {
    runs.iter().map(|run| run.usage.wall.0).collect()
}

fn peak(runs: &[JsonRun]) -> f64 {
    most(runs.iter().map(|run| run.usage.peak_mib()))
}

/// A line for each way; the horizontal axis has just the existing values, labelled by `name`.
fn lines<'a>(
    points: &[Point<'_>],
    x_name: &'a str,
    y_name: &'a str,
    name: impl Fn(u64) -> String,
) -> Lines<'a> {
    let mut xs: Vec<u64> = points.iter().map(|point| point.x).collect();
    xs.sort_unstable();
    xs.dedup();
    let mut series: Vec<Series> = Vec::new();
    for point in points {
        let at = (point.x as f64, point.y);
        match series.iter_mut().find(|series| series.name == point.way) {
            Some(series) => series.points.push(at),
            None => {
                let look = series.len() % LOOKS;
                let name = point.way.to_owned();
                series.push(Series { name, look, is_measured: true, points: vec![at] });
            }
        }
    }
    let x = Axis::named(xs.into_iter().map(|x| (x as f64, name(x))).collect());
    Lines { x_name, y_name, x, y: Axis::from_zero(points.iter().map(|point| point.y)), series }
}

impl Shown for Compaction {
    fn section(&self, _: &str) -> PageSection {
        let mut table = PlotTable::new(["way", "inputs", "peak MiB", "wall s"]);
        for JsonMerge { way, inputs, runs } in &self.lines {
            let wall = RunSpread::of(walls(runs)).map_or_else(String::new, |wall| shown(&wall, 2));
            table.row([way.clone(), inputs.to_string(), format!("{:.0}", peak(runs)), wall]);
        }
        let points: Vec<_> = self
            .lines
            .iter()
            .map(|JsonMerge { way, inputs, runs }| Point { way, x: *inputs, y: peak(runs) })
            .collect();
        let plot = Plot {
            title: "Peak memory by number of inputs".to_owned(),
            says: "Lines of the most MiB that were resident, by how many tables were merged, for each way."
                .to_owned(),
            drawing: lines(&points, "tables merged", "MiB resident, the most of all runs", |inputs| {
                inputs.to_string()
            })
            .draw(),
            table,
        };
        PageSection {
            title: "Table D: sorted tables merged".to_owned(),
            what: "Inputs read and outputs written as streams, or whole in memory; one process each."
                .to_owned(),
            command: Some(command("compaction", &self.trial)),
            plots: vec![plot],
            depends: vec![
                self.conditions.to_string(),
                noise(self.lines.iter().map(|line| walls(&line.runs))),
            ],
            ..PageSection::default()
        }
    }
}

impl Shown for Tables {
    fn section(&self, _: &str) -> PageSection {
        let mut table = PlotTable::new(["way", "table", "wall s", "peak MiB"]);
        let mut points = Vec::new();
        for JsonBuild { way, table_size, runs } in &self.lines {
            let Some(wall) = RunSpread::of(walls(runs)) else { continue };
            points.push(Point { way, x: *table_size, y: wall.median });
            let peak = format!("{:.0}", peak(runs));
            table.row([way.clone(), size::format(*table_size), shown(&wall, 2), peak]);
        }
        let plot = Plot {
            title: "Wall time by size of a table".to_owned(),
            says: "Lines of the seconds until all tables were stored, by the size of one, for each way."
                .to_owned(),
            drawing: lines(&points, "size of a table", "seconds, median", size::format).draw(),
            table,
        };
        PageSection {
            title: "Table D: sorted tables built".to_owned(),
            what: "Streamed: each part is uploaded while the next is made. Beside: a table is made whole in memory, \
                   and uploaded while the next is made. Whole: one after the other."
                .to_owned(),
            command: Some(command("tables", &self.trial)),
            plots: vec![plot],
            depends: vec![
                self.conditions.to_string(),
                noise(self.lines.iter().map(|line| walls(&line.runs))),
            ],
            ..PageSection::default()
        }
    }
}
