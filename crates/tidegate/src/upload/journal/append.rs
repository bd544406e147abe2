//! Writes to a journal whose disk may be full: bytes that the store acknowledges make room.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::gather::Gathered;
use crate::engine::journaling::{Feed, JournalDisk};
use crate::journal::{Journal, JournalError};
use crate::types::progress::Progress;

/// A journal that is written to, and the means to wait for room on its disk.
#[derive(Clone, Debug)]
pub(super) struct Appender {
    pub(super) journal: Journal,
    pub(super) feed: Arc<watch::Sender<Feed>>,
    pub(super) progress: Progress,
    pub(super) disk: Arc<JournalDisk>,
    /// How long to wait for a full disk that nothing leaves.
    pub(super) patience: Duration,
}

impl Appender {
    /// Appends the gathered bytes until there are no more; when this returns, they are as durable as the
    /// journal makes them.
    pub(super) async fn append(self, gathered: Arc<Gathered>) -> Result<(), JournalError> {
        let appended = self.append_all(&gathered).await;
        if appended.is_err() {
            // At once, because the producer may never poll for the error.
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
            let append = || self.disk.append(bytes as u64, self.journal.append(pieces.clone()));
            let length = self.disk.in_line(&self.progress, self.patience, append).await?;
            self.progress.journaled(bytes as u64);
            self.feed.send_modify(|feed| feed.length = length);
        }
    }

    /// Writes the end of the object to the journal.
    pub(super) async fn finish(self) -> Result<(), JournalError> {
        let finish = || self.journal.finish();
        let checksum = self.disk.patiently(&self.progress, self.patience, finish).await?;
        self.feed.send_modify(|feed| feed.finish = Some(checksum));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
