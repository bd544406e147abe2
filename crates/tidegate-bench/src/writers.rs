//! `tidegate-bench writers`: many writers open at once on one engine with little memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures::StreamExt;
use serde_json::json;
use tidegate::settings::Concurrency;
use tidegate::{Store, Tidegate, Writer};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::content::Content;
use crate::embedded::Embedded;
use crate::interrupt::until_signal;
use crate::{Result, size};

mod report;

pub use report::WritersFigures;
use report::{EngineWatch, WritersCounters, resident};

/// One run: each object is read back, compared byte by byte, and removed. The figures are those of this process; the
/// store runs in another process.
#[derive(Clone, Debug, Args)]
pub struct OpenWriters {
    /// Open this many writers at once.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,

    /// Give the engine this memory budget.
    #[arg(long, default_value = "64MiB", value_parser = size::parse, value_name = "SIZE")]
    memory: u64,

    /// Spill bytes that do not fit into memory to this directory. Repeat it for several.
    #[arg(long, value_name = "DIR")]
    spool: Vec<PathBuf>,

    /// Make the smallest object this large.
    #[arg(long, default_value = "1MiB", value_parser = size::parse, value_name = "SIZE")]
    least: u64,

    /// Make the largest object this large. Sizes are spread evenly between the two.
    #[arg(long, default_value = "20MiB", value_parser = size::parse, value_name = "SIZE")]
    most: u64,

    /// Write this many bytes at a time.
    #[arg(long, default_value = "16KiB", value_parser = size::parse, value_name = "SIZE")]
    piece: u64,

    /// Limit the embedded server to this many bytes received per second, over all connections.
    #[arg(long, value_parser = size::parse, value_name = "BYTES", conflicts_with = "to")]
    rate: Option<u64>,

    /// Abandon this share of the writers, from 0 to 1: their producers stop for good in the middle.
    #[arg(long, default_value_t = 0.0, value_parser = share, value_name = "FRACTION")]
    abandon: f64,

    /// Abort writers that take no byte for this many seconds while others wait for their memory.
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    idle_limit: Option<Duration>,

    /// Wait at most this many seconds for memory that no request in flight can free.
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    memory_wait: Duration,

    /// Feed all writers in turn from one task, instead of one task each.
    #[arg(long)]
    one_task: bool,

    /// Stop the embedded server for this many seconds in the middle of the run.
    #[arg(long, value_parser = seconds, value_name = "SECONDS", conflicts_with = "to")]
    stall: Option<Duration>,

    /// Allow this many requests in flight: a number, or auto to adapt.
    #[arg(long, default_value = "auto", value_parser = concurrency, value_name = "N")]
    concurrency: Concurrency,

    /// Write to s3://BUCKET/PREFIX or gs://BUCKET/PREFIX; the environment describes the store. Default: a private
    /// embedded server.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
}

/// `auto`, or a number of requests, from 1.
fn concurrency(text: &str) -> Result<Concurrency, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Concurrency::Auto),
        Ok(0) | Err(_) => Err("write auto, or a number from 1".to_owned()),
        Ok(requests) => Ok(Concurrency::Fixed(requests)),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a number from 0 to 1".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// One object of the run.
#[derive(Clone, Copy, Debug)]
struct ObjectPlan {
    index: u64,
    size: u64,
    /// The position where its producer stops for good; `None` if it does not.
    stops_at: Option<u64>,
}

impl ObjectPlan {
    fn key(self) -> String {
        format!("writers/{:07}", self.index)
    }

    fn end(self) -> u64 {
        self.stops_at.unwrap_or(self.size)
    }
}

/// The state that all tasks of a run share.
#[derive(Debug)]
struct WritersRun {
    store: Store,
    /// The same store on a separate engine, so that reading back does not compete with the writers for requests.
    written: Store,
    content: Content,
    piece: u64,
    counters: WritersCounters,
    /// Limits how many objects are read back at once.
    readers: Semaphore,
}

impl OpenWriters {
    /// How many objects are read back at once.
    const READERS: usize = 2;

    /// Does the run. `tidegate` finds the program whose embedded server is used where no store is named.
    ///
    /// # Errors
    /// If the run can't be done, or an object is not what was written. Writers that failed are in the figures.
    pub fn run(&self, tidegate: impl Fn() -> Result<PathBuf>) -> Result<WritersFigures> {
        if self.least > self.most {
            return Err(format!("--least {} is more than --most {}", self.least, self.most).into());
        }
        let logs = tempfile::tempdir()?;
        let embedded = match &self.to {
            Some(_) => None,
            None => Some(Embedded::storing(&tidegate()?, logs.path(), "memory")?),
        };
        if let (Some(embedded), Some(rate)) = (&embedded, self.rate) {
            embedded.behave(&json!({"bandwidth": {"total_in": rate}}))?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let (mut reading, mut engine) = (Tidegate::builder(), Tidegate::builder());
            if let Some(embedded) = &embedded {
                let settings = embedded.endpoint().settings();
                (reading, engine) = (reading.s3(settings.clone()), engine.s3(settings));
            }
            let reading = reading.concurrency(Concurrency::Fixed(Self::READERS)).build()?;
            engine = engine
                .memory(self.memory)
                .spool(self.spool.clone())
                .memory_wait(self.memory_wait)
                .concurrency(self.concurrency);
            if let Some(limit) = self.idle_limit {
                engine = engine.idle_limit(limit);
            }
            let tide = engine.build()?;
            until_signal(&tide, self.measure(&tide, &reading, embedded.as_ref())).await
        })
    }

    fn plans(&self) -> Vec<ObjectPlan> {
        let plan = |index| {
            let size = self.least + (Content::draw(index * 2) * (self.most - self.least) as f64) as u64;
            // Spreads the abandoned writers evenly over all writers, regardless of size.
            let before = (index as f64 * self.abandon).floor();
            let stops = ((index + 1) as f64 * self.abandon).floor() > before;
            let stops_at = stops.then(|| (Content::draw(index * 2 + 1) * size as f64) as u64);
            ObjectPlan { index, size, stops_at }
        };
        (0..self.count).map(plan).collect()
    }

    async fn measure(
        &self,
        tide: &Tidegate,
        reading: &Tidegate,
        embedded: Option<&Embedded>,
    ) -> Result<WritersFigures> {
        let ours = embedded.map(|embedded| format!("s3://{}/tidegate-bench", embedded.endpoint().bucket));
        let to = self.to.clone().or(ours).unwrap_or_default();
        let run = Arc::new(WritersRun {
            store: tide.open(&to).await?,
            written: reading.open(&to).await?,
            content: Content::new(),
            piece: self.piece,
            counters: WritersCounters::new(tide.clone()),
            readers: Semaphore::new(Self::READERS),
        });
        let plans = self.plans();
        let before = resident()?;
        let mut writers = Vec::with_capacity(plans.len());
        for plan in &plans {
            writers.push((*plan, run.store.writer(plan.key()).await?));
        }
        run.counters.opened(plans.len(), resident()?.saturating_sub(before));
        let watch = EngineWatch::start(tide.clone());
        let began = Instant::now();
        let expected: u64 = plans.iter().filter(|plan| plan.stops_at.is_none()).map(|plan| plan.size).sum();
        let (mut outcome, mut stalled) = (std::pin::pin!(self.feed(&run, writers)), false);
        loop {
            tokio::select! {
                fed = &mut outcome => break fed?,
                stall = self.stall_in_the_middle(&run, expected, embedded), if !stalled => {
                    stall?;
                    stalled = true;
                }
            }
        }
        run.counters.figures(began, &watch.stop().await, &plans, self)
    }

    /// Stops the server once it has acknowledged a third of the bytes.
    async fn stall_in_the_middle(
        &self,
        run: &WritersRun,
        expected: u64,
        embedded: Option<&Embedded>,
    ) -> Result<()> {
        let (Some(time), Some(embedded)) = (self.stall, embedded) else {
            return std::future::pending().await;
        };
        while run.counters.acknowledged() < expected / 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        embedded.stall(time).await
    }

    async fn feed(&self, run: &Arc<WritersRun>, writers: Vec<(ObjectPlan, Writer)>) -> Result<()> {
        let mut checks = JoinSet::new();
        if self.one_task {
            feed_in_turn(run, writers, &mut checks).await;
        } else {
            let (done, _) = watch::channel(());
            let mut going = JoinSet::new();
            let mut abandoned = JoinSet::new();
            for (plan, writer) in writers {
                let tasks = if plan.stops_at.is_some() { &mut abandoned } else { &mut going };
                tasks.spawn(run.clone().feed_one(plan, writer, done.subscribe()));
            }
            joined(&mut going).await?;
            drop(done); // only now may the tasks drop the abandoned writers
            joined(&mut abandoned).await?;
        }
        joined(&mut checks).await
    }
}

async fn joined(tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// Gives each writer a piece in turn, from one task, until all have their bytes. Gives up at the first error, as a
/// program would.
async fn feed_in_turn(
    run: &Arc<WritersRun>,
    mut writers: Vec<(ObjectPlan, Writer)>,
    checks: &mut JoinSet<Result<()>>,
) {
    let mut abandoned = Vec::new();
    while !writers.is_empty() {
        let mut rest = Vec::with_capacity(writers.len());
        for (plan, mut writer) in writers {
            let given = if writer.position() < plan.end() {
                run.give(plan, &mut writer).await.map(|()| rest.push((plan, writer)))
            } else if plan.stops_at.is_some() {
                abandoned.push(writer);
                Ok(())
            } else {
                writer.finish().await.map(|_| {
                    run.counters.committed();
                    checks.spawn(run.clone().read_back(plan));
                })
            };
            if let Err(error) = given {
                return run.counters.failed(plan.index, &error);
            }
        }
        writers = rest;
    }
}

impl WritersRun {
    async fn give(&self, plan: ObjectPlan, writer: &mut Writer) -> tidegate::Result<()> {
        let offset = writer.position();
        writer.write_bytes(self.content.piece(plan.index, offset, self.piece.min(plan.end() - offset))).await
    }

    /// Feeds one writer.
    #[expect(clippy::manual_async_fn, reason = "an async fn would hold each of thousands of writers twice")]
    fn feed_one(
        self: Arc<Self>,
        plan: ObjectPlan,
        mut writer: Writer,
        mut done: watch::Receiver<()>,
    ) -> impl Future<Output = Result<()>> {
        async move {
            while writer.position() < plan.end() {
                if let Err(error) = self.give(plan, &mut writer).await {
                    self.counters.failed(plan.index, &error);
                    return Ok(());
                }
            }
            if plan.stops_at.is_some() {
                // Keeps the abandoned writer open until all other writers are done.
                let _ = done.changed().await;
                return Ok(());
            }
            match writer.finish().await {
                Ok(_) => self.counters.committed(),
                Err(error) => {
                    self.counters.failed(plan.index, &error);
                    return Ok(());
                }
            }
            Box::pin(self.read_back(plan)).await
        }
    }

    /// Reads an object, compares it, and removes it.
    async fn read_back(self: Arc<Self>, plan: ObjectPlan) -> Result<()> {
        let _turn = self.readers.acquire().await;
        let mut reader = self.written.reader(plan.key()).await?;
        let mut offset = 0;
        while let Some(piece) = reader.next().await {
            let piece = piece?;
            if !self.content.is_at(plan.index, offset, &piece) {
                return Err(format!("{}: other bytes than were written", plan.key()).into());
            }
            offset += piece.len() as u64;
        }
        if offset != plan.size {
            let (key, size) = (plan.key(), plan.size);
            return Err(format!("{key}: {offset} bytes where {size} were written").into());
        }
        self.written.delete(&plan.key()).await?;
        self.counters.verified(plan.size);
        Ok(())
    }
}
