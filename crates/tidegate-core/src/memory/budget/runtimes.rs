//! Tracks the runtimes on which somebody waits for memory. Relief works on each of them: a runtime that has ended,
//! or that nobody drives at the moment, must not keep waiters on other runtimes waiting.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};

use tokio::runtime::{Handle, Id};

/// Starts relief on a runtime; on any, for a waiter that is polled outside of all runtimes.
pub(super) type Start = Box<dyn Fn(Option<&Handle>, Relieving) + Send + Sync>;

/// The runtimes of the waiters.
#[derive(Debug, Default)]
pub(super) struct Runtimes(Vec<Runtime>);

#[derive(Debug)]
struct Runtime {
    handle: Option<Handle>,
    waiting: usize,
    relieving: Arc<AtomicBool>,
}

impl Runtime {
    fn id(&self) -> Option<Id> {
        self.handle.as_ref().map(Handle::id)
    }
}

impl Runtimes {
    /// Counts a waiter on this runtime. Returns the runtime's id, for `leave`.
    pub(super) fn enter(&mut self, handle: Option<Handle>) -> Option<Id> {
        let id = handle.as_ref().map(Handle::id);
        match self.0.iter_mut().find(|runtime| runtime.id() == id) {
            Some(runtime) => {
                runtime.waiting += 1;
                runtime.handle = handle; // a new runtime may have the id of one that ended
            }
            None => {
                self.0.retain(|runtime| runtime.waiting > 0 || Arc::strong_count(&runtime.relieving) > 1);
                self.0.push(Runtime { handle, waiting: 1, relieving: Arc::default() });
            }
        }
        id
    }

    /// Counts one waiter less on this runtime.
    pub(super) fn leave(&mut self, id: Option<Id>) {
        if let Some(runtime) = self.0.iter_mut().find(|runtime| runtime.id() == id) {
            runtime.waiting -= 1;
        }
    }

    /// Starts relief on each runtime that has waiters and where relief is not at work.
    pub(super) fn relieve(&self, start: &Start) {
        for runtime in self.0.iter().filter(|runtime| runtime.waiting > 0) {
            if let Some(relieving) = Relieving::begin(&runtime.relieving) {
                start(runtime.handle.as_ref(), relieving);
            }
        }
    }
}

/// Held by the relief of one runtime. When it is dropped, as it is with its runtime, another relief may begin
/// there.
#[derive(Debug)]
pub struct Relieving(Option<Arc<AtomicBool>>);

impl Relieving {
    pub(super) fn begin(at_work: &Arc<AtomicBool>) -> Option<Self> {
        (!at_work.swap(true, AcqRel)).then(|| Self(Some(at_work.clone())))
    }

    /// Ends this relief. Returns the flag with which another may begin.
    pub(super) fn end(mut self) -> Option<Arc<AtomicBool>> {
        let at_work = self.0.take()?;
        at_work.store(false, Release);
        Some(at_work)
    }
}

impl Drop for Relieving {
    fn drop(&mut self) {
        if let Some(at_work) = self.0.take() {
            at_work.store(false, Release);
        }
    }
}
