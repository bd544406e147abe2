//! One open request whose bytes are taken as the consumer asks for them. It needs no memory; and it holds no permit,
//! because a consumer may pause for as long as it likes. If the request breaks or stalls, it is resumed from the
//! exact byte.

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

use super::source::{ObjectSource, OpenObject, Pieces};
use crate::backend::{Fault, FaultKind, not_resumable};
use crate::engine::request::{Failure, MinRate, Trickle};
use crate::engine::retry::{FailedAttempts, UsedUp};
use crate::types::error::{Operation, Result};
use crate::types::object::Object;
use crate::types::telemetry::{self, AttemptFigures};
use crate::types::transfer_rate::SliceTurn;

/// A request that is opened for one range, and read up to a byte of it.
pub(super) struct Direct {
    /// The next byte that it returns.
    pub(super) at: u64,
    /// The end of the bytes that it returns.
    pub(super) until: u64,
    /// The end of the range that was requested.
    pub(super) asked: u64,
    /// Never locked: polling has exclusive access. The mutex makes the reader `Sync`, although the future and the
    /// stream in it are only `Send`.
    state: Mutex<DirectState>,
    /// While the reader waits for the store (not for the consumer): since when, and the deadline.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
    /// The rate of this answer's bytes.
    trickle: Option<Trickle>,
    too_slow: Option<Fault>,
    /// Bytes that have arrived and are not returned yet.
    piece: Bytes,
    /// The turns of a rate that the bytes keep to.
    slices: Option<SliceTurn>,
    breaks: FailedAttempts,
    earlier: Option<Failure>,
}

/// The answer, and the failure after which the request was reopened.
type Opened = (Result<OpenObject, Failure>, Option<Failure>);

enum DirectState {
    Opening(BoxFuture<'static, Opened>),
    Open {
        stream: BoxStream<'static, Result<Bytes, Fault>>,
        since: Instant,
        /// `None` once all wanted bytes are here.
        figures: Option<AttemptFigures>,
    },
}

impl From<Pieces> for DirectState {
    fn from(Pieces { stream, figures }: Pieces) -> Self {
        Self::Open { stream, since: Instant::now(), figures: Some(figures) }
    }
}

fn alone(state: &mut Mutex<DirectState>) -> &mut DirectState {
    state.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    pub(super) fn of(body: Pieces, range: Range<u64>) -> Self {
        let mut direct = Self::new(body.into(), range);
        direct.ends_with_bytes();
        direct
    }

    pub(super) fn open(source: &Arc<ObjectSource>, object: &Arc<Object>, range: Range<u64>) -> Self {
        let (source, object, asked) = (source.clone(), object.clone(), range.clone());
        let opening = async move { (source.open(Some(asked), Some(&object)).await, None) };
        Self::new(DirectState::Opening(opening.boxed()), range)
    }

    fn new(state: DirectState, Range { start, end }: Range<u64>) -> Self {
        Self {
            at: start,
            until: end,
            asked: end,
            state: Mutex::new(state),
            stalled: None,
            trickle: None,
            too_slow: None,
            piece: Bytes::new(),
            slices: None,
            breaks: FailedAttempts::at(start),
            earlier: None,
        }
    }

    /// The next bytes, up to `until`.
    pub(super) fn poll(
        &mut self,
        source: &Arc<ObjectSource>,
        object: &Arc<Object>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes>> {
        loop {
            if !self.piece.is_empty() {
                return self.poll_piece(source, cx).map(Ok);
            }
            let fault = match alone(&mut self.state) {
                DirectState::Opening(opening) => {
                    match ready!(opening.poll_unpin(cx)) {
                        (Ok(body), earlier) => {
                            self.earlier = earlier;
                            *alone(&mut self.state) = body.pieces.into();
                        }
                        (Err(failure), earlier) => {
                            let failure = failure.after(earlier);
                            return Poll::Ready(Err(source.failed(failure, self.at)));
                        }
                    }
                    continue;
                }
                DirectState::Open { stream, .. } => match self
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
                            // These bytes are good: resume a body that is too slow after them.
                            self.too_slow = is_slow.err();
                            self.piece = piece;
                            continue;
                        }
                        match is_slow {
                            Ok(()) => continue, // an empty piece shows that bytes move
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

    /// The next bytes of the piece that has arrived, as many as the rate allows now.
    fn poll_piece(&mut self, source: &ObjectSource, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut now = self.piece.len();
        if let Some(rate) = &source.requests.endpoint.rate {
            let slices = self.slices.get_or_insert_with(|| SliceTurn::new(rate.clone(), Arc::default()));
            // Bytes past the end are not returned.
            let wanted = (now as u64).min(self.until - self.at);
            // Not more than the piece's own length.
            now = ready!(slices.poll_take(wanted, cx)) as usize;
        }
        let piece = self.piece.split_to(now);
        Poll::Ready(self.take(piece, cx))
    }

    fn take(&mut self, mut piece: Bytes, cx: &mut Context<'_>) -> Bytes {
        let left = self.until - self.at;
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX).min(piece.len()));
        self.at += piece.len() as u64;
        telemetry::received(piece.len() as u64);
        self.ends_with_bytes();
        if self.breaks.reaches(self.at) {
            self.earlier = None;
        }
        if self.at == self.asked
            && let DirectState::Open { stream, .. } = alone(&mut self.state)
        {
            // Every byte is here; polling to the end lets the connection be reused.
            let _ = stream.poll_next_unpin(cx);
        }
        piece
    }

    /// Ends the attempt once all wanted bytes are here.
    fn ends_with_bytes(&mut self) {
        if self.at == self.until
            && let DirectState::Open { figures, .. } = alone(&mut self.state)
            && let Some(figures) = figures.take()
        {
            figures.succeeded();
        }
    }

    /// How long to wait without a byte: four times the expected time of the bytes, or the policy's patience.
    fn patience(&self, source: &ObjectSource) -> Duration {
        let requests = &source.requests;
        // Expect the bytes that come within one patience, not the whole rest of a large object.
        const LOOK: u64 = 1 << 20;
        let bytes = (self.asked - self.at).min(LOOK);
        let expected = requests.endpoint.latency.expected(bytes);
        requests.retry.deadline(Operation::Get, bytes, self.breaks.failed + 1, self.breaks.timeouts, expected)
    }

    /// Starts to reopen the request, where that can help.
    fn reopen(
        &mut self,
        source: &Arc<ObjectSource>,
        object: &Arc<Object>,
        fault: Fault,
    ) -> Result<(), Failure> {
        (self.stalled, self.trickle, self.too_slow) = (None, None, None);
        self.breaks.fails(fault.kind);
        let elapsed = match alone(&mut self.state) {
            DirectState::Open { since, figures, .. } => {
                if let Some(figures) = figures.take() {
                    figures.failed(fault.kind.error_kind().name());
                }
                since.elapsed()
            }
            DirectState::Opening(_) => Duration::ZERO,
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
            let opened = source.reopen(rest, &object).await;
            if opened.is_ok() {
                requests.succeeded(Some(failure.fault.kind));
            }
            (opened, Some(failure))
        };
        *alone(&mut self.state) = DirectState::Opening(opening.boxed());
        Ok(())
    }
}
