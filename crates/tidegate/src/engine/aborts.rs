//! Aborts that go on after their writers are gone, and those that failed.

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

/// Most failed aborts that are kept until somebody asks for them; the earliest go first.
const KEPT: usize = 1000;

/// The aborts of one engine. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Aborts {
    tasks: TaskTracker,
    failed: Arc<Mutex<Vec<Error>>>,
    given_up: Arc<Uploads>,
}

/// An upload that was given up and whose end is not certain yet.
pub(crate) trait Settling: fmt::Debug + Send + Sync {
    /// What would be left of it if the process ended now.
    fn unsettled(&self) -> Unsettled;
}

/// An upload that was given up, as far as its end is not certain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsettled {
    /// The object, as a URL.
    pub object: String,
    /// The id of the upload session that the store may still hold.
    pub session: Option<String>,
    /// Whether the request that publishes the object was in flight: the object may be there.
    pub may_be_there: bool,
}

/// The uploads of one engine that were given up.
#[derive(Debug, Default)]
struct Uploads {
    next: AtomicU64,
    /// Uploads whose abort is under way.
    under_way: Mutex<BTreeMap<u64, Arc<dyn Settling>>>,
    /// Uploads whose abort failed or proved nothing; at most [`KEPT`].
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
        tasks.close(); // takes tasks all the same; what is waited for is that there are none
        Self { tasks, failed: Arc::default(), given_up: Arc::default() }
    }
}

impl Aborts {
    /// Runs an abort on `runtime`, whether or not somebody waits for it, and keeps its error; `lost` where it
    /// has something to abort and the runtime ends before it has.
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

    /// Counts `upload` as one whose abort is under way, until the guard is dropped.
    pub(crate) fn begin(&self, upload: Arc<dyn Settling>) -> UnderWay {
        let id = self.given_up.next.fetch_add(1, Ordering::Relaxed);
        self.given_up.under_way().insert(id, upload);
        UnderWay { given_up: self.given_up.clone(), id, is_certain: false }
    }

    /// The uploads that were given up and whose end is not certain (yet).
    pub(crate) fn unsettled(&self) -> Vec<Unsettled> {
        let mut all = self.given_up.uncertain().clone();
        all.extend(self.given_up.under_way().values().map(|upload| upload.unsettled()));
        all
    }

    /// Waits until none is under way; the errors of those that failed, each told once.
    pub(crate) async fn settled(&self) -> Vec<Error> {
        self.tasks.wait().await;
        std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An abort that is under way.
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
