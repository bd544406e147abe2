//! Hedges: a part or range that is far slower than its peers is requested a second time over another connection, and
//! the first answer counts ("The Tail at Scale", Dean and Barroso, 2013).
//!
//! # When
//!
//! All of this must hold:
//! - the part has been in flight for more than twice the 95th percentile of the latest parts of at least half its
//!   size, so an ordinary slow part is not hedged (S3's guide to latency resends the slowest 5 in 100);
//! - hedges are at most one in twenty of the parts that the endpoint has stored, and a hedge that was no faster
//!   counts twice: where hedges do not pay, they fade out;
//! - the endpoint has not throttled, or left a request unanswered, for half a minute;
//! - the part's bytes can be read a second time without waiting for memory;
//! - a permit is free: a hedge goes to the front of the queue, but never above the limiter's limit.
//!
//! # Why the object is right whichever copy the store keeps
//!
//! Both copies carry the same bytes. Bytes in memory do not change; bytes of a file are refused if they differ from
//! the other copy's (both share one checksum) or if the file has changed. A cancelled copy may still arrive whole and
//! replace the other, and then our receipt is for a copy that is gone: on S3 the tags of equal bytes are equal; on
//! other stores, and under some encryption, they are not. The store compares every receipt when it completes, so it
//! refuses such an upload and never publishes a wrong one. The engine then asks which copies the store has, takes
//! their tags where size and checksum match the bytes sent, and completes with those tags (`Upload::complete`). Each
//! copy can arrive only once, and no copy can arrive after the session has ended, so this terminates. Only backends
//! that can answer that question may be hedged: [`Capabilities::hedge`].
//!
//! [`Capabilities::hedge`]: crate::backend::Capabilities::hedge

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::backend::{Fault, FaultKind};
use crate::engine::limiter::Outcome;
use crate::engine::request::{Requests, Transfer};
use crate::types::error::Operation;

#[cfg(test)]
mod tests;

/// The hedges of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Hedges {
    state: Mutex<HedgeState>,
}

#[derive(Debug, Default)]
struct HedgeState {
    /// Bytes and time of the last parts that were stored.
    peers: VecDeque<(u64, Duration)>,
    /// Hedges that may be made; below zero after hedges that did not pay.
    tokens: f64,
}

/// Whether to hedge a part that has been in flight for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HedgeDecision {
    /// Send it again.
    Now,
    /// Check again after this time.
    Later(Duration),
}

impl Hedges {
    /// How many parts are remembered, and how few are too few to judge by.
    const PEERS: usize = 128;
    const FEWEST: usize = 16;
    /// One hedge for twenty parts.
    const SHARE: f64 = 0.05;
    /// The most hedges at once after a quiet time: as many as 160 parts earn.
    const MOST: f64 = 8.0;
    /// How much slower than 95 in 100 of its peers a part must be.
    const FACTOR: u32 = 2;
    /// A part that takes less than this is never hedged: near stores answer sooner, and there this machine is
    /// the cause of a slow part.
    const LEAST: Duration = Duration::from_millis(500);
    /// How soon to check again where a hedge can't be made now.
    const BEAT: Duration = Duration::from_millis(100);
    /// For how long the store must not have throttled.
    const CALM: Duration = Duration::from_secs(30);

    /// A part of `bytes` was stored, after `took`.
    fn stored(&self, bytes: u64, took: Duration) {
        let mut state = self.lock();
        if state.peers.len() == Self::PEERS {
            state.peers.pop_front();
        }
        state.peers.push_back((bytes, took));
        state.tokens = (state.tokens + Self::SHARE).min(Self::MOST);
    }

    /// A hedge was slower than the request it was made for.
    fn lost(&self) {
        self.lock().tokens -= 1.0;
    }

    /// A hedge was paid for but not made: the token goes back.
    fn unused(&self) {
        self.lock().tokens += 1.0;
    }

    /// Decides whether to hedge a part of `bytes` that was sent `elapsed` ago; [`HedgeDecision::Now`] takes a token.
    fn look(&self, bytes: u64, elapsed: Duration) -> HedgeDecision {
        // Most requests end before any is slow: skip the lock and the statistics for those.
        if let Some(rest) = Self::LEAST.checked_sub(elapsed).filter(|rest| !rest.is_zero()) {
            return HedgeDecision::Later(rest);
        }
        let mut state = self.lock();
        // Nothing is known, or no token is left: check less often as time passes.
        let later = HedgeDecision::Later((elapsed / 4).max(Self::BEAT));
        let Some(slow) = state.slow(bytes) else { return later };
        match slow.checked_sub(elapsed) {
            Some(rest) if !rest.is_zero() => HedgeDecision::Later(rest),
            _ if state.tokens < 1.0 => later,
            _ => {
                state.tokens -= 1.0;
                HedgeDecision::Now
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HedgeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HedgeState {
    /// How long a part of `bytes` may take before it counts as far slower than its peers.
    fn slow(&self, bytes: u64) -> Option<Duration> {
        // The time of a small part does not predict the time of a large one: most objects end with a small part.
        let peers = self.peers.iter().filter(|(size, _)| *size >= bytes / 2);
        // A part larger than its peer may take proportionally longer; a smaller one is given the peer's whole time.
        let scaled = peers.map(|(size, took)| match size {
            0 => *took,
            size => took.mul_f64((bytes as f64 / *size as f64).max(1.0)),
        });
        let mut times: Vec<Duration> = scaled.collect();
        if times.len() < Hedges::FEWEST {
            return None;
        }
        let place = times.len() * 95 / 100;
        let (_, slow, _) = times.select_nth_unstable(place);
        Some((*slow * Hedges::FACTOR).max(Hedges::LEAST))
    }
}

/// Moves a part of `bytes` by `first`; if that is far slower than its peers, also by `second` on a connection of its
/// own, where `second` can get its memory. Returns the first success, or else the first request's fault, and whether
/// the second request was the one that succeeded. Time in which a rate or a slow disk holds back the bytes does not
/// count.
///
/// Dropping the future cancels both.
pub(crate) async fn race<T, F>(
    requests: &Requests,
    operation: Operation,
    carried: Transfer<'_>,
    bytes: u64,
    first: impl Future<Output = Result<T, Fault>>,
    second: impl FnOnce() -> Option<F>,
) -> (Result<T, Fault>, bool)
where
    F: Future<Output = Result<T, Fault>>,
{
    let hedges = requests.endpoint.hedges_of(operation);
    let (sent, excluded) = (Instant::now(), carried.excluded_time());
    let elapsed = || sent.elapsed().saturating_sub(carried.excluded_time() - excluded);
    let mut first = pin!(first);
    let took_first = |result: Result<T, Fault>| {
        if result.is_ok() {
            hedges.stored(bytes, elapsed());
        }
        (result, false)
    };
    loop {
        let wait = if requests.was_overloaded(Hedges::CALM) {
            (elapsed() / 4).max(Hedges::BEAT)
        } else {
            match hedges.look(bytes, elapsed()) {
                HedgeDecision::Later(wait) => wait,
                HedgeDecision::Now => break,
            }
        };
        tokio::select! {
            biased;
            result = &mut first => return took_first(result),
            () = sleep(wait) => {}
        }
    }
    let Some(second) = second() else {
        hedges.unused();
        return took_first(first.await);
    };
    let turn = tokio::select! {
        biased;
        result = &mut first => {
            hedges.unused();
            return took_first(result);
        }
        turn = requests.flow.next_permit() => turn,
    };
    debug!(object = %requests.object, bytes, after = ?elapsed(), "sending a slow part again");
    requests.progress.hedged(operation.name());
    let hedged = Instant::now();
    let mut second = pin!(second);
    let take_second = |result: &Result<T, Fault>| match result {
        Ok(_) => {
            turn.end(Outcome::of(operation, bytes));
            hedges.stored(bytes, hedged.elapsed());
        }
        Err(fault) => {
            turn.end(outcome(fault));
            hedges.lost();
        }
    };
    tokio::select! {
        biased;
        result = &mut first => {
            let Err(fault) = result else {
                hedges.lost();
                return took_first(result);
            };
            // The hedge may succeed where the original failed.
            let result = second.await;
            take_second(&result);
            let by_second = result.is_ok();
            (result.map_err(|_| fault), by_second)
        }
        result = &mut second => {
            take_second(&result);
            if result.is_ok() { (result, true) } else { took_first(first.await) }
        }
    }
}

fn outcome(fault: &Fault) -> Outcome {
    match fault.kind {
        FaultKind::Throttled => Outcome::Throttled,
        FaultKind::Timeout => Outcome::Overload,
        _ => Outcome::Other,
    }
}
