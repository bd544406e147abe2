//! A disk for tests that does one thing wrong, and can change its ways.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;

use super::disk::{Disk, Space};

/// What a write comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write {
    /// It is said to be done, and zeros are read.
    Forgets,
    Fails,
    Full,
    Hangs,
}

/// A disk; counts the writes that it was asked for.
#[derive(Debug)]
pub(crate) struct Sick {
    write: Mutex<Write>,
    writes: AtomicUsize,
}

impl Sick {
    pub(crate) fn new(write: Write) -> Arc<Self> {
        Arc::new(Self { write: Mutex::new(write), writes: AtomicUsize::new(0) })
    }

    pub(crate) fn becomes(&self, write: Write) {
        *self.write.lock().unwrap() = write;
    }

    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Relaxed)
    }
}

#[async_trait]
impl Disk for Sick {
    fn name(&self) -> String {
        "sick".to_owned()
    }

    async fn write(&self, _: Vec<(u64, Bytes)>) -> io::Result<()> {
        self.writes.fetch_add(1, Relaxed);
        let write = *self.write.lock().unwrap();
        match write {
            Write::Forgets => Ok(()),
            Write::Fails => Err(io::Error::other("Input/output error")),
            Write::Full => Err(io::ErrorKind::StorageFull.into()),
            Write::Hangs => std::future::pending().await,
        }
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read(buffer, offset).map(Some)
    }

    fn read(&self, buffer: &mut [u8], _: u64) -> io::Result<usize> {
        buffer.fill(0);
        Ok(buffer.len())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { free: 1 << 30, total: 1 << 30 })
    }

    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}
