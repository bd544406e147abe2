//! Shows memory over time.

use serde::Deserialize;

use super::Shown;
use super::axis::{Axis, short};
use super::lines::{Lines, Series};
use super::plot::{LOOKS, Plot, PlotTable};
use super::read::{JsonConditions, Number};
use super::section::PageSection;

/// Series of memory in use at each second.
#[derive(Debug, Deserialize)]
pub(super) struct JsonMemory {
    title: String,
    unit: String,
    series: Vec<Measured>,
    command: Option<String>,
    #[serde(flatten)]
    conditions: Option<JsonConditions>,
}

#[derive(Debug, Deserialize)]
struct Measured {
    name: String,
    points: Vec<(Number, Number)>,
}

/// More slices would not be visible, and would make the page large.
const SLICES: usize = 200;

/// The lowest and the highest point of each slice of time, in their order.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * SLICES {
        return points.to_vec();
    }
    let mut kept = Vec::new();
    for slice in points.chunks(points.len().div_ceil(SLICES)) {
        let order = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let mut ends: Vec<_> =
            slice.iter().min_by(order).into_iter().chain(slice.iter().max_by(order)).collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        kept.extend(ends);
    }
    kept
}

impl JsonMemory {
    fn plot(&self) -> Plot {
        let unit = &self.unit;
        let mut table = PlotTable::new(["of", "points", "seconds", "least", "median", "most"]);
        let mut series = Vec::new();
        for (look, Measured { name, points }) in self.series.iter().enumerate() {
            let points: Vec<_> = points.iter().map(|(second, value)| (second.0, value.0)).collect();
            let values = points.iter().map(|point| point.1).filter(|value| value.is_finite());
            let [least, median, most] = crate::stats::RunSpread::of(values)
                .map_or_else(Default::default, |it| [it.min, it.median, it.max].map(short));
            let seconds = points.last().map_or_else(String::new, |point| short(point.0));
            table.row([name.clone(), points.len().to_string(), seconds, least, median, most]);
            let (name, look) = (name.clone(), look % LOOKS);
            series.push(Series { name, look, is_measured: true, points: thinned(&points) });
        }
        let all = || series.iter().flat_map(|series| &series.points);
        let x = Axis::from_zero(all().map(|point| point.0));
        let y = Axis::from_zero(all().map(|point| point.1));
        Plot {
            title: self.title.clone(),
            says: format!("Lines of {unit} in use, by the seconds since the beginning."),
            drawing: Lines { x_name: "seconds", y_name: unit, x, y, series }.draw(),
            table,
        }
    }
}

impl Shown for JsonMemory {
    fn section(&self, _: &str) -> PageSection {
        let unsaid = "The file does not say on what machine it was measured.".to_owned();
        PageSection {
            title: "Memory over time".to_owned(),
            what: "What was in use while it ran. Of many points, the least and the most of each slice of time are drawn."
                .to_owned(),
            command: self.command.clone(),
            plots: vec![self.plot()],
            depends: vec![self.conditions.as_ref().map_or(unsaid, JsonConditions::to_string)],
            ..PageSection::default()
        }
    }
}
