//! Shows time and memory by the size of objects, and by the number of open writers.

use serde::Deserialize;

use super::axis::{Axis, short};
use super::lines::{Lines, Series};
use super::plot::{LOOKS, Plot, PlotTable};
use super::read::{JsonConditions, JsonRun, JsonUsage, Number, Trial, command, noise};
use super::section::PageSection;
use super::{Shown, shown};
use crate::size::{self, GIB, MIB};
use crate::stats::RunSpread;

#[cfg(test)]
pub(super) mod tests;

/// The JSON of `growth --json`.
#[derive(Debug, Deserialize)]
pub(super) struct JsonGrowth {
    trial: Trial,
    #[serde(flatten)]
    conditions: JsonConditions,
    moved: Vec<JsonTransferRuns>,
    written: Vec<JsonWriterRuns>,
    fits: Vec<JsonFigureFit>,
}

#[derive(Debug, Deserialize)]
struct JsonTransferRuns {
    direction: String,
    size: u64,
    runs: Vec<JsonRun>,
}

#[derive(Debug, Deserialize)]
struct JsonWriterRuns {
    way: String,
    writers: u64,
    starved: Option<String>,
    runs: Vec<JsonRun>,
}

#[derive(Debug, Deserialize)]
struct JsonFigureFit {
    of: String,
    figure: String,
    per: String,
    fit: JsonLineFit,
}

#[derive(Debug, Deserialize)]
struct JsonLineFit {
    slope: Number,
    intercept: Number,
    farthest_percent: Number,
}

/// A point of a line: the line's name, the value along the axis and its label, and the runs.
struct GrowthRow<'a> {
    name: &'a str,
    x: f64,
    x_said: String,
    runs: &'a [JsonRun],
}

/// A figure to draw.
struct Figure {
    title: &'static str,
    name: &'static str,
    of: fn(&JsonUsage) -> f64,
    digits: usize,
}

const WALL: Figure = Figure { title: "Time by size", name: "seconds", of: |usage| usage.wall.0, digits: 2 };
const PEAK: Figure = Figure { title: "Memory by size", name: "peak MiB", of: JsonUsage::peak_mib, digits: 0 };
const OF_WRITERS: Figure = Figure { title: "Memory by writers", ..PEAK };

/// Lines of one figure, with a dashed line at the budget if there is one.
fn plot(rows: &[GrowthRow<'_>], x_name: &str, x: Axis, figure: &Figure, budget: Option<f64>) -> Plot {
    let mut table = PlotTable::new(["of", x_name, figure.name]);
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let Some(spread) = RunSpread::of(row.runs.iter().map(|run| (figure.of)(&run.usage))) else {
            continue;
        };
        table.row([row.name.to_owned(), row.x_said.clone(), shown(&spread, figure.digits)]);
        let place = series.iter().position(|series| series.name == row.name).unwrap_or_else(|| {
            let (name, look) = (row.name.to_owned(), series.len() % (LOOKS - 1));
            series.push(Series { name, look, is_measured: true, points: Vec::new() });
            series.len() - 1
        });
        series[place].points.push((row.x, spread.median));
    }
    let places = || rows.iter().map(|row| row.x).filter(|x| x.is_finite());
    if let (Some(budget), Some(from), Some(to)) =
        (budget, places().reduce(f64::min), places().reduce(f64::max))
    {
        let points = vec![(from, budget), (to, budget)];
        series.push(Series { name: "budget".to_owned(), look: LOOKS - 1, is_measured: false, points });
    }
    let y = Axis::from_zero(series.iter().flat_map(|series| &series.points).map(|point| point.1));
    Plot {
        title: figure.title.to_owned(),
        says: format!("Lines of {}, by {x_name}.", figure.name),
        drawing: Lines { x_name, y_name: figure.name, x, y, series }.draw(),
        table,
    }
}

impl JsonGrowth {
    fn sizes(&self) -> Vec<GrowthRow<'_>> {
        let row = |moved: &'_ JsonTransferRuns| (moved.size as f64 / GIB as f64, size::format(moved.size));
        let of = |moved| {
            let (x, x_said) = row(moved);
            GrowthRow { name: &moved.direction, x, x_said, runs: &moved.runs }
        };
        self.moved.iter().map(of).collect()
    }

    fn writers(&self) -> Vec<GrowthRow<'_>> {
        let of = |written: &'_ JsonWriterRuns| (written.writers as f64, written.writers.to_string());
        // Starved writers did not write as many bytes as the others.
        let rows = self.written.iter().filter(|written| written.starved.is_none());
        rows.map(|written| {
            let (x, x_said) = of(written);
            GrowthRow { name: name(&written.way), x, x_said, runs: &written.runs }
        })
        .collect()
    }

    fn fits(&self) -> PlotTable {
        let mut table = PlotTable::new(["line", "figure", "slope", "by", "at 0", "farthest from it"]);
        for JsonFigureFit { of, figure, per, fit } in &self.fits {
            table.row([
                of.clone(),
                figure.clone(),
                short(fit.slope.0),
                per.clone(),
                short(fit.intercept.0),
                format!("{:.1}%", fit.farthest_percent.0),
            ]);
        }
        table
    }
}

/// The name that the command prints.
fn name(way: &str) -> &str {
    match way {
        "tasks" => "a task each",
        "turns" => "one task",
        "spooled-turns" => "one task, a spool",
        other => other,
    }
}

impl Shown for JsonGrowth {
    fn section(&self, _: &str) -> PageSection {
        let budget = self.trial.get("memory").and_then(serde_json::Value::as_f64);
        let budget = budget.map(|bytes| bytes / MIB as f64);
        let (sizes, writers) = (self.sizes(), self.writers());
        let gib = || Axis::from_zero(sizes.iter().map(|row| row.x));
        let counts = Axis::logarithmic(writers.iter().map(|row| row.x));
        let mut plots = Vec::new();
        if !sizes.is_empty() {
            plots.push(plot(&sizes, "GiB", gib(), &WALL, None));
            plots.push(plot(&sizes, "GiB", gib(), &PEAK, budget));
        }
        if !writers.is_empty() {
            plots.push(plot(&writers, "writers", counts, &OF_WRITERS, budget));
        }
        let stopped = self.written.iter().filter_map(|written| {
            let starved = written.starved.as_ref()?;
            Some(format!("{} writers, {}: {starved}", written.writers, name(&written.way)))
        });
        let runs = self.moved.iter().map(|moved| moved.runs.iter().map(|run| run.usage.wall.0).collect());
        let depends = [self.conditions.to_string(), noise(runs)];
        PageSection {
            title: "Time and memory by size".to_owned(),
            what: "Objects through a pipe into the store and out of it again, and writers that are all open at once on one \
                   engine. Dashed: the memory budget, which a process's code and connections come on top of. The axis of \
                   writers is logarithmic."
                .to_owned(),
            command: Some(command("growth", &self.trial)),
            plots,
            more: Some(("Straight lines by least squares".to_owned(), self.fits())),
            depends: stopped.chain(depends).collect(),
            ..PageSection::default()
        }
    }
}
