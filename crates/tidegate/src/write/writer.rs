//! The writer: takes bytes into the part that is being filled. What becomes of full parts is in
//! `commit.rs`.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::deferred::Deferred;
use super::held::{Held, State};
use super::journal::Journaled;
use super::plan::{Cut, Plan, Schedule};
use super::relief::Relief;
use super::spooling::Line;
use super::strategy::{Policy, Strategy};
use super::upload::Upload;
use crate::budget::{Acquire, Lease};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::object::Object;
use crate::progress::{Progress, Wait, Waiting};

/// Writes one object.
///
/// Bytes go in by [`write`](Self::write) (shared, not copied, where they are large), as a
/// [`tokio::io::AsyncWrite`], as a [`futures::Sink`] of [`Bytes`], or by
/// [`read_from`](Self::read_from). Each waits while the memory budget is used up or the strategy's
/// parts are in flight.
///
/// The object becomes visible by [`finish`](Self::finish) (which `shutdown` and `close` are as well)
/// and by nothing else. [`abort`](Self::abort) ends the session and waits until it is gone. Dropping
/// the writer does so as well, in a task on the runtime that the writer was started on;
/// [`Tidegate::settled`](crate::Tidegate::settled) waits for these tasks.
///
/// With [`Strategy::Journal`] nothing but a successful `finish` and [`abort`](Self::abort) ends the upload:
/// where the writer fails or is dropped, its journal and its session stay, to be gone on with by
/// [`Tidegate::recover`](crate::Tidegate::recover). As a `Sink` or an `AsyncWrite` it has bytes in the
/// journal when a flush returns.
///
/// # Cancellation
/// A cancelled `write` may have taken a beginning of its bytes; go on only where
/// [`position`](Self::position) is looked at. A cancelled `finish` is an abort, unless the store has
/// carried out the commit already.
///
/// Where the engine has spool directories, what the budget has no room for goes there and leaves from
/// there; nothing else changes. Without, a wait that nothing in flight can end becomes an error of the
/// kind [`ErrorKind::Starved`].
///
/// # Errors
/// After an error the upload is aborted, and every further call gives an error of the kind
/// [`ErrorKind::Closed`].
#[derive(Debug)]
pub struct Writer {
    pub(super) upload: Arc<Upload>,
    pub(super) strategy: Strategy,
    pub(super) in_flight: usize,
    pub(super) relief: Arc<Relief>,
    /// Where there is a spool: its place among those who send from there.
    pub(super) line: Option<Arc<Line>>,
    pub(super) plan: Plan,
    pub(super) held: Arc<Held>,
    /// Where nothing is sent before `finish`: what is kept until then.
    pub(super) deferred: Option<Deferred>,
    /// Where bytes go to a journal first: what becomes of them. Nothing else here has any then.
    pub(super) journaled: Option<Box<Journaled>>,
    /// A wait for memory, and for how many bytes.
    pub(super) memory: Option<(Acquire, Wait, u64)>,
    /// An item of the sink that is not taken yet.
    pub(super) item: Bytes,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    Open,
    /// All bytes are in; the request that publishes them, once it is under way.
    Committing(Option<Operation>),
    /// The object, until `finish` has taken it.
    Committed(Option<Box<Object>>),
    Failed,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Committing(_) => "Committing",
            Self::Committed(_) => "Committed",
            Self::Failed => "Failed",
        })
    }
}

impl Writer {
    /// Shared bytes of at least this many, or of a slab, are not copied.
    const SHARE: usize = 64 << 10;
    /// Smallest slab: what the first byte of an idle writer costs.
    const LEAST_SLAB: u64 = 4 << 10;

    pub(super) fn new(
        upload: Arc<Upload>,
        policy: Policy,
        relief: Arc<Relief>,
        idle_limit: Option<Duration>,
    ) -> Self {
        let plan = Plan::new(upload.backend.capabilities(), policy.cut);
        let part = memory_of(plan.part(), &relief);
        Self {
            strategy: policy.strategy,
            in_flight: policy.in_flight,
            held: Held::new(upload.clone(), relief.clone(), part, idle_limit),
            line: relief.spooling().map(|spooling| Arc::new(spooling.line())),
            deferred: policy.deferred.then(|| Deferred::new(upload.runtime.clone())),
            relief,
            plan,
            journaled: None,
            memory: None,
            item: Bytes::new(),
            stage: Stage::Open,
            upload,
        }
    }

    /// Of an upload whose bytes go to a journal.
    pub(super) fn journaled(
        upload: Arc<Upload>,
        schedule: Schedule,
        relief: Arc<Relief>,
        journaled: Journaled,
    ) -> Self {
        let cut = Cut::Parts(schedule);
        let policy = Policy { strategy: Strategy::Journal, cut, in_flight: 0, deferred: false };
        let mut writer = Self::new(upload, policy, relief, None);
        writer.journaled = Some(Box::new(journaled));
        writer
    }

    /// Takes all of `bytes`.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            poll_fn(|cx| {
                // What a sink or a cancelled read holds came first.
                ready!(self.poll_item(cx))?;
                self.poll_take(cx, &mut bytes)
            })
            .await?;
        }
        if let Some(journaled) = &mut self.journaled {
            poll_fn(|cx| journaled.poll_flush(cx)).await?;
        }
        Ok(())
    }

    /// Makes everything that was taken survive the process and a loss of power; gives how many bytes of
    /// the object that is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where its strategy is not [`Strategy::Journal`].
    pub async fn sync(&mut self) -> Result<u64> {
        poll_fn(|cx| self.poll_item(cx)).await?;
        match &mut self.journaled {
            Some(journaled) => journaled.sync().await,
            None => {
                let message = "only the strategy `journal` keeps bytes before `finish`";
                Err(self.upload.error(ErrorKind::Unsupported, Operation::Write, message))
            }
        }
    }

    /// Takes everything that `source` gives, read straight into this writer's buffers; says how many
    /// bytes that was. An error of the source aborts the upload.
    pub async fn read_from(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<u64> {
        let began = self.position();
        while poll_fn(|cx| self.poll_read_from(cx, source)).await? {}
        if let Some(journaled) = &mut self.journaled {
            poll_fn(|cx| journaled.poll_flush(cx)).await?;
        }
        Ok(self.position() - began)
    }

    /// Bytes taken so far.
    pub fn position(&self) -> u64 {
        if let Some(journaled) = &self.journaled {
            return journaled.position();
        }
        self.plan.size()
    }

    /// The largest object that this writer takes, in bytes: what the store takes and, where there is no
    /// spool, what parts that fit in half of the memory budget reach. With 64 MiB of memory and S3's
    /// 10,000 parts that is 286 GiB.
    /// A byte past it is refused with [`ErrorKind::TooLarge`]; a size hint makes parts larger from the
    /// beginning, and so reaches further.
    pub fn reach(&self) -> u64 {
        if let Some(journaled) = &self.journaled {
            return journaled.reach();
        }
        self.plan.reach()
    }

    /// The strategy that carries it; never `Auto`.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Its figures; they can be watched while it works and after it is gone.
    pub fn progress(&self) -> Progress {
        self.upload.requests.progress.clone()
    }

    /// Publishes the object: visible when this returns, whole, or not at all.
    pub fn finish(mut self) -> impl Future<Output = Result<Object>> + Send {
        // No `async fn`: that would hold the writer twice.
        poll_fn(move |cx| self.poll_finish(cx))
    }

    /// Ends the upload without an object; waits until the store has let go of the session.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] where `shutdown` or `close` has published the object already: it stays.
    pub async fn abort(mut self) -> Result<()> {
        if self.is_published() {
            let message = "the object was published before, and is there";
            return Err(self.upload.error(ErrorKind::Closed, Operation::Abort, message));
        }
        self.stage = Stage::Failed;
        if let Some(journaled) = self.journaled.take() {
            return journaled.abort().await;
        }
        self.upload.abort(self.held.give_up()).await
    }

    /// Whether `shutdown`, `close` or `finish` has published the object.
    pub(super) fn is_published(&self) -> bool {
        let by_journal = self.journaled.as_ref().is_some_and(|journaled| journaled.is_done());
        by_journal || matches!(self.stage, Stage::Committed(_))
    }

    fn slab(&self) -> usize {
        self.relief.budget().slab_size()
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<()>> {
        if let Some(journaled) = &mut self.journaled {
            return journaled.poll_take(cx, bytes);
        }
        // A slab that has been begun is filled first: what it has of the budget must not lie idle.
        if bytes.len() < Self::SHARE.min(self.slab()) || !self.held.lock().fill.spare().is_empty() {
            let taken = ready!(self.poll_copy(cx, bytes))?;
            bytes::Buf::advance(bytes, taken);
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_room(cx))?;
        let piece = bytes.len().min(self.slab()).min(self.room());
        let lease = ready!(self.poll_memory(cx, piece as u64))?;
        // A wait that was begun for another size is granted with that size.
        let piece = piece.min(usize::try_from(lease.bytes()).unwrap_or(usize::MAX));
        self.held.lock().fill.add_shared(lease, bytes.split_to(piece));
        Poll::Ready(self.taken(piece))
    }

    pub(super) fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(self.check_open().map(|()| 0));
        }
        if let Some(journaled) = &mut self.journaled {
            return journaled.poll_copy(cx, bytes);
        }
        let taken = ready!(self.poll_fill(cx, |state, room| {
            let spare = state.fill.spare();
            let taken = bytes.len().min(spare.len()).min(room);
            spare[..taken].copy_from_slice(&bytes[..taken]);
            state.fill.advance(taken);
            Poll::Ready(Ok::<_, Infallible>(taken))
        }))?;
        let Ok(taken) = taken;
        Poll::Ready(Ok(taken))
    }

    /// One read; `false` at the source's end.
    fn poll_read_from(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Result<bool>> {
        ready!(self.poll_item(cx))?;
        if let Some(journaled) = &mut self.journaled {
            let mut reading = Context::from_waker(cx.waker());
            let read = ready!(journaled.poll_read(cx, |spare| {
                let mut buffer = ReadBuf::new(spare);
                let read = ready!(Pin::new(source).poll_read(&mut reading, &mut buffer));
                Poll::Ready(read.map(|()| buffer.filled().len()))
            }))?;
            return Poll::Ready(match read {
                Ok(read) => Ok(read > 0),
                Err(error) => Err(self.source_failed(error)),
            });
        }
        if self.plan.room() == 0 {
            // An object that ends here is one request, so the part is not cut before another byte is
            // there to be seen.
            self.check_open()?;
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            if let Err(error) = ready!(Pin::new(&mut *source).poll_read(cx, &mut buffer)) {
                return Poll::Ready(Err(self.source_failed(error)));
            }
            self.item = Bytes::copy_from_slice(buffer.filled());
            if self.item.is_empty() {
                return Poll::Ready(Ok(false));
            }
            ready!(self.poll_item(cx))?;
        }
        let mut reading = Context::from_waker(cx.waker());
        let read = ready!(self.poll_fill(cx, |state, room| {
            let spare = state.fill.spare();
            let length = spare.len().min(room);
            let mut buffer = ReadBuf::new(&mut spare[..length]);
            let result = ready!(Pin::new(&mut *source).poll_read(&mut reading, &mut buffer));
            let read = buffer.filled().len();
            state.fill.advance(read);
            Poll::Ready(result.map(|()| read))
        }))?;
        match read {
            Ok(read) => Poll::Ready(Ok(read > 0)),
            Err(error) => Poll::Ready(Err(self.source_failed(error))),
        }
    }

    fn source_failed(&mut self, error: io::Error) -> Error {
        let message = format!("reading the source failed at byte {}: {error}", self.position());
        let failed = self.upload.error(ErrorKind::Source, Operation::Write, message);
        self.fail(failed.with_source(error))
    }

    /// Takes the rest of the sink's item.
    pub(super) fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.item.is_empty() {
            let mut item = std::mem::take(&mut self.item);
            let polled = self.poll_take(cx, &mut item);
            self.item = item;
            ready!(polled)?;
        }
        Poll::Ready(Ok(()))
    }

    fn room(&self) -> usize {
        usize::try_from(self.plan.room()).unwrap_or(usize::MAX)
    }

    /// Waits until the plan takes another byte.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check_open()?;
        self.poll_parts(cx)?;
        ready!(self.poll_deferred(cx))?;
        if let Err(refused) = self.plan.more() {
            let error = self.upload.error(ErrorKind::TooLarge, Operation::Write, refused.to_string());
            return Poll::Ready(Err(self.fail(error)));
        }
        self.dispatch()?;
        ready!(self.poll_deferred(cx))?;
        if self.is_full() {
            // A part's end wakes this task: `poll_parts` has left its waker with them.
            ready!(self.poll_outstanding(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for room and memory, then has `fill` put bytes at the free end of a slab, at most as many as
    /// it is told, and says how many.
    fn poll_fill<E>(
        &mut self,
        cx: &mut Context<'_>,
        fill: impl FnOnce(&mut State, usize) -> Poll<std::result::Result<usize, E>>,
    ) -> Poll<Result<std::result::Result<usize, E>>> {
        ready!(self.poll_room(cx))?;
        let held = self.held.clone();
        let mut state = loop {
            let mut state = held.lock();
            if !state.fill.spare().is_empty() {
                break state; // nobody takes it away before it is unlocked
            }
            drop(state);
            // Slabs grow with what the part holds already, so that little costs little.
            let filled = self.plan.part() - self.plan.room();
            let slab = filled.max(Self::LEAST_SLAB).next_power_of_two();
            let slab = slab.min(self.slab() as u64).min(self.plan.room());
            let lease = ready!(self.poll_memory(cx, slab))?;
            held.add_slab(lease);
        };
        let filled = ready!(fill(&mut state, self.room()));
        drop(state);
        if let Ok(bytes) = filled {
            self.taken(bytes)?;
        }
        Poll::Ready(Ok(filled))
    }

    fn poll_memory(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<Result<Lease>> {
        if self.memory.as_ref().is_some_and(|(_, _, asked)| *asked > bytes) {
            // A cancelled write asked for more: granted to this one, it would be charged and not used.
            self.memory = None;
        }
        let (acquire, ..) = self.memory.get_or_insert_with(|| {
            (self.held.grow(bytes), self.upload.requests.progress.waiting(Waiting::Memory), bytes)
        });
        // Locked: nobody finds it with the memory that it waited for, and its last byte long ago.
        let mut state = self.held.lock();
        let lease = ready!(Pin::new(acquire).poll(cx));
        state.goes_on();
        drop(state);
        self.memory = None;
        Poll::Ready(lease.map_err(|starved| {
            let error = self.upload.error(ErrorKind::Starved, Operation::Write, starved.to_string());
            self.fail(error)
        }))
    }

    fn taken(&mut self, bytes: usize) -> Result<()> {
        self.held.lock().goes_on();
        self.upload.requests.progress.accepted(bytes as u64);
        self.plan.push(bytes as u64);
        self.dispatch()
    }
}

/// How much memory a part of `part` bytes takes, as the budget must count with it. With a spool the
/// largest holder can always be brought down, so that large parts need not stop all others.
pub(super) fn memory_of(part: u64, relief: &Relief) -> u64 {
    let total = relief.budget().total();
    part.min(if relief.spooling().is_some() { total / 2 } else { total })
}
