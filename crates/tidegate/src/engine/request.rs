//! Makes one request, with retries: waits for its permit, sets its deadline, pauses between attempts, counts
//! progress.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument, Span, debug};

use crate::backend::{Attempt, Fault, FaultKind};
use crate::engine::endpoint::Endpoint;
use crate::engine::hedge;
use crate::engine::limiter::{Flow, Lane, Outcome, Permit};
use crate::engine::retry::{Allowance, FailedAttempts, Retry, UsedUp};
use crate::memory::payload::Payload;
use crate::types::error::Operation;
use crate::types::progress::{Progress, Waiting};
use crate::types::telemetry::{self, AttemptFigures};

mod moving;
mod outcome;

/// The bytes that a request for an object of unknown size is taken to move: those of one range of a download.
const UNKNOWN_ANSWER: u64 = 8 << 20;

pub(crate) use moving::{Inflow, MinRate, Transfer, Trickle, answer};
use outcome::Seen;
pub(crate) use outcome::{Doubt, Failure, Made};

/// Makes the requests of one object.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The object (or bucket), as a URL.
    pub(crate) object: String,
    pub(crate) flow: Flow,
    /// The key prefix that the object is below, where keys are spread over prefixes.
    pub(crate) lane: Option<Arc<Lane>>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) retry: Arc<Retry>,
    pub(crate) progress: Progress,
    /// Bytes that a request is known to bring, though the answer is counted before they arrive; 0 where the answer
    /// may be the beginning of something large.
    pub(crate) brings: u64,
    /// Whether a failed request is not retried.
    pub(crate) is_once: bool,
    /// The span of the upload or the download that the requests are part of.
    pub(crate) span: Span,
}

impl Requests {
    /// Waits for a permit to make one request that carries no bytes of an object.
    pub(crate) async fn turn(&self) -> Permit {
        self.turn_of(0).await
    }

    /// Waits for a permit to make one request with the bytes of `payload`, which keeps to the rate of the endpoint.
    pub(crate) async fn turn_with(&self, payload: &Payload) -> Permit {
        payload.keeps_to(self.endpoint.rate.as_ref());
        self.turn_of(payload.len()).await
    }

    /// Waits for a permit to make one request that moves `bytes` of an object.
    async fn turn_of(&self, bytes: u64) -> Permit {
        let mut turn = pin!(async {
            // Wait for the lane first, without holding a permit: other requests can use the permit meanwhile.
            let admitted = match &self.lane {
                Some(lane) => Some(lane.admit().await),
                None => None,
            };
            self.flow.permit().carrying(bytes).await.in_lane(admitted)
        });
        let mut waiting = None;
        poll_fn(|cx| {
            let polled = turn.as_mut().poll(cx);
            if polled.is_pending() && waiting.is_none() {
                waiting = Some(self.progress.waiting(Waiting::Requests));
            }
            polled
        })
        .await
    }

    /// The same object's requests with turns of their own, beside those of the limiter.
    pub(crate) fn beside(&self) -> Self {
        Self {
            object: self.object.clone(),
            flow: self.endpoint.aborts.flow(),
            lane: None,
            endpoint: self.endpoint.clone(),
            retry: self.retry.clone(),
            progress: self.progress.clone(),
            brings: 0,
            is_once: self.is_once,
            span: self.span.clone(),
        }
    }

    /// The same object's requests, each made in one attempt.
    pub(crate) fn once(&self) -> Self {
        Self { is_once: true, ..self.again() }
    }

    /// The same object's requests.
    pub(crate) fn again(&self) -> Self {
        Self {
            object: self.object.clone(),
            flow: self.flow.clone(),
            lane: self.lane.clone(),
            endpoint: self.endpoint.clone(),
            retry: self.retry.clone(),
            progress: self.progress.clone(),
            brings: self.brings,
            is_once: self.is_once,
            span: self.span.clone(),
        }
    }

    /// Whether the store asked for fewer requests, or did not answer in time, within the last `span`.
    pub(crate) fn was_overloaded(&self, span: Duration) -> bool {
        self.endpoint.limiter.was_overloaded(span)
            || self.lane.as_ref().is_some_and(|lane| lane.was_refused(span))
    }

    /// The retry allowance that pays for a retry after this kind of fault, and gets the token back if the retry
    /// succeeds.
    fn allowance(&self, kind: FaultKind) -> &Allowance {
        match &self.lane {
            Some(lane) if kind == FaultKind::Throttled => &lane.allowance,
            _ => &self.endpoint.allowance,
        }
    }

    /// A request succeeded; `paid` is the fault that its retry was paid for, if it was a retry.
    pub(crate) fn succeeded(&self, paid: Option<FaultKind>) {
        let refused = self.lane.is_some() && paid == Some(FaultKind::Throttled);
        self.endpoint.allowance.succeeded(paid.is_some() && !refused);
        if let Some(lane) = &self.lane {
            lane.allowance.succeeded(refused);
        }
    }

    /// Makes a request whose answer has a body, with retries. The attempt that succeeded lasts until its body has been read,
    /// so its figures are returned: the reader of the body says in them how the attempt ended.
    pub(crate) async fn open<T, F>(
        &self,
        operation: Operation,
        mut request: impl FnMut(Attempt) -> F,
    ) -> Result<(Made<T>, AttemptFigures), Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.attempts_to_open(operation, Transfer::Nothing, None, |attempt, patience| {
            let sent = answer(patience, Transfer::Nothing, request(attempt));
            async { (sent.await, false) }
        })
        .await
    }

    /// Makes a request that carries `payload`, if any, and retries it where a retry can help.
    pub(crate) async fn send<T, F>(
        &self,
        operation: Operation,
        payload: Option<&Payload>,
        permit: Option<Permit>,
        request: impl FnMut(Attempt) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.make(operation, payload, permit, request).await.map(|made| made.answer)
    }

    /// As `send`, and also returns how many attempts there were and the doubt about earlier ones.
    pub(crate) async fn make<T, F>(
        &self,
        operation: Operation,
        payload: Option<&Payload>,
        permit: Option<Permit>,
        mut request: impl FnMut(Attempt) -> F,
    ) -> Result<Made<T>, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let carried = Transfer::from(payload);
        self.attempts(operation, carried, permit, |attempt, patience| {
            let sent = answer(patience, carried, request(attempt));
            async { (sent.await, false) }
        })
        .await
    }

    /// As `send`, for a part; with `hedge`, a part that is far slower than its peers is sent a second time in
    /// parallel.
    pub(crate) async fn send_part<T, F>(
        &self,
        payload: &Payload,
        permit: Option<Permit>,
        hedge: bool,
        request: impl Fn(Payload, Attempt) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let (request, carried) = (&request, Transfer::Payload(payload));
        let made = self.attempts(Operation::Part, carried, permit, |attempt, patience| {
            let first = answer(patience, carried, request(payload.clone(), attempt));
            async move {
                if !hedge {
                    return (first.await, false);
                }
                let again = || {
                    let copy = payload.again()?;
                    let attempt = attempt.on_new_connection();
                    Some(async move {
                        answer(patience, Transfer::Payload(&copy), request(copy.clone(), attempt)).await
                    })
                };
                hedge::race(self, Operation::Part, carried, payload.len(), first, again).await
            }
        });
        made.await.map(|made| made.answer)
    }

    /// Downloads a range, resuming after the last byte received. `first` makes the request; with `hedge`, `again`
    /// makes a second request in parallel where the first is far slower than its peers. Attempts that make enough
    /// progress together reset the policy's count of attempts.
    pub(crate) async fn receive<F, H>(
        &self,
        inflow: &Inflow,
        hedge: bool,
        first: impl Fn(Attempt) -> F,
        again: impl Fn(Attempt) -> Option<H>,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Fault>>,
        H: Future<Output = Result<(), Fault>>,
    {
        let least = MinRate::of(&self.retry.policy);
        let (first, again, carried) = (&first, &again, Transfer::Answer(inflow, least));
        let made = self.attempts(Operation::Get, carried, None, |attempt, patience| {
            let first = answer(patience, carried, first(attempt));
            let left = inflow.left();
            async move {
                if !hedge {
                    return (first.await, false);
                }
                let again = || Some(answer(patience, carried, again(attempt.on_new_connection())?));
                hedge::race(self, Operation::Get, carried, left, first, again).await
            }
        });
        made.await.map(drop)
    }

    /// Tells subscribers of `tidegate::retry` that attempt number `attempt` failed and that the request will be
    /// retried.
    pub(crate) fn tell_retry(&self, operation: Operation, attempt: u32, pause: Duration, fault: &Fault) {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        debug!(
            target: "tidegate::retry",
            object = %self.object,
            operation = operation.name(),
            attempt,
            attempts = self.retry.policy.attempts,
            pause_ms = millis(pause),
            longest_ms = millis(self.retry.longest(attempt).max(pause)),
            is_unreachable = fault.kind == FaultKind::Unreachable,
            fault = %fault,
            "trying again"
        );
    }

    /// Pauses before a retry after `fault` and waits for a token of the retry allowance. Where none comes in time,
    /// the fault's message says so.
    pub(crate) async fn wait_to_retry(&self, pause: Duration, fault: &mut Fault) -> Result<(), UsedUp> {
        let _waiting = self.progress.waiting(Waiting::Backoff);
        tokio::time::sleep(pause).await;
        self.allowance(fault.kind).take().await.inspect_err(|UsedUp| {
            fault.message.push_str(
                "; so many requests to this store have failed that it is sent no more retries for now",
            );
        })
    }

    /// Makes attempts one after another until one succeeds or a retry can't help. `make` gets the
    /// longest time that the attempt may go without moving a byte; it also returns whether the hedge was the one that
    /// succeeded.
    async fn attempts<T, F>(
        &self,
        operation: Operation,
        carried: Transfer<'_>,
        permit: Option<Permit>,
        make: impl FnMut(Attempt, Duration) -> F,
    ) -> Result<Made<T>, Failure>
    where
        F: Future<Output = (Result<T, Fault>, bool)>,
    {
        let (made, figures) = self.attempts_to_open(operation, carried, permit, make).await?;
        figures.succeeded();
        telemetry::written(carried.sends());
        Ok(made)
    }

    /// As `attempts`; also returns the figures of the attempt that succeeded. The caller says in them how the attempt ended.
    async fn attempts_to_open<T, F>(
        &self,
        operation: Operation,
        carried: Transfer<'_>,
        mut permit: Option<Permit>,
        mut make: impl FnMut(Attempt, Duration) -> F,
    ) -> Result<(Made<T>, AttemptFigures), Failure>
    where
        F: Future<Output = (Result<T, Fault>, bool)>,
    {
        let began = Instant::now();
        let mut seen = Seen::default();
        // `paid` is the fault that this attempt's retry token was taken for, if the attempt is a retry.
        let (mut attempt, mut row, mut paid) = (0, FailedAttempts::at(carried.got()), None);
        loop {
            self.endpoint.owner.check_request()?;
            attempt += 1;
            let opened = carried.opened();
            let was_open = opened.is_some();
            let bytes = carried.bytes();
            let moves = match bytes.max(self.brings) {
                0 if operation == Operation::Get => UNKNOWN_ANSWER,
                moves => moves,
            };
            carried.keeps_to(self.endpoint.rate.as_ref());
            let turn = match permit.take() {
                Some(permit) => permit,
                // The request had a permit when it was opened, and holds a connection: it goes before the queue.
                None if was_open => self.flow.next_permit().carrying(moves).await,
                None => self.turn_of(moves).await,
            };
            let in_flight = match was_open {
                true => self.progress.carries(bytes),
                false => self.progress.request(operation.name(), bytes, attempt > 1),
            };
            carried.counts_in(&self.progress);
            let (endpoint, flight) = (&self.endpoint, self.endpoint.latency.begin());
            let expected = endpoint.latency.expected(bytes);
            let patience = match endpoint.is_disk {
                true => disk_patience(operation),
                false => self.retry.deadline(operation, bytes, row.failed + 1, row.timeouts, expected),
            };
            let how = Attempt::nth(attempt).renewed(seen.broken);
            let (sent_at, held) = (Instant::now(), carried.held_back());
            let begin = || AttemptFigures::begin(&self.span, operation.name(), &self.object, attempt);
            let figures = opened.unwrap_or_else(begin);
            let (result, by_hedge) = make(how, patience).instrument(figures.span()).await;
            let is_held = is_held_back(carried.held_back() - held, sent_at.elapsed());
            drop(in_flight);
            carried.is_sent();
            let mut fault = match result {
                Ok(answer) => {
                    // Only a plain request measures the store. A hedge's bytes are counted with the hedge's own
                    // permit; a completion takes long because of its parts, not because the store is far; and a
                    // request that was opened before has already received some of its bytes; a request that the
                    // rate held back shows the rate.
                    let tells = !by_hedge && !operation.is_work_of_store() && !was_open && !is_held;
                    let moved = Outcome::of(operation, bytes.max(self.brings));
                    turn.end(if tells { moved } else { Outcome::Answered });
                    self.succeeded(paid);
                    if tells {
                        flight.went_well(bytes, matches!(carried, Transfer::Payload(_)));
                    }
                    return Ok((Made { answer, attempts: attempt, doubt: seen.doubt }, figures));
                }
                Err(fault) => fault,
            };
            if endpoint.is_disk && fault.kind == FaultKind::Timeout {
                // A disk that goes on may carry the request out yet.
                seen.take_in(&fault);
                fault = stuck(patience);
            }
            figures.failed(fault.kind.error_kind().name());
            turn.end(match fault.kind {
                FaultKind::Throttled => Outcome::Throttled,
                // A completion takes long because of its parts, not because of other requests.
                FaultKind::Timeout if !operation.is_work_of_store() => Outcome::Overload,
                _ if fault.answered => Outcome::Answered,
                _ => Outcome::Other,
            });
            row.reaches(carried.got());
            row.fails(fault.kind);
            let pause =
                self.retry.pause(&fault, row.failed).filter(|_| !self.is_once && seen.may_help(&fault));
            seen.take_in(&fault);
            let Some(pause) = pause else {
                return Err(seen.failure(fault, attempt, began.elapsed()));
            };
            self.tell_retry(operation, attempt, pause, &fault);
            // Renewing expired credentials puts no load on a store that is well, so it takes no retry token.
            paid = Some(fault.kind).filter(|kind| *kind != FaultKind::Expired);
            if paid.is_none() {
                continue;
            }
            if self.wait_to_retry(pause, &mut fault).await == Err(UsedUp) {
                return Err(seen.failure(fault, attempt, began.elapsed()));
            }
        }
    }
}

/// How long a request to the local disk may go without moving a byte: a slow disk fails nothing, and one that has not
/// written 1 MiB in two minutes is stuck. A sync of a file may take longer. docs/UPLOADING.md names both times.
fn disk_patience(operation: Operation) -> Duration {
    let syncs = matches!(operation, Operation::Put) || operation.may_take_minutes();
    Duration::from_secs(if syncs { 600 } else { 120 })
}

/// The fault for a disk that has not answered for so long; a retry would wait behind the same disk.
fn stuck(waited: Duration) -> Fault {
    let message = format!("the disk has not answered in {} s: it is stuck", waited.as_secs());
    Fault::new(FaultKind::Source, message)
}

/// Whether a request that took `took` was held back by a rate for so long that it does not measure the store.
pub(crate) fn is_held_back(held: Duration, took: Duration) -> bool {
    held > took / 8
}

#[cfg(test)]
mod tests;
