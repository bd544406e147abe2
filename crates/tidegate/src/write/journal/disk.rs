//! A disk that journals are on, as those see it who wait for room there.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::append::Feed;
use crate::journal::{JournalError, JournalReader};
use crate::payload::ReadAt;
use crate::progress::{Progress, Waiting};

/// In case the room that is made is not of this process's making.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What all uploads of this engine share whose journals are on one disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Goes up as bytes leave it.
    moved: AtomicU64,
    uploads: Mutex<Vec<Weak<watch::Sender<Feed>>>>,
}

impl Disk {
    /// An upload has its journal there.
    pub(super) fn join(&self, upload: &Arc<watch::Sender<Feed>>) {
        let mut uploads = self.lock();
        uploads.retain(|upload| upload.strong_count() > 0);
        uploads.push(Arc::downgrade(upload));
    }

    /// Something that stands still while nothing leaves it for a store.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Some of what is there has left.
    pub(super) fn moves(&self) {
        self.moved.fetch_add(1, Relaxed);
    }

    /// Somebody waits for room: all uploads are to give back what they can; or nobody does any more.
    pub(super) fn is_full(&self, full: bool) {
        let uploads: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        for upload in uploads {
            upload.send_if_modified(|feed| mem::replace(&mut feed.full, full) != full);
        }
    }

    /// Does `write` again while the disk is full, as long as anything leaves it: a byte of any upload that
    /// this process sends from there. Gives up when nothing has for so long.
    pub(super) async fn patiently<T, F>(
        &self,
        progress: &Progress,
        patience: Duration,
        write: impl Fn() -> F,
    ) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, JournalError>>,
    {
        let (mut since, mut seen) = (Instant::now(), self.moved());
        let mut waiting = None;
        loop {
            let full = match write().await {
                Err(full @ JournalError::Full { .. }) => full,
                done => return done,
            };
            let moved = self.moved();
            if moved != seen {
                (since, seen) = (Instant::now(), moved);
            }
            if since.elapsed() >= patience {
                return Err(full);
            }
            waiting.get_or_insert_with(|| (progress.waiting(Waiting::Disk), Wanted(self)));
            self.is_full(true);
            sleep(LOOK_AGAIN.min(patience)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<watch::Sender<Feed>>>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room is waited for, until this is dropped: the wait may be cancelled.
struct Wanted<'a>(&'a Disk);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        // Whoever else waits says so again.
        self.0.is_full(false);
    }
}

/// Bytes of a journal on their way to the store. They are read as the connection takes them: so a part that
/// takes minutes is seen to move. What is read again for a retry is no news.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) reader: JournalReader,
    pub(super) disk: Arc<Disk>,
    /// How far the part was read, by any attempt.
    pub(super) read: Arc<AtomicU64>,
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
