//! The state that all requests to one endpoint share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OnceCell, Semaphore};

use crate::backend::{Facts, LifecycleRule};
use crate::engine::hedge::Hedges;
use crate::engine::latency::Latency;
use crate::engine::limiter::{Concurrency, Lanes, Limiter};
use crate::engine::retry::{Allowance, RetryPolicy};
use crate::types::error::Operation;
use crate::types::owner_process::OwnerProcess;
use crate::types::transfer_rate::TransferRate;

/// Aborts in flight beside the limiter's requests.
const ABORTS: usize = 4;

/// One endpoint, with all that the engine has learned about it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The process whose connections these are.
    pub(crate) owner: OwnerProcess,
    /// How many requests may be in flight.
    pub(crate) limiter: Limiter,
    /// How many aborts of abandoned uploads may be in flight. A runtime that stands still may hold all of the limiter's
    /// turns.
    pub(crate) aborts: Limiter,
    /// How many requests a second, for key prefixes that are limited separately.
    pub(crate) lanes: Lanes,
    /// How many retries the endpoint may be sent.
    pub(crate) allowance: Allowance,
    /// How long the endpoint's requests take.
    pub(crate) latency: Latency,
    /// How many slow parts may be hedged.
    hedged_parts: Hedges,
    /// How many slow ranges may be hedged.
    hedged_ranges: Hedges,
    /// How many slabs requests with journaled bytes may hold.
    pub(crate) journaled: Semaphore,
    /// What the endpoint's server turned out to lack.
    pub(crate) facts: Arc<Facts>,
    /// The rate that transfers from and to the endpoint keep to.
    pub(crate) rate: Option<Arc<TransferRate>>,
    /// Whether it is the local disk, which answers when it can.
    pub(crate) is_disk: bool,
    /// The lifecycle rules of buckets that pending uploads are in, by location.
    rules: Mutex<HashMap<String, Arc<OnceCell<Vec<LifecycleRule>>>>>,
}

impl Endpoint {
    pub(crate) fn new(
        concurrency: Concurrency,
        retry: &RetryPolicy,
        journaled: u64,
        facts: Arc<Facts>,
        rate: Option<Arc<TransferRate>>,
        is_disk: bool,
    ) -> Self {
        let journaled = usize::try_from(journaled).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            owner: OwnerProcess::this(),
            limiter: Limiter::new(concurrency).keeping_to(rate.clone()),
            aborts: Limiter::new(Concurrency::Fixed(ABORTS)),
            lanes: Lanes::new(retry),
            allowance: Allowance::new(retry),
            latency: Latency::default(),
            hedged_parts: Hedges::default(),
            hedged_ranges: Hedges::default(),
            journaled: Semaphore::new(journaled),
            facts,
            rate,
            is_disk,
            rules: Mutex::default(),
        }
    }

    /// The lifecycle rules of a bucket. The store is asked once.
    pub(crate) async fn lifecycle_rules(
        &self,
        location: &str,
        ask: impl Future<Output = Vec<LifecycleRule>>,
    ) -> Vec<LifecycleRule> {
        let rules = {
            let mut known = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(location.to_owned()).or_default().clone()
        };
        rules.get_or_init(|| ask).await.clone()
    }

    /// The hedges of reads for a get, else those of parts.
    pub(crate) fn hedges_of(&self, operation: Operation) -> &Hedges {
        if operation == Operation::Get { &self.hedged_ranges } else { &self.hedged_parts }
    }
}
