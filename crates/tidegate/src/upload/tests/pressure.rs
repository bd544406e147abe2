//! Writers that stop and hold memory, with and without a spool.

use super::*;
use tokio::time::{Instant, timeout};

use crate::memory::spool::sick::{Sick, Write};

const MEMORY: u64 = 128 * KIB;

fn builder() -> crate::TidegateBuilder {
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1)
}

fn spooled() -> (tempfile::TempDir, Tidegate) {
    let folder = tempfile::tempdir().unwrap();
    let tide = builder().spool([folder.path()]).build().unwrap();
    (folder, tide)
}

/// Each writer stops at its own moment, so ending them one at a time would take one idle limit each.
#[tokio::test(start_paused = true)]
async fn idle_writers_are_ended_many_at_a_time() -> Result<()> {
    let (tide, limit, began) = (builder().build()?, Duration::from_secs(2), Instant::now());
    let store = store(&tide);
    let writers = (0..300).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut writer = store.writer(format!("{number}")).idle_limit(limit).start().await?;
            for _ in 0..if number % 3 == 0 { 5 } else { 10 } {
                writer.write_bytes(data(KIB)).await?;
                tokio::task::yield_now().await;
            }
            if number % 3 == 0 {
                return std::future::pending().await;
            }
            writer.finish().await
        })
    });
    let writers: Vec<_> = writers.collect();
    for (number, writer) in writers.into_iter().enumerate().filter(|(number, _)| number % 3 > 0) {
        assert!(writer.await.unwrap().is_ok(), "{number}");
    }
    // 100 abandoned parts of two slabs each; 14 fit beside the largest part.
    assert!(began.elapsed() < limit * 12, "{:?}", began.elapsed());
    Ok(())
}

/// Writers that hold most of the memory in half-filled parts and stop.
async fn abandoned(store: &Store, idle_limit: Option<Duration>) -> Vec<crate::Writer> {
    let mut writers = Vec::new();
    for number in 0..40 {
        let mut builder = store.writer(format!("abandoned-{number}"));
        if let Some(limit) = idle_limit {
            builder = builder.idle_limit(limit);
        }
        let mut writer = builder.start().await.unwrap();
        let wrote = timeout(Duration::from_secs(1), writer.write_bytes(data(PART - 1))).await;
        writers.push(writer);
        if wrote.is_err() {
            break;
        }
        wrote.unwrap().unwrap();
    }
    writers
}

/// If the errors came one after another, each after the whole wait, thousands of writers would wait for days.
#[tokio::test(start_paused = true)]
async fn who_waits_in_vain_is_told_in_time() -> Result<()> {
    let wait = Duration::from_secs(60);
    let tide = builder().memory_wait(wait).build()?;
    let store = store(&tide);
    let mut writers = abandoned(&store, None).await;
    // Room for some of the waiting writers, which then wait with one slab each.
    drop(writers.pop());
    drop(writers.pop());
    let began = Instant::now();
    // When a part last left: every wait restarts then.
    let left = Arc::new(std::sync::Mutex::new(began));
    let waiting = (0..500).map(|number| {
        let (store, left) = (store.clone(), left.clone());
        tokio::spawn(async move {
            let mut writer = store.writer(format!("{number}")).start().await?;
            for _ in 0..MEMORY / KIB {
                let asked = Instant::now();
                let result = writer.write_bytes(data(KIB)).await;
                if result.is_ok() && writer.position().is_multiple_of(PART) {
                    *left.lock().unwrap() = Instant::now();
                }
                let (waited, anew) = (asked.elapsed(), asked.max(*left.lock().unwrap()).elapsed());
                let in_time = waited >= wait && anew <= 2 * wait + 500 * Duration::from_millis(5);
                assert!(result.is_ok() || in_time, "{waited:?}, {anew:?} since a part left");
                result?;
            }
            writer.finish().await
        })
    });
    let mut starved = 0;
    for waiting in waiting.collect::<Vec<_>>() {
        let Err(error) = waiting.await.unwrap() else { continue };
        assert_eq!(error.kind(), ErrorKind::Starved, "{error}");
        starved += 1;
    }
    assert!(starved > 100, "{starved}");
    // Some writers got a slab from writers that failed before them, and restarted their wait, or filled a part.
    assert!(began.elapsed() < 4 * wait, "{starved} were told after {:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn what_memory_has_no_room_for_goes_through_the_spool() -> Result<()> {
    let (_folder, tide) = spooled();
    let store = store(&tide);
    let reserved = tide.usage().held;
    let mut writers = abandoned(&store, None).await;
    assert_eq!(writers.len(), 40, "all of them could write");
    let bytes = data(5 * PART + 17);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(bytes.clone()).await?;
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, bytes);
    assert!(tide.progress().snapshot().spilled > 0);
    // The stopped writers have lost nothing when they continue.
    for (number, writer) in writers.iter_mut().enumerate() {
        writer.write_bytes(data(number as u64 * 1000)).await?;
    }
    for (number, writer) in writers.into_iter().enumerate() {
        writer.finish().await?;
        let whole = [data(PART - 1), data(number as u64 * 1000)].concat();
        assert!(stored(&store, &format!("abandoned-{number}")).await == whole, "{number}");
    }
    assert!(tide.usage().peak <= MEMORY);
    assert_eq!(tide.usage().held, reserved);
    Ok(())
}

#[tokio::test]
async fn one_task_can_feed_many_writers_in_turn_with_a_spool() -> Result<()> {
    let (_folder, tide) = spooled();
    let store = store(&tide);
    let mut writers = Vec::new();
    for number in 0..100 {
        writers.push(store.writer(format!("{number:03}")).start().await?);
    }
    let bytes = data(2 * PART + 5);
    for at in (0..bytes.len()).step_by(777) {
        for writer in &mut writers {
            writer.write_bytes(bytes.slice(at..bytes.len().min(at + 777))).await?;
        }
    }
    for (number, writer) in writers.into_iter().enumerate() {
        writer.finish().await?;
        assert!(stored(&store, &format!("{number:03}")).await == bytes, "{number}");
    }
    assert!(tide.usage().peak <= MEMORY);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_nothing_can_end_becomes_an_error() -> Result<()> {
    let tide = builder().memory_wait(Duration::from_secs(5)).build()?;
    let store = store(&tide);
    let mut writers = abandoned(&store, None).await;
    drop(writers.pop()); // the writer that had to wait
    let mut writer = store.writer("k").start().await?;
    let began = Instant::now();
    let error = writer.write_bytes(data(MEMORY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Starved);
    assert!((5.0..6.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
    let said = error.to_string();
    assert!(said.contains("memory://test/abandoned-") && said.contains("set a spool directory"), "{said}");
    assert_eq!(writer.write_bytes(data(1)).await.unwrap_err().kind(), ErrorKind::Closed);
    // The writers that hold the memory can continue.
    let mut first = writers.remove(0);
    drop(writers);
    first.write_bytes(data(1)).await?;
    first.finish().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_starves_nobody() -> Result<()> {
    let tide = builder().memory_wait(Duration::from_millis(500)).build()?;
    let store = store(&tide);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let store = store.clone();
        tasks.spawn(async move {
            let mut writer = store.writer(format!("{number}")).start().await?;
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                writer.write_bytes(data(1000)).await?;
            }
            writer.finish().await
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.unwrap()?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn writers_idle_beyond_their_limit_are_ended_for_those_who_wait() -> Result<()> {
    let tide = builder().build()?;
    let store = store(&tide);
    let mut writers = abandoned(&store, Some(Duration::from_secs(2))).await;
    drop(writers.pop());
    let bytes = data(3 * MEMORY);
    let mut writer = store.writer("k").idle_limit(Duration::from_secs(2)).start().await?;
    writer.write_bytes(bytes.clone()).await?;
    writer.finish().await?;
    assert!(stored(&store, "k").await == bytes);
    let mut ended = 0;
    for mut writer in writers {
        match writer.write_bytes(data(1)).await {
            Ok(()) => writer.abort().await?,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Idle, "{error}");
                assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::Closed);
                ended += 1;
            }
        }
    }
    assert!(ended > 0);
    tide.settled().await;
    assert_eq!(store.sessions("").count().await, 0);
    assert_eq!(tide.usage().held, 0);
    Ok(())
}

#[tokio::test]
async fn the_spool_strategy_sends_nothing_before_finish() -> Result<()> {
    let (_folder, tide) = spooled();
    let store = store(&tide);
    for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART, 300 * PART + 17] {
        let bytes = data(size);
        let builder = store.writer("k").strategy(Strategy::Spool);
        let progress = builder.progress();
        let mut writer = builder.start().await?;
        for start in (0..size).step_by(10_000) {
            writer.write_bytes(bytes.slice(start as usize..size.min(start + 10_000) as usize)).await?;
        }
        assert_eq!(progress.snapshot().requests, 0);
        writer.finish().await?;
        assert!(stored(&store, "k").await == bytes, "{size}");
        let parts = size.div_ceil(PART);
        assert_eq!(progress.snapshot().requests, if parts <= 1 { 1 } else { parts + 2 });
    }
    assert!(tide.usage().peak <= MEMORY);
    let mut writer = store.writer("dropped").strategy(Strategy::Spool).start().await?;
    writer.write_bytes(data(10 * PART)).await?;
    drop(writer);
    tide.settled().await;
    assert_eq!(store.list("dropped").count().await, 0);
    let refused = store_without_spool().writer("k").strategy(Strategy::Spool).start().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    Ok(())
}

fn store_without_spool() -> Store {
    store(&engine())
}

#[tokio::test]
async fn a_disk_that_gives_back_other_bytes_publishes_nothing() -> Result<()> {
    let disk = Sick::new(Write::Forgets);
    let tide = builder().spool_disk(disk.clone()).build()?;
    let store = store(&tide);
    let mut writer = store.writer("k").strategy(Strategy::Spool).start().await?;
    writer.write_bytes(data(100 * PART)).await?;
    assert!(disk.writes() > 0);
    let error = writer.finish().await.unwrap_err();
    assert!(error.to_string().contains("gave back other bytes"), "{error}");
    tide.settled().await;
    assert_eq!(store.list("").count().await, 0);
    assert_eq!(store.sessions("").count().await, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_full_spool_is_as_none() -> Result<()> {
    let disk = Sick::new(Write::Full);
    let tide = builder().spool_disk(disk).memory_wait(Duration::from_secs(5)).build()?;
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(5 * PART)).await?; // memory is enough for a writer that does not stop
    writer.finish().await?;
    let mut writers = abandoned(&store, None).await;
    drop(writers.pop());
    let mut writer = store.writer("l").start().await?;
    let error = writer.write_bytes(data(MEMORY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Starved);
    assert!(error.to_string().contains("make room in the spool (sick has"), "{error}");
    drop((writer, writers));
    let mut writer = store.writer("m").strategy(Strategy::Spool).start().await?;
    let error = writer.write_bytes(data(100 * PART)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    Ok(())
}

#[tokio::test]
async fn an_open_writer_is_small() {
    let tide = engine();
    let mut writer = store(&tide).writer("k").start().await.unwrap();
    let (upload, held) = (writer.side.upload().clone(), direct(&mut writer).source.part_buffer.clone());
    let size = size_of_val(&writer) + size_of_val(&*upload) + size_of_val(&*held);
    assert!(size <= 1824, "{size} bytes");
    let finish = size_of_val(&writer.finish());
    assert!(finish <= 560, "{finish} bytes: the writer is in it twice");
}

#[tokio::test]
async fn thousands_that_hold_memory_do_not_make_requests_slow() -> Result<()> {
    const EACH: u64 = 4 << 10;
    let memory = 20_000 * EACH;
    let tide = Tidegate::builder().memory(memory).slab(256 << 10).part_size(memory / 2).build()?;
    let store = store(&tide);
    let mut writers = Vec::new();
    for number in 0..10_001 {
        let mut writer = store.writer(format!("{number}")).start().await?;
        writer.write_bytes(data(1)).await?;
        writers.push(writer);
    }
    // One more writer waits for memory while requests continue.
    let mut waiting = store.writer("waiting").start().await?;
    let waits = tokio::spawn(async move { waiting.write_bytes(data(1)).await });
    while tide.usage().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let budget = store.context().engine().budget.clone();
    let began = std::time::Instant::now();
    for _ in 0..1000 {
        drop(budget.lease(EACH).await.unwrap());
        tokio::task::yield_now().await;
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    waits.abort();
    Ok(())
}
