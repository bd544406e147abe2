//! What a request moves, and how long it is waited for.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::backend::{Fault, FaultKind};
use crate::engine::retry::RetryPolicy;
use crate::memory::payload::Payload;
use crate::types::progress::Progress;

/// What a request moves beside its question and its answer's head.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried<'a> {
    Nothing,
    Payload(&'a Payload),
    /// An answer's body, which is to come at a least rate.
    Answer(&'a Inflow, MinRate),
}

impl<'a> From<Option<&'a Payload>> for Carried<'a> {
    fn from(payload: Option<&'a Payload>) -> Self {
        payload.map_or(Self::Nothing, Self::Payload)
    }
}

impl Carried<'_> {
    /// Bytes that the next attempt is to move.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.len(),
            Self::Answer(inflow, _) => inflow.left(),
        }
    }

    /// What is sent counts in `progress`, until [`is_sent`](Self::is_sent).
    pub(super) fn counts_in(self, progress: &Progress) {
        if let Self::Payload(payload) = self {
            payload.counts_in(progress);
        }
    }

    /// The attempt has ended.
    pub(super) fn is_sent(self) {
        if let Self::Payload(payload) = self {
            payload.is_sent();
        }
    }

    /// Bytes that are here for good.
    pub(super) fn got(self) -> u64 {
        match self {
            Self::Nothing | Self::Payload(_) => 0,
            Self::Answer(inflow, _) => inflow.got(),
        }
    }

    /// Where this stands still, nothing moves.
    fn moved(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.moved(),
            Self::Answer(inflow, _) => inflow.moved.load(Relaxed),
        }
    }

    /// Counts pieces that came and were skipped.
    fn skipped(self) -> u64 {
        match self {
            Self::Nothing | Self::Payload(_) => 0,
            Self::Answer(inflow, _) => inflow.skipped.load(Relaxed),
        }
    }

    fn trickle(self) -> Trickle {
        match self {
            Self::Answer(_, rate) => Trickle::new(rate),
            Self::Nothing | Self::Payload(_) => Trickle::new(MinRate::NONE),
        }
    }
}

/// The least rate at which a response body is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MinRate {
    per_second: u64,
    over: Duration,
}

impl MinRate {
    const NONE: Self = Self { per_second: 0, over: Duration::ZERO };

    pub(crate) fn of(policy: &RetryPolicy) -> Self {
        Self { per_second: policy.min_rate, over: policy.min_rate_over }
    }

    /// The bytes that come at this rate in the time that it is measured over.
    fn bytes(self) -> u64 {
        let millis = u64::try_from(self.over.as_millis()).unwrap_or(u64::MAX);
        self.per_second.saturating_mul(millis) / 1000
    }
}

/// Sees whether a body comes at the least rate: in each span of so long that its bytes were waited for, and that begins
/// with the first of them. Before that, and where nothing comes at all, patience is what counts.
#[derive(Debug)]
pub(crate) struct Trickle {
    rate: MinRate,
    has_begun: bool,
    waited: Duration,
    bytes: u64,
}

impl Trickle {
    pub(crate) fn new(rate: MinRate) -> Self {
        Self { rate, has_begun: false, waited: Duration::ZERO, bytes: 0 }
    }

    /// Takes in that `bytes` came in so long a wait; the fault of a body that is too slow.
    pub(crate) fn take(&mut self, waited: Duration, bytes: u64) -> Result<(), Fault> {
        if !self.has_begun {
            self.has_begun = bytes > 0;
            return Ok(());
        }
        self.waited += waited;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < self.rate.over || self.rate.per_second == 0 {
            return Ok(());
        }
        if self.bytes < self.rate.bytes() {
            let (bytes, seconds, least) = (self.bytes, self.waited.as_secs_f64(), self.rate.per_second);
            let message =
                format!("only {bytes} bytes came in {seconds:.0} s, where {least} a second are the least");
            return Err(Fault::new(FaultKind::Timeout, message));
        }
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        Ok(())
    }
}

/// Bytes that are received, in order.
#[derive(Debug)]
pub(crate) struct Inflow {
    len: u64,
    got: AtomicU64,
    moved: AtomicU64,
    /// Pieces that came and were skipped: the store sends what was not asked for.
    skipped: AtomicU64,
    /// The next attempt's request was made, and counted, before.
    pub(super) opened: AtomicBool,
}

impl Inflow {
    pub(crate) fn new(len: u64) -> Self {
        Self {
            len,
            got: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            opened: AtomicBool::new(false),
        }
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

    /// A piece came of which nothing is wanted.
    pub(crate) fn skips(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// So many more have arrived, in a copy.
    pub(crate) fn moves(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }
}

/// Waits for a request's answer for as long as its bytes move, a body's at its least rate, and for `patience` from there
/// on.
pub(crate) async fn answer<T>(
    patience: Duration,
    carried: impl Into<Carried<'_>>,
    request: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let carried = carried.into();
    let mut request = pin!(request);
    let (mut moved, mut quiet_since, mut last_look) = (carried.moved(), Instant::now(), Instant::now());
    let mut skipped = carried.skipped();
    let mut trickle = carried.trickle();
    loop {
        // A look each quarter: it is given up after no less than `patience`, and little more.
        if let Ok(result) = timeout(patience / 4, &mut request).await {
            return result;
        }
        let (now, moved_now, skipped_now) = (Instant::now(), carried.moved(), carried.skipped());
        trickle.take(now - last_look, moved_now - moved)?;
        last_look = now;
        if moved_now != moved || skipped_now != skipped {
            (moved, skipped, quiet_since) = (moved_now, skipped_now, now);
        } else if now - quiet_since >= patience {
            let message = format!("no answer within {:.0} s", patience.as_secs_f64());
            return Err(Fault::new(FaultKind::Timeout, message));
        }
    }
}
