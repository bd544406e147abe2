//! The requests of one key prefix, where a store limits each prefix by itself.
//!
//! A lane bounds requests a second, not requests in flight: that is what stores count, and what 503s tell of.
//! Until the store refuses any, only the beginning is bounded: so many in flight, and one more for each that is
//! answered. With the first refusal the rate becomes what was answered within the last second, which is what the
//! store gives once its burst is used up; after that it is additive increase and multiplicative decrease. The
//! figures were chosen so that a lane whose callers always have more keeps 85% and more of a limit of 20 to 1,000
//! requests a second, with 2% refused at most (`lane/tests.rs`).
//!
//! A request waits for its lane before it waits for its turn at the endpoint, so that those of a prefix that is
//! throttled hold up no others; and what its lane is refused is not held against the endpoint.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::Outcome;
use crate::engine::retry::{Allowance, RetryPolicy};

/// One prefix, shared by all who make requests there.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    /// Held by the one request that is next; the others queue for it, in order.
    head: tokio::sync::Mutex<()>,
    ended: Notify,
    /// The retries that it may be sent for having been refused.
    pub(crate) allowance: Allowance,
}

/// Leave to make one request in a lane, until it ends.
#[derive(Debug)]
pub(crate) struct Admitted {
    lane: Arc<Lane>,
    pub(super) outcome: Outcome,
}

impl Lane {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self {
            state: Mutex::new(State::new(Instant::now())),
            head: tokio::sync::Mutex::default(),
            ended: Notify::new(),
            allowance: Allowance::new(policy),
        }
    }

    /// Waits until one more request may be made, first come, first served. A wait that is dropped takes nothing.
    pub(crate) async fn admit(self: &Arc<Self>) -> Admitted {
        let _head = self.head.lock().await;
        loop {
            let Err(wait) = self.lock().take(Instant::now()) else { break };
            // One that ends between the look and the wait is kept by `Notify`.
            let _ = timeout(wait, self.ended.notified()).await;
        }
        Admitted { lane: self.clone(), outcome: Outcome::Other }
    }

    /// Whether the store refused a request within the last `span`.
    pub(crate) fn was_refused(&self, span: Duration) -> bool {
        self.lock().refused.is_some_and(|at| at.elapsed() < span)
    }

    /// Whether nothing is known of it that a new one would not have to learn, and nobody uses it.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let state = self.lock();
        state.in_flight == 0 && now.saturating_duration_since(state.used) > State::FORGET
    }

    pub(super) fn used(&self) -> Instant {
        self.lock().used
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.lane.lock().ended(self.outcome, Instant::now());
        self.lane.ended.notify_one();
    }
}

/// The lane itself: no clock of its own, no waiting.
#[derive(Debug)]
struct State {
    /// How many may be in flight as long as no rate is known.
    window: usize,
    in_flight: usize,
    rate: Option<Rate>,
    answered: Recent,
    /// When the store last refused a request.
    refused: Option<Instant>,
    used: Instant,
}

/// A bound on requests a second, and what of it is left.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    /// It is what came of the first refusal: the store may give far more.
    is_rough: bool,
    /// When it was last lowered.
    lowered: Instant,
    tokens: f64,
    at: Instant,
}

impl State {
    const FIRST: usize = 8;
    const MOST: usize = 512;
    const LEAST: f64 = 1.0;
    /// What a refusal leaves of the rate; and those within so long are of the same excess.
    const LOWER: f64 = 0.85;
    const GAP: Duration = Duration::from_millis(500);
    /// What was answered lags behind a rate that grows.
    const LAG: f64 = 1.4;
    /// A lane that nobody was refused in for so long, and that waits for nothing, is bounded no more.
    const FORGET: Duration = Duration::from_secs(60);
    /// The longest wait before another look.
    const LONG: Duration = Duration::from_secs(1);

    fn new(now: Instant) -> Self {
        Self {
            window: Self::FIRST,
            in_flight: 0,
            rate: None,
            answered: Recent::new(now),
            refused: None,
            used: now,
        }
    }

    /// Takes leave for one request, or says when to look again.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.used = now;
        let recent = self.answered.per_second(now);
        if let Some(rate) = &mut self.rate {
            rate.pass(now, recent);
            if rate.is_spare(now, recent) {
                self.rate = None;
                self.window = Self::FIRST.max(self.in_flight);
            } else {
                rate.take()?;
            }
        }
        if self.rate.is_none() && self.in_flight >= self.window {
            return Err(Self::LONG);
        }
        self.in_flight += 1;
        Ok(())
    }

    fn ended(&mut self, outcome: Outcome, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match outcome {
            Outcome::Moved(_) | Outcome::Brought(_) | Outcome::Answered => {
                self.answered.add(now);
                self.window = (self.window + 1).min(Self::MOST);
            }
            Outcome::Throttled => self.refuse(now),
            // Of a request that was lost nobody knows whether the prefix had room for it.
            Outcome::Overload | Outcome::Other => {}
        }
    }

    fn refuse(&mut self, now: Instant) {
        self.refused = Some(now);
        let recent = self.answered.per_second(now);
        self.rate = Some(match self.rate {
            None => Rate {
                per_second: (recent * Self::LOWER).max(Self::LEAST),
                is_rough: true,
                lowered: now,
                tokens: 0.0,
                at: now,
            },
            Some(rate) if now.saturating_duration_since(rate.lowered) < Self::GAP => rate,
            Some(rate) => Rate {
                per_second: (rate.per_second.min(recent * Self::LAG) * Self::LOWER).max(Self::LEAST),
                is_rough: false,
                lowered: now,
                ..rate
            },
        });
    }
}

impl Rate {
    /// How much of itself it grows by in a second: from its first, rough value on nearly twice, else slowly, and
    /// faster the longer nothing was refused.
    const ROUGH: f64 = 0.7;
    const SLOW: f64 = 0.02;
    const FAST: f64 = 0.25;
    const KNEE: Duration = Duration::from_secs(8);
    /// What may be sent at once after a pause, in seconds' worth.
    const BURST: f64 = 0.02;

    /// Time passes; `recent` is what was answered within the last second.
    fn pass(&mut self, now: Instant, recent: f64) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        // Where less is asked for, it is not known how much the store would give.
        if self.per_second < 2.0 * recent {
            let quiet = now.saturating_duration_since(self.lowered).as_secs_f64() / Self::KNEE.as_secs_f64();
            let growth =
                if self.is_rough { Self::ROUGH } else { (Self::SLOW * quiet.max(1.0)).min(Self::FAST) };
            self.per_second *= 1.0 + growth * seconds.min(1.0);
        }
        self.tokens = (self.tokens + seconds * self.per_second).min((self.per_second * Self::BURST).max(1.0));
    }

    fn take(&mut self) -> Result<(), Duration> {
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let wait = Duration::from_secs_f64((1.0 - self.tokens) / self.per_second);
        Err(wait.clamp(Duration::from_millis(1), State::LONG))
    }

    /// Whether it bounds nothing any more.
    fn is_spare(&self, now: Instant, recent: f64) -> bool {
        now.saturating_duration_since(self.lowered) >= State::FORGET && self.per_second >= 1.5 * recent
    }
}

/// How many requests were answered within the last second, in tenths of it.
#[derive(Debug)]
struct Recent {
    began: Instant,
    tenths: [u32; Self::TENTHS as usize],
    /// The latest tenth that is counted, from `began` on.
    latest: u64,
}

impl Recent {
    const TENTHS: u64 = 10;

    fn new(began: Instant) -> Self {
        Self { began, tenths: [0; Self::TENTHS as usize], latest: 0 }
    }

    fn slot(tenth: u64) -> usize {
        (tenth % Self::TENTHS) as usize
    }

    fn advance(&mut self, now: Instant) {
        let tenth = now.saturating_duration_since(self.began).as_millis() as u64 / 100;
        let passed = tenth.saturating_sub(self.latest).min(Self::TENTHS);
        for past in 0..passed {
            self.tenths[Self::slot(tenth - past)] = 0;
        }
        self.latest = self.latest.max(tenth);
    }

    fn add(&mut self, now: Instant) {
        self.advance(now);
        self.tenths[Self::slot(self.latest)] += 1;
    }

    fn per_second(&mut self, now: Instant) -> f64 {
        self.advance(now);
        self.tenths.iter().map(|count| f64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests;
