//! Draws the faults and the latency of each request from the seed.

use std::time::Duration;

use fastrand::Rng;
use tidegate::Operation;
use tidegate::backend::{Fault, FaultKind};

/// Latencies, and the rate of each fault as a share of requests from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Least and most milliseconds to reach the store; the work takes half of such a draw, the way back a
    /// quarter.
    pub latency: (u64, u64),
    /// Share of requests with a heavy-tailed delay, and the longest such delay in milliseconds.
    pub tail: (f64, u64),
    /// An error before the request took effect.
    pub lost_request: f64,
    /// An error after the request took effect.
    pub lost_answer: f64,
    /// Never an answer; whether and when the request takes effect is drawn as well.
    pub silence: f64,
    /// The connection is lost after the last byte; the request takes effect later, or at once.
    pub cut: f64,
    /// The longest time until an unanswered request takes effect, in milliseconds.
    pub late: u64,
    /// 503, with or without a time to retry after.
    pub throttled: f64,
    /// The payload is read slowly.
    pub slow: f64,
    /// The connection is reset within the payload.
    pub reset: f64,
    /// The store reports that the bytes arrived damaged.
    pub integrity: f64,
    /// A completion is answered with 200 and an error in the body, and has no effect.
    pub ok_with_error: f64,
    /// The credentials do not allow the request (any more).
    pub denied: f64,
    /// Another client ends the session first.
    pub expired: f64,
    /// Multiplies all fault rates above for requests that publish, because such requests are few.
    pub commit_factor: f64,
}

impl Profile {
    /// Whether there are no faults.
    pub fn is_calm(&self) -> bool {
        let calm = Self { latency: self.latency, commit_factor: self.commit_factor, ..Self::default() };
        *self == calm
    }
}

/// The faults' names, for counting.
pub const NAMES: [&str; 13] = [
    "lost request",
    "lost answer",
    "silence",
    "silence with effect",
    "late effect",
    "throttled",
    "slow",
    "reset",
    "integrity",
    "200 with error",
    "denied",
    "expired session",
    "cut",
];

/// The timing and the fault of one request.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Time until the request arrives.
    pub before: Duration,
    /// A pause after each piece of the payload.
    pub pace: Duration,
    /// Time from the last byte to the effect.
    pub work: Duration,
    /// Time from the effect to the answer.
    pub after: Duration,
    /// The fault, if any.
    pub trouble: Option<RequestTrouble>,
    /// Whether the request still takes effect when the client gives up between last byte and effect.
    pub outlives_client: bool,
}

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTrouble {
    /// An error before the request took effect.
    LostRequest,
    /// An error after the request took effect.
    LostAnswer,
    /// No answer, no effect.
    Silence,
    /// No answer; the effect after this many milliseconds.
    Late(u64),
    /// An error at once; the effect after this many milliseconds.
    Cut(u64),
    /// 503, with the seconds to wait if given.
    Throttled(Option<u64>),
    /// The payload is read slowly; the answer is right.
    Slow,
    /// An error after this many pieces of the payload.
    Reset(usize),
    /// The store reports that the bytes arrived damaged.
    Integrity,
    /// 200 with an error in the body.
    OkWithError,
    /// Permission denied.
    Denied,
    /// Another client ends the session first.
    Expired,
}

impl RequestTrouble {
    /// The index in [`NAMES`].
    pub fn index(self) -> usize {
        match self {
            Self::LostRequest => 0,
            Self::LostAnswer => 1,
            Self::Silence => 2,
            Self::Late(0) => 3,
            Self::Late(_) => 4,
            Self::Throttled(_) => 5,
            Self::Slow => 6,
            Self::Reset(_) => 7,
            Self::Integrity => 8,
            Self::OkWithError => 9,
            Self::Denied => 10,
            Self::Expired => 11,
            Self::Cut(_) => 12,
        }
    }

    /// The fault in the answer, if this trouble answers with one.
    pub fn fault(self) -> Option<Fault> {
        let (kind, answered, message) = match self {
            Self::LostRequest => (FaultKind::Transient, true, "500 InternalError"),
            Self::LostAnswer => (FaultKind::Transient, true, "500 InternalError after all was done"),
            Self::Reset(_) => (FaultKind::Transient, false, "connection reset"),
            Self::Cut(_) => (FaultKind::Transient, false, "connection lost"),
            Self::OkWithError => (FaultKind::Transient, true, "200 with InternalError"),
            Self::Throttled(_) => (FaultKind::Throttled, true, "SlowDown"),
            Self::Integrity => (FaultKind::Integrity, true, "BadDigest"),
            Self::Denied => (FaultKind::Denied, true, "AccessDenied"),
            Self::Silence | Self::Late(_) | Self::Slow | Self::Expired => return None,
        };
        let wish = match self {
            Self::Throttled(seconds) => seconds.map(Duration::from_secs),
            _ => None,
        };
        let fault = Fault::new(kind, format!("simulated: {message}"));
        Some(fault.with_answered(answered).with_retry_after(wish))
    }
}

impl Profile {
    /// Draws the timing and the fault of a request.
    pub fn draw(&self, random: &mut Rng, operation: Operation, pieces: usize) -> Fate {
        let ms = |random: &mut Rng| Duration::from_millis(random.u64(self.latency.0..=self.latency.1));
        let mut fate = Fate {
            before: ms(random),
            pace: Duration::ZERO,
            work: ms(random) / 2,
            after: ms(random) / 4,
            trouble: self.trouble(random, operation, pieces),
            outlives_client: random.bool(),
        };
        if random.f64() < self.tail.0 {
            // Heavy tail: drawn evenly on a logarithmic scale, so that most delays are short and some very
            // long.
            let most = (self.tail.1.max(2) as f64).ln();
            let tail = Duration::from_millis((random.f64() * most).exp() as u64);
            match random.u8(0..3) {
                0 => fate.before += tail,
                1 => fate.work += tail,
                _ => fate.after += tail,
            }
        }
        if fate.trouble == Some(RequestTrouble::Slow) {
            fate.pace = Duration::from_millis(random.u64(1..=300));
        }
        fate
    }

    fn trouble(&self, random: &mut Rng, operation: Operation, pieces: usize) -> Option<RequestTrouble> {
        let publishes = matches!(operation, Operation::Put | Operation::Complete);
        let payload = matches!(operation, Operation::Put | Operation::Part);
        let factor = if publishes { self.commit_factor.max(1.0) } else { 1.0 };
        let mut drawn = random.f64();
        let mut hit = |share: f64, applies: bool| {
            drawn -= if applies { share * factor } else { 0.0 };
            drawn < 0.0
        };
        if hit(self.lost_request, true) {
            return Some(RequestTrouble::LostRequest);
        }
        if hit(self.lost_answer, true) {
            return Some(RequestTrouble::LostAnswer);
        }
        if hit(self.silence, true) {
            return Some(match random.u8(0..3) {
                0 => RequestTrouble::Silence,
                1 => RequestTrouble::Late(0),
                _ => RequestTrouble::Late(random.u64(1..=self.late.max(1))),
            });
        }
        if hit(self.cut, true) {
            return Some(RequestTrouble::Cut(if random.bool() { 0 } else { random.u64(0..=self.late) }));
        }
        if hit(self.throttled, true) {
            return Some(RequestTrouble::Throttled(random.bool().then(|| random.u64(0..4))));
        }
        if hit(self.slow, payload) {
            return Some(RequestTrouble::Slow);
        }
        if hit(self.reset, payload) {
            return Some(RequestTrouble::Reset(random.usize(0..=pieces)));
        }
        if hit(self.integrity, payload) {
            return Some(RequestTrouble::Integrity);
        }
        if hit(self.ok_with_error, operation == Operation::Complete) {
            return Some(RequestTrouble::OkWithError);
        }
        if hit(self.denied, true) {
            return Some(RequestTrouble::Denied);
        }
        hit(self.expired, matches!(operation, Operation::Part | Operation::Complete))
            .then_some(RequestTrouble::Expired)
    }
}
