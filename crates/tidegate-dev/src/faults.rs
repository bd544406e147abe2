//! Decides, from the knobs, which faults hit a request.
//!
//! A rule's draw depends only on the seed, the rule and how many requests the rule has seen: the nth
//! `UploadPart` gets the same fault in every run, whatever other requests are in flight.

mod answering;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use answering::{Answering, Misrange};

use crate::knobs::{Delay, FaultAction, Knobs, RateLimit};
use crate::shaping::{Rates, TokenBucket};

/// The facts about a request that rules match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) operation: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) key: &'a str,
    pub(crate) part_number: Option<u32>,
}

/// The faults and delays that a request gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestFaults {
    pub(crate) delay: Duration,
    /// Factor by which the request is slower than others, if any.
    pub(crate) slow: Option<f64>,
    pub(crate) refusal: Option<InjectedRefusal>,
    pub(crate) reset_request: Option<u64>,
    /// The body offset in bytes, and the refusal there.
    pub(crate) refuse_after: Option<(u64, InjectedRefusal)>,
    /// The body offset in bytes, and how long the pause there lasts.
    pub(crate) stall: Option<(u64, Duration)>,
    /// The origin to redirect the client to.
    pub(crate) redirect: Option<String>,
    pub(crate) reset_response: Option<u64>,
    pub(crate) lose_answer: bool,
    pub(crate) cut_head: bool,
    pub(crate) hold_answer: bool,
    pub(crate) denial: Option<InjectedRefusal>,
    pub(crate) answering: Answering,
    pub(crate) meddling: Vec<Meddling>,
}

/// Changes by other clients to a request's key, made just before the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddling {
    Replace,
    Remove,
    AbortSessions,
}

/// An error to answer instead of carrying the request out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InjectedRefusal {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) retry_after: Option<u64>,
}

/// The knobs in force, and their counters.
#[derive(Debug)]
pub(crate) struct Faults {
    seed: u64,
    rates: Arc<Rates>,
    state: Mutex<FaultState>,
}

#[derive(Debug, Default)]
struct FaultState {
    knobs: Arc<Knobs>,
    requests: u64,
    commits: u64,
    /// For each rule: how many requests matched it, and how many of them it hit.
    rules: Vec<(u64, u64)>,
    prefixes: HashMap<String, TokenBucket>,
}

/// Separate random streams: a rule uses its index, these numbers are beyond any rule's.
const LATENCY: u64 = u64::MAX;
const SLOW: u64 = u64::MAX - 1;
const COMMIT: u64 = u64::MAX - 2;

/// Beyond this many prefixes, full buckets are dropped: a missing bucket starts full anyway.
const REMEMBERED_PREFIXES: usize = 10_000;

impl Faults {
    pub(crate) fn new(seed: u64, rates: Arc<Rates>, knobs: Knobs) -> Self {
        let faults = Self { seed, rates, state: Mutex::default() };
        faults.set_knobs(knobs);
        faults
    }

    pub(crate) fn knobs(&self) -> Arc<Knobs> {
        Arc::clone(&self.lock().knobs)
    }

    /// Puts new knobs in force and resets all counters.
    pub(crate) fn set_knobs(&self, knobs: Knobs) {
        self.rates.set(&knobs.bandwidth);
        *self.lock() = FaultState {
            rules: vec![(0, 0); knobs.faults.len()],
            knobs: Arc::new(knobs),
            ..FaultState::default()
        };
    }

    /// Decides on the faults and delays of one request.
    pub(crate) fn judge(&self, subject: RequestFacts<'_>, now: Instant) -> RequestFaults {
        let mut guard = self.lock();
        let state = &mut *guard;
        let knobs = Arc::clone(&state.knobs);
        let ordinal = state.requests;
        state.requests += 1;

        let mut verdict = RequestFaults::default();
        let mut delay_ms = self.draw_ms(knobs.latency, LATENCY, ordinal);
        if let Some(slow) = knobs.slow
            && self.rng(SLOW, ordinal).f64() < slow.fraction
        {
            delay_ms = delay_ms * slow.factor + slow.extra_ms;
        }
        if let Some(limit) = &knobs.rate_limit {
            verdict.refusal = throttle(&mut state.prefixes, limit, subject, now);
        }
        for (index, rule) in knobs.faults.iter().enumerate() {
            let is_named = |name: &str| name == "*" || name == subject.operation;
            let matches = rule.operation.split('|').any(is_named)
                && rule.part_number.is_none_or(|n| subject.part_number == Some(n))
                && rule.key_prefix.as_ref().is_none_or(|prefix| subject.key.starts_with(prefix));
            if !matches {
                continue;
            }
            let (seen, hit) = &mut state.rules[index];
            let nth = *seen;
            *seen += 1;
            if nth < rule.skip
                || rule.times.is_some_and(|times| *hit >= times)
                || self.rng(index as u64, nth).f64() >= rule.probability
            {
                continue;
            }
            *hit += 1;
            verdict.apply(&rule.action, &mut delay_ms);
        }
        verdict.delay = milliseconds(delay_ms * verdict.slow.unwrap_or(1.0));
        verdict
    }

    /// The delay after the last byte of an object or part.
    pub(crate) fn commit_delay(&self) -> Duration {
        let mut state = self.lock();
        let ordinal = state.commits;
        state.commits += 1;
        let delay = state.knobs.commit_latency;
        milliseconds(self.draw_ms(delay, COMMIT, ordinal))
    }

    fn draw_ms(&self, delay: Delay, stream: u64, ordinal: u64) -> f64 {
        match delay {
            Delay::None => 0.0,
            Delay::FixedMs(ms) => ms,
            Delay::UniformMs(least, most) => least + (most - least) * self.rng(stream, ordinal).f64(),
        }
    }

    fn rng(&self, stream: u64, ordinal: u64) -> fastrand::Rng {
        // Odd multipliers spread adjacent numbers over the whole seed space.
        fastrand::Rng::with_seed(
            self.seed
                ^ stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                ^ ordinal.wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03),
        )
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestFaults {
    /// The first refusal, pause, redirect and denial stand, and the last reset; delays and slowdowns
    /// accumulate.
    fn apply(&mut self, action: &FaultAction, delay_ms: &mut f64) {
        if self.answering.apply(action) {
            return;
        }
        let refusal = match action {
            FaultAction::Error { status, code, retry_after } => {
                InjectedRefusal { status: *status, code: code.clone(), retry_after: *retry_after }
            }
            FaultAction::ErrorIn200 { code } => {
                InjectedRefusal { status: 200, code: code.clone(), retry_after: None }
            }
            FaultAction::ErrorAfter { after_bytes, status, code } => {
                let refusal = InjectedRefusal { status: *status, code: code.clone(), retry_after: None };
                self.refuse_after.get_or_insert((*after_bytes, refusal));
                return;
            }
            FaultAction::Stall { after_bytes, ms } => {
                self.stall.get_or_insert((*after_bytes, milliseconds(*ms)));
                return;
            }
            FaultAction::Redirect { status, origin } => {
                self.redirect.get_or_insert_with(|| origin.clone());
                InjectedRefusal { status: *status, code: "TemporaryRedirect".to_owned(), retry_after: None }
            }
            FaultAction::ResetRequest { after_bytes } => {
                self.reset_request = Some(*after_bytes);
                return;
            }
            FaultAction::ResetResponse { after_bytes } => {
                self.reset_response = Some(*after_bytes);
                return;
            }
            FaultAction::LoseAnswer => {
                self.lose_answer = true;
                return;
            }
            FaultAction::CutHead => {
                self.cut_head = true;
                return;
            }
            FaultAction::HoldAnswer => {
                self.hold_answer = true;
                return;
            }
            FaultAction::DenySuccess { status, code } => {
                let denial = InjectedRefusal { status: *status, code: code.clone(), retry_after: None };
                self.denial.get_or_insert(denial);
                return;
            }
            // Actions on the answer were applied above.
            FaultAction::EndResponse { .. }
            | FaultAction::StallResponse { .. }
            | FaultAction::CorruptResponse { .. }
            | FaultAction::IgnoreRange
            | FaultAction::OtherRange { .. }
            | FaultAction::MisstateRange { .. }
            | FaultAction::ShortenRange { .. } => return,
            FaultAction::Replace => return self.meddling.push(Meddling::Replace),
            FaultAction::Remove => return self.meddling.push(Meddling::Remove),
            FaultAction::AbortSessions => return self.meddling.push(Meddling::AbortSessions),
            FaultAction::DelayMs(ms) => {
                *delay_ms += ms;
                return;
            }
            FaultAction::Slow(times) => {
                self.slow = Some(self.slow.unwrap_or(1.0) * times);
                return;
            }
        };
        self.refusal.get_or_insert(refusal);
    }
}

fn throttle(
    prefixes: &mut HashMap<String, TokenBucket>,
    limit: &RateLimit,
    subject: RequestFacts<'_>,
    now: Instant,
) -> Option<InjectedRefusal> {
    let burst = limit.burst.unwrap_or(limit.per_second).max(1.0);
    if prefixes.len() > REMEMBERED_PREFIXES {
        prefixes.retain(|_, tokens| tokens.available(limit.per_second, burst, now) < burst);
    }
    let name = prefix_of(subject.bucket, subject.key, limit.prefix_depth);
    let tokens = prefixes.entry(name).or_insert_with(|| TokenBucket::full(burst, now));
    if tokens.available(limit.per_second, burst, now) >= 1.0 {
        tokens.take(1.0);
        return None;
    }
    Some(InjectedRefusal { status: 503, code: "SlowDown".to_owned(), retry_after: limit.retry_after })
}

/// The bucket and the first `depth` segments of the key; the key's last segment is its name.
fn prefix_of(bucket: &str, key: &str, depth: usize) -> String {
    let folders = key.rsplit_once('/').map_or("", |(folders, _)| folders);
    let mut prefix = bucket.to_owned();
    for segment in folders.split('/').take(depth) {
        prefix.push('/');
        prefix.push_str(segment);
    }
    prefix
}

fn milliseconds(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests;
