//! Transfers of an engine that has a limit of bytes a second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::backend::Backend;

const MB: u64 = 1_000_000;

/// Stores over the same objects: one of an engine with the limit, one of an engine without.
fn stores(per_second: u64, backend: impl Backend) -> (Store, Store) {
    let backend: Arc<dyn Backend> = Arc::new(backend);
    let limited = Tidegate::builder().bandwidth(per_second).build().unwrap();
    (limited.store(backend.clone()), Tidegate::builder().build().unwrap().store(backend))
}

fn bytes(len: u64) -> Bytes {
    (0..len).map(|at| (at % 251) as u8).collect::<Vec<_>>().into()
}

fn assert_took(began: Instant, seconds: f64) {
    let took = began.elapsed().as_secs_f64();
    assert!((seconds * 0.97..seconds * 1.05).contains(&took), "{took} s instead of {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn uploads_and_downloads_together_keep_to_the_limit() {
    let (store, unlimited) = stores(MB, Memory::new("m"));
    let directory = tempfile::tempdir().unwrap();
    for key in ["read", "download"] {
        unlimited.put(key, bytes(2 * MB)).await.unwrap();
    }
    for at in 0..100 {
        unlimited.put(format!("small/{at}"), bytes(10_000)).await.unwrap();
    }
    let (began, mut tasks) = (Instant::now(), JoinSet::new());
    for key in ["put/a", "put/b"] {
        let store = store.clone();
        tasks.spawn(async move { store.put(key, bytes(MB)).await.map(drop) });
    }
    let (pipe, reader, download, path) =
        (store.clone(), store.clone(), store.clone(), directory.path().join("d"));
    tasks.spawn(async move {
        let mut writer = pipe.writer("pipe").await?;
        for _ in 0..20 {
            writer.write_bytes(bytes(100_000)).await?;
        }
        writer.finish().await.map(drop)
    });
    tasks.spawn(async move { reader.get("read").await.map(|read| assert_eq!(read, bytes(2 * MB))) });
    tasks.spawn(async move { download.download("download", path).await.map(drop) });
    for at in 0..100 {
        let (from, to) = (store.clone(), store.clone());
        tasks.spawn(async move {
            let read = from.get(format!("small/{at}")).await?;
            to.put(format!("copied/{at}"), read).await.map(drop)
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    // 2 puts, the pipe, the reader, the download, and 100 copies in both directions.
    assert_took(began, 2.0 + 2.0 + 2.0 + 2.0 + 2.0);
    assert_eq!(unlimited.get("pipe").await.unwrap().len(), 2_000_000);
    assert_eq!(std::fs::read(directory.path().join("d")).unwrap(), bytes(2 * MB));
    assert_eq!(unlimited.get("copied/7").await.unwrap(), bytes(10_000));
    let progress = store.tide().progress().snapshot();
    assert_eq!((progress.retries, progress.hedges), (0, 0));
}

/// Counts the parts in flight.
#[derive(Debug, Default)]
struct PartsInFlight(Mutex<(usize, usize)>);

#[async_trait]
impl Script for PartsInFlight {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let is_part = usize::from(matches!(call, Call::Part { .. }));
        let count = |more: bool| {
            let (now, most) = &mut *self.0.lock().unwrap();
            *now = if more { *now + is_part } else { *now - is_part };
            *most = (*most).max(*now);
        };
        count(true);
        let answer = below.send(call).await;
        count(false);
        answer
    }
}

#[tokio::test(start_paused = true)]
async fn at_a_very_low_rate_few_parts_are_in_flight_and_none_is_retried() {
    let scripted = Scripted::new(Memory::new("m"), PartsInFlight::default());
    let tide = Tidegate::builder().bandwidth(20_000).build().unwrap();
    let store = tide.store(scripted.clone());
    let began = Instant::now();
    let mut writer = store.writer("k").part_size(5 << 20).await.unwrap();
    for _ in 0..30 {
        writer.write_bytes(bytes(MB)).await.unwrap();
    }
    writer.finish().await.unwrap();
    assert_took(began, 1500.0);
    let most = scripted.0.lock().unwrap().1;
    assert!((2..=4).contains(&most), "{most} parts in flight");
    let progress = tide.progress().snapshot();
    assert_eq!((progress.retries, progress.hedges), (0, 0));
}

#[tokio::test]
async fn a_local_directory_is_not_limited() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().bandwidth(1000).build().unwrap();
    let store = tide.open(directory.path().to_str().unwrap()).await.unwrap();
    let copied = async {
        store.put("a", bytes(MB)).await.unwrap();
        store.get("a").await.unwrap().len()
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), copied).await, Ok(1_000_000));
}

#[test]
fn a_bandwidth_of_nothing_is_refused() {
    let error = Tidegate::builder().bandwidth(0).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}
