//! Tracks whether a request still waits for the file that it makes.
//!
//! Work on the blocking pool continues when its request is dropped, and the process may end before the work does. So
//! dropping a request removes its file's name at once, or within [`DROP_LIMIT`] where the disk is stuck. The work then
//! notices that nobody waits, and its remaining writes go to a file without a name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

use super::temp::Trace;
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::owner_process::OwnerProcess;

/// The longest that a thread waits for the end of disk work when it drops a request or a download: twice what a disk that
/// is not stuck gets.
pub const DROP_LIMIT: Duration = Duration::from_secs(2);

/// Does `work` on the disk in a thread of its own, and waits [`DROP_LIMIT`] at most for its end: a disk that is stuck
/// must not hold up this thread.
pub fn within_drop_limit(work: impl Fn() + Send + Sync + 'static) {
    let work = Arc::new(work);
    let (ends, ended) = mpsc::channel::<()>();
    let there = work.clone();
    let thread = thread::Builder::new().name("tidegate-drop".to_owned()).spawn(move || {
        there();
        drop(ends);
    });
    match thread {
        // An error either way: the work has ended, or the limit has passed.
        Ok(_) => drop(ended.recv_timeout(DROP_LIMIT)),
        Err(_) => work(),
    }
}

/// Held by the request.
#[derive(Debug, Default)]
pub struct Waiter(Arc<WaitedWork>);

/// Held by the work that was handed off.
#[derive(Debug)]
pub struct WaitedWork {
    owner: OwnerProcess,
    over: AtomicBool,
    /// The file, once it is made. The lock is held while it is being made, so that no file appears after its request
    /// was dropped.
    made: Mutex<Option<Trace>>,
}

impl Waiter {
    /// The work that waits for a thread.
    pub fn waiting(&self) -> Arc<WaitedWork> {
        self.0.clone()
    }

    /// The work has ended by itself: there is nothing to remove.
    pub fn done(self) {
        self.0.made().take();
    }
}

impl Default for WaitedWork {
    fn default() -> Self {
        Self { owner: OwnerProcess::this(), over: AtomicBool::new(false), made: Mutex::new(None) }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A forked child may have inherited the lock from a thread that it does not have.
        if self.0.owner.is_parent() {
            return;
        }
        self.0.over.store(true, Ordering::Release);
        let is_made = match self.0.made.try_lock() {
            Ok(made) => made.is_some(),
            Err(TryLockError::Poisoned(made)) => made.get_ref().is_some(),
            // It is being made.
            Err(TryLockError::WouldBlock) => true,
        };
        if is_made {
            let work = self.0.clone();
            within_drop_limit(move || work.remove());
        }
    }
}

impl WaitedWork {
    fn remove(&self) {
        if let Some(trace) = self.made().take() {
            trace.remove();
        }
    }

    fn made(&self) -> MutexGuard<'_, Option<Trace>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the file and records its trace, if somebody still waits.
    pub(super) fn make<T>(
        &self,
        make: impl FnOnce() -> Result<T, Fault>,
        trace: impl FnOnce(&T) -> Trace,
    ) -> Result<T, Fault> {
        let mut made = self.made();
        self.check()?;
        let file = make()?;
        *made = Some(trace(&file));
        Ok(file)
    }

    /// Does `work` if somebody still waits; the request cannot go away before `work` ends.
    pub(super) fn meanwhile<T>(&self, work: impl FnOnce() -> T) -> Result<T, Fault> {
        let _made = self.made();
        self.check()?;
        Ok(work())
    }

    /// Fails if nobody waits any more.
    pub fn check(&self) -> Result<(), Fault> {
        if self.over.load(Ordering::Acquire) {
            let message = "given up by the caller before the object was published";
            return Err(Fault::new(FaultKind::Transient, message));
        }
        Ok(())
    }
}
