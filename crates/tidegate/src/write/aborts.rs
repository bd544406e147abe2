//! Aborts that go on after their writers are gone, and those that failed.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::error::{Error, Result};

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
    /// Runs an abort on `runtime`, whether or not somebody waits for it, and keeps its error.
    pub(super) fn spawn_on(
        &self,
        abort: impl Future<Output = Result<()>> + Send + 'static,
        runtime: &Handle,
    ) -> JoinHandle<Result<()>> {
        let failed = self.failed.clone();
        let abort = async move {
            let aborted = abort.await;
            if let Err(error) = &aborted {
                warn!(%error, "the session could not be aborted; a sweep will find it");
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.len() == KEPT {
                    failed.remove(0);
                }
                failed.push(error.again());
            }
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
