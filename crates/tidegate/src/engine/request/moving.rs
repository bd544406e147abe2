//! Watches the bytes that a request moves, and cancels a request that stalls.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::backend::{Fault, FaultKind};
use crate::engine::retry::RetryPolicy;
use crate::memory::payload::Payload;
use crate::types::progress::Progress;
use crate::types::telemetry::{self, AttemptFigures};
use crate::types::transfer_rate::{HeldTime, TransferRate};

/// The bytes that a request carries, apart from its own head and the head of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer<'a> {
    Nothing,
    Payload(&'a Payload),
    /// The body of an answer, which must come at a least rate.
    Answer(&'a Inflow, MinRate),
}

impl<'a> From<Option<&'a Payload>> for Transfer<'a> {
    fn from(payload: Option<&'a Payload>) -> Self {
        payload.map_or(Self::Nothing, Self::Payload)
    }
}

impl Transfer<'_> {
    /// Bytes that the next attempt will move.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.len(),
            Self::Answer(inflow, _) => inflow.left(),
        }
    }

    /// Counts the bytes in `progress` as they are sent, until [`is_sent`](Self::is_sent).
    pub(super) fn counts_in(self, progress: &Progress) {
        if let Self::Payload(payload) = self {
            payload.counts_in(progress);
        }
    }

    /// Sent bytes keep to the rate, if there is one. Those of an answer do so where they are received.
    pub(super) fn keeps_to(self, rate: Option<&Arc<TransferRate>>) {
        if let Self::Payload(payload) = self {
            payload.keeps_to(rate);
        }
    }

    /// The figures of the next attempt, if its request is already open.
    pub(super) fn opened(self) -> Option<AttemptFigures> {
        match self {
            Self::Nothing | Self::Payload(_) => None,
            Self::Answer(inflow, _) => inflow.opened.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }

    /// Bytes that the store has acknowledged once the attempt has succeeded.
    pub(super) fn sends(self) -> u64 {
        match self {
            Self::Nothing | Self::Answer(..) => 0,
            Self::Payload(payload) => payload.len(),
        }
    }

    /// How long the rate has held back its bytes.
    pub(super) fn held_back(self) -> Duration {
        match self {
            Self::Nothing => Duration::ZERO,
            Self::Payload(payload) => payload.held_back(),
            Self::Answer(inflow, _) => inflow.held.get().map_or(Duration::ZERO, |held| held.total()),
        }
    }

    /// Time that is not the store's: the rate held bytes back, or the disk of their source has yet to give them, or that
    /// of their destination to take them.
    pub(crate) fn excluded_time(self) -> Duration {
        let by_disk = match self {
            Self::Nothing => Duration::ZERO,
            Self::Payload(payload) => payload.disk_waits(),
            Self::Answer(inflow, _) => inflow.sink_waits.total(),
        };
        self.held_back() + by_disk
    }

    /// The attempt has ended.
    pub(super) fn is_sent(self) {
        if let Self::Payload(payload) = self {
            payload.is_sent();
        }
    }

    /// Bytes that are received and will not be requested again.
    pub(super) fn got(self) -> u64 {
        match self {
            Self::Nothing | Self::Payload(_) => 0,
            Self::Answer(inflow, _) => inflow.got(),
        }
    }

    /// A counter that stands still while no bytes move.
    fn moved(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.moved(),
            Self::Answer(inflow, _) => inflow.moved.load(Relaxed),
        }
    }

    /// The number of pieces that came and were skipped.
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

/// The least rate of a response body.
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

    /// The bytes that come at this rate within `over`.
    fn bytes(self) -> u64 {
        let millis = u64::try_from(self.over.as_millis()).unwrap_or(u64::MAX);
        self.per_second.saturating_mul(millis) / 1000
    }
}

/// Checks that a body comes at the least rate, in each span of `over` that was spent waiting for its bytes; the first
/// span begins with the first bytes. Before that, and where no bytes come at all, the request's patience applies.
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

    /// Adds `bytes` that came after a wait of `waited`; returns a fault if the body is too slow.
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

/// Counts the bytes of a range that are received in order.
#[derive(Debug)]
pub(crate) struct Inflow {
    len: u64,
    got: AtomicU64,
    moved: AtomicU64,
    /// Pieces that came and were skipped, because the store sends bytes that were not asked for.
    skipped: AtomicU64,
    /// The next attempt, where its request is already open and counted.
    opened: Mutex<Option<AttemptFigures>>,
    /// How long a rate that is to be kept has held back the bytes.
    held: OnceLock<Arc<HeldTime>>,
    /// How long received bytes have waited for their destination, such as a slow disk.
    sink_waits: HeldTime,
}

impl Inflow {
    pub(crate) fn new(len: u64) -> Self {
        Self {
            len,
            got: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            opened: Mutex::default(),
            held: OnceLock::new(),
            sink_waits: HeldTime::default(),
        }
    }

    /// The first attempt's request is already open, and counted in `figures`.
    pub(crate) fn is_opened(&self, figures: AttemptFigures) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(figures);
    }

    /// Counts how long the receiver is held back by a rate.
    pub(crate) fn held(&self) -> &Arc<HeldTime> {
        self.held.get_or_init(Arc::default)
    }

    /// Awaits `taken`, which gives bytes to their destination. The time of that does not count against the request's
    /// patience.
    pub(crate) async fn exclude_time_of<T>(&self, taken: impl Future<Output = T>) -> T {
        self.sink_waits.during(taken).await
    }

    /// How many bytes are received for good.
    pub(crate) fn got(&self) -> u64 {
        self.got.load(Relaxed)
    }

    /// How many bytes are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.len - self.got()
    }

    /// The first `bytes` bytes are received.
    pub(crate) fn reaches(&self, bytes: u64) {
        telemetry::received(self.passes(bytes));
    }

    /// As [`reaches`](Self::reaches), where the figures have counted these bytes already, or need not. Returns how many
    /// are new.
    pub(crate) fn passes(&self, bytes: u64) -> u64 {
        let more = bytes.saturating_sub(self.got.fetch_max(bytes, Relaxed));
        self.moves(more);
        more
    }

    /// A piece came that has no bytes of the range.
    pub(crate) fn skips(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// `bytes` more have arrived, in a hedge's copy.
    pub(crate) fn moves(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }
}

/// Waits for a request's answer for as long as its bytes move (a body's at the least rate), and for `patience` after
/// they stop. Time in which a rate holds back its bytes, or a disk has yet to give or take them, does not count.
pub(crate) async fn answer<T>(
    patience: Duration,
    carried: impl Into<Transfer<'_>>,
    request: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let carried = carried.into();
    let mut request = pin!(request);
    let (mut moved, mut quiet, mut last_look) = (carried.moved(), Duration::ZERO, Instant::now());
    let (mut skipped, mut held) = (carried.skipped(), carried.excluded_time());
    let mut trickle = carried.trickle();
    loop {
        // Check four times per `patience`: so a request is cancelled after at least `patience`, and not much more.
        if let Ok(result) = timeout(patience / 4, &mut request).await {
            return result;
        }
        let (now, moved_now, skipped_now) = (Instant::now(), carried.moved(), carried.skipped());
        let held_now = carried.excluded_time();
        let waited = (now - last_look).saturating_sub(held_now - held);
        trickle.take(waited, moved_now - moved)?;
        (last_look, held) = (now, held_now);
        // At most half, so that one look ends nothing: the process may have been stopped since the last look.
        quiet += waited.min(patience / 2);
        if moved_now != moved || skipped_now != skipped {
            (moved, skipped, quiet) = (moved_now, skipped_now, Duration::ZERO);
        } else if quiet >= patience {
            let message = format!("no answer within {:.0} s", patience.as_secs_f64());
            return Err(Fault::new(FaultKind::Timeout, message));
        }
    }
}
