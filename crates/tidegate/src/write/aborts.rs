//! Aborts that go on after their writers are gone, and those that failed.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::backend::Fault;
use crate::error::{Error, Result};

#[cfg(test)]
mod tests;

/// Most failed aborts that are kept until somebody asks for them; the earliest go first.
const KEPT: usize = 1000;

/// The aborts of one engine. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Aborts {
    tasks: TaskTracker,
    failed: Arc<Mutex<Vec<Error>>>,
}

impl Default for Aborts {
    fn default() -> Self {
        let tasks = TaskTracker::new();
        tasks.close(); // takes tasks all the same; what is waited for is that there are none
        Self { tasks, failed: Arc::default() }
    }
}

impl Aborts {
    /// Runs an abort on `runtime`, whether or not somebody waits for it, and keeps its error; `lost` where it
    /// has something to abort and the runtime ends before it has.
    pub(super) fn spawn_on(
        &self,
        abort: impl Future<Output = Result<()>> + Send + 'static,
        lost: Option<Error>,
        runtime: &Handle,
    ) -> JoinHandle<Result<()>> {
        let mut outcome = Outcome { failed: self.failed.clone(), error: lost };
        let abort = async move {
            let aborted = abort.await;
            outcome.error = aborted.as_ref().err().map(Error::again);
            drop(outcome);
            aborted
        };
        self.tasks.spawn_on(abort, runtime)
    }

    /// Waits until none is under way; the errors of those that failed, each told once.
    pub(crate) async fn settled(&self) -> Vec<Error> {
        self.tasks.wait().await;
        std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What an abort has come to; told when it is dropped.
struct Outcome {
    failed: Arc<Mutex<Vec<Error>>>,
    error: Option<Error>,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let Some(error) = self.error.take() else { return };
        warn!(%error, "the session could not be aborted; a sweep will find it");
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() == KEPT {
            failed.remove(0);
        }
        failed.push(error);
    }
}

/// Whether a request of a part was given up before the store answered. The store may have all of it, and
/// take the part in after the abort of its session; S3's AbortMultipartUpload says so, and to abort again.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(AtomicBool);

impl GivenUp {
    /// Makes a request, and takes note where it is dropped or its answer is lost.
    pub(super) async fn watch<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut watched = Watched { given_up: &self.0, answered: false };
        let result = request.await;
        watched.answered = result.as_ref().err().is_none_or(|fault| fault.answered || !fault.is_ambiguous());
        result
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct Watched<'a> {
    given_up: &'a AtomicBool,
    answered: bool,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.given_up.store(true, Ordering::Release);
        }
    }
}
