//! The writer: takes bytes, hands full parts to requests, commits.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::JoinSet;

use super::fill::Fill;
use super::plan::{Action, Plan};
use super::strategy::{Policy, Strategy};
use super::upload::Upload;
use crate::backend::Receipt;
use crate::budget::{Account, Acquire, Budget};
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
/// # Cancellation
/// A cancelled `write` may have taken a beginning of its bytes; go on only where
/// [`position`](Self::position) is looked at. A cancelled `finish` is an abort, unless the store has
/// carried out the commit already.
///
/// # Errors
/// After an error the upload is aborted, and every further call gives an error of the kind
/// [`ErrorKind::Closed`].
#[derive(Debug)]
pub struct Writer {
    upload: Arc<Upload>,
    strategy: Strategy,
    in_flight: usize,
    budget: Budget,
    account: Account,
    plan: Plan,
    fill: Fill,
    parts: JoinSet<Result<Receipt>>,
    memory: Option<(Acquire, Wait)>,
    /// An item of the sink that is not taken yet.
    pub(super) item: Bytes,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    Open,
    Committing(Option<BoxFuture<'static, Result<Object>>>),
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

    pub(super) fn new(upload: Arc<Upload>, policy: Policy, budget: Budget) -> Self {
        let capabilities = upload.backend.capabilities();
        let plan = Plan::new(capabilities, policy.cut);
        Self {
            strategy: policy.strategy,
            in_flight: policy.in_flight,
            account: budget.account(plan.part().min(budget.total())),
            fill: Fill::new(capabilities.checksum),
            budget,
            plan,
            parts: JoinSet::new(),
            memory: None,
            item: Bytes::new(),
            stage: Stage::Open,
            upload,
        }
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
        Ok(())
    }

    /// Takes everything that `source` gives, read straight into this writer's buffers; says how many
    /// bytes that was. An error of the source aborts the upload.
    pub async fn read_from(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<u64> {
        let began = self.position();
        while poll_fn(|cx| self.poll_read_from(cx, source)).await? {}
        Ok(self.position() - began)
    }

    /// Bytes taken so far.
    pub fn position(&self) -> u64 {
        self.plan.size()
    }

    /// The largest object that this writer takes, in bytes: what the store takes, and what parts that
    /// fit in half of the memory budget reach. With 64 MiB of memory and S3's 10,000 parts that is 286 GiB.
    /// A byte past it is refused with [`ErrorKind::TooLarge`]; a size hint makes parts larger from the
    /// beginning, and so reaches further.
    pub fn reach(&self) -> u64 {
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
    pub async fn finish(mut self) -> Result<Object> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// Ends the upload without an object; waits until the store has let go of the session.
    pub async fn abort(mut self) -> Result<()> {
        self.stage = Stage::Failed;
        self.upload.abort(std::mem::take(&mut self.parts)).await
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<()>> {
        // A slab that has been begun is filled first: what it has of the budget must not lie idle.
        if bytes.len() < Self::SHARE.min(self.budget.slab_size()) || !self.fill.spare().is_empty() {
            let taken = ready!(self.poll_copy(cx, bytes))?;
            bytes::Buf::advance(bytes, taken);
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_room(cx))?;
        let piece = bytes.len().min(self.budget.slab_size()).min(self.room());
        let lease = match self.poll_memory(cx, piece as u64) {
            Poll::Ready(lease) => lease,
            Poll::Pending => return Poll::Pending,
        };
        // A wait that was begun for another size is granted with that size.
        let piece = piece.min(usize::try_from(lease.bytes()).unwrap_or(usize::MAX));
        self.fill.add_shared(lease, bytes.split_to(piece));
        self.taken(piece);
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(self.check_open().map(|()| 0));
        }
        let spare = ready!(self.poll_spare(cx))?;
        let taken = bytes.len().min(spare.len());
        spare[..taken].copy_from_slice(&bytes[..taken]);
        self.fill.advance(taken);
        self.taken(taken);
        Poll::Ready(Ok(taken))
    }

    /// One read; `false` at the source's end.
    fn poll_read_from(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Result<bool>> {
        ready!(self.poll_item(cx))?;
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
        let spare = ready!(self.poll_spare(cx))?;
        let mut buffer = ReadBuf::new(spare);
        let result = ready!(Pin::new(source).poll_read(cx, &mut buffer));
        let read = buffer.filled().len();
        if let Err(error) = result {
            return Poll::Ready(Err(self.source_failed(error)));
        }
        self.fill.advance(read);
        self.taken(read);
        Poll::Ready(Ok(read > 0))
    }

    fn source_failed(&mut self, error: io::Error) -> Error {
        let message = format!("reading the source failed: {error}");
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
        if let Err(refused) = self.plan.more() {
            let error = self.upload.error(ErrorKind::TooLarge, Operation::Write, refused.to_string());
            return Poll::Ready(Err(self.fail(error)));
        }
        self.dispatch();
        if self.plan.outstanding() >= self.in_flight {
            // A part's end wakes this task: `poll_parts` has left its waker with them.
            ready!(self.poll_outstanding(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for room and memory; the free end of a slab, at most as long as the part's room.
    fn poll_spare(&mut self, cx: &mut Context<'_>) -> Poll<Result<&mut [u8]>> {
        ready!(self.poll_room(cx))?;
        if self.fill.spare().is_empty() {
            // Slabs grow with what the part holds already, so that little costs little.
            let filled = self.plan.part() - self.plan.room();
            let slab = filled.max(Self::LEAST_SLAB).next_power_of_two();
            let slab = slab.min(self.budget.slab_size() as u64).min(self.plan.room());
            let lease = ready!(self.poll_memory(cx, slab));
            self.fill.add_slab(lease);
        }
        let room = self.room();
        let spare = self.fill.spare();
        let length = spare.len().min(room);
        Poll::Ready(Ok(&mut spare[..length]))
    }

    fn poll_memory(&mut self, cx: &mut Context<'_>, bytes: u64) -> Poll<crate::budget::Lease> {
        let (acquire, _) = self.memory.get_or_insert_with(|| {
            (self.account.grow(bytes), self.upload.requests.progress.waiting(Waiting::Memory))
        });
        let lease = ready!(Pin::new(acquire).poll(cx));
        self.memory = None;
        Poll::Ready(lease)
    }

    fn taken(&mut self, bytes: usize) {
        self.upload.requests.progress.accepted(bytes as u64);
        self.plan.push(bytes as u64);
        self.dispatch();
    }

    /// Hands what the plan has cut to requests.
    fn dispatch(&mut self) {
        while let Some(action) = self.plan.next() {
            match action {
                Action::Open => self.upload.open(),
                Action::Part { number, range } => {
                    let (upload, payload) = (self.upload.clone(), self.fill.take());
                    self.parts.spawn_on(
                        async move { upload.part(number, range, payload, None).await },
                        &self.upload.runtime,
                    );
                    self.account.dispatched();
                    self.account.set_part(self.plan.part().min(self.budget.total()));
                }
                Action::Put { .. } => {
                    let (upload, payload) = (self.upload.clone(), self.fill.take());
                    self.account.dispatched();
                    self.stage = Stage::Committing(Some(Box::pin(async move { upload.put(payload).await })));
                }
                Action::Complete { .. } => {
                    let upload = self.upload.clone();
                    let (parts, checksum) = self.plan.parts();
                    self.stage =
                        Stage::Committing(Some(Box::pin(
                            async move { upload.complete(parts, checksum).await },
                        )));
                }
            }
        }
    }

    /// Takes in the results of parts that have ended.
    pub(super) fn poll_parts(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while let Poll::Ready(Some(joined)) = self.parts.poll_join_next(cx) {
            match joined {
                Ok(Ok(receipt)) => self.plan.stored(receipt),
                Ok(Err(error)) => return Err(self.fail(error)),
                Err(ended) => {
                    let error = self.upload.error(
                        ErrorKind::Closed,
                        Operation::Part,
                        "the task of a part ended early",
                    );
                    return Err(self.fail(error.with_source(ended)));
                }
            }
        }
        Ok(())
    }

    /// Waits until fewer parts are in flight than the strategy allows.
    fn poll_outstanding(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_parts(cx)?;
        if self.plan.outstanding() >= self.in_flight { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    pub(super) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        if matches!(self.stage, Stage::Open) {
            ready!(self.poll_item(cx))?;
            self.memory = None;
            self.plan.finish();
            self.stage = Stage::Committing(None);
            self.dispatch();
        }
        loop {
            match &mut self.stage {
                Stage::Committing(Some(commit)) => {
                    let result = ready!(commit.as_mut().poll(cx));
                    return Poll::Ready(match result {
                        Ok(object) => {
                            self.stage = Stage::Committed(Some(Box::new(object.clone())));
                            Ok(object)
                        }
                        Err(error) => Err(self.fail(error)),
                    });
                }
                Stage::Committing(None) => {
                    self.poll_parts(cx)?;
                    self.dispatch();
                    if matches!(self.stage, Stage::Committing(None)) {
                        return Poll::Pending;
                    }
                }
                Stage::Committed(object) => {
                    return Poll::Ready(object.take().map(|object| *object).ok_or_else(|| self.closed()));
                }
                Stage::Open | Stage::Failed => {
                    return Poll::Ready(self.check_open().and_then(|()| Err(self.closed())));
                }
            }
        }
    }

    fn check_open(&self) -> Result<()> {
        if matches!(self.stage, Stage::Open) { Ok(()) } else { Err(self.closed()) }
    }

    fn closed(&self) -> Error {
        let why = match self.stage {
            Stage::Failed => "the writer has failed or was aborted before",
            _ => "the writer was finished before",
        };
        self.upload.error(ErrorKind::Closed, Operation::Write, why)
    }

    /// The upload is over: nothing in flight is waited for, the session is aborted.
    fn fail(&mut self, error: Error) -> Error {
        self.stage = Stage::Failed;
        self.memory = None;
        self.fill.take();
        self.account.dispatched();
        drop(self.upload.abort(std::mem::take(&mut self.parts)));
        error
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Open | Stage::Committing(_)) {
            self.stage = Stage::Failed; // drops a commit's request before the session is aborted
            drop(self.upload.abort(std::mem::take(&mut self.parts)));
        }
    }
}
