//! When bytes of a journal become durable: the syncs that nobody waits for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::Shared;
use super::log::Log;

/// When bytes in a journal are safe from a loss of power. From the end of their process they always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the write returns.
    Write,
    /// At the latest when so many bytes have been written since the last sync, or this long after
    /// the first of them, and with a `sync`. A write waits where twice as many are.
    Group {
        /// Bytes of the file.
        bytes: u64,
        /// How long the first of them waits.
        delay: Duration,
    },
    /// When a `sync` that began after the write returns.
    Sync,
}

/// A log that is left, with a group that is not durable yet. It is when this is dropped.
struct Last {
    log: Arc<Log>,
    _open: Arc<watch::Sender<()>>,
}

/// Sees to it that a group is synced when it is full or old.
pub(super) fn sync_later(shared: &Arc<Shared>, runtime: &Handle) {
    let Durability::Group { bytes, delay } = shared.durability else { return };
    let unsynced = shared.log.unsynced();
    if unsynced >= bytes && !shared.flying.swap(true, Ordering::AcqRel) {
        let shared = shared.clone();
        runtime.spawn_blocking(move || {
            // Whoever appends or syncs next is told the same.
            let _ = shared.log.sync();
            shared.flying.store(false, Ordering::Release);
        });
    } else if unsynced > 0 && !shared.timed.swap(true, Ordering::AcqRel) {
        let weak = Arc::downgrade(shared);
        runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(shared) = weak.upgrade() {
                // Bytes that come from here on have a time of their own.
                shared.timed.store(false, Ordering::Release);
                tokio::task::spawn_blocking(move || shared.log.sync());
            }
        });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !matches!(self.durability, Durability::Group { .. }) || self.log.unsynced() == 0 {
            return;
        }
        let last = Last { log: self.log.clone(), _open: self.open.clone() };
        match Handle::try_current() {
            // A runtime that is being shut down drops it here.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(last))),
            Err(_) => drop(last),
        }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        // There is nobody any more to be told.
        if let Err(error) = self.log.sync() {
            tracing::warn!(%error, "the last bytes of a journal may not be durable");
        }
    }
}
