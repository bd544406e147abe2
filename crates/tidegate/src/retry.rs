//! When a failed request is made again, and how long one may take.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use crate::backend::Fault;
use crate::error::Operation;

/// How failed requests are made again.
///
/// Pauses grow by doubling, each drawn at random from its whole span ("full jitter", as in the AWS
/// Architecture Blog's "Exponential Backoff And Jitter"); a store's `Retry-After` is the least pause.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Most attempts of one request, the first among them.
    pub attempts: u32,
    /// Span of the first pause.
    pub first_pause: Duration,
    /// Longest pause, a store's `Retry-After` among them.
    pub longest_pause: Duration,
    /// How long one attempt may go without moving a byte; ten times this for a completion, in which
    /// stores put the parts together ("several minutes", says S3's CompleteMultipartUpload).
    pub patience: Duration,
    /// The slowest rate, in bytes a second, at which bytes that a socket has taken are waited for: they
    /// are at most 4 MiB, and add the time that they take at this rate to `patience`.
    pub slowest: u64,
}

impl Default for RetryPolicy {
    /// 8 attempts, pauses from 100 ms to 20 s, 60 s of patience, 16 KiB/s.
    fn default() -> Self {
        Self {
            attempts: 8,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(20),
            patience: Duration::from_secs(60),
            slowest: 16 << 10,
        }
    }
}

/// What the sockets on both sides hold at most of one request (Linux's `tcp_wmem` by default).
const IN_SOCKETS: u64 = 4 << 20;

/// A policy with its own random numbers.
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

    /// How long one attempt that carries `bytes` may go without moving one.
    pub(crate) fn deadline(&self, operation: Operation, bytes: u64) -> Duration {
        let patience = if operation == Operation::Complete { 10 } else { 1 } * self.policy.patience;
        patience + Duration::from_millis(bytes.min(IN_SOCKETS) * 1000 / self.policy.slowest.max(1))
    }

    /// The pause before the attempt after `attempt` (from 1); `None` where it is not to be made.
    pub(crate) fn pause(&self, fault: &Fault, attempt: u32) -> Option<Duration> {
        if !fault.kind.is_retriable() || attempt >= self.policy.attempts {
            return None;
        }
        let span =
            self.policy.first_pause.saturating_mul(1 << (attempt - 1).min(20)).min(self.policy.longest_pause);
        let drawn = span.mul_f64(self.random.lock().unwrap_or_else(PoisonError::into_inner).f64());
        let asked = fault.retry_after.unwrap_or_default().min(self.policy.longest_pause);
        Some(drawn.max(asked))
    }

    /// A mark that no other writer has.
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
        for attempt in 1..8 {
            let pause = retry.pause(&fault, attempt).unwrap();
            assert!(pause <= Duration::from_millis(100 << (attempt - 1)).min(Duration::from_secs(20)));
        }
        assert_eq!(retry.pause(&fault, 8), None);
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
}
