//! One request, made as often as it takes: its turn, its deadline, its pauses, its counts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::backend::{Fault, FaultKind, connected};
use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::hedge;
use crate::limiter::{Flow, Lane, Outcome, Permit};
use crate::payload::Payload;
use crate::progress::{Progress, Waiting};
use crate::retry::{Allowance, Retry, UsedUp};

/// Makes the requests of one object.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The object (or bucket), as a URL.
    pub(crate) object: String,
    pub(crate) flow: Flow,
    /// The key prefix that the object is below, where keys are spread.
    pub(crate) lane: Option<Arc<Lane>>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) retry: Arc<Retry>,
    pub(crate) progress: Progress,
}

/// A request that succeeded.
#[derive(Debug)]
pub(crate) struct Made<T> {
    pub(crate) answer: T,
    pub(crate) attempts: u32,
    /// Whether an earlier attempt may have been carried out although its answer was lost.
    pub(crate) in_doubt: bool,
}

/// A request that failed for good.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    /// Whether some attempt may have been carried out although its answer was lost.
    pub(crate) in_doubt: bool,
    /// Whether some attempt was never answered by the store, so that it may carry it out yet.
    pub(crate) late: bool,
    /// Whether an earlier attempt of the same request may be what the last one ran into.
    pub(crate) ran_into: bool,
    /// Whether the store says that it was carried out, and what there should be then has yet to be seen.
    pub(crate) unseen: bool,
}

impl Requests {
    /// Waits for its turn to make one request.
    pub(crate) async fn turn(&self) -> Permit {
        let mut turn = pin!(async {
            // A turn is not held while the lane is waited for: others can use it.
            let admitted = match &self.lane {
                Some(lane) => Some(lane.admit().await),
                None => None,
            };
            self.flow.permit().await.in_lane(admitted)
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

    /// Whether the store asked for fewer requests, or did not answer in time, within the last `span`.
    pub(crate) fn was_overloaded(&self, span: Duration) -> bool {
        self.endpoint.limiter.was_overloaded(span)
            || self.lane.as_ref().is_some_and(|lane| lane.was_refused(span))
    }

    /// The retries that may be made after a fault, and those that a retry is given back to.
    fn allowance(&self, kind: FaultKind) -> &Allowance {
        match &self.lane {
            Some(lane) if kind == FaultKind::Throttled => &lane.allowance,
            _ => &self.endpoint.allowance,
        }
    }

    /// A request succeeded: at once, or as the retry after a fault that was paid for.
    fn succeeded(&self, paid: Option<FaultKind>) {
        let refused = self.lane.is_some() && paid == Some(FaultKind::Throttled);
        self.endpoint.allowance.succeeded(paid.is_some() && !refused);
        if let Some(lane) = &self.lane {
            lane.allowance.succeeded(refused);
        }
    }

    /// Makes a request that carries `payload`, if any, again where that can help.
    pub(crate) async fn send<T, F>(
        &self,
        operation: Operation,
        payload: Option<&Payload>,
        permit: Option<Permit>,
        request: impl FnMut() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.make(operation, payload, permit, request).await.map(|made| made.answer)
    }

    /// As `send`; with what its attempts have met with.
    pub(crate) async fn make<T, F>(
        &self,
        operation: Operation,
        payload: Option<&Payload>,
        permit: Option<Permit>,
        mut request: impl FnMut() -> F,
    ) -> Result<Made<T>, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let carried = Carried::from(payload);
        self.attempts(operation, carried, permit, |attempt| {
            let sent = connected(attempt.broken, answer(attempt.patience, carried, request()));
            async { (sent.await, false) }
        })
        .await
    }

    /// As `send`, for a part; one that is far slower than its peers is sent once more beside itself.
    pub(crate) async fn send_part<T, F>(
        &self,
        payload: &Payload,
        permit: Option<Permit>,
        hedge: bool,
        request: impl Fn(Payload) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let (request, carried) = (&request, Carried::Payload(payload));
        let made = self.attempts(Operation::Part, carried, permit, |Attempt { broken, patience }| {
            let first = connected(broken, answer(patience, carried, request(payload.clone())));
            async move {
                if !hedge {
                    return (first.await, false);
                }
                let again = || {
                    let copy = payload.again()?;
                    Some(connected(true, async move {
                        answer(patience, Carried::Payload(&copy), request(copy.clone())).await
                    }))
                };
                hedge::race(self, Operation::Part, payload.len(), first, again).await
            }
        });
        made.await.map(|made| made.answer)
    }

    /// Receives what `inflow` counts, by `first`, and once more beside it by `again` where that is far slower
    /// than its peers. An attempt goes on where the last one broke; one that brought anything is followed by
    /// as many as the policy has.
    pub(crate) async fn receive<F, H>(
        &self,
        inflow: &Inflow,
        first: impl Fn() -> F,
        again: impl Fn() -> Option<H>,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Fault>>,
        H: Future<Output = Result<(), Fault>>,
    {
        let (first, again, carried) = (&first, &again, Carried::Answer(inflow));
        let mut earlier = None;
        loop {
            let before = inflow.got();
            let made = self.attempts(Operation::Get, carried, None, |Attempt { broken, patience }| {
                let first = connected(broken, answer(patience, carried, first()));
                let left = inflow.left();
                async move {
                    let again = || Some(connected(true, answer(patience, carried, again()?)));
                    hedge::race(self, Operation::Get, left, first, again).await
                }
            });
            match made.await {
                Ok(_) => return Ok(()),
                Err(failure) if inflow.got() > before && failure.fault.kind.is_retriable() => {
                    earlier = Some(failure.after(earlier));
                }
                Err(failure) => return Err(failure.after(earlier)),
            }
        }
    }

    /// Has one attempt after the other made, until one succeeds or no other can help. An attempt also tells
    /// whether it was its hedge that did.
    async fn attempts<T, F>(
        &self,
        operation: Operation,
        carried: Carried<'_>,
        mut permit: Option<Permit>,
        mut make: impl FnMut(Attempt) -> F,
    ) -> Result<Made<T>, Failure>
    where
        F: Future<Output = (Result<T, Fault>, bool)>,
    {
        let began = Instant::now();
        let mut seen = Seen::default();
        // The fault that a retry was paid for, if this is one.
        let (mut attempt, mut paid) = (0, None);
        loop {
            attempt += 1;
            let turn = match permit.take() {
                Some(permit) => permit,
                None => self.turn().await,
            };
            let bytes = carried.bytes();
            let in_flight = match carried {
                Carried::Answer(inflow) if inflow.opened.swap(false, Relaxed) => self.progress.carries(bytes),
                _ => self.progress.request(operation.name(), bytes, attempt > 1),
            };
            let (endpoint, sent) = (&self.endpoint, Instant::now());
            let expected = endpoint.pace.expected(bytes);
            let patience = self.retry.deadline(operation, bytes, attempt, seen.timeouts, expected);
            let (result, by_hedge) = make(Attempt { broken: seen.broken, patience }).await;
            drop(in_flight);
            let mut fault = match result {
                Ok(answer) => {
                    // What a hedge has moved is counted with its own turn; a completion takes long
                    // because of its parts, and says nothing of how far the store is.
                    let tells = !by_hedge && !operation.is_work_of_store();
                    turn.end(if tells { Outcome::Moved(bytes) } else { Outcome::Answered });
                    self.succeeded(paid);
                    if tells {
                        endpoint.pace.took(bytes, sent.elapsed());
                    }
                    return Ok(Made { answer, attempts: attempt, in_doubt: seen.in_doubt });
                }
                Err(fault) => fault,
            };
            turn.end(match fault.kind {
                FaultKind::Throttled => Outcome::Throttled,
                // A completion takes long because of its parts, not because of other requests.
                FaultKind::Timeout if !operation.is_work_of_store() => Outcome::Overload,
                _ if fault.answered => Outcome::Answered,
                _ => Outcome::Other,
            });
            let pause = self.retry.pause(&fault, attempt).filter(|_| seen.may_help(&fault));
            seen.take_in(&fault);
            let Some(pause) = pause else {
                return Err(seen.failure(fault, attempt, began.elapsed()));
            };
            debug!(object = %self.object, operation = operation.name(), attempt, ?pause, fault = %fault, "trying again");
            // New credentials are no burden on a store that is well.
            paid = Some(fault.kind).filter(|kind| *kind != FaultKind::Expired);
            if paid.is_none() {
                continue;
            }
            let _waiting = self.progress.waiting(Waiting::Backoff);
            tokio::time::sleep(pause).await;
            if self.allowance(fault.kind).take().await == Err(UsedUp) {
                fault.message.push_str(
                    "; so many requests to this store have failed that it is sent no more retries for now",
                );
                return Err(seen.failure(fault, attempt, began.elapsed()));
            }
        }
    }
}

/// How an attempt is to be made.
struct Attempt {
    /// The connection of the one before broke, or stood still.
    broken: bool,
    /// How long it may go without moving a byte.
    patience: Duration,
}

/// What a request moves beside its question and its answer's head.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried<'a> {
    Nothing,
    Payload(&'a Payload),
    Answer(&'a Inflow),
}

impl<'a> From<Option<&'a Payload>> for Carried<'a> {
    fn from(payload: Option<&'a Payload>) -> Self {
        payload.map_or(Self::Nothing, Self::Payload)
    }
}

impl Carried<'_> {
    /// Bytes that the next attempt is to move.
    fn bytes(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.len(),
            Self::Answer(inflow) => inflow.left(),
        }
    }

    /// Where this stands still, nothing moves.
    fn moved(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.moved(),
            Self::Answer(inflow) => inflow.moved.load(Relaxed),
        }
    }
}

/// Bytes that are received, in order.
#[derive(Debug)]
pub(crate) struct Inflow {
    len: u64,
    got: AtomicU64,
    moved: AtomicU64,
    /// The next attempt's request was made, and counted, before.
    opened: AtomicBool,
}

impl Inflow {
    pub(crate) fn new(len: u64) -> Self {
        Self { len, got: AtomicU64::new(0), moved: AtomicU64::new(0), opened: AtomicBool::new(false) }
    }

    /// The request of the first attempt was made, and counted, already.
    pub(crate) fn is_opened(&self) {
        self.opened.store(true, Relaxed);
    }

    /// How many are here for good.
    pub(crate) fn got(&self) -> u64 {
        self.got.load(Relaxed)
    }

    /// How many are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.len - self.got()
    }

    /// The first so many are here.
    pub(crate) fn reaches(&self, bytes: u64) {
        let before = self.got.fetch_max(bytes, Relaxed);
        self.moves(bytes.saturating_sub(before));
    }

    /// So many more have arrived, in a copy.
    pub(crate) fn moves(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }
}

/// What the attempts of one request have met with so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    in_doubt: bool,
    late: bool,
    timeouts: u32,
    /// The last one's connection broke, or stood still.
    broken: bool,
    expired: bool,
}

impl Seen {
    /// Whether another attempt can help after this fault: fresh credentials that have expired will not
    /// be the last.
    fn may_help(&self, fault: &Fault) -> bool {
        !(self.expired && fault.kind == FaultKind::Expired)
    }

    fn take_in(&mut self, fault: &Fault) {
        self.in_doubt |= fault.is_ambiguous();
        self.late |= fault.is_ambiguous() && !fault.answered;
        self.timeouts += u32::from(fault.kind == FaultKind::Timeout);
        self.broken = !fault.answered && (fault.is_ambiguous() || fault.kind == FaultKind::Unreachable);
        self.expired |= fault.kind == FaultKind::Expired;
    }

    fn failure(self, fault: Fault, attempts: u32, elapsed: Duration) -> Failure {
        let ran_into = attempts > 1 && matches!(fault.kind, FaultKind::NoSession | FaultKind::Exists);
        let (in_doubt, late) = (self.in_doubt, self.late);
        Failure { fault, attempts, elapsed, in_doubt, late, ran_into, unseen: false }
    }
}

/// Waits for a request's answer for as long as its bytes move, and for `patience` from there on.
pub(crate) async fn answer<T>(
    patience: Duration,
    carried: impl Into<Carried<'_>>,
    request: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let carried = carried.into();
    let mut request = pin!(request);
    let (mut moved, mut quiet_since) = (carried.moved(), Instant::now());
    loop {
        // A look each quarter: it is given up after no less than `patience`, and little more.
        if let Ok(result) = timeout(patience / 4, &mut request).await {
            return result;
        }
        let (now, moved_now) = (Instant::now(), carried.moved());
        if moved_now != moved {
            (moved, quiet_since) = (moved_now, now);
        } else if now - quiet_since >= patience {
            let message = format!("no answer within {:.0} s", patience.as_secs_f64());
            return Err(Fault::new(FaultKind::Timeout, message));
        }
    }
}

impl<T> Made<T> {
    /// The same, where earlier requests for the same had failed.
    pub(crate) fn after(mut self, earlier: Option<&Failure>) -> Self {
        if let Some(earlier) = earlier {
            self.attempts += earlier.attempts;
            self.in_doubt |= earlier.in_doubt;
        }
        self
    }
}

impl Failure {
    /// Of a request that changes nothing.
    pub(crate) fn of(fault: Fault, attempts: u32, elapsed: Duration) -> Self {
        Seen::default().failure(fault, attempts, elapsed)
    }

    /// The same, where `earlier` requests for the same had failed, the last of them by the store's own
    /// word: it is not what this one ran into.
    pub(crate) fn after(mut self, earlier: Option<Self>) -> Self {
        if let Some(earlier) = earlier {
            self.attempts += earlier.attempts;
            self.elapsed += earlier.elapsed;
            self.in_doubt |= earlier.in_doubt;
            self.late |= earlier.late;
        }
        self
    }

    /// Whether the request may have been carried out all the same: an answer was lost, or an earlier
    /// attempt of our own is what the last one ran into.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.in_doubt || self.ran_into
    }

    pub(crate) fn into_error(self, operation: Operation, object: &str) -> Error {
        Error::from_fault(self.fault, operation, object, self.attempts, self.elapsed)
    }
}

#[cfg(test)]
mod tests;
