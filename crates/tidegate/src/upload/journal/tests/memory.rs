//! How much memory journaled uploads hold, and which uploads wait for others.

use std::pin::pin;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::testkit::small_disk::SmallDisk;

const LONG: Duration = Duration::from_secs(10);

/// A store whose retries pause for longer than a test, while each request keeps its buffers.
fn pausing(place: &Place) -> (Tidegate, Store) {
    let retry = RetryPolicy { first_pause: Duration::from_secs(40), ..RetryPolicy::default() };
    place.process_of(place.builder().retry(retry))
}

#[test]
fn too_little_memory_says_what_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Tidegate::builder().memory(7 * 4096).slab(4096).journal([folder.path()]);
    let error = builder.clone().memory(5 * 4096).build().unwrap_err().to_string();
    assert!(
        error.contains("12288 bytes that sending from journals takes") && !error.contains("spool"),
        "{error}"
    );
    let error = builder.spool([folder.path()]).build().unwrap_err().to_string();
    let both =
        "12288 bytes that sending from journals takes and the 12288 bytes that sending from a spool takes";
    assert!(error.contains(both), "{error}");
}

#[tokio::test]
async fn beside_a_journaled_writer_others_fill_their_parts_at_once() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let _journaled = store.writer("k").strategy(Strategy::Journal).part_size(1 << 30).start().await?;
    let mut one = store.writer("one").start().await?;
    let mut other = store.writer("other").start().await?;
    for _ in 0..10 {
        one.write_bytes(data(PART / 2)).await?;
        other.write_bytes(data(PART / 2)).await?;
    }
    one.finish().await?;
    other.finish().await?;
    Ok(())
}

#[tokio::test]
async fn what_producers_hold_does_not_keep_requests_from_memory() -> Result<()> {
    for size in [100, 10 * PART] {
        let place = Place::new();
        let (_tide, store) = place.process();
        place.backend.go_down(true);
        let mut writer = place.writer(&store).await?;
        writer.write_bytes(data(size)).await?;
        // Appends that wait for room on a full disk hold memory like this.
        let budget = store.context().engine().budget.clone();
        let _all = budget.lease(budget.total()).await.unwrap();
        place.backend.go_down(false);
        timeout(LONG, writer.finish()).await.expect("it waits for memory")?;
        assert_eq!(stored(&store, "k").await, data(size));
    }
    Ok(())
}

#[tokio::test]
async fn quiet_sources_keep_nothing_from_others() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let mut reading = JoinSet::new();
    let mut ends = Vec::new();
    for number in 0..100 {
        let mut writer = store.writer(format!("{number}")).strategy(Strategy::Journal).start().await?;
        let (end, mut source) = tokio::io::duplex(64);
        ends.push(end);
        reading.spawn(async move { writer.read_from(&mut source).await });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut writer = store.writer("k").start().await?;
    timeout(LONG, writer.write_bytes(data(5 * PART))).await.expect("it waits for what quiet sources hold")?;
    timeout(LONG, writer.finish()).await.expect("it waits for what quiet sources hold")?;
    assert_eq!(tide.usage().held, 0);
    reading.shutdown().await;
    drop(ends);
    Ok(())
}

#[tokio::test]
async fn a_sink_that_is_fed_no_more_keeps_nothing_from_others() -> Result<()> {
    let place = Place::new();
    let (tide, store) = place.process();
    let mut writer = place.writer(&store).await?;
    SinkExt::feed(&mut writer, data(100)).await?;
    // As a caller does before it feeds the next item.
    futures::future::poll_fn(|cx| futures::Sink::poll_ready(std::pin::Pin::new(&mut writer), cx)).await?;
    for _ in 0..1000 {
        if tide.usage().held == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", tide.usage());
}

#[tokio::test]
async fn what_a_cancelled_write_was_granted_goes_to_others() -> Result<()> {
    let place = Place::new();
    let (_tide, store) = place.process();
    let budget = store.context().engine().budget.clone();
    let all = budget.lease(budget.total()).await.unwrap();
    let mut writer = place.writer(&store).await?;
    assert!(timeout(Duration::from_millis(20), writer.write_bytes(data(100))).await.is_err());
    let mut next = pin!(budget.lease(budget.total()));
    assert!(timeout(Duration::from_millis(20), &mut next).await.is_err());
    drop(all);
    let all = timeout(LONG, next).await.expect("it waits for what nobody takes").unwrap();
    drop(all);
    writer.write_bytes(data(PART)).await?;
    writer.finish().await?;
    assert_eq!(stored(&store, "k").await, data(PART));
    Ok(())
}

/// A `finish` keeps its buffers while its request pauses before a retry; producers still need memory.
#[tokio::test]
async fn small_objects_that_wait_for_the_store_leave_memory_to_producers() -> Result<()> {
    let place = Place::new();
    let (tide, store) = pausing(&place);
    place.backend.go_down(true);
    let mut finishing = JoinSet::new();
    for number in 0..100 {
        let mut writer = store.writer(format!("{number}")).strategy(Strategy::Journal).start().await?;
        let write = timeout(LONG, writer.write_bytes(data(4096))).await;
        write.expect("the producer is held up by requests that pause")?;
        finishing.spawn(writer.finish());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut writer = place.writer(&store).await?;
    let write = timeout(LONG, writer.write_bytes(data(20 * PART))).await;
    write.expect("the producer is held up by requests that pause")?;
    finishing.shutdown().await;
    drop(writer);
    tide.settled().await;
    Ok(())
}

#[tokio::test]
async fn a_store_that_is_down_does_not_hold_up_another() -> Result<()> {
    let place = Place::new();
    let (tide, store) = pausing(&place);
    let mut writer = store.writer("k").strategy(Strategy::Journal).concurrency(100).start().await?;
    writer.write_bytes(data(2 * PART)).await?;
    while writer.progress().snapshot().acknowledged < PART {
        tokio::task::yield_now().await;
    }
    place.backend.go_down(true);
    writer.write_bytes(data(100 * PART)).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    let other = tide.store(Arc::new(Memory::new("other").with_capabilities(capabilities)));
    for size in [100, 20 * PART] {
        let mut beside = other.writer("k").strategy(Strategy::Journal).start().await?;
        beside.write_bytes(data(size)).await?;
        timeout(LONG, beside.finish()).await.expect("one store waits for another")?;
    }
    place.backend.go_down(false);
    writer.abort().await
}

/// Polls `future` to its end outside of any runtime.
fn outside<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        if let std::task::Poll::Ready(done) =
            future.as_mut().poll(&mut std::task::Context::from_waker(&waker))
        {
            return done;
        }
        std::thread::park();
    }
}

#[test]
fn it_is_synced_and_ended_outside_of_a_runtime() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_tide, store) = place.process();
    let mut writer = runtime.block_on(place.writer(&store)).unwrap();
    let synced = outside(async {
        writer.write_bytes(data(5 * PART)).await?;
        writer.sync().await
    });
    assert_eq!(synced.unwrap(), 5 * PART);
    outside(writer.abort()).unwrap();
    assert_eq!(place.files(), 0);

    let mut writer = runtime.block_on(place.writer(&store)).unwrap();
    let object = outside(async {
        writer.write_bytes(data(5 * PART)).await?;
        writer.finish().await
    });
    assert_eq!(object.unwrap().size, 5 * PART);
}

#[tokio::test]
async fn many_writers_on_a_full_disk_go_on_when_the_store_is_back() -> Result<()> {
    let place = Place::new();
    let Some(_small) = SmallDisk::over(place.folder.path(), 2) else { return Ok(()) };
    let (tide, store) = place.process_of(place.builder().memory_wait(Duration::from_secs(5)));
    place.backend.go_down(true);
    let mut writing = JoinSet::new();
    let (back, is_back) = tokio::sync::watch::channel(false);
    for number in 0..20 {
        let (store, mut is_back) = (store.clone(), is_back.clone());
        writing.spawn(async move {
            let mut writer = store.writer(format!("{number}")).strategy(Strategy::Journal).start().await?;
            for _ in 0..20 {
                writer.write_bytes(data(2 * PART)).await?;
            }
            // The disk has room for one whole upload, whose `finish` would not wait until the store is back.
            is_back.wait_for(|back| *back).await.unwrap();
            writer.finish().await
        });
    }
    while tide.progress().snapshot().waiting != Some(crate::progress::Waiting::Disk) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    place.backend.go_down(false);
    back.send_replace(true);
    while let Some(written) = writing.join_next().await {
        assert_eq!(written.unwrap()?.size, 40 * PART);
    }
    assert!(tide.usage().peak <= 256 * KIB, "{:?}", tide.usage());
    Ok(())
}
