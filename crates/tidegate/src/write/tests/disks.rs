//! Spool disks that fail, and that are full.

use tokio::time::timeout;

use super::*;
use crate::spool::sick::{Sick, Write};

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(3600);

fn builder() -> crate::Builder {
    let wait = Duration::from_secs(5);
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).memory_wait(wait).seed(1)
}

#[tokio::test]
async fn a_broken_disk_is_not_said_to_be_full() {
    let tide = builder().spool_disk(Sick::new(Write::Fails)).build().unwrap();
    let mut writer = store(&tide).writer("k").strategy(Strategy::Spool).start().await.unwrap();
    let error = writer.write(data(100 * PART)).await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::NoSpace, "{error}");
}

/// All of its bytes are in, and what it waits for is room on a disk.
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_being_finished_is_not_idle() {
    const MIB: u64 = 1 << 20;
    let (disk, zeros) = (Sick::new(Write::Full), |bytes| Bytes::from(vec![0; bytes as usize]));
    let builder = Tidegate::builder().memory(4 * MIB).slab(64 << 10).part_size(2 * MIB).seed(1);
    let tide = builder.spool_disk(disk.clone()).memory_wait(Duration::from_secs(600)).build().unwrap();
    let store = store(&tide);
    // Something is on its way out of the spool, so that room will come.
    let leaving = store.engine().relief.spooling().unwrap().line().ring().await;
    let mut beside = store.writer("beside").start().await.unwrap();
    beside.write(zeros(MIB)).await.unwrap();
    let spooled = store.writer("spooled").strategy(Strategy::Spool).idle_limit(Duration::from_secs(2));
    let mut spooled = spooled.start().await.unwrap();
    spooled.write(zeros(MIB)).await.unwrap();
    let finish = tokio::spawn(spooled.finish());
    let mut waiting = store.writer("waiting").start().await.unwrap();
    let waits = tokio::spawn(async move { waiting.write(zeros(2 * MIB)).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    disk.becomes(Write::Forgets);
    drop(leaving);
    let finished = timeout(LONG, finish).await.expect("it waits for ever").unwrap();
    assert!(finished.is_ok(), "{}", finished.unwrap_err());
    waits.await.unwrap().unwrap();
}
