//! Runs callers that make one request after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tidegate::Store;
use tokio::task::JoinSet;

use super::counted::Counted;
use crate::Result;
use crate::stats::quantile;

/// Bytes of each object.
pub(super) const SIZE: usize = 1000;

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Writes,
    Reads,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Reads => "reads",
        }
    }
}

/// The keys of the requests.
#[derive(Clone, Debug)]
pub(super) struct Keys(Arc<[String]>);

impl Keys {
    const COUNT: usize = 8192;

    pub(super) fn all() -> Self {
        Self::of(|_| true)
    }

    /// The first names of a sequence for which `is_chosen` is true.
    pub(super) fn of(is_chosen: impl Fn(&str) -> bool) -> Self {
        let names = (0_u64..).map(|number| format!("t/{number:08}.sst")).filter(|key| is_chosen(key));
        Self(names.take(Self::COUNT).collect())
    }
}

/// The measured pace.
#[derive(Clone, Debug, Serialize)]
pub struct RequestPace {
    /// Completed requests a second.
    pub per_second: f64,
    /// 503s in the measured time.
    pub refused: u64,
    /// 503s before the measured time.
    pub refused_before: u64,
    /// The 99th percentile of request times in seconds, retries included.
    pub p99: f64,
    pub(super) done: u64,
}

impl RequestPace {
    /// The share of requests that were refused.
    pub(super) fn share(&self) -> f64 {
        self.refused as f64 / (self.refused + self.done).max(1) as f64
    }
}

/// A number of callers for a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLoad {
    pub(super) callers: u32,
    pub(super) warm_up: Duration,
    pub(super) time: Duration,
    pub(super) kind: Kind,
}

impl RequestLoad {
    /// Writes the objects that will be read.
    pub(super) async fn prepare(&self, store: &Store, keys: &Keys) -> Result<()> {
        if self.kind == Kind::Reads {
            let writes = stream::iter(keys.0.iter()).map(|key| write(store, key));
            writes.buffer_unordered(64).try_collect::<()>().await?;
        }
        Ok(())
    }

    /// Makes requests for `keys`, drawn at random. `backend` is the backend of `store`.
    pub(super) async fn put_on(&self, store: &Store, keys: &Keys, backend: &Counted) -> Result<RequestPace> {
        let (kind, counts) = (self.kind, Arc::new(AtomicU64::new(0)));
        let began = Instant::now();
        let (from, until) = (began + self.warm_up, began + self.warm_up + self.time);
        let mut callers = JoinSet::new();
        for number in 0..self.callers {
            let (store, keys, counts) = (store.clone(), keys.clone(), counts.clone());
            callers.spawn(async move {
                let mut random = fastrand::Rng::with_seed(u64::from(number));
                let mut times = Vec::new();
                loop {
                    let (key, began) = (&keys.0[random.usize(..keys.0.len())], Instant::now());
                    if began >= until {
                        return Ok::<_, crate::Error>(times);
                    }
                    match kind {
                        Kind::Writes => write(&store, key).await?,
                        Kind::Reads => read(&store, key).await?,
                    }
                    let ended = Instant::now();
                    if (from..until).contains(&ended) {
                        times.push((ended - began).as_secs_f64());
                        counts.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        tokio::time::sleep_until(from.into()).await;
        let refused_before = backend.refused();
        tokio::time::sleep_until(until.into()).await;
        let (done, refused) = (counts.load(Relaxed), backend.refused() - refused_before);
        let mut times = Vec::new();
        while let Some(caller) = callers.join_next().await {
            times.extend(caller??);
        }
        times.sort_by(f64::total_cmp);
        let per_second = done as f64 / self.time.as_secs_f64();
        Ok(RequestPace { per_second, refused, refused_before, p99: quantile(&times, 0.99), done })
    }
}

async fn write(store: &Store, key: &str) -> Result<()> {
    let mut writer = store.writer(key).size_hint(SIZE as u64).await?;
    writer.write_bytes(Bytes::from_static(&[7; SIZE])).await?;
    writer.finish().await?;
    Ok(())
}

async fn read(store: &Store, key: &str) -> Result<()> {
    let mut reader = store.reader(key).await?;
    while reader.try_next().await?.is_some() {}
    Ok(())
}
