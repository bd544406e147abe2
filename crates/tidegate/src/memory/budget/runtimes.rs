//! On which runtimes somebody waits. Relief works on each of them: one that has ended, or that nobody
//! drives at the moment, must not keep those on others waiting.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};

use tokio::runtime::{Handle, Id};

/// Starts relief on a runtime, or on any where the waiter is polled outside of all.
pub(super) type Start = Box<dyn Fn(Option<&Handle>, Relieving) + Send + Sync>;

/// The runtimes of those who wait.
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
    /// Somebody waits there; its name, to be told when that is over.
    pub(super) fn enter(&mut self, handle: Option<Handle>) -> Option<Id> {
        let id = handle.as_ref().map(Handle::id);
        match self.0.iter_mut().find(|runtime| runtime.id() == id) {
            Some(runtime) => {
                runtime.waiting += 1;
                runtime.handle = handle; // another one may have the name of one that ended
            }
            None => {
                self.0.retain(|runtime| runtime.waiting > 0 || Arc::strong_count(&runtime.relieving) > 1);
                self.0.push(Runtime { handle, waiting: 1, relieving: Arc::default() });
            }
        }
        id
    }

    /// Somebody waits there no more.
    pub(super) fn leave(&mut self, id: Option<Id>) {
        if let Some(runtime) = self.0.iter_mut().find(|runtime| runtime.id() == id) {
            runtime.waiting -= 1;
        }
    }

    /// Starts relief wherever somebody waits and it is not at work.
    pub(super) fn relieve(&self, start: &Start) {
        for runtime in self.0.iter().filter(|runtime| runtime.waiting > 0) {
            if let Some(relieving) = Relieving::begin(&runtime.relieving) {
                start(runtime.handle.as_ref(), relieving);
            }
        }
    }
}

/// Held by the relief of one runtime; when it is dropped, as with its runtime, another may begin.
#[derive(Debug)]
pub(crate) struct Relieving(Option<Arc<AtomicBool>>);

impl Relieving {
    pub(super) fn begin(at_work: &Arc<AtomicBool>) -> Option<Self> {
        (!at_work.swap(true, AcqRel)).then(|| Self(Some(at_work.clone())))
    }

    /// It is over; where another may begin.
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
