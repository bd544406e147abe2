//! When bytes of a journal become durable, and the background syncs that make them so.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::JournalShared;
use super::log::Log;

/// When bytes in a journal are safe from a loss of power. They always survive the end of their process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the write returns.
    Write,
    /// After the next sync, which begins once so many bytes were written since the last sync, this long after the
    /// first of them, or when `sync` is called, whichever comes first. A write waits for the sync if twice as many
    /// bytes are not durable.
    Group {
        /// Bytes of the file.
        bytes: u64,
        /// How long the first of them waits.
        delay: Duration,
    },
    /// When a `sync` that began after the write returns.
    Sync,
}

/// `write`, `group of 8388608 bytes or 1s`, `sync`.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write => f.write_str("write"),
            Self::Group { bytes, delay } => write!(f, "group of {bytes} bytes or {delay:?}"),
            Self::Sync => f.write_str("sync"),
        }
    }
}

/// The log of a dropped journal, with a group that is not durable yet. Dropping this syncs it.
struct Last {
    log: Arc<Log>,
    _open: Arc<watch::Sender<()>>,
}

/// Syncs a group in the background when it is full or old.
pub(super) fn sync_later(shared: &Arc<JournalShared>, runtime: &Handle) {
    let Durability::Group { bytes, delay } = shared.durability else { return };
    let unsynced = shared.log.unsynced();
    if unsynced >= bytes && !shared.flying.swap(true, Ordering::AcqRel) {
        let shared = shared.clone();
        runtime.spawn_blocking(move || {
            // The next append or sync reports the error.
            let _ = shared.log.sync();
            shared.flying.store(false, Ordering::Release);
        });
    } else if unsynced > 0 && !shared.timed.swap(true, Ordering::AcqRel) {
        let weak = Arc::downgrade(shared);
        runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(shared) = weak.upgrade() {
                // Later bytes have a delay of their own.
                shared.timed.store(false, Ordering::Release);
                tokio::task::spawn_blocking(move || shared.log.sync());
            }
        });
    }
}

impl Drop for JournalShared {
    fn drop(&mut self) {
        if self.owner.is_parent()
            || !matches!(self.durability, Durability::Group { .. })
            || self.log.unsynced() == 0
        {
            return;
        }
        let last = Last { log: self.log.clone(), _open: self.open.clone() };
        match Handle::try_current() {
            // A runtime that is shutting down drops `last` here.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(last))),
            Err(_) => drop(last),
        }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        // No caller is left that the error could be returned to.
        if let Err(error) = self.log.sync() {
            tracing::warn!(%error, "the last bytes of a journal may not be durable");
        }
    }
}
