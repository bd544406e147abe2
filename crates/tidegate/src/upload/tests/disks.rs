//! Spool disks that fail, or that are full.

use tokio::time::timeout;

use super::*;
use crate::memory::spool::sick::{Sick, Write};

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(3600);

fn builder() -> crate::TidegateBuilder {
    let wait = Duration::from_secs(5);
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).memory_wait(wait).seed(1)
}

#[tokio::test]
async fn a_broken_disk_is_not_said_to_be_full() {
    let tide = builder().spool_disk(Sick::new(Write::Fails)).build().unwrap();
    let mut writer = store(&tide).writer("k").strategy(Strategy::Spool).start().await.unwrap();
    let error = writer.write_bytes(data(100 * PART)).await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::NoSpace, "{error}");
}

/// The writer has all of its bytes and waits only for room on a disk.
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_being_finished_is_not_idle() {
    const MIB: u64 = 1 << 20;
    let (disk, zeros) = (Sick::new(Write::Full), |bytes| Bytes::from(vec![0; bytes as usize]));
    let builder = Tidegate::builder().memory(4 * MIB).slab(64 << 10).part_size(2 * MIB).seed(1);
    let tide = builder.spool_disk(disk.clone()).memory_wait(Duration::from_secs(600)).build().unwrap();
    let store = store(&tide);
    // A spooled part is being sent, so room will come.
    let leaving = store.context().engine().spooling.as_ref().unwrap().line().ring().await;
    let mut beside = store.writer("beside").start().await.unwrap();
    beside.write_bytes(zeros(MIB)).await.unwrap();
    let spooled = store.writer("spooled").strategy(Strategy::Spool).idle_limit(Duration::from_secs(2));
    let mut spooled = spooled.start().await.unwrap();
    spooled.write_bytes(zeros(MIB)).await.unwrap();
    let finish = tokio::spawn(spooled.finish());
    let mut waiting = store.writer("waiting").start().await.unwrap();
    let waits = tokio::spawn(async move { waiting.write_bytes(zeros(2 * MIB)).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    disk.becomes(Write::Forgets);
    drop(leaving);
    let finished = timeout(LONG, finish).await.expect("it waits for ever").unwrap();
    assert!(finished.is_ok(), "{}", finished.unwrap_err());
    waits.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn room_that_came_while_a_write_failed_is_seen() -> Result<()> {
    let disk = Sick::new(Write::Forgets);
    let tide = builder().spool_disk(disk.clone()).build()?;
    let store = store(&tide);
    let spooling = store.context().engine().spooling.clone().unwrap();
    // A part of another upload is being sent from the spool.
    let other = spooling.spool().store(&Default::default(), &[data(PART)]).await.unwrap();
    let leaving = spooling.line().ring().await;
    disk.becomes(Write::Hangs);
    let mut writer = store.writer("k").strategy(Strategy::Spool).start().await?;
    let zeros = Bytes::from(vec![0; 3 * PART as usize]);
    let writing = tokio::spawn(async move {
        writer.write_bytes(zeros).await?;
        writer.finish().await
    });
    while disk.writes() < 2 {
        tokio::task::yield_now().await;
    }
    // The part leaves the spool before the failure of the write is known.
    drop(other);
    drop(leaving);
    disk.becomes(Write::FullOnce);
    timeout(LONG, writing).await.expect("it waits for ever").unwrap()?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_several_disks_take_in_part_is_no_progress() -> Result<()> {
    let [one, other] = [(); 2].map(|()| Sick::with_free(Write::Forgets, 256 * KIB));
    let builder = builder().memory(512 * KIB).spool_disk(one).spool_disk(other.clone());
    let tide = builder.build()?;
    let store = store(&tide);
    // Both disks have been measured, the second one as the slower. Then the second one has less room than it
    // reports, as when a quota is used up.
    let spool = store.context().engine().relief.spool().unwrap().clone();
    for bytes in [64 * KIB, KIB] {
        spool.store(&Default::default(), &[data(bytes)]).await.unwrap();
    }
    other.becomes(Write::Full);
    let mut first = store.writer("first").part_size(4096 * KIB).start().await?;
    first.write_bytes(data(400 * KIB)).await?;
    let mut second = store.writer("second").part_size(100 * KIB).start().await?;
    let wrote = timeout(LONG, second.write_bytes(data(100 * KIB))).await.expect("it waits for ever");
    assert_eq!(wrote.unwrap_err().kind(), ErrorKind::Starved);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn between_two_parts_of_a_writer_its_spool_is_not_taken_for_one_that_nothing_leaves() -> Result<()> {
    let (disk, zeros) =
        (Sick::new(Write::Forgets), |parts: u64| Bytes::from(vec![0; (parts * PART) as usize]));
    let tide = builder().spool_disk(disk.clone()).build()?;
    let store = super::unpolled::slow(&tide);
    let mut first = store.writer("first").strategy(Strategy::Spool).concurrency(1).start().await?;
    first.write_bytes(zeros(20)).await?;
    let first = tokio::spawn(first.finish());
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The only room comes from parts of the first writer that leave the spool, and that is not enough.
    disk.becomes(Write::Full);
    let mut second = store.writer("second").strategy(Strategy::Spool).start().await?;
    let second = tokio::spawn(async move { second.write_bytes(zeros(3)).await });
    let error = timeout(LONG, second).await.expect("it waits for ever").unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(first.is_finished(), "parts are on their way out of the spool");
    assert_eq!(first.await.unwrap()?.size, 20 * PART);
    Ok(())
}
