//! Limits the requests of one key prefix, where a store limits each prefix separately.
//!
//! A lane limits requests a second, not requests in flight, because stores count requests a second and send 503s for
//! them. Until the store refuses a request, only the start is limited: a few in flight, and one more for each request
//! that is answered. At the first refusal the rate becomes the number answered within the last second, which is what
//! the store grants once its burst is used up; from then on it is additive increase and multiplicative decrease. The
//! constants were chosen so that a lane whose callers always have more requests keeps at least 85% of a limit of 20
//! to 1,000 requests a second, with at most 2% refused (`lane/tests.rs`).
//!
//! A request waits for its lane before it waits for its permit at the endpoint, so that a throttled prefix does not
//! hold up others; and refusals in a lane do not count against the endpoint.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::Outcome;
use crate::engine::retry::{Allowance, RetryPolicy};

/// One prefix, shared by all requests for it.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<LaneState>,
    /// Held by the request that is next; the others queue for it in order.
    head: tokio::sync::Mutex<()>,
    ended: Notify,
    /// The retries that the lane may make after refusals.
    pub(crate) allowance: Allowance,
}

/// Admission of one request to a lane, until the request ends.
#[derive(Debug)]
pub(crate) struct Admitted {
    lane: Arc<Lane>,
    pub(super) outcome: Outcome,
}

impl Lane {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self {
            state: Mutex::new(LaneState::new(Instant::now())),
            head: tokio::sync::Mutex::default(),
            ended: Notify::new(),
            allowance: Allowance::new(policy),
        }
    }

    /// Waits until the lane admits one more request, first come, first served. A wait that is dropped takes nothing.
    pub(crate) async fn admit(self: &Arc<Self>) -> Admitted {
        let _head = self.head.lock().await;
        loop {
            let Err(wait) = self.lock().take(Instant::now()) else { break };
            // `Notify` keeps a notification that comes between the check and the wait.
            let _ = timeout(wait, self.ended.notified()).await;
        }
        Admitted { lane: self.clone(), outcome: Outcome::Other }
    }

    /// Whether the store refused a request within the last `span`.
    pub(crate) fn was_refused(&self, span: Duration) -> bool {
        self.lock().refused.is_some_and(|at| at.elapsed() < span)
    }

    /// Whether the lane is unused and has learned nothing that still matters.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let state = self.lock();
        state.in_flight == 0 && now.saturating_duration_since(state.used) > LaneState::FORGET
    }

    pub(super) fn used(&self) -> Instant {
        self.lock().used
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.lane.lock().ended(self.outcome, Instant::now());
        self.lane.ended.notify_one();
    }
}

/// The state of a lane, without a clock or waiting.
#[derive(Debug)]
struct LaneState {
    /// How many requests may be in flight while no rate is known.
    window: usize,
    in_flight: usize,
    rate: Option<Rate>,
    answered: Recent,
    /// When the store last refused a request.
    refused: Option<Instant>,
    used: Instant,
}

/// A limit on requests a second, and the unused part of it.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    /// Whether the rate comes from the first refusal alone: the store may grant far more.
    is_rough: bool,
    /// When it was last lowered.
    lowered: Instant,
    tokens: f64,
    at: Instant,
}

impl LaneState {
    const FIRST: usize = 8;
    const MOST: usize = 512;
    const LEAST: f64 = 1.0;
    /// The share of the rate that a refusal leaves. Refusals within `GAP` of it belong to the same excess.
    const LOWER: f64 = 0.85;
    const GAP: Duration = Duration::from_millis(500);
    /// The answered rate lags behind a rate that grows: allow this factor.
    const LAG: f64 = 1.4;
    /// A lane without a refusal for this long, and with a rate well above its traffic, is not limited any more.
    const FORGET: Duration = Duration::from_secs(60);
    /// The longest wait before the next check.
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

    /// Admits one request, or returns when to check again.
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
            // For a lost request it is not known whether the prefix had room.
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
    /// The rate's growth in a second, as a share of it: fast after the first, rough value; else slow, and faster the
    /// longer nothing was refused.
    const ROUGH: f64 = 0.7;
    const SLOW: f64 = 0.02;
    const FAST: f64 = 0.25;
    const KNEE: Duration = Duration::from_secs(8);
    /// The burst allowed after a pause, in seconds' worth of requests.
    const BURST: f64 = 0.02;

    /// Adds tokens for the time passed; `recent` is the number of requests answered within the last second.
    fn pass(&mut self, now: Instant, recent: f64) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        // A rate that is far from used up is not raised: whether the store would grant more is not known.
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
        Err(wait.clamp(Duration::from_millis(1), LaneState::LONG))
    }

    /// Whether the rate no longer limits anything.
    fn is_spare(&self, now: Instant, recent: f64) -> bool {
        now.saturating_duration_since(self.lowered) >= LaneState::FORGET && self.per_second >= 1.5 * recent
    }
}

/// How many requests were answered within the last second, counted in tenths of a second.
#[derive(Debug)]
struct Recent {
    began: Instant,
    tenths: [u32; Self::TENTHS as usize],
    /// The latest tenth that is counted, from `began`.
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
