//! Releases the writers that hold memory when all the others are done.

use std::sync::Mutex;
use std::sync::PoisonError;

use tokio::sync::Notify;

/// Falls when the last writer that does not hold is done; writers that hold memory wait for that.
#[derive(Debug)]
pub(crate) struct Curtain {
    left: Mutex<usize>,
    /// Wakes in the order of waiting, which the seed decides.
    fallen: Notify,
}

impl Curtain {
    /// A curtain that waits for `going_on` writers.
    pub(crate) fn new(going_on: usize) -> Self {
        Self { left: Mutex::new(going_on), fallen: Notify::new() }
    }

    /// Counts one more writer as done.
    pub(crate) fn done(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.fallen.notify_waiters();
        }
    }

    /// Waits until the curtain has fallen.
    pub(crate) async fn fallen(&self) {
        let fallen = self.fallen.notified();
        if *self.left.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
            fallen.await;
        }
    }
}
