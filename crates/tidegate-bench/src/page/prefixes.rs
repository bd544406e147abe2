//! Shows requests a second by the number of prefixes, beside the store's limit.

use serde::Deserialize;

use super::Shown;
use super::axis::Axis;
use super::lines::{Lines, Series};
use super::plot::{LOOKS, Plot, PlotTable};
use super::read::{JsonConditions, Number, Trial, command};
use super::section::PageSection;

/// The JSON of `prefixes --json`.
#[derive(Debug, Deserialize)]
pub(super) struct JsonPrefixes {
    trial: Trial,
    #[serde(flatten)]
    conditions: JsonConditions,
    lines: Vec<JsonPrefixesLine>,
}

#[derive(Debug, Deserialize)]
struct JsonPrefixesLine {
    prefixes: Option<u64>,
    kind: String,
    /// `null` for a store without known limits.
    limit: Number,
    pace: JsonPace,
}

#[derive(Debug, Deserialize)]
struct JsonPace {
    per_second: Number,
    refused: u64,
}

impl JsonPrefixesLine {
    fn name(&self) -> String {
        self.prefixes.map_or_else(|| "not spread".to_owned(), |count| count.to_string())
    }
}

fn plot(kind: &str, lines: &[&JsonPrefixesLine]) -> Plot {
    let mut table = PlotTable::new(["prefixes", "limit a second", "done a second", "of the limit", "503s"]);
    for line in lines {
        let (limit, done) = (line.limit.0, line.pace.per_second.0);
        let limited = |shown: String| if limit.is_nan() { "–".to_owned() } else { shown };
        table.row([
            line.name(),
            limited(format!("{limit:.1}")),
            format!("{done:.1}"),
            limited(format!("{:.0}%", done / limit * 100.0)),
            line.pace.refused.to_string(),
        ]);
    }
    let points = |value: fn(&JsonPrefixesLine) -> Option<f64>| -> Vec<(f64, f64)> {
        let of = |(place, line): (usize, &&JsonPrefixesLine)| Some((place as f64, value(line)?));
        lines.iter().enumerate().filter_map(of).collect()
    };
    let limit = points(|line| Some(line.limit.0).filter(|limit| !limit.is_nan()));
    let spread = points(|line| line.prefixes.map(|_| line.pace.per_second.0));
    let not_spread = points(|line| line.prefixes.is_none().then_some(line.pace.per_second.0));
    let y = Axis::logarithmic(limit.iter().chain(&spread).chain(&not_spread).map(|point| point.1));
    let series =
        |name: &str, look, is_measured, points| Series { name: name.to_owned(), look, is_measured, points };
    let all = [
        series("limit of the store", LOOKS - 1, false, limit),
        series("done, spread", 0, true, spread),
        series("done, not spread", 1, true, not_spread),
    ];
    let (x_name, y_name) = ("prefixes", format!("{kind} a second"));
    let x = Axis::places(lines.iter().map(|line| line.name()).collect());
    let series = all.into_iter().filter(|series| !series.points.is_empty()).collect();
    Plot {
        title: format!("Requests a second: {kind}"),
        says: format!(
            "Lines of how many {kind} a second were done, and of how many the store takes where it is made to limit them, by \
             the number of prefixes. The upright axis is logarithmic."
        ),
        drawing: Lines { x_name, y_name: &y_name, x, y, series }.draw(),
        table,
    }
}

impl Shown for JsonPrefixes {
    fn section(&self, _: &str) -> PageSection {
        let mut kinds: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !kinds.contains(&line.kind.as_str()) {
                kinds.push(&line.kind);
            }
        }
        let of = |kind: &str| self.lines.iter().filter(|line| line.kind == kind).collect::<Vec<_>>();
        PageSection {
            title: "Table D: keys spread over prefixes".to_owned(),
            what: "Requests a second, by how many prefixes the keys are spread over. Not spread: all below one prefix."
                .to_owned(),
            command: Some(command("prefixes", &self.trial)),
            plots: kinds.iter().map(|kind| plot(kind, &of(kind))).collect(),
            depends: vec![
                self.conditions.to_string(),
                "Noise: not known, each is measured once, for some seconds.".to_owned(),
            ],
            ..PageSection::default()
        }
    }
}
