//! Writes and finishes that are cancelled at random, against a slow store.

use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::backend::Fault;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

#[derive(Debug)]
pub(super) struct Slow;

async fn slowly<T>(request: impl Future<Output = T>) -> T {
    let nap = || sleep(Duration::from_millis(fastrand::u64(0..40)));
    nap().await;
    let answer = request.await;
    nap().await;
    answer
}

#[async_trait]
impl Script for Slow {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Head { .. } | Call::Get { .. } | Call::StoredParts { .. } => below.send(call).await,
            call => slowly(below.send(call)).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_writes_and_finishes_lose_nothing_and_leave_nothing() {
    for seed in 0..30 {
        fastrand::seed(seed);
        let slab = fastrand::choice([4 * KIB, 64 * KIB, 256 * KIB]).unwrap();
        let total = slab * fastrand::u64(4..20);
        let part = (total / fastrand::u64(1..5)).max(4 * KIB);
        let spool = tempfile::tempdir().unwrap();
        let builder = Tidegate::builder().memory(total).slab(slab as usize).part_size(part).seed(seed);
        let builder = if seed % 3 == 0 { builder.spool([spool.path()]) } else { builder };
        let Ok(tide) = builder.build() else { continue };
        let reserved = tide.usage().held;
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        let memory = Memory::new("test").with_capabilities(capabilities);
        let store = tide.store(Scripted::new(memory, Slow));
        let mut tasks = JoinSet::new();
        for number in 0..fastrand::u64(1..4) {
            tasks.spawn(write_and_cancel(store.clone(), format!("{seed}-{number}")));
        }
        while let Some(written) = tasks.join_next().await {
            let (key, bytes) = written.unwrap();
            let Ok(mut reader) = store.reader(&key).start().await else { continue };
            let mut there = Vec::new();
            reader.read_to_end(&mut there).await.unwrap();
            assert!(there == bytes, "{key}");
        }
        tide.settled().await;
        assert_eq!(tide.usage().held, reserved, "seed {seed}");
        assert!(tide.usage().peak <= total);
        assert_eq!(store.sessions("").count().await, 0, "seed {seed}");
    }
}

/// Writes an object, and cancels some of the writes; sometimes cancels `finish` as well.
async fn write_and_cancel(store: Store, key: String) -> (String, Bytes) {
    let bytes = data(fastrand::u64(0..4 << 20));
    let mut writer = store.writer(&key).concurrency(fastrand::usize(1..5)).start().await.unwrap();
    let mut cancelled = 0;
    while writer.position() < bytes.len() as u64 {
        let at = writer.position() as usize;
        let end = bytes.len().min(at + fastrand::usize(1..600_000));
        let limit = Duration::from_millis(fastrand::u64(0..30));
        match timeout(limit, writer.write_bytes(bytes.slice(at..end))).await {
            Ok(wrote) => wrote.unwrap(),
            Err(_) => cancelled += 1,
        }
        assert!(cancelled < 20_000, "{key} makes no progress at {at}: {:?}", writer.progress().snapshot());
    }
    if fastrand::u8(0..5) == 0 {
        let _ = timeout(Duration::from_millis(fastrand::u64(0..100)), writer.finish()).await;
    } else {
        assert_eq!(writer.finish().await.unwrap().size, bytes.len() as u64);
    }
    (key, bytes)
}
