//! Measures the gain and the cost of hedging: the same upload with and without hedging, to a store with a few
//! slow parts, to a store without, and to a store that throttles.
//!
//! The library is measured in this process, because a command does not report the time of each part. The server
//! is a process of its own, as in all other measurements.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate::Tidegate;

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::stats::{RunSpread, quantile};
use crate::table::MarkdownTable;
use timed::Timed;

mod timed;

const MIB: u64 = 1 << 20;

/// The uploads, how often they run, and the kind of store.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct HedgeTrial {
    /// Parts of each upload.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub parts: u32,
    /// MiB of each part.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(5..=64))]
    pub part_mib: u64,
    /// Slow parts in a hundred, drawn anew in each run.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub percent: u32,
    /// How many times slower those parts are, in latency and in connection speed.
    #[arg(long, default_value_t = 20.0)]
    pub times: f64,
    /// MB (of 1000000 bytes) a second of one connection.
    #[arg(long, default_value_t = 10)]
    pub megabytes: u64,
    /// Milliseconds of latency before the server handles each request.
    #[arg(long, default_value_t = 20)]
    pub latency_ms: u64,
    /// Requests a second that the throttling store accepts.
    #[arg(long, default_value_t = 40)]
    pub throttle: u64,
    /// Counted uploads of each kind.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Seconds that one upload may take.
    #[arg(long, default_value_t = 300)]
    pub limit: u64,
}

/// One upload.
#[derive(Clone, Debug, Serialize)]
pub struct HedgeUpload {
    /// From the first byte to the commit, in seconds.
    pub wall: f64,
    /// The time of each part from the first sending to the first good answer, in seconds.
    pub parts: Vec<f64>,
    /// Requests of all kinds, as the engine counts them.
    pub requests: u64,
    /// Of these, retries after a failure.
    pub retries: u64,
    /// Of these, hedges: slow parts that were sent again.
    pub hedges: u64,
    /// `UploadPart` requests that reached the server.
    pub seen: u64,
}

/// All uploads of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct HedgeLine {
    /// The store.
    pub store: String,
    /// Whether hedging was on.
    pub hedge: bool,
    /// The uploads.
    pub uploads: Vec<HedgeUpload>,
}

/// The result of a trial; displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct HedgeReport {
    /// The options of the trial.
    pub trial: HedgeTrial,
    /// The machine and its load.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The results by kind.
    pub lines: Vec<HedgeLine>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HedgeStore {
    Slow,
    Even,
    Throttling,
}

impl HedgeTrial {
    /// Runs the trial against the server of the program `tidegate`: all kinds in turn, several times.
    ///
    /// # Errors
    /// If the server does not start, or an upload fails or takes longer than the limit.
    pub fn hold(&self, tidegate: &Path) -> Result<HedgeReport> {
        let folder = tempfile::tempdir()?;
        let server = Embedded::start(tidegate, folder.path())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let before = machine::load();
        let kinds = [HedgeStore::Slow, HedgeStore::Even, HedgeStore::Throttling];
        let kinds = kinds.into_iter().flat_map(|store| [(store, false), (store, true)]);
        let mut lines: Vec<(HedgeStore, HedgeLine)> = kinds
            .map(|(store, hedge)| (store, HedgeLine { store: self.name(store), hedge, uploads: Vec::new() }))
            .collect();
        for run in 0..self.runs {
            for (store, line) in &mut lines {
                server.behave(&self.knobs(*store, run))?;
                server.forget()?;
                let limit = Duration::from_secs(self.limit);
                let upload = async { tokio::time::timeout(limit, self.upload(&server, line.hedge)).await };
                let mut upload = runtime
                    .block_on(upload)
                    .map_err(|_| format!("{}: an upload took longer than {} s", line.store, self.limit))??;
                upload.seen = server.counts()?.of("UploadPart");
                let how = if line.hedge { "hedged" } else { "not hedged" };
                eprintln!("run {}: {}, {how}: {:.3} s", run + 1, line.store, upload.wall);
                line.uploads.push(upload);
            }
        }
        let lines = lines.into_iter().map(|(_, line)| line).collect();
        Ok(HedgeReport { trial: self.clone(), conditions: Conditions::since(before), lines })
    }

    fn name(&self, store: HedgeStore) -> String {
        match store {
            HedgeStore::Slow => format!("{}% of parts {} times slower", self.percent, self.times),
            HedgeStore::Even => "no slow parts".to_owned(),
            HedgeStore::Throttling => format!("throttling at {}/s, and slow parts", self.throttle),
        }
    }

    /// The same parts are slow with and without hedging; a part that is sent again is not slow again.
    fn knobs(&self, store: HedgeStore, run: u32) -> Value {
        let mut numbers: Vec<u32> = (1..=self.parts).collect();
        fastrand::Rng::with_seed(u64::from(run)).shuffle(&mut numbers);
        let slow = if store == HedgeStore::Even { 0 } else { self.parts * self.percent / 100 };
        let rules: Vec<Value> = numbers
            .iter()
            .take(slow as usize)
            .map(|number| {
                json!({"operation": "UploadPart", "part_number": number, "times": 1, "action": {"slow": self.times}})
            })
            .collect();
        let mut knobs = json!({
            "latency": {"fixed_ms": self.latency_ms as f64},
            "bandwidth": {"connection_in": self.megabytes * 1_000_000},
            "faults": rules,
        });
        if store == HedgeStore::Throttling {
            let rate = self.throttle as f64;
            knobs["rate_limit"] = json!({"per_second": rate, "burst": rate});
        }
        knobs
    }

    async fn upload(&self, server: &Embedded, hedge: bool) -> Result<HedgeUpload> {
        let timed = Arc::new(Timed::new(server.endpoint().connect().await?));
        // A new engine for each upload, which knows nothing of the store yet, as in a command.
        let part = self.part_mib * MIB;
        let tide = Tidegate::builder().part_size(part).hedge(hedge).build()?;
        let builder = tide.store(timed.clone()).writer("hedge");
        let progress = builder.progress();
        let bytes = Bytes::from(vec![7; usize::try_from(part)?]);
        let began = Instant::now();
        let mut writer = builder.await?;
        for _ in 0..self.parts {
            writer.write_bytes(bytes.clone()).await?;
        }
        writer.finish().await?;
        let (wall, figures) = (began.elapsed().as_secs_f64(), progress.snapshot());
        Ok(HedgeUpload {
            wall,
            parts: timed.seconds(),
            requests: figures.requests,
            retries: figures.retries,
            hedges: figures.hedges,
            seen: 0,
        })
    }
}

impl fmt::Display for HedgeReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, conditions, lines } = self;
        writeln!(
            out,
            "One upload of {} parts of {} MiB; {} MB/s a connection, {} ms of latency; {} runs each\n",
            trial.parts, trial.part_mib, trial.megabytes, trial.latency_ms, trial.runs
        )?;
        let columns = [
            "store",
            "hedged",
            "total s",
            "part p50 s",
            "p99 s",
            "longest s",
            "retries",
            "hedges",
            "extra parts",
        ];
        let mut table = MarkdownTable::new(columns);
        for line in lines {
            let mut parts: Vec<f64> = line.uploads.iter().flat_map(|upload| upload.parts.clone()).collect();
            parts.sort_by(f64::total_cmp);
            let wall = RunSpread::of(line.uploads.iter().map(|upload| upload.wall));
            let sum = |figure: fn(&HedgeUpload) -> u64| line.uploads.iter().map(figure).sum::<u64>();
            let hedges = sum(|upload| upload.hedges);
            table.row([
                line.store.clone(),
                if line.hedge { "yes" } else { "no" }.to_owned(),
                wall.map_or_else(String::new, |wall| {
                    format!("{:.2} ({:.2}–{:.2})", wall.median, wall.min, wall.max)
                }),
                format!("{:.2}", quantile(&parts, 0.5)),
                format!("{:.2}", quantile(&parts, 0.99)),
                format!("{:.2}", quantile(&parts, 1.0)),
                sum(|upload| upload.retries).to_string(),
                hedges.to_string(),
                format!("{:.1}%", hedges as f64 / parts.len().max(1) as f64 * 100.0),
            ]);
        }
        writeln!(out, "{table}")?;
        writeln!(
            out,
            "Total: median (least–most) of {} uploads. Parts: from when each was first sent to its first good\n\
             answer, all uploads together. Retries and hedges: of all uploads together.\n",
            trial.runs
        )?;
        writeln!(out, "{conditions}")
    }
}
