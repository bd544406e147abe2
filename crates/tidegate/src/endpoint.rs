//! What all requests to one endpoint share.

use crate::hedge::Hedges;
use crate::limiter::{Concurrency, Limiter};
use crate::pace::Pace;
use crate::retry::{Allowance, RetryPolicy};

/// One endpoint, as the engine has come to know it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// How many requests may fly.
    pub(crate) limiter: Limiter,
    /// How many retries it may be sent.
    pub(crate) allowance: Allowance,
    /// How long its requests take.
    pub(crate) pace: Pace,
    /// How many slow parts it may be sent again.
    pub(crate) hedges: Hedges,
}

impl Endpoint {
    pub(crate) fn new(concurrency: Concurrency, retry: &RetryPolicy) -> Self {
        Self {
            limiter: Limiter::new(concurrency),
            allowance: Allowance::new(retry),
            pace: Pace::default(),
            hedges: Hedges::default(),
        }
    }
}
