//! Shows tables A and C, objects in parts: the time by size, and the gain of parallel parts beside the
//! published gain.

use serde::Deserialize;
use serde_json::Value;

use super::axis::{Axis, short};
use super::lines::{Lines, Series};
use super::plot::{LOOKS, Plot, PlotTable};
use super::read::{JsonConditions, Number, Trial, command, noise, plain};
use super::section::PageSection;
use super::{Shown, shown};
use crate::parts::{NEW_ENGINE, PartsWay, Published};
use crate::size;
use crate::stats::RunSpread;

/// The JSON of `a --json` and `c --json`.
#[derive(Debug, Deserialize)]
pub(super) struct JsonParts {
    trial: Trial,
    shape: Value,
    #[serde(flatten)]
    conditions: JsonConditions,
    lines: Vec<JsonPartsLine>,
}

#[derive(Debug, Deserialize)]
struct JsonPartsLine {
    size: u64,
    part: u64,
    streams: Option<u64>,
    published: Number,
    done: Vec<JsonPartsRuns>,
}

#[derive(Debug, Deserialize)]
struct JsonPartsRuns {
    way: PartsWay,
    seconds: Vec<Number>,
}

impl JsonPartsRuns {
    fn spread(&self) -> Option<RunSpread> {
        RunSpread::of(plain(&self.seconds))
    }
}

impl JsonPartsLine {
    fn name(&self) -> String {
        let streams = self.streams.map_or_else(String::new, |streams| format!(" ×{streams}"));
        format!("{}{streams}", size::format(self.size))
    }

    /// The speed of a way in percent of the first way.
    fn gain(&self, done: &JsonPartsRuns) -> Option<f64> {
        Some(self.done.first()?.spread()?.times(&done.spread()?) * 100.0)
    }
}

impl JsonParts {
    /// The table, if the file names it.
    fn table(&self) -> Option<Published> {
        self.trial.get("table").and_then(|table| Published::deserialize(table).ok())
    }

    /// All ways, in the order of the first line.
    fn ways(&self) -> Vec<PartsWay> {
        let first = self.lines.first().map_or(&[][..], |line| &line.done);
        first.iter().map(|done| done.way).collect()
    }

    /// The published time of the first way in seconds, if known.
    fn published(&self, line: &JsonPartsLine) -> Option<f64> {
        Some(self.table()?.first_ms(line.size)? / 1000.0)
    }

    /// An axis of sizes if the sizes increase from row to row, otherwise one place for each row.
    fn axis(&self) -> (Axis, Vec<f64>) {
        let is_larger = |pair: &[JsonPartsLine]| pair[0].size < pair[1].size;
        let sizes: Vec<f64> = self.lines.iter().map(|line| line.size as f64).collect();
        let names = self.lines.iter().map(JsonPartsLine::name);
        if self.lines.windows(2).all(is_larger) {
            (Axis::named(sizes.iter().copied().zip(names).collect()), sizes)
        } else {
            (Axis::places(names.collect()), (0..self.lines.len()).map(|place| place as f64).collect())
        }
    }

    /// One value of a way for each row.
    fn series(
        &self,
        way: PartsWay,
        xs: &[f64],
        value: impl Fn(&JsonPartsLine, &JsonPartsRuns) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let of = |(line, x): (&JsonPartsLine, &f64)| {
            let done = line.done.iter().find(|done| done.way == way)?;
            Some((*x, value(line, done)?))
        };
        self.lines.iter().zip(xs).filter_map(of).collect()
    }

    fn x_name(&self) -> &'static str {
        if self.lines.iter().any(|line| line.streams.is_some()) {
            "size of the object, × parts at once"
        } else {
            "size of the object"
        }
    }

    fn times(&self) -> Plot {
        let (x, xs) = self.axis();
        let ways = self.ways();
        let series: Vec<_> = ways
            .iter()
            .enumerate()
            .map(|(look, way)| {
                let points = self.series(*way, &xs, |_, done| done.spread().map(|spread| spread.median));
                Series { name: way.name().to_owned(), look: look % LOOKS, is_measured: true, points }
            })
            .collect();
        let y = Axis::logarithmic(series.iter().flat_map(|series| series.points.iter().map(|point| point.1)));
        let mut head = vec!["object".to_owned(), "part".to_owned()];
        let is_known = self.lines.iter().any(|line| self.published(line).is_some());
        head.extend(ways.first().filter(|_| is_known).map(|first| format!("{}, published: s", first.name())));
        head.extend(ways.iter().map(|way| format!("{}: s", way.name())));
        let mut table = PlotTable::new(head);
        for line in &self.lines {
            let published = self.published(line).map_or_else(String::new, |seconds| format!("{seconds:.3}"));
            let spreads =
                line.done.iter().map(|done| done.spread().map_or_else(String::new, |it| shown(&it, 3)));
            let cells = [line.name(), size::format(line.part)].into_iter();
            table.row(cells.chain(is_known.then_some(published)).chain(spreads));
        }
        let says = format!(
            "Lines of the seconds that an object took, by its size, for each way: {}. Both axes are logarithmic.",
            ways.iter().map(|way| way.name()).collect::<Vec<_>>().join(", ")
        );
        let drawing = Lines { x_name: self.x_name(), y_name: "seconds, median", x, y, series }.draw();
        Plot { title: "Time by size".to_owned(), says, drawing, table }
    }

    fn gains(&self) -> Plot {
        let (x, xs) = self.axis();
        let ways = self.ways();
        let first = ways.first().map_or("", |way| way.name());
        let published = self.lines.iter().zip(&xs).map(|(line, x)| (*x, line.published.0)).collect();
        let mut series = vec![Series {
            name: "published: parts at once".to_owned(),
            look: LOOKS - 1,
            is_measured: false,
            points: published,
        }];
        // The first way is 100% of itself everywhere.
        let measured = ways.iter().enumerate().skip(1).map(|(look, way)| Series {
            name: way.name().to_owned(),
            look: look % LOOKS,
            is_measured: true,
            points: self.series(*way, &xs, JsonPartsLine::gain),
        });
        series.extend(measured);
        let y = Axis::from_zero(series.iter().flat_map(|series| series.points.iter().map(|point| point.1)));
        let mut head = vec!["object".to_owned(), "published %".to_owned()];
        head.extend(ways.iter().skip(1).map(|way| format!("{} %", way.name())));
        let mut table = PlotTable::new(head);
        for line in &self.lines {
            let gains = line.done.iter().skip(1);
            let gains =
                gains.map(|done| line.gain(done).map_or_else(String::new, |gain| format!("{gain:.0}")));
            table.row([line.name(), short(line.published.0)].into_iter().chain(gains));
        }
        let says = format!(
            "Lines of how fast each way is in percent of {first}, by the size of the object, beside the published gain."
        );
        let y_name = format!("percent of the speed of {first}");
        let drawing = Lines { x_name: self.x_name(), y_name: &y_name, x, y, series }.draw();
        Plot { title: "Gain, measured and published".to_owned(), says, drawing, table }
    }
}

/// The numbers of a store, each after its field names.
fn in_words(shape: &Value) -> String {
    match shape {
        Value::Object(fields) => {
            let words = fields.iter().map(|(name, value)| format!("{name} {}", in_words(value)));
            words.collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

impl Shown for JsonParts {
    fn section(&self, _: &str) -> PageSection {
        let (letter, title) = match self.table() {
            Some(Published::Threaded) => ("c", "Table C: whole objects, parts by several threads"),
            _ => ("a", "Table A: parts uploaded while the next is written"),
        };
        let store = match self.trial.get("to").and_then(Value::as_str) {
            Some(url) => url.to_owned(),
            None if self.trial.get("unshaped") == Some(&Value::Bool(true)) => {
                "the embedded server, unshaped".to_owned()
            }
            None => "the embedded server, which was made to behave as the published figures imply".to_owned(),
        };
        let shape = in_words(&self.shape);
        let shape = Some(format!("Store: {shape}.")).filter(|_| !shape.is_empty());
        let new_engine = self.ways().contains(&PartsWay::Cold).then(|| NEW_ENGINE.to_owned());
        let mut options = self.trial.clone();
        options.remove("table");
        let runs = self.lines.iter().flat_map(|line| line.done.iter().map(|done| plain(&done.seconds)));
        PageSection {
            title: title.to_owned(),
            what: format!("Uploads to {store}. Median of all runs of each way, in turn."),
            command: Some(command(letter, &options)),
            plots: vec![self.times(), self.gains()],
            depends: shape
                .into_iter()
                .chain(new_engine)
                .chain([self.conditions.to_string(), noise(runs)])
                .collect(),
            ..PageSection::default()
        }
    }
}
