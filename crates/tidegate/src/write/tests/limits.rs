//! Limits that were set to the longest there is, as who wants none does.

use tokio::time::timeout;

use super::*;

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(3600);

fn builder() -> crate::Builder {
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1)
}

#[tokio::test(start_paused = true)]
async fn an_idle_limit_without_end_does_not_end_the_relief_of_others() -> Result<()> {
    let tide = builder().memory_wait(Duration::from_secs(5)).build()?;
    let store = store(&tide);
    let mut first = store.writer("first").part_size(MEMORY).idle_limit(Duration::MAX).start().await?;
    first.write(data(1)).await?;
    let mut second = store.writer("second").start().await?;
    let wrote = timeout(LONG, second.write(data(PART))).await.expect("it waits for ever");
    assert_eq!(wrote.unwrap_err().kind(), ErrorKind::Starved);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_memory_without_end_lets_idle_writers_be_ended() -> Result<()> {
    let tide = builder().memory_wait(Duration::MAX).build()?;
    let store = store(&tide);
    let limit = Duration::from_secs(5);
    let mut first = store.writer("first").part_size(MEMORY).idle_limit(limit).start().await?;
    first.write(data(1)).await?;
    let mut second = store.writer("second").start().await?;
    timeout(LONG, second.write(data(PART))).await.expect("it waits for ever")?;
    second.finish().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn patience_without_end_publishes() -> Result<()> {
    let policy = crate::RetryPolicy { patience: Duration::MAX, ..crate::RetryPolicy::default() };
    let tide = builder().retry(policy).build()?;
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write(data(3 * PART)).await?;
    writer.finish().await?;
    Ok(())
}
