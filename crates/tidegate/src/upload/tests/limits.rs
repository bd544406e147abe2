//! Limits set to the maximum value, as callers do that want no limit.

use tokio::time::timeout;

use super::*;

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(3600);

fn builder() -> crate::TidegateBuilder {
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1)
}

#[tokio::test(start_paused = true)]
async fn an_idle_limit_without_end_does_not_end_the_relief_of_others() -> Result<()> {
    let tide = builder().memory_wait(Duration::from_secs(5)).build()?;
    let store = store(&tide);
    let mut first = store.writer("first").part_size(MEMORY).idle_limit(Duration::MAX).start().await?;
    first.write_bytes(data(1)).await?;
    let mut second = store.writer("second").start().await?;
    let wrote = timeout(LONG, second.write_bytes(data(PART))).await.expect("it waits for ever");
    assert_eq!(wrote.unwrap_err().kind(), ErrorKind::Starved);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_memory_without_end_lets_idle_writers_be_ended() -> Result<()> {
    let tide = builder().memory_wait(Duration::MAX).build()?;
    let store = store(&tide);
    let limit = Duration::from_secs(5);
    let mut first = store.writer("first").part_size(MEMORY).idle_limit(limit).start().await?;
    first.write_bytes(data(1)).await?;
    let mut second = store.writer("second").start().await?;
    timeout(LONG, second.write_bytes(data(PART))).await.expect("it waits for ever")?;
    second.finish().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn patience_without_end_publishes() -> Result<()> {
    let policy =
        crate::settings::RetryPolicy { patience: Duration::MAX, ..crate::settings::RetryPolicy::default() };
    let tide = builder().retry(policy).build()?;
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    writer.finish().await?;
    Ok(())
}

#[tokio::test]
async fn memory_without_end_publishes() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("source");
    std::fs::write(&file, data(3 * PART)).unwrap();
    for builder in [Tidegate::builder(), Tidegate::builder().spool([folder.path()])] {
        let tide = builder.memory(u64::MAX).part_size(PART).parts_in_flight(usize::MAX).build()?;
        let store = store(&tide);
        for strategy in [Strategy::Auto, Strategy::Put, Strategy::Chunked, Strategy::Parallel] {
            let mut writer = store.writer("k").strategy(strategy).start().await?;
            writer.write_bytes(data(3 * PART)).await?;
            writer.finish().await?;
        }
        store.upload(&file, "k").await?;
    }
    Ok(())
}

#[tokio::test]
async fn slabs_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Tidegate::builder().memory(u64::MAX).spool([folder.path()]);
    assert_eq!(builder.slab(usize::MAX / 3).build().unwrap_err().kind(), ErrorKind::InvalidInput);
    for slab in [usize::MAX, usize::MAX / 3 + 1] {
        let refused = Tidegate::builder().memory(u64::MAX).slab(slab).build().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn what_is_too_large_for_the_memory_is_not_said_to_be_so_for_the_store() -> Result<()> {
    let tide = builder().build()?;
    let store = store(&tide);
    let refused = store.writer("k").strategy(Strategy::Put).size_hint(MEMORY + 1).start().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    let said = refused.to_string();
    assert!(said.contains("the memory budget of") && !said.contains("store takes"), "{said}");
    let refused = store.writer("k").strategy(Strategy::Put).size_hint(u64::MAX).start().await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("this store takes in one request") && !said.contains("budget"), "{said}");
    let mut writer = store.writer("k").strategy(Strategy::Put).start().await?;
    let said = writer.write_bytes(data(MEMORY)).await.unwrap_err().to_string();
    assert!(said.contains("raise the memory") && !said.contains("store takes"), "{said}");
    Ok(())
}
