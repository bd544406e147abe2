//! Measures the gain of spreading keys over prefixes, against a store that limits each prefix by itself. This
//! is one part of the published table D.
//!
//! The trial measures requests a second and refusals with 1 to 128 prefixes, a hot prefix beside cold ones, how
//! evenly keys are spread, and the cost of listing all prefixes as one.
//!
//! The library is measured in this process, except for listings, which the command makes; the server is a
//! process of its own. A real store may take its place, except for listings: a real store can't be filled with
//! objects by thousands, and does not count requests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tidegate::prefix::{Layout, Naming, PrefixedStore};
use tidegate::{Store, Tidegate};

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use counted::{Counted, PrefixesDestination};
use load::{Kind, RequestLoad, RequestPace};
pub use report::PrefixesReport;

mod counted;
mod listing;
mod load;
mod report;
mod spreading;
#[cfg(test)]
mod tests;

/// The requests a second that S3 accepts for each prefix at least ("Best practices design patterns: optimizing
/// Amazon S3 performance").
const WRITES: f64 = 3500.0;
const READS: f64 = 5500.0;

/// The requests to make, and for how long.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct PrefixesTrial {
    /// Divide S3's limits of each prefix (3,500 writes and 5,500 reads a second) by this number.
    #[arg(long, default_value_t = 200.0, value_parser = scale)]
    pub scale: f64,
    /// Most prefixes; the counts are the powers of two up to this. Listings use the largest count only.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub most: u32,
    /// Callers for each prefix, each making one request after another; in all at least 64 and at most 1,024.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub callers: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Seconds before each measurement, in which the engine learns the store's limits.
    #[arg(long, default_value_t = 10)]
    pub warm_up: u64,
    /// Milliseconds of latency before the server handles each request.
    #[arg(long, default_value_t = 5)]
    pub latency_ms: u64,
    /// No limits but this machine's; --scale and --latency-ms have no effect then.
    #[arg(long, conflicts_with = "to")]
    pub unshaped: bool,
    /// Use a real store, such as s3://BUCKET/PREFIX, with its own limits and without listings. The objects stay
    /// there: up to 8,192 of 1,000 bytes for each number of prefixes, as many without spreading, and twice as
    /// many beside a hot prefix.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Objects of each listing; fewer if this machine's memory can't carry as many.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "10000,100000,1000000,12800000",
          value_parser = clap::value_parser!(u64).range(1..100_000_000))]
    pub list: Vec<u64>,
    /// Measure only these.
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub only: Vec<PrefixesPart>,
    /// Two seconds of each with up to 8 prefixes, and listings of 2,000 and 20,000 objects, only to check that
    /// everything works; the figures mean nothing.
    #[arg(long, conflicts_with_all = ["list", "seconds", "warm_up", "most"])]
    pub quick: bool,
}

/// A part of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PrefixesPart {
    /// Requests a second by prefixes.
    Requests,
    /// A hot prefix beside cold ones.
    Hot,
    /// How evenly keys are spread.
    Spreading,
    /// All prefixes listed as one.
    Listing,
}

/// The pace of one kind of request over one number of prefixes.
#[derive(Clone, Debug, Serialize)]
pub struct PrefixesLine {
    /// The number of prefixes; `None` if keys are not spread.
    pub prefixes: Option<u32>,
    /// `writes` or `reads`.
    pub kind: &'static str,
    /// The limit of all prefixes together in requests a second, if known.
    pub limit: Option<f64>,
    /// The measured pace.
    pub pace: RequestPace,
}

/// The pace of the prefixes beside a prefix with far more callers.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// The measurement in words.
    pub what: &'static str,
    /// The pace of the cold prefixes.
    pub cold: RequestPace,
    /// The pace of the hot prefix, if it has callers.
    pub hot: Option<RequestPace>,
}

impl PrefixesTrial {
    /// Runs the trial against the named store, or the server of the program `tidegate`.
    ///
    /// # Errors
    /// If the server does not start, a request fails for good, or a real store is asked for listings.
    pub fn hold(&self, tidegate: &Path) -> Result<PrefixesReport> {
        if self.to.is_some() && self.only.contains(&PrefixesPart::Listing) {
            return Err("--only listing is of the embedded server: leave out --to".into());
        }
        let mut trial = self.clone();
        if trial.quick {
            (trial.seconds, trial.warm_up, trial.most) = (2, 1, 8);
            trial.list = vec![2000, 20_000];
        }
        let before = machine::load();
        let (mut lines, mut beside) = (Vec::new(), Vec::new());
        if trial.has(PrefixesPart::Requests) || trial.has(PrefixesPart::Hot) {
            let (folder, mut server) = (tempfile::tempdir()?, None);
            let place = match &trial.to {
                Some(url) => PrefixesDestination::Real(url),
                None => PrefixesDestination::Embedded(server.insert(Embedded::storing(
                    tidegate,
                    folder.path(),
                    "memory",
                )?)),
            };
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            if trial.has(PrefixesPart::Requests) {
                lines = runtime.block_on(trial.lines(place))?;
            }
            if trial.has(PrefixesPart::Hot) {
                for hot in [false, true] {
                    beside.push(runtime.block_on(trial.beside(place, hot))?);
                }
            }
        }
        let most = trial.prefixes();
        let spreading = if trial.has(PrefixesPart::Spreading) { spreading::of(most) } else { Vec::new() };
        let listings = match trial.has(PrefixesPart::Listing) && trial.to.is_none() {
            true => listing::of(tidegate, most, &trial.list)?,
            false => Vec::new(),
        };
        Ok(PrefixesReport {
            conditions: Conditions::since(before),
            trial,
            lines,
            beside,
            spreading,
            listings,
        })
    }

    /// Whether each prefix has a known limit.
    fn is_shaped(&self) -> bool {
        !self.unshaped && self.to.is_none()
    }

    fn has(&self, part: PrefixesPart) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The largest number of prefixes: a power of two.
    fn prefixes(&self) -> u32 {
        1 << self.most.ilog2()
    }

    async fn lines(&self, place: PrefixesDestination<'_>) -> Result<Vec<PrefixesLine>> {
        let mut lines = Vec::new();
        for (kind, limit) in [(Kind::Writes, WRITES / self.scale), (Kind::Reads, READS / self.scale)] {
            let mut counts = vec![None];
            counts.extend((0..=self.most.ilog2()).map(|bits| Some(1 << bits)));
            for prefixes in counts {
                let line = self.line(place, kind, limit, prefixes).await?;
                let over = prefixes.map_or("not spread".to_owned(), |count| format!("{count} prefixes"));
                let RequestPace { per_second, refused, .. } = line.pace;
                eprintln!("{}, {over}: {per_second:.0} a second, {refused} refused", line.kind);
                lines.push(line);
            }
        }
        Ok(lines)
    }

    /// Sets the limit of a shaped server, in requests a second of each prefix; `None` means no limit.
    fn limit(&self, place: PrefixesDestination<'_>, limit: Option<f64>) -> Result<()> {
        match place {
            PrefixesDestination::Embedded(server) if self.is_shaped() => server.behave(&json!({
                "latency": {"fixed_ms": self.latency_ms as f64},
                "rate_limit": limit.map(|limit| json!({"per_second": limit, "prefix_depth": 2})),
            })),
            _ => Ok(()),
        }
    }

    async fn line(
        &self,
        place: PrefixesDestination<'_>,
        kind: Kind,
        limit: f64,
        prefixes: Option<u32>,
    ) -> Result<PrefixesLine> {
        self.limit(place, None)?;
        let root = match prefixes {
            None => "flat".to_owned(),
            Some(count) => format!("spread-{count}"),
        };
        let load = RequestLoad {
            callers: (self.callers * prefixes.unwrap_or(1)).clamp(64, 1024),
            warm_up: Duration::from_secs(self.warm_up),
            time: Duration::from_secs(self.seconds),
            kind,
        };
        let (backend, store) = open(place, &root).await?;
        let store = match prefixes {
            // Below one prefix of the same depth.
            None => store.within("0"),
            Some(count) => {
                PrefixedStore::init(&store, Layout::new(Naming::Base2, count)?).await?.store().clone()
            }
        };
        let keys = load::Keys::all();
        load.prepare(&store, &keys).await?;
        self.limit(place, Some(limit))?;
        let pace = load.put_on(&store, &keys, &backend).await?;
        let limit = self.is_shaped().then(|| limit * f64::from(prefixes.unwrap_or(1)));
        Ok(PrefixesLine { prefixes, kind: kind.name(), limit, pace })
    }

    /// Runs two callers for each of 15 prefixes, and with `hot` 200 callers for another prefix.
    async fn beside(&self, place: PrefixesDestination<'_>, hot: bool) -> Result<Beside> {
        self.limit(place, None)?;
        let layout = Layout::new(Naming::Base2, 16)?;
        // Two clients of one engine, because the measurement is about the state that they share.
        let (cold_backend, cold_store) = open(place, "beside").await?;
        let tide = cold_backend.engine();
        let (hot_backend, hot_store) = Counted::open(place, "beside", tide).await?;
        let cold = PrefixedStore::init(&cold_store, layout).await?;
        let hot_store = PrefixedStore::open(&hot_store).await?;
        self.limit(place, Some(WRITES / self.scale))?;
        let load = |callers| RequestLoad {
            callers,
            warm_up: Duration::from_secs(self.warm_up),
            time: Duration::from_secs(self.seconds),
            kind: Kind::Writes,
        };
        let is_hot = move |key: &str| layout.name(key) == "0000";
        let (cold_keys, hot_keys) = (load::Keys::of(move |key| !is_hot(key)), load::Keys::of(is_hot));
        let (cold_load, hot_load) = (load(30), load(200));
        let cold = cold_load.put_on(cold.store(), &cold_keys, &cold_backend);
        if !hot {
            return Ok(Beside { what: "15 prefixes", cold: cold.await?, hot: None });
        }
        let (cold, hot) = tokio::join!(cold, hot_load.put_on(hot_store.store(), &hot_keys, &hot_backend));
        Ok(Beside { what: "15 prefixes beside a hot one", cold: cold?, hot: Some(hot?) })
    }
}

/// Opens a root at a place with a new engine, which knows nothing of the place yet.
async fn open(place: PrefixesDestination<'_>, root: &str) -> Result<(Arc<Counted>, Store)> {
    Counted::open(place, root, &Tidegate::builder().build()?).await
}

/// Parses a number to divide limits by.
fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| (1.0..=WRITES).contains(scale));
    scale.ok_or_else(|| format!("{text}: write a number from 1 to {WRITES}"))
}
