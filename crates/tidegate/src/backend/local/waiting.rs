//! Tracks whether a request still waits for the file that it makes.
//!
//! Work on the blocking pool continues when its request is dropped, and the process may end before the work does. So
//! dropping a request removes its file's name at once. The work then notices that nobody waits, and its remaining
//! writes go to a file without a name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::temp::Trace;
use crate::backend::{Fault, FaultKind};

/// Held by the request.
#[derive(Debug, Default)]
pub(crate) struct Waiter(Arc<WaitedWork>);

/// Held by the work that was handed off.
#[derive(Debug, Default)]
pub(crate) struct WaitedWork {
    over: AtomicBool,
    /// The file, once it is made. The lock is held while it is being made, so that no file appears after its request
    /// was dropped.
    made: Mutex<Option<Trace>>,
}

impl Waiter {
    pub(crate) fn waiting(&self) -> Arc<WaitedWork> {
        self.0.clone()
    }

    /// The work has ended by itself: there is nothing to remove.
    pub(crate) fn done(self) {
        self.0.made().take();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        if let Some(trace) = self.0.made().take() {
            trace.remove();
        }
    }
}

impl WaitedWork {
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
    #[cfg(target_os = "linux")]
    pub(super) fn meanwhile<T>(&self, work: impl FnOnce() -> T) -> Result<T, Fault> {
        let _made = self.made();
        self.check()?;
        Ok(work())
    }

    /// Fails if nobody waits any more.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.over.load(Ordering::Acquire) {
            let message = "given up by the caller before the object was published";
            return Err(Fault::new(FaultKind::Transient, message));
        }
        Ok(())
    }
}
