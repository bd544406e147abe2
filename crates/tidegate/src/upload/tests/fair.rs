//! No writer waits for as long as others keep running.

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cancelled::Slow;
use super::*;
use crate::testkit::scripted::Scripted;

const MEMORY: u64 = 128 * KIB;

fn builder() -> crate::TidegateBuilder {
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).memory_wait(Duration::from_secs(2)).seed(1)
}

fn slow(tide: &Tidegate) -> Store {
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    tide.store(Scripted::new(Memory::new("test").with_capabilities(capabilities), Slow))
}

/// Starts writers that stop, file uploads that never end, and a writer that waits for the stopped ones. Returns
/// the result of the waiting writer, or `None` after twenty seconds.
async fn beside_files(tide: &Tidegate, more: u64) -> Option<Result<()>> {
    let store = slow(tide);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), data(PART)).unwrap();
    let mut first = store.writer("first").part_size(MEMORY).start().await.unwrap();
    first.write_bytes(data(1)).await.unwrap();
    let mut stopped = Vec::new();
    for number in 0..more {
        let mut writer = store.writer(format!("stopped-{number}")).start().await.unwrap();
        writer.write_bytes(data(PART - 1)).await.unwrap();
        stopped.push(writer);
    }
    let mut uploads = JoinSet::new();
    for number in 0..30 {
        let (store, path) = (store.clone(), file.path().to_owned());
        uploads.spawn(async move {
            loop {
                store.writer(format!("upload-{number}")).upload(&path).await.unwrap();
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut second = store.writer("second").part_size(MEMORY).start().await.unwrap();
    let wrote = timeout(Duration::from_secs(20), second.write_bytes(data(PART))).await.ok();
    uploads.shutdown().await;
    drop(stopped);
    wrote
}

#[tokio::test(start_paused = true)]
async fn a_wait_becomes_an_error_although_files_are_sent_all_the_while() {
    let tide = builder().build().unwrap();
    let wrote = beside_files(&tide, 0).await.expect("files pass it for ever");
    assert_eq!(wrote.unwrap_err().kind(), ErrorKind::Starved);
}

#[tokio::test(start_paused = true)]
async fn a_spool_takes_what_is_waited_for_although_files_are_sent_all_the_while() {
    let folder = tempfile::tempdir().unwrap();
    let tide = builder().spool([folder.path()]).build().unwrap();
    beside_files(&tide, 4).await.expect("files pass it for ever").unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_writers_spooled_parts_do_not_keep_all_others_waiting() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = builder().spool([folder.path()]).build()?;
    let store = slow(&tide);
    let large = store.writer("large").strategy(Strategy::Spool);
    let sent = large.progress();
    let mut large = large.start().await?;
    large.write_bytes(data(200 * PART)).await?;
    let mut small = store.writer("small").strategy(Strategy::Spool).start().await?;
    small.write_bytes(data(2 * PART)).await?;
    let large = tokio::spawn(large.finish());
    tokio::time::sleep(Duration::from_millis(500)).await;
    small.finish().await?;
    let before = sent.snapshot().acknowledged / PART;
    large.await.unwrap()?;
    assert!(before < 100, "two parts waited for {before} parts of another writer");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_spool_strategy_keeps_to_the_writers_concurrency() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = builder().memory(1 << 20).spool([folder.path()]).build()?;
    let store = slow(&tide);
    let builder = store.writer("k").strategy(Strategy::Spool).concurrency(1);
    let progress = builder.progress();
    let mut writer = builder.start().await?;
    writer.write_bytes(data(50 * PART)).await?;
    let finish = tokio::spawn(writer.finish());
    let mut most = 0;
    while !finish.is_finished() {
        most = most.max(progress.snapshot().in_flight);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    finish.await.unwrap()?;
    assert!(most <= PART, "{} parts in flight where one was asked for", most / PART);
    Ok(())
}
