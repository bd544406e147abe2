//! Measures the gain of sending the parts of an object in parallel: re-runs two published tables, A and C,
//! against a store that behaves as each table implies.
//!
//! [`Published::Async`]: an output stream that uploads a part while the next is written, beside a stream that
//! waits for each part (parts of 10 MiB). [`Published::Threaded`]: whole objects, parts one after another, and
//! parts by several threads. The source of each figure of the store is beside the figure and below each table.
//! Tests show that the store's figures reproduce the published results of the first way of the first table, and
//! that a server takes no less time than the figures say.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::{Store, Strategy, Tidegate};

use crate::Result;
use crate::embedded::{Embedded, StoreEndpoint};
use crate::machine::{self, Conditions};
use crate::producer;
use crate::size::{self, MIB};

mod published;
mod report;
#[cfg(test)]
mod tests;

pub use published::{Published, PublishedRow};
pub use report::{PartsLine, PartsReport, PartsRuns};

/// The table to re-run, and its extent.
#[derive(Clone, Debug, Serialize)]
pub struct PartsTrial {
    /// The table.
    pub table: Published,
    /// How much of the table, and the store.
    #[serde(flatten)]
    pub extent: PartsExtent,
}

/// How much of a table to measure, and the store.
#[derive(Clone, Debug, Default, Serialize, Args)]
pub struct PartsExtent {
    /// No limits but this machine's.
    #[arg(long, conflicts_with = "to")]
    pub unshaped: bool,
    /// Use a real store, such as s3://BUCKET/PREFIX. The objects stay there, one for each way.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Counted runs of each way, after one warm-up run.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Only the rows of up to 64 MiB, for table C eight times as fast: checks that everything works, and the
    /// order of the ways.
    #[arg(long, conflicts_with = "runs")]
    pub quick: bool,
    /// All rows, which is the default.
    #[arg(long, conflicts_with = "quick")]
    #[serde(skip)]
    pub full: bool,
}

impl PartsExtent {
    /// Whether the store is made to behave as the published figures imply.
    fn is_shaped(&self) -> bool {
        !self.unshaped && self.to.is_none()
    }
}

/// How an object is uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartsWay {
    /// In one request.
    Plain,
    /// Each part after the previous part is stored.
    OneByOne,
    /// Several parts in parallel.
    AtOnce,
    /// As the library chooses, with an engine that has learned the store from earlier uploads.
    Auto,
    /// As the library chooses, with a new engine for each upload, as in a command.
    Cold,
}

impl PartsWay {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::OneByOne => "part by part",
            Self::AtOnce => "parts at once",
            Self::Auto => "auto",
            Self::Cold => "auto, new engine",
        }
    }

    /// Whether the library chooses.
    fn is_chosen(self) -> bool {
        matches!(self, Self::Auto | Self::Cold)
    }

    fn strategy(self) -> Strategy {
        match self {
            Self::Plain => Strategy::Put,
            Self::OneByOne => Strategy::Chunked,
            Self::AtOnce => Strategy::Parallel,
            Self::Auto | Self::Cold => Strategy::Auto,
        }
    }
}

/// The destination of objects.
#[derive(Clone, Copy, Debug)]
enum PartsDestination<'a> {
    Url(&'a str),
    Server(&'a StoreEndpoint),
}

impl PartsDestination<'_> {
    /// Opens the store with an engine that knows nothing of it.
    async fn open(self) -> Result<Store> {
        let tide = Tidegate::builder().build()?;
        Ok(match self {
            Self::Url(url) => tide.open(url).await?,
            Self::Server(endpoint) => tide.store(Arc::new(endpoint.connect().await?)),
        })
    }
}

impl PartsTrial {
    /// Runs the trial against the named store, or the server of the program `tidegate`: all ways in turn for
    /// each row.
    ///
    /// # Errors
    /// If the server does not start, or an upload fails.
    pub fn hold(&self, tidegate: impl FnOnce() -> Result<PathBuf>) -> Result<PartsReport> {
        let (table, PartsExtent { to, quick, .. }) = (self.table, &self.extent);
        let mut rows = table.rows();
        if *quick {
            rows.retain(|row| row.size <= 64 * MIB);
        }
        let before = machine::load();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let (logs, mut server, mut shape) = (tempfile::tempdir()?, None, json!({}));
        let place = match to {
            Some(url) => PartsDestination::Url(url),
            None => {
                let server = server.insert(Embedded::start(&tidegate()?, logs.path())?);
                if self.extent.is_shaped() {
                    shape = table.shape(*quick);
                    server.behave(&shape)?;
                }
                PartsDestination::Server(server.endpoint())
            }
        };
        let lines = runtime.block_on(self.lines(place, rows))?;
        Ok(PartsReport { trial: self.clone(), shape, conditions: Conditions::since(before), lines })
    }

    async fn lines(&self, place: PartsDestination<'_>, rows: Vec<PublishedRow>) -> Result<Vec<PartsLine>> {
        let (store, piece) = (place.open().await?, producer::piece());
        let mut lines = Vec::new();
        for row in rows {
            let new = |way: &PartsWay| PartsRuns { way: *way, seconds: Vec::new() };
            let mut done: Vec<_> = self.table.ways().iter().map(new).collect();
            for number in 0..=self.extent.runs {
                for PartsRuns { way, seconds } in &mut done {
                    let began = Instant::now();
                    let new = if *way == PartsWay::Cold { Some(place.open().await?) } else { None };
                    upload(new.as_ref().unwrap_or(&store), *way, row, &piece).await?;
                    let took = began.elapsed().as_secs_f64();
                    eprintln!("{}, {}, run {number}: {took:.3} s", size::format(row.size), way.name());
                    if number > 0 {
                        seconds.push(took);
                    }
                }
            }
            lines.push(PartsLine { row, done });
        }
        Ok(lines)
    }
}

async fn upload(store: &Store, way: PartsWay, row: PublishedRow, piece: &Bytes) -> Result<()> {
    let key = way.name().replace(", ", "-").replace(' ', "-");
    let mut writer = store.writer(key).strategy(way.strategy()).size_hint(row.size);
    if !way.is_chosen() {
        writer = writer.part_size(row.part);
    }
    if let (PartsWay::AtOnce, Some(streams)) = (way, row.streams) {
        writer = writer.concurrency(streams);
    }
    let mut writer = writer.await?;
    let mut left = row.size;
    while left > 0 {
        let now = left.min(piece.len() as u64);
        writer.write_bytes(piece.slice(..now as usize)).await?;
        left -= now;
    }
    let object = writer.finish().await?;
    if object.size != row.size {
        return Err(format!("{}: {} of {} bytes", object.key, object.size, row.size).into());
    }
    Ok(())
}
