//! A disk that journals are on, as those see it who wait for room there.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::journal::JournalReader;
use crate::memory::payload::ReadAt;
use crate::types::checksum::Checksum;

/// What the producer's side of a journaled upload tells the store's side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feed {
    /// Bytes of the object that are in the journal.
    pub(crate) length: u64,
    /// The whole object's checksum, once its producer has finished.
    pub(crate) finish: Option<Checksum>,
    /// The disk is full: all that can be given back is wanted.
    pub(crate) full: bool,
}

/// What all uploads of this engine share whose journals are on one disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Goes up as bytes leave it.
    moved: AtomicU64,
    uploads: Mutex<Uploads>,
    /// Those who wait to append: whoever has it is first.
    pub(crate) line: tokio::sync::Mutex<()>,
    /// There may be more room.
    pub(crate) room: Notify,
    pace: Mutex<Pace>,
}

#[derive(Debug, Default)]
struct Uploads {
    all: Vec<Weak<watch::Sender<Feed>>>,
    /// How many wait for room.
    waiting: usize,
}

/// How fast a disk takes what is appended to all of its journals together.
#[derive(Debug, Default)]
struct Pace {
    /// Appends that are under way, and since when any is.
    under_way: u32,
    since: Option<Instant>,
    /// What was appended, and for how long there was something to append, since that was last looked at.
    bytes: u64,
    busy: Duration,
    /// Bytes a second; 0 where nothing is known.
    rate: f64,
}

impl Pace {
    /// Fewer bytes say more of the calls than of the disk.
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

/// An append that is under way, until this is dropped.
struct Appending<'a> {
    disk: &'a Disk,
    appended: u64,
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        let mut pace = self.disk.pace();
        pace.count(self.appended);
        pace.under_way -= 1;
    }
}

impl Disk {
    /// Appends `bytes`, and measures how fast the disk is.
    pub(crate) async fn append<T, E>(
        &self,
        bytes: u64,
        append: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        {
            let mut pace = self.pace();
            pace.count(0);
            pace.under_way += 1;
        }
        let mut appending = Appending { disk: self, appended: 0 };
        let appended = append.await;
        if appended.is_ok() {
            appending.appended = bytes;
        }
        appended
    }

    /// How long the disk would take for a byte of each of its journals and of a new one: nothing where it
    /// was not measured yet, and who knows how long while that goes on.
    pub(crate) fn cost(&self) -> f64 {
        let journals = self.lock().all.iter().filter(|upload| upload.strong_count() > 0).count();
        match (self.pace().rate, journals) {
            (rate, _) if rate > 0.0 => (journals + 1) as f64 / rate,
            (_, 0) => 0.0,
            _ => f64::INFINITY,
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An upload has its journal there.
    pub(crate) fn join(&self, upload: &Arc<watch::Sender<Feed>>) {
        let mut uploads = self.lock();
        uploads.all.retain(|upload| upload.strong_count() > 0);
        uploads.all.push(Arc::downgrade(upload));
        if uploads.waiting > 0 {
            upload.send_modify(|feed| feed.full = true);
        }
    }

    /// Something that stands still while nothing leaves it for a store.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Some of what is there has left.
    pub(crate) fn moves(&self) {
        self.moved.fetch_add(1, Relaxed);
    }

    /// Somebody more waits for room, or somebody less: while anybody does, all uploads are to give back what
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

    /// Space of a journal was given back.
    pub(crate) fn has_room(&self) {
        self.room.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a journal on their way to the store. They are read as the connection takes them: so a part that
/// takes minutes is seen to move. What is read again for a retry is no news.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) reader: JournalReader,
    pub(crate) disk: Arc<Disk>,
    /// How far the part was read, by any attempt.
    pub(crate) read: Arc<AtomicU64>,
}

impl Leaving {
    fn left(&self, offset: u64, bytes: usize) {
        let to = offset + bytes as u64;
        if self.read.fetch_max(to, Relaxed) < to {
            self.disk.moves();
        }
    }
}

impl ReadAt for Leaving {
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
        let disk = Disk::default();
        let upload = Arc::new(watch::channel(Feed::default()).0);
        assert_eq!(disk.cost(), 0.0);
        disk.join(&upload);
        assert_eq!(disk.cost(), f64::INFINITY);
        // Two at once, 4 MiB in a second; then nothing for a long time, and then the same again.
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
