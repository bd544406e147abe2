//! Limits the retries that one endpoint is sent, so that a sick store is not hammered.
//!
//! A token bucket, as in the retry quotas of the AWS SDKs (500 tokens at 5 a retry: 100 retries; a retry that
//! succeeds gets its tokens back), gRPC's retry throttling (a success adds a tenth of a retry, `tokenRatio` 0.1 in
//! gRFC A6) and Finagle's `RetryBudget` (at least 10 retries a second). Unlike there, an empty bucket does not fail
//! the request at once: the request queues for a token, because a store that comes back after ten seconds is no
//! reason to lose an upload. So failed retries are at most the reserve, a tenth of the successes, and the trickle.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::RetryPolicy;

/// The tokens that a success adds: one retry in ten requests may fail for ever (gRFC A6).
const SHARE: f64 = 0.1;
/// How long a wait is where nothing trickles; a success ends it earlier.
const LONG: Duration = Duration::from_secs(3600);

/// The retries that one endpoint may be sent.
#[derive(Debug)]
pub(crate) struct Allowance {
    tokens: Mutex<Tokens>,
    /// Held by the one request that waits for the next token; the others queue for it in order.
    head: tokio::sync::Mutex<()>,
    more: Notify,
    patience: Duration,
}

/// The allowance is used up, and no token came in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsedUp;

impl Allowance {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self {
            tokens: Mutex::new(Tokens::new(policy.reserve, policy.trickle)),
            head: tokio::sync::Mutex::default(),
            more: Notify::new(),
            patience: policy.patience,
        }
    }

    /// Waits for a token for one retry, at most for the policy's patience. A wait that is dropped takes no token.
    pub(crate) async fn take(&self) -> Result<(), UsedUp> {
        timeout(self.patience, self.wait()).await.map_err(|_| UsedUp)
    }

    async fn wait(&self) {
        let _head = self.head.lock().await;
        loop {
            let Err(wait) = self.lock().take(Instant::now()) else { return };
            // `Notify` keeps a notification that comes between the check and the wait.
            let _ = timeout(wait, self.more.notified()).await;
        }
    }

    /// A request succeeded, at its first attempt or as a `retry` that has taken a token.
    pub(crate) fn succeeded(&self, retry: bool) {
        self.lock().succeeded(Instant::now(), retry);
        self.more.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bucket itself, without a clock or waiting.
#[derive(Debug)]
struct Tokens {
    most: f64,
    /// Tokens added a second.
    trickle: f64,
    level: f64,
    at: Option<Instant>,
}

impl Tokens {
    fn new(reserve: u32, trickle: u32) -> Self {
        // A bucket that can't hold one token would never give one.
        let most = f64::from(reserve.max(1));
        Self { most, trickle: f64::from(trickle), level: most, at: None }
    }

    fn add(&mut self, now: Instant, tokens: f64) {
        let since = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        self.level = (self.level + since.as_secs_f64() * self.trickle + tokens).min(self.most);
    }

    /// Takes a token, or returns how long until there is one if nothing succeeds.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.add(now, 0.0);
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Ok(());
        }
        let seconds = (1.0 - self.level) / self.trickle;
        // Add a microsecond, because the quotient may be rounded down.
        let wait = Duration::try_from_secs_f64(seconds + 1e-6).unwrap_or(LONG);
        Err(wait.min(LONG))
    }

    fn succeeded(&mut self, now: Instant, retry: bool) {
        self.add(now, if retry { 1.0 + SHARE } else { SHARE });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Pass(u64),
        Take,
        Succeed(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..3000).prop_map(Step::Pass),
            Just(Step::Take),
            Just(Step::Take),
            any::<bool>().prop_map(Step::Succeed),
        ]
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_came(
            reserve in 1u32..50,
            trickle in 0u32..20,
            steps in prop::collection::vec(step(), 0..300),
        ) {
            let began = Instant::now();
            let (mut now, mut tokens) = (began, Tokens::new(reserve, trickle));
            let (mut taken, mut came) = (0.0, f64::from(reserve));
            for step in steps {
                match step {
                    Step::Pass(ms) => {
                        now += Duration::from_millis(ms);
                        came += ms as f64 / 1000.0 * f64::from(trickle);
                    }
                    Step::Take => match tokens.take(now) {
                        Ok(()) => taken += 1.0,
                        // The first in the queue gets a token after the announced time, without a second wait.
                        Err(wait) if trickle > 0 => {
                            came += wait.as_secs_f64() * f64::from(trickle);
                            now += wait;
                            prop_assert_eq!(tokens.take(now), Ok(()));
                            taken += 1.0;
                        }
                        Err(wait) => prop_assert_eq!(wait, LONG),
                    },
                    Step::Succeed(retry) => {
                        tokens.succeeded(now, retry);
                        came += if retry { 1.1 } else { 0.1 };
                    }
                }
                prop_assert!(tokens.level >= -1e-9 && tokens.level <= f64::from(reserve));
                prop_assert!(taken <= came + 1e-6, "{taken} taken of {came}");
            }
        }
    }

    fn allowance(reserve: u32, trickle: u32) -> Arc<Allowance> {
        Arc::new(Allowance::new(&RetryPolicy { reserve, trickle, ..RetryPolicy::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_down_gets_the_reserve_and_then_the_trickle() {
        let allowance = allowance(100, 10);
        let began = Instant::now();
        for _ in 0..100 {
            allowance.take().await.unwrap();
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..50 {
            allowance.take().await.unwrap();
        }
        let took = began.elapsed().as_secs_f64();
        assert!((4.9..5.2).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_go_in_turn_and_as_soon_as_retries_succeed() {
        let allowance = allowance(1, 1);
        allowance.take().await.unwrap();
        let began = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let (allowance, order) = (allowance.clone(), order.clone());
            tasks.spawn(async move {
                allowance.take().await.unwrap();
                order.lock().unwrap().push(number);
                allowance.succeeded(true);
            });
        }
        while let Some(joined) = tasks.join_next().await {
            joined.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
        // One token is reused: a store that is back does not have to wait for the trickle.
        assert!(began.elapsed() <= Duration::from_millis(1100), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_and_says_so() {
        let allowance = allowance(1, 0);
        allowance.take().await.unwrap();
        let began = Instant::now();
        assert_eq!(allowance.take().await, Err(UsedUp));
        assert_eq!(began.elapsed(), RetryPolicy::default().patience);
        // The dropped wait took nothing.
        allowance.succeeded(true);
        assert_eq!(allowance.take().await, Ok(()));
    }
}
