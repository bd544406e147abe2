//! When a failed request is retried, and the deadline of each attempt.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use crate::backend::{Fault, FaultKind};
use crate::types::error::Operation;

mod allowance;

pub(crate) use allowance::{Allowance, UsedUp};

/// How failed requests are retried.
///
/// Pauses grow by doubling; half of each is fixed and half is random ("equal jitter" in the AWS Architecture Blog's
/// "Exponential Backoff And Jitter"), so that by default no request is given up within the first 22 seconds of an
/// outage. No pause is shorter than the store's `Retry-After`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Most attempts of one request, the first included. A download resumes after the last byte received: each 64 KiB
    /// of progress allows as many attempts again.
    pub attempts: u32,
    /// Span of the first pause.
    pub first_pause: Duration,
    /// Longest pause; also the limit of a store's `Retry-After`.
    pub longest_pause: Duration,
    /// The longest that one attempt may go without moving a byte; ten times this for a completion, in which stores
    /// put the parts together ("several minutes", says S3's CompleteMultipartUpload), and for a copy within the
    /// store. It applies until the endpoint has shown how long its requests take, and to the last attempt. A retry
    /// also waits at most this long for its share of `reserve` and `trickle`.
    pub patience: Duration,
    /// The shortest deadline for an attempt that moves no byte. Once the endpoint has shown how long its requests
    /// take, the deadline is four times the total time of such a request, but never less than this. It doubles after
    /// each attempt that timed out, up to `patience`, so that a store that has become slow still succeeds.
    pub least_patience: Duration,
    /// The slowest rate, in bytes a second, at which the peer is expected to read bytes that the sockets hold: these
    /// are at most 4 MiB, and the time that they take at this rate is added to `patience`.
    pub slowest: u64,
    /// The least rate, in bytes a second, of a response body once it has begun. A body that brings less over
    /// `min_rate_over` counts as stalled: it is cancelled like a timeout and resumed. 0 turns this off. Time in which
    /// the reader does not ask for bytes, or a bandwidth limit
    /// holds them back, does not count.
    pub min_rate: u64,
    /// The time over which `min_rate` is measured.
    pub min_rate_over: Duration,
    /// Retries that one endpoint may be sent at once, for all objects together. A retry that succeeds is given back,
    /// and every success adds a tenth of a retry.
    pub reserve: u32,
    /// Retries a second that are added whatever happens. Once `reserve` is used up, retries wait for these.
    pub trickle: u32,
}

impl Default for RetryPolicy {
    /// 10 attempts, pauses from 100 ms to 20 s, 10 to 60 s of patience, 16 KiB/s; bodies of at least 1 KiB/s over a
    /// minute; a reserve of 100 retries (the AWS SDKs' retry quota) and 10 more a second (Finagle's `RetryBudget`).
    fn default() -> Self {
        Self {
            attempts: 10,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(20),
            patience: Duration::from_secs(60),
            least_patience: Duration::from_secs(10),
            slowest: 16 << 10,
            min_rate: 1 << 10,
            min_rate_over: Duration::from_secs(60),
            reserve: 100,
            trickle: 10,
        }
    }
}

/// The most bytes of one request that the sockets on both sides hold (Linux's `tcp_wmem` by default).
const IN_SOCKETS: u64 = 4 << 20;

/// A request is cancelled after it has stood still for this many times its expected total time. A pause as long as
/// the whole request is odd, and one of twice that is hardly chance; but a retry costs the whole request again.
const SLACK: u32 = 4;

/// Failed attempts in a row at one download, which resumes where it broke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedAttempts {
    /// How many attempts failed, and how many of them timed out.
    pub(crate) failed: u32,
    pub(crate) timeouts: u32,
    since: u64,
}

impl FailedAttempts {
    /// The progress that begins a new row. Anything less counts as none: a store that ends every answer after a few
    /// bytes is given up like a store that sends no bytes.
    const HELPS: u64 = 64 << 10;

    /// A row that begins at byte `at`.
    pub(crate) fn at(at: u64) -> Self {
        Self { failed: 0, timeouts: 0, since: at }
    }

    /// All bytes before `at` are received; returns whether this begins a new row.
    pub(crate) fn reaches(&mut self, at: u64) -> bool {
        let is_new = at >= self.since + Self::HELPS;
        if is_new {
            *self = Self::at(at);
        }
        is_new
    }

    pub(crate) fn fails(&mut self, kind: FaultKind) {
        self.failed += 1;
        self.timeouts += u32::from(kind == FaultKind::Timeout);
    }
}

/// A policy with its own random number generator.
#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) policy: RetryPolicy,
    random: Mutex<fastrand::Rng>,
}

impl Retry {
    pub(crate) fn new(policy: RetryPolicy, seed: Option<u64>) -> Self {
        let random = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { policy, random: Mutex::new(random) }
    }

    /// How long attempt `attempt` (from 1) of a request with `bytes` may go without moving a byte. `expected` is the
    /// total time of such a request, `timeouts` the number of earlier attempts that timed out.
    pub(crate) fn deadline(
        &self,
        operation: Operation,
        bytes: u64,
        attempt: u32,
        timeouts: u32,
        expected: Option<Duration>,
    ) -> Duration {
        let policy = &self.policy;
        let patience = policy.patience.saturating_mul(if operation.may_take_minutes() { 10 } else { 1 });
        let in_sockets = Duration::from_millis(bytes.min(IN_SOCKETS) * 1000 / policy.slowest.max(1));
        let longest = patience.saturating_add(in_sockets);
        match expected {
            // A completion's time depends on its parts, and a cancelled one is in doubt: use no estimate. Nor for a
            // removal of many objects, whose time depends on their number.
            Some(expected) if !operation.is_work_of_store() && attempt < policy.attempts => {
                let quiet = expected.saturating_mul(SLACK).max(policy.least_patience);
                quiet.saturating_mul(1 << timeouts.min(20)).min(longest)
            }
            _ => longest,
        }
    }

    /// The pause before the attempt after `attempt` (from 1); `None` where there is to be no other attempt.
    pub(crate) fn pause(&self, fault: &Fault, attempt: u32) -> Option<Duration> {
        if !fault.kind.is_retriable() || attempt >= self.policy.attempts {
            return None;
        }
        let span =
            self.policy.first_pause.saturating_mul(1 << (attempt - 1).min(20)).min(self.policy.longest_pause);
        let half = span / 2;
        let drawn = half + half.mul_f64(self.random.lock().unwrap_or_else(PoisonError::into_inner).f64());
        let asked = fault.retry_after.unwrap_or_default().min(self.policy.longest_pause);
        Some(drawn.max(asked))
    }

    /// The longest that all pauses after attempt `attempt` (from 1) can take together.
    pub(crate) fn longest(&self, attempt: u32) -> Duration {
        let policy = &self.policy;
        let span = |attempt: u32| {
            policy.first_pause.saturating_mul(1 << (attempt - 1).min(20)).min(policy.longest_pause)
        };
        // All later pauses are equally long, so they need not be added up one by one.
        let counted = policy.attempts.min(attempt.saturating_add(64));
        let pauses = (attempt.max(1)..counted).map(span).fold(Duration::ZERO, Duration::saturating_add);
        pauses.saturating_add(
            policy.longest_pause.saturating_mul(policy.attempts.saturating_sub(counted.max(attempt))),
        )
    }

    /// A random token that no other writer has.
    pub(crate) fn token(&self) -> String {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{:032x}", random.u128(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::FaultKind;

    #[test]
    fn pauses_stay_in_their_span_and_end() {
        let retry = Retry::new(RetryPolicy::default(), Some(7));
        let fault = Fault::new(FaultKind::Transient, "reset");
        for attempt in 1..10 {
            let pause = retry.pause(&fault, attempt).unwrap();
            let span = Duration::from_millis(100 << (attempt - 1)).min(Duration::from_secs(20));
            assert!(pause <= span && pause >= span / 2);
        }
        assert_eq!(retry.pause(&fault, 10), None);
        assert_eq!(retry.pause(&Fault::new(FaultKind::Denied, "no"), 1), None);
    }

    #[test]
    fn a_store_that_says_when_is_heeded() {
        let retry = Retry::new(RetryPolicy::default(), Some(7));
        let fault =
            Fault::new(FaultKind::Throttled, "slow down").with_retry_after(Some(Duration::from_secs(3)));
        assert!(retry.pause(&fault, 1).unwrap() >= Duration::from_secs(3));
        let fault = fault.with_retry_after(Some(Duration::from_secs(3600)));
        assert_eq!(retry.pause(&fault, 1), Some(Duration::from_secs(20)));
    }

    #[test]
    fn an_outage_of_twenty_seconds_is_outlasted_however_pauses_are_drawn() {
        let fault = Fault::new(FaultKind::Unreachable, "connection refused");
        for seed in 0..200 {
            let retry = Retry::new(RetryPolicy::default(), Some(seed));
            let pauses: Duration = (1..10).map(|attempt| retry.pause(&fault, attempt).unwrap()).sum();
            assert!(pauses > Duration::from_secs(22), "{pauses:?}");
        }
    }

    #[test]
    fn deadlines_follow_what_the_endpoint_has_shown() {
        let retry = Retry::new(RetryPolicy::default(), Some(7));
        let seconds = Duration::from_secs;
        let part = |attempt, timeouts, expected| {
            retry.deadline(Operation::Part, 16 << 20, attempt, timeouts, expected)
        };
        let longest = seconds(60 + 256);
        assert_eq!(part(1, 0, None), longest, "nothing is known yet");
        assert_eq!(part(1, 0, Some(seconds(1))), seconds(10), "not less than the floor");
        assert_eq!(part(1, 0, Some(seconds(5))), seconds(20));
        assert_eq!(part(2, 1, Some(seconds(5))), seconds(40), "twice as long after a timeout");
        assert_eq!(part(4, 3, Some(seconds(50))), longest, "never more than is waited for a slow store");
        assert_eq!(part(10, 0, Some(seconds(1))), longest, "the last attempt is given all the time");
        let complete = retry.deadline(Operation::Complete, 0, 1, 0, Some(seconds(1)));
        assert_eq!(complete, seconds(600), "a completion takes as long as it takes");
        let many = retry.deadline(Operation::DeleteMany, 0, 1, 0, Some(seconds(1)));
        assert_eq!(many, seconds(60), "a removal of many takes longer than of one");
    }
}
