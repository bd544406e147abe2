//! What a request moves, and how long it is waited for.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::backend::{Fault, FaultKind};
use crate::payload::Payload;

/// What a request moves beside its question and its answer's head.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried<'a> {
    Nothing,
    Payload(&'a Payload),
    Answer(&'a Inflow),
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
            Self::Answer(inflow) => inflow.left(),
        }
    }

    /// Bytes that are here for good.
    pub(super) fn got(self) -> u64 {
        match self {
            Self::Nothing | Self::Payload(_) => 0,
            Self::Answer(inflow) => inflow.got(),
        }
    }

    /// Where this stands still, nothing moves.
    fn moved(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Payload(payload) => payload.moved(),
            Self::Answer(inflow) => inflow.moved.load(Relaxed),
        }
    }
}

/// Bytes that are received, in order.
#[derive(Debug)]
pub(crate) struct Inflow {
    len: u64,
    got: AtomicU64,
    moved: AtomicU64,
    /// The next attempt's request was made, and counted, before.
    pub(super) opened: AtomicBool,
}

impl Inflow {
    pub(crate) fn new(len: u64) -> Self {
        Self { len, got: AtomicU64::new(0), moved: AtomicU64::new(0), opened: AtomicBool::new(false) }
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

    /// So many more have arrived, in a copy.
    pub(crate) fn moves(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }
}

/// Waits for a request's answer for as long as its bytes move, and for `patience` from there on.
pub(crate) async fn answer<T>(
    patience: Duration,
    carried: impl Into<Carried<'_>>,
    request: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let carried = carried.into();
    let mut request = pin!(request);
    let (mut moved, mut quiet_since) = (carried.moved(), Instant::now());
    loop {
        // A look each quarter: it is given up after no less than `patience`, and little more.
        if let Ok(result) = timeout(patience / 4, &mut request).await {
            return result;
        }
        let (now, moved_now) = (Instant::now(), carried.moved());
        if moved_now != moved {
            (moved, quiet_since) = (moved_now, now);
        } else if now - quiet_since >= patience {
            let message = format!("no answer within {:.0} s", patience.as_secs_f64());
            return Err(Fault::new(FaultKind::Timeout, message));
        }
    }
}
