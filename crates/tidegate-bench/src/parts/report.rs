//! Reports a trial as a table, with the claims that do not hold.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::{PartsExtent, PartsTrial, PartsWay, Published, PublishedRow};
use crate::machine::Conditions;
use crate::size;
use crate::stats::RunSpread;
use crate::table::MarkdownTable;

/// Explains the new engine, and why the table claims nothing about it.
const NEW_ENGINE: &str = "Auto, new engine: each upload by an engine that is made for it, as for one command, \
     and knows nothing of the store; its making and its connection count. It is shown and not checked: what a request takes \
     can't be known before one was made.";

/// The results of one way in one row.
#[derive(Clone, Debug, Serialize)]
pub struct PartsRuns {
    /// The way.
    pub way: PartsWay,
    /// Seconds from the writing of the first byte (for a new engine: from its creation) to the object's
    /// publication.
    pub seconds: Vec<f64>,
}

/// The results of one row.
#[derive(Clone, Debug, Serialize)]
pub struct PartsLine {
    /// The published row.
    #[serde(flatten)]
    pub row: PublishedRow,
    /// The measured ways, the reference way first.
    pub done: Vec<PartsRuns>,
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct PartsReport {
    /// The options of the trial.
    pub trial: PartsTrial,
    /// The knobs of the store.
    pub shape: Value,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The results by row.
    pub lines: Vec<PartsLine>,
}

impl PartsLine {
    fn spread(&self, way: PartsWay) -> Option<RunSpread> {
        self.done
            .iter()
            .find(|done| done.way == way)
            .and_then(|done| RunSpread::of(done.seconds.iter().copied()))
    }

    /// The speed of a way in percent of the first way.
    #[must_use]
    pub fn gain(&self, way: PartsWay) -> Option<f64> {
        let first = self.spread(self.done.first()?.way)?;
        Some(first.times(&self.spread(way)?) * 100.0)
    }
}

impl PartsReport {
    /// Reports claims that are broken by more than noise: parallel parts should not be slower than part by part,
    /// and no way should be faster than the library's choice once the library knows the store.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for line in &self.lines {
            let at_most = [(PartsWay::AtOnce, PartsWay::OneByOne)].into_iter();
            let others = self.trial.table.ways().iter().filter(|way| !way.is_chosen());
            for (way, other) in at_most.chain(others.map(|way| (PartsWay::Auto, *way))) {
                if let (Some(ours), Some(theirs)) = (line.spread(way), line.spread(other))
                    && ours.is_above(&theirs)
                {
                    let (size, times) = (size::format(line.row.size), ours.times(&theirs));
                    broken.push(format!(
                        "{size}: {} takes {times:.2} times as long as {}",
                        way.name(),
                        other.name()
                    ));
                }
            }
        }
        broken
    }

    /// The name of the reference way.
    fn first(&self) -> &'static str {
        self.trial.table.ways().first().map_or("", |way| way.name())
    }

    /// Each published figure stands beside the measured figure.
    fn table(&self) -> MarkdownTable {
        let (which, first) = (self.trial.table, self.first());
        let ways = which.ways();
        let mut columns = vec!["object".to_owned()];
        if which == Published::Async {
            columns.push(format!("{first}, published: ms"));
        }
        for way in ways {
            columns.extend([format!("{}: ms", way.name()), which.rate().to_owned()]);
        }
        for way in ways.iter().skip(1) {
            if *way == PartsWay::AtOnce {
                columns.push(format!("{}, published %", way.name()));
            }
            columns.push(format!("{} %", way.name()));
        }
        let mut table = MarkdownTable::new(columns.iter().map(String::as_str));
        for line in &self.lines {
            table.row(self.cells(line));
        }
        table
    }

    fn cells(&self, line: &PartsLine) -> Vec<String> {
        let which = self.trial.table;
        let PublishedRow { size, part, streams, published } = line.row;
        let streams = streams.map_or_else(String::new, |streams| format!(" × {streams}"));
        let mut cells = vec![format!("{} ({}{streams})", size::format(size), size::format(part))];
        if which == Published::Async {
            cells.push(which.first_ms(size).map_or_else(String::new, |ms| ms.to_string()));
        }
        for way in which.ways() {
            let cell = line.spread(*way).map(|RunSpread { median, min, max }| {
                let ms = |seconds: f64| seconds * 1000.0;
                let rate = match which {
                    Published::Async => format!("{:.3}", 1.0 / median),
                    Published::Threaded => format!("{:.2}", size as f64 / 1e6 / median),
                };
                [format!("{:.1} ({:.1}–{:.1})", ms(median), ms(min), ms(max)), rate]
            });
            cells.extend(cell.unwrap_or_default());
        }
        for way in which.ways().iter().skip(1) {
            if *way == PartsWay::AtOnce {
                cells.push(published.to_string());
            }
            cells.push(line.gain(*way).map_or_else(String::new, |gain| format!("{gain:.0}")));
        }
        cells
    }
}

impl fmt::Display for PartsReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, first) = (self.trial.table, self.first());
        let PartsExtent { to, unshaped, runs, .. } = &self.trial.extent;
        let store = match (to, unshaped) {
            (Some(url), _) => url.clone(),
            (None, true) => "the embedded server, unshaped".to_owned(),
            (None, false) => format!("the embedded server, behaving as {}", self.shape),
        };
        writeln!(out, "Uploads to {store}\n")?;
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "Median (least–most) of {runs} runs of each, in turn, after one to warm up; %: of the speed of {first}. Object: its\n\
             size, which all are told, and that of a part (× parts at once), which auto finds out. One engine has made all uploads but those of\n\
             the last way, and knew the store from the row before.\n\n{NEW_ENGINE}\n"
        )?;
        if self.trial.extent.is_shaped() {
            writeln!(out, "{}\n", table.model())?;
        }
        writeln!(
            out,
            "Checked is that parts at once do not take longer than part by part, and auto not longer than any other way, by\n\
             more than noise: by more than 15%, and than the runs of either are apart (most − least, of their median).\n"
        )?;
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}
