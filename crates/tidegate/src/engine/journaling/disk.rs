//! A disk with journals on it: who waits for room there, how fast it is, whether bytes leave it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::journal::JournalReader;
use crate::memory::payload::ReadAt;
use crate::types::checksum::Checksum;

/// What the producer's side of a journaled upload reports to the side that sends to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feed {
    /// Bytes of the object that are in the journal.
    pub(crate) length: u64,
    /// The whole object's checksum, once its producer has finished.
    pub(crate) finish: Option<Checksum>,
    /// The disk is full: the upload should free all space that it can.
    pub(crate) full: bool,
}

/// State shared by all uploads of this engine whose journals are on one disk.
#[derive(Debug, Default)]
pub(crate) struct JournalDisk {
    /// Counts up as bytes leave the disk.
    moved: AtomicU64,
    uploads: Mutex<DiskUploads>,
    /// The queue of writers that wait to append; the holder of the lock is first.
    pub(crate) line: tokio::sync::Mutex<()>,
    /// Notified when there may be more room.
    pub(crate) room: Notify,
    append_rate: Mutex<AppendRate>,
}

#[derive(Debug, Default)]
struct DiskUploads {
    all: Vec<Weak<watch::Sender<Feed>>>,
    /// How many writers wait for room.
    waiting: usize,
}

/// How fast a disk takes the appends to all of its journals together.
#[derive(Debug, Default)]
struct AppendRate {
    /// Appends in flight, and when `busy` was last updated.
    under_way: u32,
    since: Option<Instant>,
    /// Bytes appended, and the time with an append in flight, since `rate` was last updated.
    bytes: u64,
    busy: Duration,
    /// Bytes a second; 0 if not known.
    rate: f64,
}

impl AppendRate {
    /// Fewer bytes measure the calls rather than the disk.
    const LEAST: u64 = 4 << 20;

    fn count(&mut self, bytes: u64) {
        let now = Instant::now();
        if let Some(since) = self.since.replace(now).filter(|_| self.under_way > 0) {
            self.busy += now - since;
        }
        self.bytes += bytes;
        if self.bytes >= Self::LEAST {
            let rate = self.bytes as f64 / self.busy.as_secs_f64().max(1e-6);
            self.rate = if self.rate > 0.0 { self.rate * 0.8 + rate * 0.2 } else { rate };
            (self.bytes, self.busy) = (0, Duration::ZERO);
        }
    }
}

/// An append in flight, until dropped.
struct Appending<'a> {
    disk: &'a JournalDisk,
    appended: u64,
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        let mut append_rate = self.disk.append_rate();
        append_rate.count(self.appended);
        append_rate.under_way -= 1;
    }
}

impl JournalDisk {
    /// Runs `append`, which appends `bytes`, and measures the disk's rate.
    pub(crate) async fn append<T, E>(
        &self,
        bytes: u64,
        append: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        {
            let mut append_rate = self.append_rate();
            append_rate.count(0);
            append_rate.under_way += 1;
        }
        let mut appending = Appending { disk: self, appended: 0 };
        let appended = append.await;
        if appended.is_ok() {
            appending.appended = bytes;
        }
        appended
    }

    /// How many seconds the disk needs to append one byte to each of its journals and to a new one: 0 where nothing
    /// was measured and there is no journal, infinity while the first journals are not yet measured.
    pub(crate) fn cost(&self) -> f64 {
        let journals = self.lock().all.iter().filter(|upload| upload.strong_count() > 0).count();
        match (self.append_rate().rate, journals) {
            (rate, _) if rate > 0.0 => (journals + 1) as f64 / rate,
            (_, 0) => 0.0,
            _ => f64::INFINITY,
        }
    }

    fn append_rate(&self) -> MutexGuard<'_, AppendRate> {
        self.append_rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an upload whose journal is on this disk.
    pub(crate) fn join(&self, upload: &Arc<watch::Sender<Feed>>) {
        let mut uploads = self.lock();
        uploads.all.retain(|upload| upload.strong_count() > 0);
        uploads.all.push(Arc::downgrade(upload));
        if uploads.waiting > 0 {
            upload.send_modify(|feed| feed.full = true);
        }
    }

    /// A counter that stands still while no bytes leave the disk for a store.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Some bytes have left the disk.
    pub(crate) fn moves(&self) {
        self.moved.fetch_add(1, Relaxed);
    }

    /// One more writer waits for room, or one fewer. While any waits, all uploads are asked to free the space that
    /// they can.
    pub(crate) fn is_wanted(&self, more: bool) {
        let mut uploads = self.lock();
        let before = uploads.waiting;
        uploads.waiting = if more { before + 1 } else { before - 1 };
        if before > 0 && uploads.waiting > 0 {
            return;
        }
        for upload in uploads.all.iter().filter_map(Weak::upgrade) {
            upload.send_modify(|feed| feed.full = more);
        }
    }

    /// A journal has freed space.
    pub(crate) fn has_room(&self) {
        self.room.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, DiskUploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Journal bytes that are being sent to the store. They are read as the connection takes them, so even a part that
/// takes minutes shows progress. Bytes that are read again for a retry do not count.
#[derive(Debug)]
pub(crate) struct CountedReader {
    pub(crate) reader: JournalReader,
    pub(crate) disk: Arc<JournalDisk>,
    /// How far any attempt has read the part.
    pub(crate) read: Arc<AtomicU64>,
}

impl CountedReader {
    fn left(&self, offset: u64, bytes: usize) {
        let to = offset + bytes as u64;
        if self.read.fetch_max(to, Relaxed) < to {
            self.disk.moves();
        }
    }
}

impl ReadAt for CountedReader {
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let read = self.reader.read_cached(buffer, offset)?;
        self.left(offset, read.unwrap_or_default());
        Ok(read)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.reader.read(buffer, offset)?;
        self.left(offset, read);
        Ok(read)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.reader.check_unchanged()
    }

    fn disk(&self) -> String {
        self.reader.disk()
    }

    fn differs(&self, offset: u64) -> io::Error {
        self.reader.differs(offset)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_is_measured_while_it_is_written_to() {
        const MIB: u64 = 1 << 20;
        let disk = JournalDisk::default();
        let upload = Arc::new(watch::channel(Feed::default()).0);
        assert_eq!(disk.cost(), 0.0);
        disk.join(&upload);
        assert_eq!(disk.cost(), f64::INFINITY);
        // Two at once, 4 MiB in a second; then a long idle time, then the same again.
        for _ in 0..2 {
            let append = || {
                disk.append(2 * MIB, async {
                    sleep(Duration::from_secs(1)).await;
                    Ok::<_, ()>(())
                })
            };
            let _ = tokio::join!(append(), append());
            sleep(Duration::from_secs(1000)).await;
            let rate = 2.0 / disk.cost();
            assert!((rate / (4 * MIB) as f64 - 1.0).abs() < 0.01, "{rate}");
        }
        let _ = disk.append(100 * MIB, async { Err::<(), _>(()) }).await;
        drop(upload);
        assert!((1.0 / disk.cost() / (4 * MIB) as f64 - 1.0).abs() < 0.01, "{}", disk.cost());
    }
}
