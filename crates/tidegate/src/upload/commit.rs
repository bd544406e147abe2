//! Sends full parts, takes in their receipts, and publishes the object.

use std::future::Future;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use super::direct::{Direct, Stage, memory_of};
use super::fill::Taken;
use super::intake::Taking;
use super::plan::Action;
use super::state::Done;
use crate::memory::spool::SpoolError;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;

impl Direct {
    /// Carries out the plan's actions: makes requests of its parts, or keeps the parts for later.
    pub(super) fn dispatch(&mut self) -> Result<()> {
        while let Some(action) = self.plan.next() {
            match action {
                Action::Open => match &mut self.deferred {
                    Some(deferred) => deferred.open(),
                    None => self.held.open().map_err(|error| self.fail(error))?,
                },
                Action::Part { number, range } => {
                    if let Some(narrowing) = &mut self.narrowing {
                        self.plan.narrow(narrowing.next());
                    }
                    let next = memory_of(self.plan.part(), &self.relief);
                    let taken = self.held.take(next).map_err(|error| self.fail(error))?;
                    match &mut self.deferred {
                        Some(deferred) if matches!(self.stage, Stage::Open) => {
                            deferred.part((number, range, taken), &self.held, &self.relief);
                        }
                        Some(deferred) => deferred.last((number, range, taken)),
                        None => self.send(number, range, taken),
                    }
                }
                Action::Last { number, range } => {
                    let taken = self.held.take(0).map_err(|error| self.fail(error))?;
                    match &mut self.deferred {
                        Some(deferred) => deferred.behind((number, range, taken)),
                        None => self.send_last(number, range, taken),
                    }
                }
                Action::Put { .. } => {
                    let taken = self.held.take(0).map_err(|error| self.fail(error))?;
                    let (upload, line) = (self.upload.clone(), self.line.clone());
                    self.commit(Operation::Put, async move {
                        let (payload, _ring) = taken.payload(line).await;
                        upload.put(payload).await
                    });
                }
                Action::Complete { .. } => {
                    let upload = self.upload.clone();
                    let (parts, checksum) = self.plan.parts();
                    self.commit(Operation::Complete, async move { upload.complete(parts, checksum).await });
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, number: u32, range: Range<u64>, taken: Taken) {
        let (upload, line) = (self.upload.clone(), self.line.clone());
        let part = async move {
            upload.in_turn(number).await?;
            let (payload, _ring) = taken.payload(line).await;
            upload.part(number, range, payload, None).await.map(Done::Stored)
        };
        self.held.lock().tasks.spawn_on(part, &self.upload.runtime);
    }

    /// Sends the part that publishes the object.
    fn send_last(&mut self, number: u32, range: Range<u64>, taken: Taken) {
        let (upload, line) = (self.upload.clone(), self.line.clone());
        self.commit(Operation::Complete, async move {
            upload.in_turn(number).await?;
            let (payload, _ring) = taken.payload(line).await;
            upload.append_last(number, range, payload, None).await
        });
    }

    /// Starts the request that publishes the object, in a task: a `finish` that is no longer polled must not
    /// hold bytes in memory, or a limiter permit.
    fn commit(
        &mut self,
        operation: Operation,
        commit: impl Future<Output = Result<Object>> + Send + 'static,
    ) {
        let commit = async move { commit.await.map(Done::published) };
        self.held.lock().tasks.spawn_on(commit, &self.upload.runtime);
        self.stage = Stage::Committing(Some(operation));
    }

    /// Waits until the deferred parts are in the spool.
    pub(super) fn poll_deferred(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(deferred) = &mut self.deferred else { return Poll::Ready(Ok(())) };
        match ready!(deferred.poll_spooled(cx, &self.held, &self.relief)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => {
                let message = error.to_string();
                let kind = match error {
                    SpoolError::Full(_) => ErrorKind::NoSpace,
                    SpoolError::Failed { .. } => ErrorKind::Source, // as where the spool can't be read
                };
                let failed = self.upload.error(kind, Operation::Write, message).with_source(error);
                Poll::Ready(Err(self.fail(failed)))
            }
        }
    }

    /// After the last byte: sends the deferred parts, as many at once as the strategy allows.
    fn poll_deferred_parts(&mut self, cx: &mut Context<'_>) -> Result<()> {
        loop {
            self.poll_parts(cx)?;
            let in_flight = self.held.lock().tasks.len();
            let Some(deferred) = self.deferred.as_mut().filter(|_| in_flight < self.in_flight) else {
                return Ok(());
            };
            if deferred.take_open() {
                self.upload.open();
            }
            match deferred.next() {
                Some((number, range, taken)) if self.plan.publishes_with(number) => {
                    self.send_last(number, range, taken);
                }
                Some((number, range, taken)) => self.send(number, range, taken),
                None => self.deferred = None,
            }
        }
    }

    /// Takes in the results of requests that have ended.
    pub(super) fn poll_parts(&mut self, cx: &mut Context<'_>) -> Result<()> {
        loop {
            let Poll::Ready(Some(joined)) = self.held.lock().tasks.poll_join_next(cx) else { return Ok(()) };
            match joined {
                Ok(Ok(Done::Stored(receipt))) => self.plan.stored(receipt),
                Ok(Ok(Done::Published(object))) => self.stage = Stage::Committed(Some(object)),
                Ok(Err(error)) => return Err(self.fail(error)),
                Err(ended) => {
                    let commit = if let Stage::Committing(commit) = self.stage { commit } else { None };
                    let error = self.upload.ended_early(commit, ended);
                    return Err(self.fail(error));
                }
            }
        }
    }

    /// Waits until fewer parts are in flight than the strategy allows.
    pub(super) fn poll_outstanding(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_parts(cx)?;
        if self.is_full() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Whether as many parts are in flight as the strategy allows. Deferred parts are not in flight.
    pub(super) fn is_full(&self) -> bool {
        self.deferred.is_none() && self.plan.outstanding() >= self.in_flight
    }

    pub(super) fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        if matches!(self.stage, Stage::Open) {
            self.held.check().map_err(|error| self.fail(error))?;
            ready!(self.poll_deferred(cx))?;
            self.memory.forget();
            self.narrowing = None;
            self.held.finish().map_err(|error| self.fail(error))?;
            self.plan.finish();
            self.stage = Stage::Committing(None);
            self.dispatch()?;
            self.held.release();
        }
        loop {
            match &mut self.stage {
                Stage::Committing(None) => {
                    self.poll_deferred_parts(cx)?;
                    self.dispatch()?;
                    if matches!(self.stage, Stage::Committing(None)) {
                        return Poll::Pending;
                    }
                }
                Stage::Committing(Some(_)) => {
                    self.poll_parts(cx)?;
                    return match &self.stage {
                        // Kept: a `finish` after a `shutdown` returns the object once more.
                        Stage::Committed(Some(object)) => Poll::Ready(Ok((**object).clone())),
                        _ => Poll::Pending,
                    };
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
}
