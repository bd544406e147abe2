//! The state that all requests to one endpoint share.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::Semaphore;

use crate::engine::hedge::Hedges;
use crate::engine::latency::Pace;
use crate::engine::limiter::{Concurrency, Lanes, Limiter};
use crate::engine::retry::{Allowance, RetryPolicy};
use crate::types::error::Operation;

/// Aborts in flight beside the limiter's requests.
const ABORTS: usize = 4;

/// One endpoint, with all that the engine has learned about it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// How many requests may be in flight.
    pub(crate) limiter: Limiter,
    /// How many aborts may be in flight where the limiter's turns are held by a runtime that stands still.
    pub(crate) aborts: Limiter,
    /// How many requests a second, for key prefixes that are limited separately.
    pub(crate) lanes: Lanes,
    /// How many retries the endpoint may be sent.
    pub(crate) allowance: Allowance,
    /// How long the endpoint's requests take.
    pub(crate) pace: Pace,
    /// How many slow parts may be hedged.
    hedged_parts: Hedges,
    /// How many slow ranges may be hedged.
    hedged_ranges: Hedges,
    /// How many slabs requests with journaled bytes may hold.
    pub(crate) journaled: Semaphore,
    /// Whether the endpoint answered a request for a range with the whole object.
    ignores_ranges: AtomicBool,
}

impl Endpoint {
    pub(crate) fn new(concurrency: Concurrency, retry: &RetryPolicy, journaled: u64) -> Self {
        let journaled = usize::try_from(journaled).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            limiter: Limiter::new(concurrency),
            aborts: Limiter::new(Concurrency::Fixed(ABORTS)),
            lanes: Lanes::new(retry),
            allowance: Allowance::new(retry),
            pace: Pace::default(),
            hedged_parts: Hedges::default(),
            hedged_ranges: Hedges::default(),
            journaled: Semaphore::new(journaled),
            ignores_ranges: AtomicBool::default(),
        }
    }

    /// Whether the last request for a range was answered with the whole object. Each read from such a store is one
    /// stream, for every further request would send the whole object again.
    pub(crate) fn ignores_ranges(&self) -> bool {
        self.ignores_ranges.load(Relaxed)
    }

    /// A request for a range was answered, with that range or with the whole object.
    pub(crate) fn answered_range(&self, is_ignored: bool) {
        if self.ignores_ranges.swap(is_ignored, Relaxed) != is_ignored {
            tracing::debug!(is_ignored, "the store was asked for a range");
        }
    }

    /// The hedges of reads for a get, else those of parts.
    pub(crate) fn hedges_of(&self, operation: Operation) -> &Hedges {
        if operation == Operation::Get { &self.hedged_ranges } else { &self.hedged_parts }
    }
}
