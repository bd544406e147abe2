//! Writing to a journal whose disk may be full: what the store takes makes room.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::disk::Disk;
use super::gather::Gathered;
use crate::checksum::Checksum;
use crate::journal::{Journal, JournalError};
use crate::progress::{Progress, Waiting};

/// What the writer's side tells the store's side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feed {
    /// Bytes of the object that are in the journal.
    pub(super) length: u64,
    /// The whole object's checksum, once its producer has finished.
    pub(super) finish: Option<Checksum>,
    /// The disk is full: all that can be given back is wanted.
    pub(super) full: bool,
}

/// A journal that is written to, with what is needed to wait for room on its disk.
#[derive(Clone, Debug)]
pub(super) struct Appender {
    pub(super) journal: Journal,
    pub(super) feed: Arc<watch::Sender<Feed>>,
    pub(super) progress: Progress,
    pub(super) disk: Arc<Disk>,
    /// How long a full disk is waited for while nothing leaves it.
    pub(super) patience: Duration,
}

impl Appender {
    /// In case the room that is made is not of this journal's making.
    const LOOK_AGAIN: Duration = Duration::from_millis(200);

    /// Appends bytes until there are none; they are as durable as the journal makes them when this
    /// returns.
    pub(super) async fn append(self, gathered: Arc<Gathered>) -> Result<(), JournalError> {
        let appended = self.append_all(&gathered).await;
        if appended.is_err() {
            // Whether or not its producer comes to see that.
            gathered.lock().give_up();
        }
        appended
    }

    async fn append_all(&self, gathered: &Gathered) -> Result<(), JournalError> {
        loop {
            let pieces = gathered.lock().take();
            if pieces.is_empty() {
                return Ok(());
            }
            let bytes: usize = pieces.iter().map(Bytes::len).sum();
            let length = self.patiently(|| self.journal.append(pieces.clone())).await?;
            self.progress.journaled(bytes as u64);
            self.feed.send_modify(|feed| feed.length = length);
        }
    }

    /// Writes down that no byte follows.
    pub(super) async fn finish(self) -> Result<(), JournalError> {
        let checksum = self.patiently(|| self.journal.finish()).await?;
        self.feed.send_modify(|feed| feed.finish = Some(checksum));
        Ok(())
    }

    /// Does `write` again while the disk is full, as long as anything leaves it: a byte of any upload that
    /// this process sends from there.
    async fn patiently<T, F>(&self, write: impl Fn() -> F) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, JournalError>>,
    {
        let (mut since, mut seen) = (Instant::now(), self.disk.moved());
        let mut waiting = None;
        loop {
            let full = match write().await {
                Err(full @ JournalError::Full { .. }) => full,
                done => return done,
            };
            let moved = self.disk.moved();
            if moved != seen {
                (since, seen) = (Instant::now(), moved);
            }
            if since.elapsed() >= self.patience {
                return Err(full);
            }
            waiting.get_or_insert_with(|| (self.progress.waiting(Waiting::Disk), Wanted(&self.disk)));
            self.disk.is_full(true);
            sleep(Self::LOOK_AGAIN.min(self.patience)).await;
        }
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

#[cfg(test)]
mod tests;
