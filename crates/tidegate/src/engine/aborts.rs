//! Aborts that outlive their writers, and the errors of aborts that failed.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::types::error::{Error, Result};

#[cfg(test)]
mod tests;

/// Most errors of failed aborts that are kept until they are asked for; the earliest are dropped first.
const KEPT: usize = 1000;

/// The aborts of one engine. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Aborts {
    tasks: TaskTracker,
    failed: Arc<Mutex<Vec<Error>>>,
    given_up: Arc<Uploads>,
}

/// An abandoned upload that may still have left a session or an object in the store.
pub(crate) trait Settling: fmt::Debug + Send + Sync {
    /// The session or object that would be left if the process ended now.
    fn unsettled(&self) -> Unsettled;
}

/// An abandoned upload that may have left a session or an object in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsettled {
    /// The object, as a URL.
    pub object: String,
    /// The id of the upload session that the store may still hold.
    pub session: Option<String>,
    /// Whether the request that publishes the object was in flight, so that the object may exist.
    pub may_be_there: bool,
}

/// The abandoned uploads of one engine.
#[derive(Debug, Default)]
struct Uploads {
    next: AtomicU64,
    /// Uploads whose abort is in flight.
    under_way: Mutex<BTreeMap<u64, Arc<dyn Settling>>>,
    /// Uploads whose abort failed or left the result uncertain; at most [`KEPT`].
    uncertain: Mutex<Vec<Unsettled>>,
}

impl Uploads {
    fn under_way(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn Settling>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uncertain(&self) -> MutexGuard<'_, Vec<Unsettled>> {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Aborts {
    fn default() -> Self {
        let tasks = TaskTracker::new();
        tasks.close(); // a closed tracker still takes tasks; `wait` needs it closed to return once there are none
        Self { tasks, failed: Arc::default(), given_up: Arc::default() }
    }
}

impl Aborts {
    /// Runs an abort on `runtime`, whether or not a caller waits for it, and keeps its error. `lost` is the error to
    /// keep where there is something to abort and the runtime ends first.
    pub(crate) fn spawn_on(
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

    /// Counts the abort of `upload` as in flight until the guard is dropped.
    pub(crate) fn begin(&self, upload: Arc<dyn Settling>) -> UnderWay {
        let id = self.given_up.next.fetch_add(1, Ordering::Relaxed);
        self.given_up.under_way().insert(id, upload);
        UnderWay { given_up: self.given_up.clone(), id, is_certain: false }
    }

    /// The abandoned uploads that may (still) have left a session or an object.
    pub(crate) fn unsettled(&self) -> Vec<Unsettled> {
        let mut all = self.given_up.uncertain().clone();
        all.extend(self.given_up.under_way().values().map(|upload| upload.unsettled()));
        all
    }

    /// Waits until no abort is in flight; returns the errors of failed aborts, each error once.
    pub(crate) async fn settled(&self) -> Vec<Error> {
        self.tasks.wait().await;
        std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An abort in flight.
pub(crate) struct UnderWay {
    given_up: Arc<Uploads>,
    id: u64,
    is_certain: bool,
}

impl UnderWay {
    /// The session is gone and has published nothing.
    pub(crate) fn end_certain(mut self) {
        self.is_certain = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let upload = self.given_up.under_way().remove(&self.id);
        let Some(upload) = upload.filter(|_| !self.is_certain) else { return };
        let mut uncertain = self.given_up.uncertain();
        if uncertain.len() < KEPT {
            uncertain.push(upload.unsettled());
        }
    }
}

/// The result of an abort; its error, if any, is recorded on drop.
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
