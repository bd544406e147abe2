//! Carries out the plan of an upload: opens its session, sends its parts, publishes the object; aborts if that fails.
//!
//! The bytes come from a source (`source/`). Each request is a task: it continues when nobody polls the driver, so that
//! its memory and its limiter permit come back.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::OwnedMutexGuard;
use tracing::Instrument;

use super::plan::{Action, Plan};
use super::session::{Done, Ending, Remainder, Upload};
use crate::backend::CopySource;
use crate::engine::spooling::RingLoan;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::telemetry;

/// Gives the driver the bytes of an upload.
pub(super) trait UploadSource {
    /// The bytes of one request, which may not be in memory yet.
    type Bytes: RequestBytes;

    fn upload(&self) -> &Arc<Upload>;

    /// Begins to open the session.
    fn open(&mut self) -> Result<()> {
        self.upload().open();
        Ok(())
    }

    /// Takes out the bytes of a request.
    fn take(&mut self, range: Range<u64>, plan: &mut Plan) -> Result<Self::Bytes>;

    /// Keeps a part, if parts are kept until all bytes are in; otherwise returns its bytes.
    fn keep(
        &mut self,
        _number: u32,
        _range: Range<u64>,
        bytes: Self::Bytes,
        _: &Plan,
    ) -> Option<Self::Bytes> {
        Some(bytes)
    }

    /// Whether parts are kept until all bytes are in.
    fn keeps_parts(&self) -> bool {
        false
    }

    /// The next part that was kept, once all bytes are in.
    fn kept(&mut self) -> Option<(u32, Range<u64>, Self::Bytes)> {
        None
    }

    /// Counts bytes that the plan has taken in.
    fn accepted(&self, bytes: u64) {
        self.upload().requests.progress.accepted(bytes);
    }

    /// Which request writes an object that needs no session.
    fn put(&self) -> Operation {
        Operation::Put
    }

    /// Fails if the bytes have changed since they were sent.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The checksum of the object that `plan` has stored the parts of, if it is known.
    fn checksum(&self, plan: &Plan) -> Option<Checksum> {
        Some(plan.checksum())
    }

    /// Gives up the bytes, cancels the requests in flight and aborts the session.
    fn end(&mut self) -> Ending {
        self.upload().discard()
    }
}

/// Bytes that are to be sent in one request.
pub(super) trait RequestBytes: Send + 'static {
    /// Waits for the memory that the bytes are sent through.
    fn ready(self, upload: &Upload) -> impl Future<Output = Result<ReadyBytes>> + Send;
}

/// The body of a request, and what must be held for it.
pub(super) struct ReadyBytes {
    pub(super) body: RequestBody,
    /// The place in line of a part that gets its permit before the next part takes memory.
    pub(super) line: Option<OwnedMutexGuard<()>>,
    /// The buffers that spooled bytes are sent through, until the request has ended.
    pub(super) ring: Option<RingLoan>,
}

/// What a request carries.
pub(super) enum RequestBody {
    Bytes(Payload),
    /// Nothing: the store copies the bytes from this object.
    CopyOf(Arc<CopySource>),
}

/// How far a writer has come.
#[derive(Debug)]
pub(super) enum WriterState {
    /// It takes bytes.
    Open,
    /// All bytes were taken; some are not at the store yet.
    Finishing,
    /// The request that publishes the object is in flight.
    Publishing(Operation),
    /// All bytes are at the store, and wait for a commit. Until `keep`, a drop discards them.
    Prepared,
    /// They stay for the commit.
    Kept,
    /// The object, until `finish` has taken it.
    Published(Option<Box<Object>>),
    /// It has failed, or was aborted.
    Failed,
}

/// One upload on its way.
#[derive(Debug)]
pub(super) struct Driver<S: UploadSource> {
    pub(super) source: S,
    pub(super) plan: Plan,
    /// With this many parts in flight, no more bytes are taken.
    in_flight: usize,
    pub(super) state: WriterState,
    /// Of an upload that is prepared: when its lifetime ends, in seconds since 1970, and the bytes that its session does
    /// not have.
    until: u64,
    remainder: Remainder,
}

impl<S: UploadSource> Driver<S> {
    pub(super) fn new(source: S, plan: Plan, in_flight: usize) -> Self {
        Self { source, plan, in_flight, state: WriterState::Open, until: 0, remainder: Remainder::default() }
    }

    /// Uploads all `size` bytes of a source that has them already. Dropping the future aborts.
    pub(super) async fn run(mut self, size: u64) -> Result<Object> {
        let sent = self.send(size).await;
        if sent.is_err() {
            // The first error is reported; an error of the abort is logged where it happens.
            let _ = self.source.end().await;
        }
        sent
    }

    async fn send(&mut self, size: u64) -> Result<Object> {
        while self.plan.size() < size {
            poll_fn(|cx| self.poll_not_full(cx)).await?;
            self.more()?;
            // That may have cut a part, which is then in flight.
            if !self.is_full() {
                self.push(self.plan.room().min(size - self.plan.size()))?;
            }
        }
        if self.plan.appends() {
            poll_fn(|cx| self.poll_not_full(cx)).await?;
        }
        self.finish()?;
        poll_fn(|cx| self.poll_published(cx)).await
    }

    /// Announces that at least one more byte comes, which ends a full part.
    pub(super) fn more(&mut self) -> Result<()> {
        if let Err(refused) = self.plan.more() {
            let message = refused.to_string();
            let error = self.source.upload().error(ErrorKind::TooLarge, Operation::Write, message);
            return Err(self.fail(error));
        }
        self.act()
    }

    /// Takes in `bytes` more.
    pub(super) fn push(&mut self, bytes: u64) -> Result<()> {
        self.source.accepted(bytes);
        self.plan.push(bytes);
        self.act()
    }

    /// Takes in that no more bytes come.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.plan.finish();
        self.state = WriterState::Finishing;
        self.act()
    }

    /// Takes in that no more bytes come, of an object that is published later.
    pub(super) fn prepare(&mut self, until: u64) -> Result<()> {
        self.until = until;
        self.plan.prepare();
        self.state = WriterState::Finishing;
        self.act()
    }

    /// Waits until all bytes are at the store, after [`prepare`](Self::prepare).
    pub(super) fn poll_prepared(&mut self, cx: &mut Context<'_>) -> Poll<Result<Remainder>> {
        loop {
            self.poll_results(cx)?;
            self.act()?;
            if matches!(self.state, WriterState::Prepared) {
                return Poll::Ready(Ok(std::mem::take(&mut self.remainder)));
            }
            if !self.send_kept()? {
                return Poll::Pending;
            }
        }
    }

    /// Waits until all parts that were cut are at the store; also sends those that are kept until all bytes are in.
    pub(super) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            self.poll_results(cx)?;
            self.act()?;
            if self.plan.outstanding() == 0 {
                return Poll::Ready(Ok(()));
            }
            if !self.send_kept()? {
                return Poll::Pending;
            }
        }
    }

    /// Carries out the plan's actions.
    pub(super) fn act(&mut self) -> Result<()> {
        while let Some(action) = self.plan.next() {
            self.carry_out(action).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    fn carry_out(&mut self, action: Action) -> Result<()> {
        let upload = self.source.upload().clone();
        match action {
            Action::Open => self.source.open()?,
            Action::Part { number, range } | Action::Last { number, range } => {
                let bytes = self.source.take(range.clone(), &mut self.plan)?;
                if let Some(bytes) = self.source.keep(number, range.clone(), bytes, &self.plan) {
                    self.send_part(number, range, bytes)?;
                }
            }
            Action::Put { size } => {
                let bytes = self.source.take(0..size, &mut self.plan)?;
                self.publish(self.source.put(), async move {
                    let ReadyBytes { body, line: _line, ring: _ring } = bytes.ready(&upload).await?;
                    match body {
                        RequestBody::Bytes(payload) => upload.put(payload).await,
                        RequestBody::CopyOf(from) => upload.copy(&from).await,
                    }
                });
            }
            Action::Prepared => {
                self.source.check()?;
                self.state = WriterState::Prepared;
            }
            Action::Complete { .. } => {
                self.source.check()?;
                let (parts, checksum) = (self.plan.parts(), self.source.checksum(&self.plan));
                self.publish(Operation::Complete, async move { upload.complete(parts, checksum).await });
            }
        }
        Ok(())
    }

    fn send_part(&mut self, number: u32, range: Range<u64>, bytes: S::Bytes) -> Result<()> {
        let upload = self.source.upload().clone();
        let ends_object = self.plan.ends_with(number);
        if ends_object {
            self.source.check()?;
        }
        if self.plan.publishes_with(number) {
            let before = self.plan.checksum();
            self.publish(Operation::Complete, async move {
                let ReadyBytes { body, line: _line, ring: _ring } = bytes.ready(&upload).await?;
                match body {
                    RequestBody::Bytes(payload) => upload.append_last(number, range, payload, before).await,
                    RequestBody::CopyOf(_) => Err(not_appended(&upload)),
                }
            });
        } else if self.plan.prepares_with(number) {
            let until = self.until;
            self.spawn(async move {
                let ReadyBytes { body, line: _line, ring: _ring } = bytes.ready(&upload).await?;
                match body {
                    RequestBody::Bytes(payload) => upload.prepare_last(number, range, payload, until).await,
                    RequestBody::CopyOf(_) => Err(not_appended(&upload)),
                }
            });
        } else {
            let span = telemetry::part(&upload.requests.span, number, range.end - range.start);
            let stored = async move {
                let append_turn = upload.append_turn(range.start).await?;
                let ReadyBytes { body, line, ring: _ring } = bytes.ready(&upload).await?;
                if let Some(append_turn) = append_turn {
                    drop(line);
                    let RequestBody::Bytes(payload) = body else { return Err(not_appended(&upload)) };
                    return upload.append_in_turn(append_turn, number, range, payload, ends_object).await;
                }
                // First the session, then the permit: the request that opens the session needs a permit too.
                upload.session().await?;
                let permit = match &body {
                    RequestBody::Bytes(payload) => upload.requests.turn_with(payload).await,
                    RequestBody::CopyOf(_) => upload.requests.turn().await,
                };
                drop(line);
                let stored = match body {
                    RequestBody::Bytes(payload) => upload.part(number, range, payload, Some(permit)).await,
                    RequestBody::CopyOf(from) => upload.copy_part(&from, number, range, permit).await,
                };
                stored.map(Done::Stored)
            };
            self.spawn(stored.instrument(span));
        }
        Ok(())
    }

    fn publish(
        &mut self,
        operation: Operation,
        request: impl Future<Output = Result<Object>> + Send + 'static,
    ) {
        self.state = WriterState::Publishing(operation);
        let upload = self.source.upload().clone();
        self.spawn(async move {
            let object = request.await?;
            if upload.points.are_kept() {
                upload.remove_points_of_published(&upload.session_id().await).await;
            }
            Ok(Done::published(object))
        });
    }

    fn spawn(&mut self, request: impl Future<Output = Result<Done>> + Send + 'static) {
        let upload = self.source.upload();
        // Boxed, because a task moves its future several times.
        upload.tasks().spawn_on(Box::pin(request), &upload.runtime);
    }

    /// Takes in the results of requests that have ended.
    pub(super) fn poll_results(&mut self, cx: &mut Context<'_>) -> Result<()> {
        loop {
            let polled = self.source.upload().tasks().poll_join_next(cx);
            let Poll::Ready(Some(joined)) = polled else { return Ok(()) };
            match joined {
                Ok(Ok(Done::Stored(receipt))) => self.plan.stored(receipt),
                Ok(Ok(Done::Prepared(receipt, remainder))) => {
                    self.remainder = remainder;
                    self.plan.stored(receipt);
                }
                Ok(Ok(Done::Published(object))) => self.state = WriterState::Published(Some(object)),
                Ok(Err(error)) => return Err(self.fail(error)),
                Err(ended) => {
                    let commit = match self.state {
                        WriterState::Publishing(operation) => Some(operation),
                        // The last part of a session that is appended to publishes, and may have been sent.
                        WriterState::Finishing if self.source.upload().publishing.is_set() => {
                            Some(Operation::Complete)
                        }
                        _ => None,
                    };
                    let error = self.source.upload().ended_early(commit, ended);
                    return Err(self.fail(error));
                }
            }
        }
    }

    /// Waits until fewer parts are in flight than the strategy allows.
    pub(super) fn poll_not_full(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_results(cx)?;
        if self.is_full() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Whether as many parts are in flight as the strategy allows. Kept parts are not in flight.
    pub(super) fn is_full(&self) -> bool {
        !self.source.keeps_parts() && self.plan.outstanding() >= self.in_flight
    }

    /// Waits until the object is published, after [`finish`](Self::finish).
    pub(super) fn poll_published(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        if let WriterState::Published(object) = &mut self.state {
            return Poll::Ready(object.take().map(|object| *object).ok_or_else(|| self.closed()));
        }
        loop {
            self.poll_results(cx)?;
            match &self.state {
                // Kept: a `finish` after a `shutdown` returns the object once more.
                WriterState::Published(Some(object)) => return Poll::Ready(Ok((**object).clone())),
                WriterState::Finishing => {}
                WriterState::Publishing(_) => return Poll::Pending,
                _ => return Poll::Ready(Err(self.closed())),
            }
            self.act()?;
            let started = matches!(self.state, WriterState::Publishing(_)) || self.send_kept()?;
            if !started {
                return Poll::Pending;
            }
        }
    }

    /// Sends parts that were kept, as many at once as may be in flight. Whether there was one.
    fn send_kept(&mut self) -> Result<bool> {
        let mut any = false;
        while self.source.upload().tasks().len() < self.in_flight
            && let Some((number, range, bytes)) = self.source.kept()
        {
            self.send_part(number, range, bytes).map_err(|error| self.fail(error))?;
            any = true;
        }
        Ok(any)
    }

    /// Ends the upload with `error`, and publishes nothing.
    pub(super) fn fail(&mut self, error: Error) -> Error {
        self.state = WriterState::Failed;
        drop(self.source.end());
        error
    }

    pub(super) fn closed(&self) -> Error {
        let why = match self.state {
            WriterState::Failed => "the writer has failed or was aborted before",
            _ => "the writer was finished before",
        };
        self.source.upload().error(ErrorKind::Closed, Operation::Write, why)
    }
}

fn not_appended(upload: &Upload) -> Error {
    let message = "the store copies nothing into a session that is appended to";
    upload.error(ErrorKind::Unsupported, Operation::Copy, message)
}

impl<S: UploadSource> Drop for Driver<S> {
    fn drop(&mut self) {
        match self.state {
            WriterState::Open
            | WriterState::Finishing
            | WriterState::Publishing(_)
            | WriterState::Prepared => drop(self.source.end()),
            WriterState::Kept | WriterState::Published(_) | WriterState::Failed => {}
        }
    }
}
