//! A disk for tests that fails in one way, which the test can change.
#![allow(missing_docs, clippy::unwrap_used, reason = "only tests use this")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use super::disk::{Disk, Space};

/// How a write ends.
#[derive(Clone, Copy, Debug)]
pub enum Write {
    /// It succeeds, but reads return zeros.
    Forgets,
    Fails,
    Full,
    /// `Full` for one write, then `Forgets`.
    FullOnce,
    /// It does not end until the test changes the way.
    Hangs,
}

/// A faulty disk, which counts its writes.
#[derive(Debug)]
pub struct Sick {
    write: Mutex<Write>,
    changed: Notify,
    writes: AtomicUsize,
    free: u64,
}

impl Sick {
    pub fn new(write: Write) -> Arc<Self> {
        Self::with_free(write, 1 << 30)
    }

    /// A disk that reports so many free bytes.
    pub fn with_free(write: Write, free: u64) -> Arc<Self> {
        let (write, changed, writes) = (Mutex::new(write), Notify::new(), AtomicUsize::new(0));
        Arc::new(Self { write, changed, writes, free })
    }

    pub fn becomes(&self, write: Write) {
        *self.write.lock().unwrap() = write;
        self.changed.notify_waiters();
    }

    pub fn writes(&self) -> usize {
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
        loop {
            let changed = self.changed.notified();
            let write = *self.write.lock().unwrap();
            match write {
                Write::Forgets => return Ok(()),
                Write::Fails => return Err(io::Error::other("Input/output error")),
                Write::Full => return Err(io::ErrorKind::StorageFull.into()),
                Write::FullOnce => {
                    self.becomes(Write::Forgets);
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Write::Hangs => changed.await,
            }
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
        Ok(Space { free: self.free, total: 1 << 30 })
    }

    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}
