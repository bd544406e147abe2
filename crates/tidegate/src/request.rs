//! One request, made as often as it takes: its turn, its deadline, its pauses, its counts.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::backend::{Fault, FaultKind};
use crate::error::{Error, Operation};
use crate::limiter::{Flow, Outcome, Permit};
use crate::payload::Payload;
use crate::progress::{Progress, Waiting};
use crate::retry::Retry;

/// Makes the requests of one object.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The object (or bucket), as a URL.
    pub(crate) object: String,
    pub(crate) flow: Flow,
    pub(crate) retry: Arc<Retry>,
    pub(crate) progress: Progress,
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
}

impl Requests {
    /// Waits for its turn to make one request.
    pub(crate) async fn turn(&self) -> Permit {
        let mut turn = self.flow.permit();
        let mut waiting = None;
        poll_fn(|cx| {
            let polled = Pin::new(&mut turn).poll(cx);
            if polled.is_pending() && waiting.is_none() {
                waiting = Some(self.progress.waiting(Waiting::Requests));
            }
            polled
        })
        .await
    }

    /// Makes a request that carries `payload`, if any, again where that can help.
    pub(crate) async fn send<T, F>(
        &self,
        operation: Operation,
        payload: Option<&Payload>,
        mut permit: Option<Permit>,
        mut request: impl FnMut() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let began = Instant::now();
        let bytes = payload.map_or(0, Payload::len);
        let (mut in_doubt, mut late) = (false, false);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let turn = match permit.take() {
                Some(permit) => permit,
                None => self.turn().await,
            };
            let in_flight = self.progress.request(operation.name(), bytes, attempt > 1);
            let result = answer(self.retry.deadline(operation, bytes), payload, request()).await;
            drop(in_flight);
            let fault = match result {
                Ok(answer) => {
                    turn.end(Outcome::Moved(bytes));
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            turn.end(match fault.kind {
                FaultKind::Throttled => Outcome::Overload,
                // A completion takes long because of its parts, not because of other requests.
                FaultKind::Timeout if operation != Operation::Complete => Outcome::Overload,
                _ => Outcome::Other,
            });
            in_doubt |= fault.kind.is_ambiguous();
            late |= fault.kind.is_ambiguous() && !fault.answered;
            let Some(pause) = self.retry.pause(&fault, attempt) else {
                return Err(Failure { fault, attempts: attempt, elapsed: began.elapsed(), in_doubt, late });
            };
            debug!(object = %self.object, operation = operation.name(), attempt, ?pause, fault = %fault, "trying again");
            let _waiting = self.progress.waiting(Waiting::Backoff);
            tokio::time::sleep(pause).await;
        }
    }
}

/// Waits for a request's answer for as long as its bytes move, and for `patience` from there on.
async fn answer<T>(
    patience: Duration,
    payload: Option<&Payload>,
    request: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut request = pin!(request);
    let mut before = None;
    loop {
        if let Ok(result) = timeout(patience, &mut request).await {
            return result;
        }
        let moved = payload.map(Payload::moved);
        if moved == before || payload.is_none() {
            let message = format!("no answer within {:.0} s", patience.as_secs_f64());
            return Err(Fault::new(FaultKind::Timeout, message));
        }
        before = moved;
    }
}

impl Failure {
    /// Whether the request may have been carried out all the same: an answer was lost, or an earlier
    /// attempt of our own is what the last one ran into.
    pub(crate) fn is_unsettled(&self) -> bool {
        let ran_into = matches!(self.fault.kind, FaultKind::NoSession | FaultKind::Exists);
        self.in_doubt || (self.attempts > 1 && ran_into)
    }

    pub(crate) fn into_error(self, operation: Operation, object: &str) -> Error {
        Error::from_fault(self.fault, operation, object, self.attempts, self.elapsed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use bytes::Bytes;
    use futures::StreamExt;
    use tokio::time::sleep;

    use super::*;
    use crate::checksum::{Algorithm, Checksum};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn payload() -> Payload {
        let pieces = vec![Bytes::from_static(b"x"); 100];
        Payload::from_memory(pieces, Checksum::of(Algorithm::Crc64Nvme, &[b'x'; 100]))
    }

    /// A request that takes one piece each `pause`.
    async fn slow(payload: Payload, pause: Duration) -> Result<u64, Fault> {
        let mut stream = payload.stream();
        while stream.next().await.is_some() {
            sleep(pause).await;
        }
        Ok(payload.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_bytes_move_may_take_long() {
        let payload = payload();
        let began = Instant::now();
        let moved = answer(PATIENCE, Some(&payload), slow(payload.clone(), Duration::from_secs(50))).await;
        assert_eq!(moved.unwrap(), 100);
        assert!(began.elapsed() > Duration::from_secs(4900));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_stands_still_is_given_up() {
        let payload = payload();
        let began = Instant::now();
        let stuck =
            answer(PATIENCE, Some(&payload), slow(payload.clone(), Duration::from_secs(86_400))).await;
        assert_eq!(stuck.unwrap_err().kind, FaultKind::Timeout);
        assert!(began.elapsed() <= 2 * PATIENCE);
        let silent = std::future::poll_fn(|_| Poll::<Result<(), Fault>>::Pending);
        let began = Instant::now();
        assert_eq!(answer(PATIENCE, None, silent).await.unwrap_err().kind, FaultKind::Timeout);
        assert_eq!(began.elapsed(), PATIENCE);
    }
}
