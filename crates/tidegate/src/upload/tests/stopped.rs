//! Writers that stop at awkward moments, and slow writers that do not stop.

use tokio::time::{sleep, timeout};

use super::*;

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(600);

fn builder() -> crate::TidegateBuilder {
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).seed(1)
}

async fn commits(store: &Store) -> Result<()> {
    let bytes = data(5 * PART + 17);
    let mut writer = store.writer("k").start().await?;
    timeout(LONG, writer.write_bytes(bytes.clone())).await.expect("it waits for memory that never comes")?;
    writer.finish().await?;
    assert!(stored(store, "k").await == bytes);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_slow_producer_is_one_that_goes_on() -> Result<()> {
    let tide = builder().memory_wait(Duration::from_secs(5)).build()?;
    let store = store(&tide);
    // Its part may take all of the memory, so every other writer waits.
    let mut slow = store.writer("slow").part_size(MEMORY).start().await?;
    slow.write_bytes(data(1)).await?;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { commits(&store).await }
    });
    for _ in 0..30 {
        sleep(Duration::from_secs(1)).await;
        slow.write_bytes(data(1)).await?; // fits into its slab, so the budget does not notice
    }
    assert_eq!(tide.usage().waiting, 1);
    slow.finish().await?;
    waiting.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_write_was_granted_goes_to_others() -> Result<()> {
    let tide = builder().build()?;
    let store = store(&tide);
    // One part may take all of the memory, and the writes of other writers are cancelled while they wait.
    let mut first = store.writer("first").part_size(MEMORY).start().await?;
    first.write_bytes(data(1)).await?;
    let mut cancelled = Vec::new();
    for number in 0..200 {
        let mut writer = store.writer(format!("cancelled-{number}")).start().await?;
        assert!(timeout(Duration::from_millis(1), writer.write_bytes(data(PART))).await.is_err());
        cancelled.push(writer);
    }
    first.abort().await?;
    commits(&store).await?;
    // A writer that continues after its cancelled write has lost nothing.
    let mut one = cancelled.remove(7);
    drop(cancelled);
    one.write_bytes(data(PART)).await?;
    one.finish().await?;
    assert!(stored(&store, "cancelled-7").await == data(PART));
    Ok(())
}

#[tokio::test]
async fn whole_parts_of_the_spool_strategy_leave_memory_without_their_producer() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = builder().spool([folder.path()]).build()?;
    let store = store(&tide);
    let mut stopped = Vec::new();
    for number in 0..20 {
        let builder = store.writer(format!("{number}")).strategy(Strategy::Spool);
        let mut writer = builder.start().await?;
        timeout(LONG, writer.write_bytes(data(2 * PART))).await.expect("it waits for ever")?;
        stopped.push(writer);
    }
    commits(&store).await?;
    for (number, writer) in stopped.into_iter().enumerate() {
        writer.finish().await?;
        assert!(stored(&store, &format!("{number}")).await == data(2 * PART), "{number}");
    }
    Ok(())
}

#[tokio::test]
async fn what_was_published_is_not_said_to_be_aborted() -> Result<()> {
    let tide = builder().build()?;
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    writer.shutdown().await.unwrap();
    let aborted = writer.abort().await;
    assert_eq!(stored(&store, "k").await, data(3 * PART), "it is there for all to see");
    assert!(aborted.is_err(), "`abort` says that there is no object");
    Ok(())
}
