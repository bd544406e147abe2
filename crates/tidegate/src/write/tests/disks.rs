//! Spool disks that do nothing at all.

use std::io;

use async_trait::async_trait;
use tokio::time::timeout;

use super::*;
use crate::spool::{Disk, Space};

const MEMORY: u64 = 128 * KIB;
const LONG: Duration = Duration::from_secs(3600);

/// As a network file system whose server is gone.
#[derive(Debug)]
struct Hangs;

#[async_trait]
impl Disk for Hangs {
    fn name(&self) -> String {
        "hangs".to_owned()
    }

    async fn write(&self, _: Vec<(u64, Bytes)>) -> io::Result<()> {
        std::future::pending().await
    }

    fn read_cached(&self, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn read(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::TimedOut.into())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { free: 1 << 30, total: 1 << 30 })
    }

    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}

fn builder() -> crate::Builder {
    let wait = Duration::from_secs(5);
    Tidegate::builder().memory(MEMORY).slab(4096).part_size(PART).memory_wait(wait).seed(1)
}

/// Writes beside writers that stopped.
async fn writes(tide: &Tidegate) -> Result<()> {
    let store = store(tide);
    let mut stopped = Vec::new();
    for number in 0..20 {
        let builder = store.writer(format!("{number}")).idle_limit(Duration::from_secs(2));
        let mut writer = builder.start().await?;
        if timeout(Duration::from_millis(1), writer.write(data(PART - 1))).await.is_err() {
            break; // and is dropped
        }
        stopped.push(writer);
    }
    let mut writer = store.writer("k").start().await?;
    timeout(LONG, writer.write(data(5 * PART))).await.expect("it waits for ever")
}

#[tokio::test(start_paused = true)]
async fn with_a_disk_that_hangs_it_is_as_without() {
    let tide = builder().spool_disk(Arc::new(Hangs)).build().unwrap();
    // Idle writers are ended, or it is an error.
    let _ = writes(&tide).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_does_not_keep_others_from_their_work() {
    let folder = tempfile::tempdir().unwrap();
    let tide = builder().spool_disk(Arc::new(Hangs)).spool([folder.path()]).build().unwrap();
    let _ = writes(&tide).await;
}

/// As a disk that is broken, not full.
#[derive(Debug)]
struct Fails;

#[async_trait]
impl Disk for Fails {
    fn name(&self) -> String {
        "fails".to_owned()
    }

    async fn write(&self, _: Vec<(u64, Bytes)>) -> io::Result<()> {
        Err(io::Error::other("Input/output error"))
    }

    fn read_cached(&self, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn read(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::Error::other("Input/output error"))
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { free: 1 << 30, total: 1 << 30 })
    }

    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_broken_disk_is_not_said_to_be_full() {
    let tide = builder().spool_disk(Arc::new(Fails)).build().unwrap();
    let mut writer = store(&tide).writer("k").strategy(Strategy::Spool).start().await.unwrap();
    let error = writer.write(data(100 * PART)).await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::NoSpace, "{error}");
}
