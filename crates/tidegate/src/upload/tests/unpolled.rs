//! Futures that were polled once and never again, and writes that were cancelled long ago.

use tokio::time::{sleep, timeout};

use super::cancelled::Slow;
use super::*;
use crate::settings::Concurrency;
use crate::testkit::scripted::Scripted;

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(3600);

fn builder() -> crate::TidegateBuilder {
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).memory_wait(Duration::from_secs(5)).seed(1)
}

pub(super) fn slow(tide: &Tidegate) -> Store {
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    tide.store(Scripted::new(Memory::new("test").with_capabilities(capabilities), Slow))
}

#[tokio::test(start_paused = true)]
async fn a_finish_that_is_not_polled_does_not_keep_memory_for_ever() -> Result<()> {
    let tide = builder().build()?;
    let store = slow(&tide);
    let mut first = store.writer("first").part_size(MEMORY).start().await?;
    first.write_bytes(data(MEMORY)).await?;
    let mut finish = Box::pin(first.finish());
    assert!(futures::poll!(&mut finish).is_pending());
    let mut second = store.writer("second").start().await?;
    let wrote = timeout(LONG, second.write_bytes(data(PART))).await;
    assert!(wrote.is_ok(), "it waits for ever, and no error says so: {:?}", tide.usage());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_finish_that_is_not_polled_does_not_keep_its_turn_for_ever() -> Result<()> {
    let tide = builder().concurrency(Concurrency::Fixed(1)).build()?;
    let store = slow(&tide);
    let mut first = store.writer("first").start().await?;
    first.write_bytes(data(10)).await?;
    let mut finish = Box::pin(first.finish());
    assert!(futures::poll!(&mut finish).is_pending());
    let mut second = store.writer("second").start().await?;
    second.write_bytes(data(10)).await?;
    let finished = timeout(LONG, second.finish()).await;
    assert!(finished.is_ok(), "it waits for ever for a turn");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_not_polled_does_not_keep_what_it_was_granted() -> Result<()> {
    let tide = builder().build()?;
    let store = slow(&tide);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), data(5 * PART)).unwrap();
    let mut first = store.writer("first").part_size(MEMORY).start().await?;
    first.write_bytes(data(MEMORY)).await?;
    // Each upload waits for the memory of its first requests, and is not polled when it is granted.
    let mut uploads = Vec::new();
    for number in 0..11 {
        let upload = store.writer(format!("upload-{number}")).upload(file.path());
        let mut upload = Box::pin(upload);
        assert!(timeout(Duration::from_millis(100), &mut upload).await.is_err());
        uploads.push(upload);
    }
    assert_eq!(tide.usage().waiting, 11);
    first.finish().await?;
    let mut second = store.writer("second").start().await?;
    let wrote = timeout(LONG, second.write_bytes(data(PART))).await;
    assert!(wrote.is_ok(), "it waits for ever, and no error says so: {:?}", tide.usage());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_cancelled_long_ago_does_not_end_the_next_one() -> Result<()> {
    let tide = builder().build()?;
    let store = store(&tide);
    let mut first = store.writer("first").part_size(MEMORY).start().await?;
    first.write_bytes(data(1)).await?;
    let mut second = store.writer("second").part_size(MEMORY).start().await?;
    assert!(timeout(Duration::from_millis(1), second.write_bytes(data(PART))).await.is_err());
    sleep(Duration::from_secs(60)).await;
    first.abort().await?;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((tide.usage().held, tide.usage().waiting), (0, 0), "all of the memory is free");
    second.write_bytes(data(PART)).await?;
    second.finish().await?;
    Ok(())
}
