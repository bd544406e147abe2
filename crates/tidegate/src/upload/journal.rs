//! The writer of a journaled upload: bytes go to the journal, and from there to the store.
//!
//! This file has the producer's side: bytes that arrive while an append is under way are gathered, and
//! appended together when it is done, so that small writes share a sync. The store's side is a task of its
//! own (`sender.rs`). When the writer is gone without an [`abort`](Journaled::abort), its journal stays, and
//! its session at the store stays too, so that the upload can be resumed (`resume.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::driver::WriterState;
use super::intake::{Intake, LEAST_SLAB, MemoryWait};
use super::plan::{Cut, Plan};
use super::session::Upload;
use crate::engine::journaling::{Feed, JournalDisk, Journaling};
use crate::journal::{InUse, Journal, JournalError};
use crate::memory::budget::Budget;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

mod append;
mod ending;
mod gather;
mod intent;
mod resume;
mod room;
mod sender;
mod take;
#[cfg(test)]
mod tests;

use super::source::journal::{JournalRanges, failed};
use append::Appender;
use gather::Gathered;
use intent::Intent;
pub(crate) use intent::ids;
pub(crate) use resume::forget;
pub use resume::{ClaimedUpload, Resumed};
use sender::{Before, Sender};

/// The producer's side of one journaled upload.
#[derive(Debug)]
pub(super) struct Journaled {
    /// Dropped first, while the journal's file is open.
    _in_use: InUse,
    upload: Arc<Upload>,
    appender: Appender,
    budget: Budget,
    /// The largest object that the upload takes, in bytes.
    reach: u64,
    /// Bytes that were taken from the producer; the gathered ones are not in the journal yet.
    taken: u64,
    gathered: Arc<Gathered>,
    /// Size of the next slab, in bytes.
    slab: u64,
    memory: MemoryWait,
    /// The append under way: a task, so that it completes even if its producer is not polled.
    appending: Option<JoinHandle<Result<(), JournalError>>>,
    sending: Option<JoinHandle<Result<Object>>>,
    /// Tracks part requests until they have ended, cancelled ones too.
    tracker: TaskTracker,
    /// `Finishing` while the end of the object is being written to the journal, `Publishing` after that.
    state: WriterState,
}

impl Journaled {
    /// Begins an upload and its journal.
    pub(super) async fn begin(
        upload: Arc<Upload>,
        cut: Cut,
        in_flight: usize,
        budget: Budget,
        journaling: &Journaling,
    ) -> Result<Self> {
        let header = Intent::header(&*upload.backend, &upload.key, &upload.options, cut);
        let header = header.map_err(|error| {
            upload.error(ErrorKind::InvalidInput, Operation::Write, error.to_string()).with_source(error)
        })?;
        let created = header.created;
        let directories = journaling.order().await;
        let begun = Journal::begin(&directories, header, journaling.durability).await;
        let begun = begun.map_err(|error| failed(&upload, error))?;
        let (disk, in_use) = (journaling.disk(begun.path()).await, begun.in_use().await);
        // No `await` from here on: until there is a writer, nobody would remove the journal.
        let journal = begun.keep();
        let before = Before { created, ..Before::default() };
        let feed = Feed::default();
        Ok(Self::new(upload, journal, in_use, disk, cut, in_flight, budget, journaling, feed, before))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two callers in this module, and nothing that would be one thing"
    )]
    fn new(
        upload: Arc<Upload>,
        journal: Journal,
        in_use: InUse,
        disk: Arc<JournalDisk>,
        cut: Cut,
        in_flight: usize,
        budget: Budget,
        journaling: &Journaling,
        feed: Feed,
        before: Before,
    ) -> Self {
        let progress = upload.requests.progress.clone();
        let reach = Plan::new(upload.backend.capabilities(), cut).reach();
        let state = match feed.finish {
            Some(_) => WriterState::Publishing(Operation::Complete),
            None => WriterState::Open,
        };
        let (feeder, fed) = watch::channel(feed);
        let feeder = Arc::new(feeder);
        disk.join(&feeder);
        let source = JournalRanges {
            journal: journal.clone(),
            upload: upload.clone(),
            memory: journaling.memory.clone(),
            disk: disk.clone(),
            patience: journaling.patience,
            feed: fed,
            first: Mutex::default(),
        };
        let tracker = TaskTracker::new();
        tracker.close(); // still takes tasks; `wait` returns once there are none
        let sender = Sender::new(Arc::new(source), cut, in_flight, journaling.keep, tracker.clone(), before);
        Self {
            sending: Some(upload.runtime.spawn(sender.run())),
            appender: Appender { journal, feed: feeder, progress, disk, patience: journaling.patience },
            upload,
            reach,
            taken: feed.length,
            gathered: Arc::default(),
            slab: LEAST_SLAB.min(budget.slab_size() as u64),
            budget,
            memory: MemoryWait::default(),
            appending: None,
            tracker,
            state,
            _in_use: in_use,
        }
    }

    /// Makes all bytes taken so far durable; returns how many bytes of the object that is.
    pub(super) async fn sync(&mut self) -> Result<u64> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await?;
        let journal = self.appender.journal.clone();
        // In a task, because the caller may be outside of any runtime.
        let error = match self.upload.runtime.spawn(async move { journal.sync().await }).await {
            Ok(Ok(synced)) => return Ok(synced),
            Ok(Err(error)) => failed(&self.upload, error),
            Err(ended) => self.upload.ended_early(None, ended),
        };
        Err(self.fail(error))
    }

    /// Writes the end of the object to the journal, then waits until the object is published.
    fn poll_publish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        loop {
            match &mut self.state {
                WriterState::Open => {
                    // The end is written even where the store's side has failed: then a resume needs no
                    // producer.
                    self.set_off();
                    while self.appending.is_some() {
                        ready!(self.poll_append(cx))?;
                        self.set_off();
                    }
                    let finish = finish(self.appender.clone(), self.taken);
                    self.appending = Some(self.upload.runtime.spawn(finish));
                    self.state = WriterState::Finishing;
                }
                WriterState::Finishing => {
                    ready!(self.poll_append(cx))?;
                    self.state = WriterState::Publishing(Operation::Complete);
                }
                WriterState::Publishing(_) => {
                    let object = ready!(self.poll_sending(cx))?;
                    // Kept: a `finish` after a `shutdown` returns the object once more.
                    self.state = WriterState::Published(Some(Box::new(object.clone())));
                    return Poll::Ready(Ok(object));
                }
                WriterState::Published(object) => {
                    return Poll::Ready(object.take().map(|object| *object).ok_or_else(|| self.closed()));
                }
                WriterState::Failed | WriterState::Prepared | WriterState::Kept => {
                    return Poll::Ready(Err(self.closed()));
                }
            }
        }
    }

    /// Fails where the store's side has failed.
    fn check(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if self.sending.as_ref().is_some_and(JoinHandle::is_finished)
            && let Poll::Ready(Err(error)) = self.poll_sending(cx)
        {
            return Err(error);
        }
        Ok(())
    }

    fn poll_sending(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Err(self.closed())) };
        let sent = ready!(Pin::new(sending).poll(cx));
        self.sending = None;
        let commit = self.appender.feed.borrow().finish.map(|_| Operation::Complete);
        let sent = sent.unwrap_or_else(|ended| Err(self.upload.ended_early(commit, ended)));
        Poll::Ready(sent.map_err(|error| self.fail(error)))
    }

    fn closed(&self) -> Error {
        let why = match self.state {
            WriterState::Failed => "the writer has failed before; its journal is there",
            _ => "the writer was finished before",
        };
        self.upload.error(ErrorKind::Closed, Operation::Write, why)
    }
}

/// Writes the end of the object to the journal. That record is not needed where the disk has failed but all
/// `taken` bytes are in the file: bytes that can be read can be sent.
async fn finish(appender: Appender, taken: u64) -> Result<(), JournalError> {
    let (journal, feed) = (appender.journal.clone(), appender.feed.clone());
    match appender.finish().await {
        Err(JournalError::Lost { .. }) if journal.len() == taken => {
            let checksum = journal.checksum().await?;
            feed.send_modify(|feed| feed.finish = Some(checksum));
            Ok(())
        }
        finished => finished,
    }
}
