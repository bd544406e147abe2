//! The writer of a journaled upload: bytes go to the journal, and from there to the store.
//!
//! The producer's side is here: what it gives is gathered while an append is under way and appended
//! when that is done, so that small writes share a sync. The store's side is a task of its own
//! (`sender.rs`). When the writer is gone, by whatever way but [`abort`](Journaled::abort), the journal
//! stays, and its session at the store: somebody may go on with it (`resume.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::intake::{LEAST_SLAB, Memory, Taking};
use super::plan::{Cut, Plan};
use super::state::Upload;
use crate::engine::journaling::{Disk, Feed, InUse, Journaling};
use crate::journal::{Journal, JournalError};
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
mod source;
mod take;
#[cfg(test)]
mod tests;

use append::Appender;
use gather::Gathered;
use intent::Intent;
pub(crate) use intent::ids;
pub(crate) use resume::forget;
pub use resume::{Claimed, Resumed};
use sender::{Before, Sender};
use source::{Source, failed};

/// The producer's side of one journaled upload.
#[derive(Debug)]
pub(super) struct Journaled {
    upload: Arc<Upload>,
    appender: Appender,
    budget: Budget,
    /// The largest object that it takes.
    reach: u64,
    /// Bytes that were taken; those that are gathered are not in the journal yet.
    taken: u64,
    gathered: Arc<Gathered>,
    /// How large the next slab is to be.
    slab: u64,
    memory: Memory,
    /// A task's: what was begun is done, whether or not its producer is polled.
    appending: Option<JoinHandle<Result<(), JournalError>>>,
    sending: Option<JoinHandle<Result<Object>>>,
    /// Knows of requests that were told to end, until they have.
    tracker: TaskTracker,
    stage: Stage,
    _in_use: InUse,
}

#[derive(Debug)]
enum Stage {
    Open,
    /// That no byte follows is on its way to the journal.
    Finishing,
    /// It is there; the store's side is waited for.
    Sending,
    /// The object, until `finish` has taken it.
    Done(Option<Box<Object>>),
    Failed,
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
        let disk = journaling.disk(begun.path()).await;
        // From here on nothing waits: until there is a writer, nobody else would remove it.
        let journal = begun.keep();
        let before = Before { created, ..Before::default() };
        let feed = Feed::default();
        Ok(Self::new(upload, journal, disk, cut, in_flight, budget, journaling, feed, before))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two callers in this module, and nothing that would be one thing"
    )]
    fn new(
        upload: Arc<Upload>,
        journal: Journal,
        disk: Arc<Disk>,
        cut: Cut,
        in_flight: usize,
        budget: Budget,
        journaling: &Journaling,
        feed: Feed,
        before: Before,
    ) -> Self {
        let in_use = journaling.live.uses(journal.path());
        let progress = upload.requests.progress.clone();
        let reach = Plan::new(upload.backend.capabilities(), cut).reach();
        let stage = if feed.finish.is_some() { Stage::Sending } else { Stage::Open };
        let (feeder, fed) = watch::channel(feed);
        let feeder = Arc::new(feeder);
        disk.join(&feeder);
        let source = Source {
            journal: journal.clone(),
            upload: upload.clone(),
            memory: journaling.memory.clone(),
            disk: disk.clone(),
            patience: journaling.patience,
            feed: fed,
            first: Mutex::default(),
        };
        let tracker = TaskTracker::new();
        tracker.close(); // takes tasks all the same; what is waited for is that there are none
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
            memory: Memory::default(),
            appending: None,
            tracker,
            stage,
            _in_use: in_use,
        }
    }

    /// Makes everything that was taken durable; gives how many bytes of the object that is.
    pub(super) async fn sync(&mut self) -> Result<u64> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await?;
        let journal = self.appender.journal.clone();
        // A task's: whoever waits for it may be outside of any runtime.
        let error = match self.upload.runtime.spawn(async move { journal.sync().await }).await {
            Ok(Ok(synced)) => return Ok(synced),
            Ok(Err(error)) => failed(&self.upload, error),
            Err(ended) => self.upload.ended_early(None, ended),
        };
        Err(self.fail(error))
    }

    /// Writes down that no byte follows, and waits until the object is published.
    fn poll_publish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        loop {
            match &mut self.stage {
                Stage::Open => {
                    // Where the store's side has failed, that the object is whole is written down all the
                    // same: whoever resumes it needs no producer.
                    self.set_off();
                    while self.appending.is_some() {
                        ready!(self.poll_append(cx))?;
                        self.set_off();
                    }
                    let finish = finish(self.appender.clone(), self.taken);
                    self.appending = Some(self.upload.runtime.spawn(finish));
                    self.stage = Stage::Finishing;
                }
                Stage::Finishing => {
                    ready!(self.poll_append(cx))?;
                    self.stage = Stage::Sending;
                }
                Stage::Sending => {
                    let object = ready!(self.poll_sending(cx))?;
                    // Kept: a `finish` behind a `shutdown` gives it once more.
                    self.stage = Stage::Done(Some(Box::new(object.clone())));
                    return Poll::Ready(Ok(object));
                }
                Stage::Done(object) => {
                    return Poll::Ready(object.take().map(|object| *object).ok_or_else(|| self.closed()));
                }
                Stage::Failed => return Poll::Ready(Err(self.closed())),
            }
        }
    }

    /// Fails where the store's side has.
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
        let sent = sent.unwrap_or_else(|ended| Err(self.upload.ended_early(self.commit(), ended)));
        Poll::Ready(sent.map_err(|error| self.fail(error)))
    }

    /// What the store's side may have asked for that publishes the object.
    fn commit(&self) -> Option<Operation> {
        let has_session = self.upload.lock().is_some();
        let publishes = if has_session { Operation::Complete } else { Operation::Put };
        self.appender.feed.borrow().finish.map(|_| publishes)
    }

    fn closed(&self) -> Error {
        let why = match self.stage {
            Stage::Failed => "the writer has failed before; its journal is there",
            _ => "the writer was finished before",
        };
        self.upload.error(ErrorKind::Closed, Operation::Write, why)
    }
}

/// Writes down that no byte follows. Where the disk has failed, but all `taken` bytes are in the file, that
/// is not needed: what can be read can be sent.
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
