//! The end of the play: told when everyone who goes on is done.

use std::sync::Mutex;
use std::sync::PoisonError;

use tokio::sync::Notify;

/// Falls when the last of those who go on is done; those who hold something wait for it.
#[derive(Debug)]
pub(crate) struct Curtain {
    left: Mutex<usize>,
    /// Wakes in the order of waiting, which a seed decides.
    fallen: Notify,
}

impl Curtain {
    /// One that waits for so many.
    pub(crate) fn new(going_on: usize) -> Self {
        Self { left: Mutex::new(going_on), fallen: Notify::new() }
    }

    /// One more is done.
    pub(crate) fn done(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.fallen.notify_waiters();
        }
    }

    /// Waits until all are done.
    pub(crate) async fn fallen(&self) {
        let fallen = self.fallen.notified();
        if *self.left.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
            fallen.await;
        }
    }
}
