//! What it brings to send the parts of an object at once: two published tables, A and C, re-run against a store that is
//! made to behave as each implies.
//!
//! [`Published::Async`]: an output stream that uploads a part while the next is written, beside one that waits for each
//! (parts of 10 MiB). [`Published::Threaded`]: whole objects, parts one after another, and parts by several threads.
//! Where the figures of the store come from is said beside them, and a test shows that they give back what was
//! published of the first way of the first table.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use clap::{Args, value_parser};
use serde::Serialize;
use serde_json::{Value, json};
use tidegate::{Store, Strategy, Tidegate};

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::producer;
use crate::size::{self, MIB};
use crate::stats::Spread;
use crate::table::Table;

mod published;
#[cfg(test)]
mod tests;

pub use published::{Published, Row};

/// What is uploaded, and to what kind of store.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Which table.
    pub table: Published,
    /// How much of it, and where.
    #[serde(flatten)]
    pub extent: Extent,
}

/// How much of a table, and where.
#[derive(Clone, Debug, Default, Serialize, Args)]
pub struct Extent {
    /// No limits but this machine's.
    #[arg(long, conflicts_with = "to")]
    pub unshaped: bool,
    /// A real store instead, such as s3://BUCKET/PREFIX: the objects stay there, one for each way.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Runs of each that count, after one to warm up.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// The rows of up to 64 MiB, table C's eight times as fast: whether it works, and the order of the ways.
    #[arg(long, conflicts_with = "runs")]
    pub quick: bool,
    /// All rows, which is the default.
    #[arg(long, conflicts_with = "quick")]
    #[serde(skip)]
    pub full: bool,
}

/// How an object travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// In one request.
    Plain,
    /// Each part when the one before is stored.
    OneByOne,
    /// Several parts at once.
    AtOnce,
    /// As the library chooses.
    Auto,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::OneByOne => "part by part",
            Self::AtOnce => "parts at once",
            Self::Auto => "auto",
        }
    }

    fn strategy(self) -> Strategy {
        match self {
            Self::Plain => Strategy::Put,
            Self::OneByOne => Strategy::Chunked,
            Self::AtOnce => Strategy::Parallel,
            Self::Auto => Strategy::Auto,
        }
    }
}

/// What came of one way with one row.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// How.
    pub way: Way,
    /// Seconds, from the first byte's writing to the object's publication.
    pub seconds: Vec<f64>,
}

/// What came of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was published.
    #[serde(flatten)]
    pub row: Row,
    /// What was measured, the way that is compared with first.
    pub done: Vec<Done>,
}

/// What came of a trial; it displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked for.
    pub trial: Trial,
    /// What the store was told to be like.
    pub shape: Value,
    /// Where and when.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// What was measured.
    pub lines: Vec<Line>,
}

impl Trial {
    /// Holds it against the store that was named, or the server of the program `tidegate`: for each row all ways in
    /// turn.
    ///
    /// # Errors
    /// Where the server does not start, or an upload fails.
    pub fn hold(&self, tidegate: impl FnOnce() -> Result<PathBuf>) -> Result<Report> {
        let (table, Extent { unshaped, to, quick, .. }) = (self.table, &self.extent);
        let mut rows = table.rows();
        if *quick {
            rows.retain(|row| row.size <= 64 * MIB);
        }
        let before = machine::load();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let tide = Tidegate::builder().build()?;
        let (logs, mut server, mut shape) = (tempfile::tempdir()?, None, json!({}));
        let store = match to {
            Some(url) => runtime.block_on(tide.open(url))?,
            None => {
                let server = server.insert(Embedded::start(&tidegate()?, logs.path())?);
                if !unshaped {
                    shape = table.shape(*quick);
                    server.behave(&shape)?;
                }
                let backend = runtime.block_on(server.endpoint().connect())?;
                tide.store(std::sync::Arc::new(backend))
            }
        };
        let lines = runtime.block_on(self.lines(&store, rows))?;
        Ok(Report { trial: self.clone(), shape, conditions: Conditions::since(before), lines })
    }

    async fn lines(&self, store: &Store, rows: Vec<Row>) -> Result<Vec<Line>> {
        let piece = producer::piece();
        let mut lines = Vec::new();
        for row in rows {
            let new = |way: &Way| Done { way: *way, seconds: Vec::new() };
            let mut done: Vec<_> = self.table.ways().iter().map(new).collect();
            for number in 0..=self.extent.runs {
                for Done { way, seconds } in &mut done {
                    let took = upload(store, *way, row, &piece).await?;
                    eprintln!("{}, {}, run {number}: {took:.3} s", size::format(row.size), way.name());
                    if number > 0 {
                        seconds.push(took);
                    }
                }
            }
            lines.push(Line { row, done });
        }
        Ok(lines)
    }
}

async fn upload(store: &Store, way: Way, row: Row, piece: &Bytes) -> Result<f64> {
    let began = Instant::now();
    let mut writer = store.writer(way.name().replace(' ', "-")).strategy(way.strategy()).size_hint(row.size);
    if way != Way::Auto {
        writer = writer.part_size(row.part);
    }
    if let (Way::AtOnce, Some(streams)) = (way, row.streams) {
        writer = writer.concurrency(streams);
    }
    let mut writer = writer.start().await?;
    let mut left = row.size;
    while left > 0 {
        let now = left.min(piece.len() as u64);
        writer.write(piece.slice(..now as usize)).await?;
        left -= now;
    }
    let object = writer.finish().await?;
    if object.size != row.size {
        return Err(format!("{}: {} of {} bytes", object.key, object.size, row.size).into());
    }
    Ok(began.elapsed().as_secs_f64())
}

impl Line {
    fn spread(&self, way: Way) -> Option<Spread> {
        self.done
            .iter()
            .find(|done| done.way == way)
            .and_then(|done| Spread::of(done.seconds.iter().copied()))
    }

    /// How much faster a way is than the first, in percent.
    #[must_use]
    pub fn gain(&self, way: Way) -> Option<f64> {
        let first = self.spread(self.done.first()?.way)?;
        Some(first.times(&self.spread(way)?) * 100.0)
    }
}

impl Report {
    /// What does not hold of what the table is to show, by more than noise: that parts at once are not slower than part
    /// by part, and that nothing is faster than the library's choice.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for line in &self.lines {
            let at_most = [(Way::AtOnce, Way::OneByOne)].into_iter();
            let others = self.trial.table.ways().iter().filter(|way| **way != Way::Auto);
            for (way, other) in at_most.chain(others.map(|way| (Way::Auto, *way))) {
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

    fn table(&self) -> Table {
        let mut columns = vec!["object".to_owned()];
        for way in self.trial.table.ways() {
            columns.extend([format!("{}: ms", way.name()), "MB/s".to_owned()]);
        }
        columns.extend(["published gain %", "parts at once %", "auto %"].map(str::to_owned));
        let mut table = Table::new(columns.iter().map(String::as_str));
        for line in &self.lines {
            let Row { size, part, streams, published } = line.row;
            let streams = streams.map_or_else(String::new, |streams| format!(" × {streams}"));
            let mut cells = vec![format!("{} ({}{streams})", size::format(size), size::format(part))];
            for way in self.trial.table.ways() {
                let cell = line.spread(*way).map(|Spread { median, min, max }| {
                    let ms = |seconds: f64| seconds * 1000.0;
                    let rate = size as f64 / 1e6 / median;
                    [format!("{:.1} ({:.1}–{:.1})", ms(median), ms(min), ms(max)), format!("{rate:.2}")]
                });
                cells.extend(cell.unwrap_or_default());
            }
            cells.push(format!("{published:.0}"));
            for way in [Way::AtOnce, Way::Auto] {
                cells.push(line.gain(way).map_or_else(String::new, |gain| format!("{gain:.0}")));
            }
            table.row(cells);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.trial.table.ways().first().map_or("", |way| way.name());
        let Extent { to, unshaped, runs, .. } = &self.trial.extent;
        let store = match (to, unshaped) {
            (Some(url), _) => url.clone(),
            (None, true) => "the embedded server, unshaped".to_owned(),
            (None, false) => format!("the embedded server, behaving as {}", self.shape),
        };
        writeln!(out, "Uploads to {store}\n")?;
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "Median (least–most) of {runs} runs of each, in turn, after one to warm up; gains: percent of {first}. Object: its\n\
             size, and that of a part (× parts at once), which auto is not told. One engine has made all of them, and knew\n\
             the store from the row before.\n"
        )?;
        for broken in self.broken() {
            writeln!(out, "- DOES NOT HOLD: {broken}")?;
        }
        writeln!(out, "{}", self.conditions)
    }
}
