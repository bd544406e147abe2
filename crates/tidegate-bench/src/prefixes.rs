//! What spreading keys over prefixes brings, against a store that limits each prefix by itself: requests a second
//! and refusals with 1 to 128 prefixes, a hot prefix beside cold ones, and how evenly keys are spread.
//!
//! The library is measured in this process; the server is a process of its own.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tidegate::backend::s3::{Credentials, S3, S3Settings};
use tidegate::{Layout, Naming, PrefixedStore, Tidegate};

use crate::Result;
use crate::embedded::Embedded;
use crate::machine::{self, Conditions};
use crate::table::Table;
use counted::Counted;
use load::{Kind, Load, Pace};
use spreading::Spreading;

mod counted;
mod load;
mod spreading;

/// What S3 takes of each prefix at least, in requests a second ("Best practices design patterns: optimizing Amazon
/// S3 performance").
const WRITES: f64 = 3500.0;
const READS: f64 = 5500.0;

/// What is asked of the store, and for how long.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct Trial {
    /// The limits of each prefix are those of S3 (3,500 writes and 5,500 reads a second) divided by this.
    #[arg(long, default_value_t = 200.0)]
    pub scale: f64,
    /// Most prefixes; their counts are the powers of two up to it.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub most: u32,
    /// Callers for each prefix that make one request after another; 64 at least and 1,024 at most in all.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub callers: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Seconds before it, in which what the engine has to learn is learned.
    #[arg(long, default_value_t = 10)]
    pub warm_up: u64,
    /// Milliseconds before each request is looked at.
    #[arg(long, default_value_t = 5)]
    pub latency_ms: u64,
    /// Two seconds of each with up to 8 prefixes: whether it works, and no figures.
    #[arg(long)]
    pub quick: bool,
}

/// Requests of one kind over so many prefixes.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// How many prefixes; none where keys are not spread.
    pub prefixes: Option<u32>,
    /// `writes` or `reads`.
    pub kind: &'static str,
    /// What all prefixes together take a second.
    pub limit: f64,
    /// What came of it.
    pub pace: Pace,
}

/// The prefixes beside one that has far more callers.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What is measured.
    pub what: &'static str,
    /// The pace of the others.
    pub cold: Pace,
    /// That of the one, where it has callers.
    pub hot: Option<Pace>,
}

/// What came of a trial; it displays as Markdown.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked for.
    pub trial: Trial,
    /// Where and when.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Requests a second by prefixes.
    pub lines: Vec<Line>,
    /// A hot prefix and cold ones.
    pub beside: Vec<Beside>,
    /// How keys are spread.
    pub spreading: Vec<Spreading>,
}

impl Trial {
    /// Holds it against the server of the program `tidegate`.
    ///
    /// # Errors
    /// Where the server does not start, or a request fails for good.
    pub fn hold(&self, tidegate: &Path) -> Result<Report> {
        let trial = if self.quick {
            Self { seconds: 2, warm_up: 1, most: self.most.min(8), ..self.clone() }
        } else {
            self.clone()
        };
        let folder = tempfile::tempdir()?;
        let server = Embedded::storing(tidegate, folder.path(), "memory")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let before = machine::load();
        let (mut lines, mut beside) = (Vec::new(), Vec::new());
        for (kind, limit) in [(Kind::Writes, WRITES / trial.scale), (Kind::Reads, READS / trial.scale)] {
            let mut counts = vec![None];
            counts.extend((0..=trial.most.ilog2()).map(|bits| Some(1 << bits)));
            for prefixes in counts {
                let line = runtime.block_on(trial.line(&server, kind, limit, prefixes))?;
                let over = prefixes.map_or("not spread".to_owned(), |count| format!("{count} prefixes"));
                eprintln!(
                    "{}, {over}: {:.0} a second, {} refused",
                    line.kind, line.pace.per_second, line.pace.refused
                );
                lines.push(line);
            }
        }
        for hot in [false, true] {
            beside.push(runtime.block_on(trial.beside(&server, hot))?);
        }
        let spreading = spreading::of(trial.most);
        Ok(Report { conditions: Conditions::since(before), trial, lines, beside, spreading })
    }

    /// Until it is set otherwise, the server takes so many requests a second of each prefix.
    fn limit(&self, server: &Embedded, limit: Option<f64>) -> Result<()> {
        server.behave(&json!({
            "latency": {"fixed_ms": self.latency_ms as f64},
            "rate_limit": limit.map(|limit| json!({"per_second": limit, "prefix_depth": 2})),
        }))
    }

    async fn line(&self, server: &Embedded, kind: Kind, limit: f64, prefixes: Option<u32>) -> Result<Line> {
        self.limit(server, None)?;
        let root = match prefixes {
            None => "flat".to_owned(),
            Some(count) => format!("spread-{count}"),
        };
        let load = Load {
            callers: (self.callers * prefixes.unwrap_or(1)).clamp(64, 1024),
            warm_up: Duration::from_secs(self.warm_up),
            time: Duration::from_secs(self.seconds),
            kind,
        };
        let (backend, store) = open(server, &root).await?;
        let store = match prefixes {
            // Below one prefix of the same depth.
            None => store.within("0"),
            Some(count) => {
                PrefixedStore::init(&store, Layout::new(Naming::Base2, count)?).await?.store().clone()
            }
        };
        let keys = load::Keys::all();
        load.prepare(&store, &keys).await?;
        self.limit(server, Some(limit))?;
        let pace = load.put_on(&store, &keys, &backend).await?;
        Ok(Line { prefixes, kind: kind.name(), limit: limit * f64::from(prefixes.unwrap_or(1)), pace })
    }

    /// Two callers for each of 15 prefixes, and with `hot` 200 for another one.
    async fn beside(&self, server: &Embedded, hot: bool) -> Result<Beside> {
        self.limit(server, None)?;
        let layout = Layout::new(Naming::Base2, 16)?;
        // Two clients of one engine: what they share is what is measured.
        let (cold_backend, cold_store) = open(server, "beside").await?;
        let tide = cold_backend.engine();
        let (hot_backend, hot_store) = Counted::open(server, "beside", tide).await?;
        let cold = PrefixedStore::init(&cold_store, layout).await?;
        let hot_store = PrefixedStore::open(&hot_store).await?;
        self.limit(server, Some(WRITES / self.scale))?;
        let load = |callers| Load {
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

/// A root on the server, by a new engine that knows nothing of it yet.
async fn open(server: &Embedded, root: &str) -> Result<(std::sync::Arc<Counted>, tidegate::Store)> {
    Counted::open(server, root, &Tidegate::builder().build()?).await
}

async fn connect(server: &Embedded) -> Result<S3> {
    let endpoint = server.endpoint();
    let signer = &endpoint.signer;
    let credentials = Credentials::fixed(signer.access_key.as_str(), signer.secret_key.as_str(), None);
    let settings = S3Settings::default()
        .with_endpoint_url(endpoint.url.as_str())
        .with_region(signer.region.as_str())
        .with_credentials(credentials);
    Ok(S3::connect(endpoint.bucket, &settings).await?)
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, conditions, lines, beside, spreading } = self;
        writeln!(
            out,
            "Objects of {} bytes; each prefix takes S3's 3,500 writes and 5,500 reads a second divided by {}; {} ms of\n\
             latency; {} s each, after {} s to warm up\n",
            load::SIZE,
            trial.scale,
            trial.latency_ms,
            trial.seconds,
            trial.warm_up
        )?;
        let columns = [
            "prefixes",
            "requests",
            "limit a second",
            "done a second",
            "of the limit",
            "503s",
            "share",
            "503s before",
        ];
        let mut table = Table::new(columns);
        for Line { prefixes, kind, limit, pace } in lines {
            table.row([
                prefixes.map_or("not spread".to_owned(), |count| count.to_string()),
                (*kind).to_owned(),
                format!("{limit:.1}"),
                format!("{:.1}", pace.per_second),
                format!("{:.0}%", pace.per_second / limit * 100.0),
                pace.refused.to_string(),
                format!("{:.1}%", pace.share() * 100.0),
                pace.refused_before.to_string(),
            ]);
        }
        writeln!(out, "{table}")?;
        writeln!(
            out,
            "503s: of the measured time, and before it. Not spread: all keys below one prefix, no lanes.\n"
        )?;
        let mut table =
            Table::new(["writes", "cold a second", "503s", "p99 ms", "hot a second", "503s", "of its limit"]);
        for Beside { what, cold, hot } in beside {
            let hot_cell = |cell: &dyn Fn(&Pace) -> String| hot.as_ref().map_or_else(|| "–".to_owned(), cell);
            table.row([
                (*what).to_owned(),
                format!("{:.1}", cold.per_second),
                cold.refused.to_string(),
                format!("{:.0}", cold.p99 * 1e3),
                hot_cell(&|hot| format!("{:.1}", hot.per_second)),
                hot_cell(&|hot| hot.refused.to_string()),
                hot_cell(&|hot| format!("{:.0}%", hot.per_second / (WRITES / trial.scale) * 100.0)),
            ]);
        }
        writeln!(out, "{table}")?;
        spreading::table(spreading).fmt(out)?;
        writeln!(out, "\n{conditions}")
    }
}
