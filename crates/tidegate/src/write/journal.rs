//! The writer of a journaled upload: bytes go to the journal, and from there to the store.
//!
//! The producer's side is here: what it gives is gathered while an append is under way and appended
//! when that is done, so that small writes share a sync. The store's side is a task of its own
//! (`sender.rs`). When the writer is gone, by whatever way but [`abort`](Journaled::abort), the journal
//! stays, and its session at the store: somebody may go on with it (`resume.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::journaling::Journaling;
use super::plan::{Cut, Plan, Schedule};
use super::upload::{Tasks, Upload};
use crate::budget::{Acquire, Budget, Lease};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::journal::{End, Journal, JournalError};
use crate::object::Object;
use crate::progress::{Wait, Waiting};

mod append;
mod gather;
mod intent;
mod resume;
mod sender;
mod source;
#[cfg(test)]
mod tests;

use append::{Appender, Feed};
use gather::Gathered;
use intent::Intent;
pub(crate) use resume::Left;
use sender::{Before, Sender};
use source::{Source, failed};

/// How long a journal may be held open by connections that are being closed.
const CLOSING: Duration = Duration::from_secs(10);

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
    memory: Option<(Acquire, Wait, u64)>,
    /// A task's: what was begun is done, whether or not its producer is polled.
    appending: Option<JoinHandle<Result<(), JournalError>>>,
    sending: Option<JoinHandle<Result<Object>>>,
    /// Knows of requests that were told to end, until they have.
    tracker: TaskTracker,
    stage: Stage,
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
    /// With this many bytes gathered an append is begun, or waited for.
    const CHUNK: u64 = 1 << 20;
    /// Shared bytes of at least this many are not copied.
    const SHARE: usize = 64 << 10;
    /// What the first byte of an idle writer costs.
    const LEAST_SLAB: u64 = 4 << 10;

    /// Begins an upload and its journal.
    pub(super) async fn begin(
        upload: Arc<Upload>,
        schedule: Schedule,
        in_flight: usize,
        budget: Budget,
        journaling: &Journaling,
    ) -> Result<Self> {
        let header = Intent::header(&*upload.backend, &upload.key, &upload.options, schedule);
        let header = header.map_err(|error| {
            upload.error(ErrorKind::InvalidInput, Operation::Write, error.to_string()).with_source(error)
        })?;
        let created = header.created;
        let journal = Journal::create(&journaling.directories, header, journaling.durability).await;
        let journal = journal.map_err(|error| failed(&upload, error))?;
        let before = Before { created, ..Before::default() };
        Ok(Self::new(upload, journal, schedule, in_flight, budget, journaling, Feed::default(), before))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two callers in this module, and nothing that would be one thing"
    )]
    fn new(
        upload: Arc<Upload>,
        journal: Journal,
        schedule: Schedule,
        in_flight: usize,
        budget: Budget,
        journaling: &Journaling,
        feed: Feed,
        before: Before,
    ) -> Self {
        let progress = upload.requests.progress.clone();
        let reach = Plan::new(upload.backend.capabilities(), Cut::Parts(schedule)).reach();
        let stage = if feed.finish.is_some() { Stage::Sending } else { Stage::Open };
        let (feeder, fed) = watch::channel(feed);
        let source = Source {
            journal: journal.clone(),
            upload: upload.clone(),
            budget: budget.clone(),
            feed: fed,
            created: before.created,
            sending: journaling.sending.clone(),
            first: Mutex::default(),
        };
        let tracker = TaskTracker::new();
        tracker.close(); // takes tasks all the same; what is waited for is that there are none
        let sender =
            Sender::new(Arc::new(source), schedule, in_flight, journaling.keep, tracker.clone(), before);
        Self {
            sending: Some(upload.runtime.spawn(sender.run())),
            appender: Appender { journal, feed: feeder, progress, patience: journaling.patience },
            upload,
            budget,
            reach,
            taken: feed.length,
            gathered: Arc::default(),
            memory: None,
            appending: None,
            tracker,
            stage,
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.taken
    }

    pub(super) fn reach(&self) -> u64 {
        self.reach
    }

    /// Whether `finish` has published the object.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// Takes some of `bytes`, shared where they are large.
    pub(super) fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<()>> {
        let room = ready!(self.poll_room(cx))?;
        if bytes.len() < Self::SHARE || self.gathered.lock().has_room() {
            let taken = ready!(self.poll_fill(cx, bytes.len().min(room), |spare| {
                let taken = bytes.len().min(spare.len());
                spare[..taken].copy_from_slice(&bytes[..taken]);
                Poll::Ready(Ok(taken))
            }))?;
            bytes::Buf::advance(bytes, taken);
            return Poll::Ready(Ok(()));
        }
        let piece = bytes.len().min(self.budget.slab_size()).min(room);
        let lease = ready!(self.poll_memory(cx, piece as u64))?;
        let piece = piece.min(usize::try_from(lease.bytes()).unwrap_or(usize::MAX));
        self.gathered.lock().share(lease.charge(bytes.split_to(piece)));
        self.took(piece);
        Poll::Ready(Ok(()))
    }

    /// Copies some of `bytes`, and sees to it that they get to the journal.
    pub(super) fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let room = ready!(self.poll_room(cx))?;
        self.poll_fill(cx, bytes.len().min(room), |spare| {
            let taken = bytes.len().min(spare.len());
            spare[..taken].copy_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        })
        .map_ok(|taken| {
            self.start();
            taken
        })
    }

    /// Has `read` fill the free end of a slab; 0 bytes are the source's end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut [u8]) -> Poll<std::io::Result<usize>>,
    ) -> Poll<Result<std::io::Result<usize>>> {
        let room = ready!(self.poll_room(cx))?;
        let mut failed = None;
        let taken = ready!(self.poll_fill(cx, room, |spare| match ready!(read(spare)) {
            Ok(taken) => Poll::Ready(Ok(taken)),
            Err(error) => {
                failed = Some(error);
                Poll::Ready(Ok(0))
            }
        }))?;
        self.start();
        Poll::Ready(Ok(failed.map_or(Ok(taken), Err)))
    }

    /// Waits until everything that was taken is in the journal, as durable as it makes it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            self.start();
            if self.appending.is_none() {
                return Poll::Ready(self.check(cx));
            }
            ready!(self.poll_append(cx))?;
        }
    }

    /// Makes everything that was taken durable; gives how many bytes of the object that is.
    pub(super) async fn sync(&mut self) -> Result<u64> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await?;
        let synced = self.appender.journal.sync().await;
        synced.map_err(|error| self.fail(failed(&self.upload, error)))
    }

    /// Writes down that no byte follows, and waits until the object is published.
    pub(super) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        loop {
            match &mut self.stage {
                Stage::Open => {
                    // Where the store's side has failed, that the object is whole is written down all the
                    // same: whoever resumes it needs no producer.
                    self.start();
                    while self.appending.is_some() {
                        ready!(self.poll_append(cx))?;
                        self.start();
                    }
                    self.appending = Some(self.upload.runtime.spawn(self.appender.clone().finish()));
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

    /// Ends the upload: its session, and its journal.
    pub(super) async fn abort(mut self) -> Result<()> {
        self.stage = Stage::Failed;
        self.stop().await;
        let upload = self.upload.clone();
        upload.abort(Tasks::new()).await?;
        let ended = self.appender.journal.clone().end(End::Aborted).await;
        ended.map_err(|error| failed(&upload, error))
    }

    /// Stops what is under way and waits until it has ended.
    async fn stop(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.abort();
            let _ = sending.await;
        }
        self.tracker.wait().await;
        if let Some(appending) = self.appending.take() {
            let _ = appending.await;
        }
    }

    /// Waits until more bytes can be gathered; how many the object takes yet.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        if !matches!(self.stage, Stage::Open) {
            return Poll::Ready(Err(self.closed()));
        }
        self.check(cx)?;
        while self.gathered.lock().bytes >= Self::CHUNK {
            self.start();
            ready!(self.poll_append(cx))?;
        }
        let room = self.reach - self.taken;
        if room == 0 {
            let message =
                format!("the object grows past {} bytes, the most that it can have here", self.reach);
            let error = self.upload.error(ErrorKind::TooLarge, Operation::Write, message);
            return Poll::Ready(Err(self.fail(error)));
        }
        Poll::Ready(Ok(usize::try_from(room).unwrap_or(usize::MAX)))
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        let gathered = self.gathered.clone();
        let mut state = loop {
            let state = gathered.lock();
            if state.has_room() {
                break state; // nobody takes it away before it is unlocked
            }
            // Slabs grow with what is gathered already, so that little costs little.
            let size = state.bytes.max(Self::LEAST_SLAB).next_power_of_two();
            drop(state);
            let lease = ready!(self.poll_memory(cx, size.min(self.budget.slab_size() as u64)))?;
            gathered.lock().add_slab(lease);
        };
        let taken = ready!(state.fill(most, fill))?;
        drop(state);
        self.took(taken);
        Poll::Ready(Ok(taken))
    }

    fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.appender.progress.accepted(bytes as u64);
    }

    fn poll_memory(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease>> {
        if self.memory.as_ref().is_some_and(|(_, _, asked)| *asked > bytes) {
            // A cancelled write asked for more.
            self.memory = None;
        }
        let (acquire, ..) = self.memory.get_or_insert_with(|| {
            (self.budget.lease(bytes), self.appender.progress.waiting(Waiting::Memory), bytes)
        });
        let Poll::Ready(lease) = Pin::new(acquire).poll(cx) else {
            // What is gathered here may be what is waited for.
            self.start();
            return Poll::Pending;
        };
        self.memory = None;
        Poll::Ready(lease.map_err(|starved| {
            let error = self.upload.error(ErrorKind::Starved, Operation::Write, starved.to_string());
            self.fail(error)
        }))
    }

    /// Sees to it that what is gathered is appended, whether or not this is polled again.
    fn start(&mut self) {
        if self.gathered.lock().begin() {
            let append = self.appender.clone().append(self.gathered.clone());
            self.appending = Some(self.upload.runtime.spawn(append));
        }
    }

    /// Waits for what is being written to the journal.
    fn poll_append(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(appending) = &mut self.appending else { return Poll::Ready(Ok(())) };
        let appended = ready!(Pin::new(appending).poll(cx));
        self.appending = None;
        let error = match appended {
            Ok(Ok(())) => return Poll::Ready(Ok(())),
            Ok(Err(error)) => failed(&self.upload, error),
            Err(ended) => self.upload.ended_early(None, ended),
        };
        Poll::Ready(Err(self.fail(error)))
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
        let sent = sent.unwrap_or_else(|ended| Err(self.upload.ended_early(None, ended)));
        Poll::Ready(sent.map_err(|error| self.fail(error)))
    }

    /// The writer has failed; its journal is there.
    pub(super) fn fail(&mut self, error: Error) -> Error {
        self.stage = Stage::Failed;
        let path = self.appender.journal.path().display();
        error.and(&format!("what was taken is in {path}, and can be gone on with (`tidegate journal`)"))
    }

    fn closed(&self) -> Error {
        let why = match self.stage {
            Stage::Failed => "the writer has failed before; its journal is there",
            _ => "the writer was finished before",
        };
        self.upload.error(ErrorKind::Closed, Operation::Write, why)
    }
}

impl Drop for Journaled {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Done(_)) {
            return;
        }
        let (sending, appending) = (self.sending.take(), self.appending.take());
        if let Some(sending) = &sending {
            sending.abort();
        }
        let (tracker, upload) = (self.tracker.clone(), self.upload.clone());
        // Nothing was ever taken: there is nothing to go on with.
        let unused = matches!(self.stage, Stage::Open) && self.taken == 0;
        let journal = self.appender.journal.clone();
        let task = async move {
            if let Some(sending) = sending {
                let _ = sending.await;
            }
            tracker.wait().await;
            if let Some(appending) = appending {
                let _ = appending.await;
            }
            if !unused {
                // Whoever waits for this can go on with it then.
                let _ = timeout(CLOSING, journal.closed()).await;
                return Ok(());
            }
            if let Err(error) = journal.end(End::Aborted).await {
                warn!(%error, "an empty journal can't be removed");
            }
            upload.abort_session().await.map(|_| ())
        };
        drop(self.upload.aborts.spawn_on(task, &self.upload.runtime));
    }
}
