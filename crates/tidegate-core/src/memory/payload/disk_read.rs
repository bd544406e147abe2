//! One read that waits for a disk. Its time is counted, so that it does not pass for the store's silence, and a read that
//! never returns ends with an error.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Moved;

/// A read of at most one slab that the disk has not completed in two minutes is stuck and not slow: with slabs of 256
/// KiB that is 2 KiB a second. So many looks in a row must see the read, because time also passes while the process is
/// stopped. docs/UPLOADING.md names the time.
const STUCK_LOOKS: u32 = 12;
const LOOK: Duration = Duration::from_secs(10);

/// A read on a thread that may block. When dropped, the thread finishes the read, and nobody waits for it.
#[derive(Debug)]
pub(super) struct DiskRead<T> {
    read: JoinHandle<io::Result<T>>,
    wait: Arc<DiskWait>,
    looks: u32,
    look: Option<Pin<Box<Sleep>>>,
}

/// The wait for one read, which counts in the payload until the read is done or nobody waits for it.
#[derive(Debug)]
struct DiskWait {
    state: Mutex<ReadState>,
    moved: Arc<Moved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    /// Waits for a thread.
    Queued,
    /// The disk reads.
    Reading,
    Over,
}

impl DiskWait {
    fn state(&self) -> ReadState {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state before.
    fn becomes(&self, state: ReadState) -> ReadState {
        std::mem::replace(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    fn ends(&self) {
        if self.becomes(ReadState::Over) != ReadState::Over {
            self.moved.disk_waits.ends();
        }
    }
}

impl<T: Send + 'static> DiskRead<T> {
    pub(super) fn begin(moved: Arc<Moved>, read: impl FnOnce() -> io::Result<T> + Send + 'static) -> Self {
        moved.disk_waits.begins();
        let wait = Arc::new(DiskWait { state: Mutex::new(ReadState::Queued), moved });
        let waited = wait.clone();
        let read = tokio::task::spawn_blocking(move || {
            if waited.becomes(ReadState::Reading) == ReadState::Over {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let read = read();
            // Here, because the request may not ask for the bytes before its peer has taken others.
            waited.ends();
            read
        });
        Self { read, wait, looks: 0, look: None }
    }

    /// Polls for what was read; `disk` names the disk in the error for a read that never returns.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        disk: impl FnOnce() -> String,
    ) -> Poll<io::Result<T>> {
        loop {
            if let Poll::Ready(joined) = Pin::new(&mut self.read).poll(cx) {
                return Poll::Ready(joined.map_err(io::Error::other).flatten());
            }
            let look = self.look.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + LOOK)));
            ready!(look.as_mut().poll(cx));
            look.as_mut().reset(Instant::now() + LOOK);
            self.looks = if self.wait.state() == ReadState::Reading { self.looks + 1 } else { 0 };
            if self.looks > STUCK_LOOKS {
                let seconds = (LOOK * STUCK_LOOKS).as_secs();
                let message = format!("{} has not completed a read in {seconds} s: it is stuck", disk());
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
            }
        }
    }
}

impl<T> Drop for DiskRead<T> {
    fn drop(&mut self) {
        self.wait.ends();
    }
}
