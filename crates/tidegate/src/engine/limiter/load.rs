//! Limits how many requests move bytes under a bandwidth limit: 64 requests that share 100 KB/s would each take too
//! long.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Climb;
use crate::types::transfer_rate::TransferRate;

/// The requests in flight that move bytes of objects, and whether one more of them may begin.
#[derive(Debug)]
pub(super) struct Load {
    rate: Arc<TransferRate>,
    requests: usize,
    bytes: u64,
    /// When the last request began although those in flight had a second's worth of bytes.
    extra: Option<Instant>,
}

impl Load {
    /// So many may always be in flight: while one waits for its answer, others move bytes.
    const FEW: usize = Climb::AT_FIRST;
    /// How often one more request begins while the rate is not reached.
    pub(super) const LOOK: Duration = Duration::from_millis(250);

    pub(super) fn new(rate: Arc<TransferRate>) -> Self {
        Self { rate, requests: 0, bytes: 0, extra: None }
    }

    /// Whether a request that moves `bytes` may begin.
    pub(super) fn lets(&self, bytes: u64) -> bool {
        bytes == 0 || !self.is_enough() || self.lets_extra()
    }

    /// Whether a request may begin although those in flight have enough bytes: they are too slow for the rate.
    pub(super) fn lets_extra(&self) -> bool {
        self.extra.is_none_or(|at| at.elapsed() >= Self::LOOK) && self.rate.has_room()
    }

    /// Whether the requests in flight have a second's worth of bytes.
    fn is_enough(&self) -> bool {
        self.requests >= Self::FEW && self.bytes >= self.rate.per_second()
    }

    pub(super) fn begins(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.is_enough() {
            self.extra = Some(Instant::now());
        }
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn ends(&mut self, bytes: u64) {
        if bytes > 0 {
            self.requests -= 1;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
