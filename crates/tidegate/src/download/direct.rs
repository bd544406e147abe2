//! An open request whose bytes are taken as the consumer asks for them: it needs no memory, and, because a
//! consumer may stop for as long as it likes, it holds no turn. Where it breaks, or gives nothing for too long,
//! it is opened again from the exact byte.

use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, Sleep, sleep};
use tracing::debug;

use super::source::Source;
use crate::backend::{Body, Fault, FaultKind, connected, not_resumable};
use crate::engine::request::{Failure, MinRate, Trickle};
use crate::engine::retry::{Row, UsedUp};
use crate::types::error::{Operation, Result};
use crate::types::object::Object;

/// Opened for one range, and read up to a byte of it.
pub(super) struct Direct {
    /// The next byte that it gives.
    pub(super) at: u64,
    /// The byte that it gives no more.
    pub(super) until: u64,
    /// The end of what was asked for.
    pub(super) asked: u64,
    /// Never locked: whoever polls has it alone. A future and a stream that are only `Send` are so part of a reader
    /// that is `Sync`.
    state: Mutex<State>,
    /// Set while the store is waited for, and not while the consumer is: since when, and for how long at most.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
    /// How fast the bytes of this answer come.
    trickle: Option<Trickle>,
    too_slow: Option<Fault>,
    breaks: Row,
    earlier: Option<Failure>,
}

/// The answer; and the failure that it was opened again after.
type Opened = (Result<Body, Failure>, Option<Failure>);

enum State {
    Opening(BoxFuture<'static, Opened>),
    Open { stream: BoxStream<'static, Result<Bytes, Fault>>, since: Instant },
}

fn alone(state: &mut Mutex<State>) -> &mut State {
    state.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    pub(super) fn of(body: BoxStream<'static, Result<Bytes, Fault>>, range: Range<u64>) -> Self {
        let since = Instant::now();
        Self::new(State::Open { stream: body, since }, range)
    }

    pub(super) fn open(source: &Arc<Source>, object: &Arc<Object>, range: Range<u64>) -> Self {
        let (source, object, asked) = (source.clone(), object.clone(), range.clone());
        let opening = async move { (source.open(Some(asked), Some(&object)).await, None) };
        Self::new(State::Opening(opening.boxed()), range)
    }

    fn new(state: State, Range { start, end }: Range<u64>) -> Self {
        Self {
            at: start,
            until: end,
            asked: end,
            state: Mutex::new(state),
            stalled: None,
            trickle: None,
            too_slow: None,
            breaks: Row::at(start),
            earlier: None,
        }
    }

    /// The next bytes; those before `until`.
    pub(super) fn poll(
        &mut self,
        source: &Arc<Source>,
        object: &Arc<Object>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes>> {
        loop {
            let fault = match alone(&mut self.state) {
                State::Opening(opening) => {
                    match ready!(opening.poll_unpin(cx)) {
                        (Ok(body), earlier) => {
                            self.earlier = earlier;
                            *alone(&mut self.state) =
                                State::Open { stream: body.stream, since: Instant::now() };
                        }
                        (Err(failure), earlier) => {
                            let failure = failure.after(earlier);
                            return Poll::Ready(Err(source.failed(failure, self.at)));
                        }
                    }
                    continue;
                }
                State::Open { stream, .. } => match self
                    .too_slow
                    .take()
                    .map_or_else(|| stream.poll_next_unpin(cx), |fault| Poll::Ready(Some(Err(fault))))
                {
                    Poll::Ready(Some(Ok(piece))) => {
                        let waited = self.stalled.take().map_or(Duration::ZERO, |(since, _)| since.elapsed());
                        let least = MinRate::of(&source.requests.retry.policy);
                        let trickle = self.trickle.get_or_insert_with(|| Trickle::new(least));
                        let is_slow = trickle.take(waited, piece.len() as u64);
                        if !piece.is_empty() {
                            // These bytes are good: one that is too slow is opened again behind them.
                            self.too_slow = is_slow.err();
                            return Poll::Ready(Ok(self.take(piece, cx)));
                        }
                        match is_slow {
                            Ok(()) => continue, // it shows that something moves
                            Err(fault) => fault,
                        }
                    }
                    Poll::Ready(Some(Err(fault))) => fault,
                    Poll::Ready(None) => {
                        let message = format!("the body ended before byte {}", self.asked);
                        Fault::new(FaultKind::Transient, message)
                    }
                    Poll::Pending => {
                        let patience = self.patience(source);
                        let begin = || (Instant::now(), Box::pin(sleep(patience)));
                        let (_, stalled) = self.stalled.get_or_insert_with(begin);
                        ready!(stalled.as_mut().poll(cx));
                        let message = format!("no byte within {:.0} s", patience.as_secs_f64());
                        Fault::new(FaultKind::Timeout, message)
                    }
                },
            };
            if let Err(failure) = self.reopen(source, object, fault) {
                return Poll::Ready(Err(source.failed(failure, self.at)));
            }
        }
    }

    fn take(&mut self, mut piece: Bytes, cx: &mut Context<'_>) -> Bytes {
        let left = self.until - self.at;
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX).min(piece.len()));
        self.at += piece.len() as u64;
        if self.breaks.reaches(self.at) {
            self.earlier = None;
        }
        if self.at == self.asked
            && let State::Open { stream, .. } = alone(&mut self.state)
        {
            // Every byte is here; a look at the end lets the connection be used again.
            let _ = stream.poll_next_unpin(cx);
        }
        piece
    }

    /// How long nothing may come: four times what so much should take, or as the policy says.
    fn patience(&self, source: &Source) -> Duration {
        let requests = &source.requests;
        // What comes within one patience, not the whole rest of a large object.
        const LOOK: u64 = 1 << 20;
        let bytes = (self.asked - self.at).min(LOOK);
        let expected = requests.endpoint.pace.expected(bytes);
        requests.retry.deadline(Operation::Get, bytes, self.breaks.failed + 1, self.breaks.timeouts, expected)
    }

    /// Has it opened again, where that can help.
    fn reopen(&mut self, source: &Arc<Source>, object: &Arc<Object>, fault: Fault) -> Result<(), Failure> {
        (self.stalled, self.trickle, self.too_slow) = (None, None, None);
        self.breaks.fails(fault.kind);
        let elapsed = match alone(&mut self.state) {
            State::Open { since, .. } => since.elapsed(),
            State::Opening(_) => Duration::ZERO,
        };
        let fault = if object.has_identity() { fault } else { not_resumable(fault) };
        let pause = source.requests.retry.pause(&fault, self.breaks.failed);
        debug!(object = source.url(), at = self.at, fault = %fault, ?pause, "an answer broke");
        let mut failure = Failure::of(fault, 1, elapsed).after(self.earlier.take());
        let Some(pause) = pause else { return Err(failure) };
        let (source, object, rest) = (source.clone(), object.clone(), self.at..self.asked);
        let failed = self.breaks.failed;
        let opening = async move {
            let requests = &source.requests;
            requests.tell_retry(Operation::Get, failed, pause, &failure.fault);
            if requests.wait_to_retry(pause, &mut failure.fault).await == Err(UsedUp) {
                return (Err(failure), None);
            }
            requests.progress.resumed(Operation::Get.name());
            let opened = connected(true, source.open(Some(rest), Some(&object))).await;
            if opened.is_ok() {
                requests.succeeded(Some(failure.fault.kind));
            }
            (opened, Some(failure))
        };
        *alone(&mut self.state) = State::Opening(opening.boxed());
        Ok(())
    }
}
