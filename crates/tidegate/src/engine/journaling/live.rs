//! Tracks the journals that this process uses. A journal whose writer was just dropped stays locked until the
//! writer's last operations have ended: a resume waits for that, instead of failing because the journal is locked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::journal::{self, JournalError};
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;

/// How long to wait for a journal of this process: longer than a dropped writer takes to release its file.
const LETS_GO: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The journals that writers and claims of one engine use now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Live {
    /// Marks the journal at `path` as in use until the guard is dropped.
    pub(crate) fn uses(&self, path: &Path) -> InUse {
        self.lock().insert(path.to_owned());
        InUse { live: self.clone(), path: path.to_owned() }
    }

    /// Runs `attempt` on the journal at `path`, and retries while a dropped writer of this process still locks it.
    pub(crate) async fn past_dropped<T>(
        &self,
        path: &Path,
        attempt: impl AsyncFn() -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let began = Instant::now();
        loop {
            match attempt().await {
                Err(error) if error.is_of_this_process() && began.elapsed() < LETS_GO && !self.has(path) => {
                    sleep(LOOK_AGAIN).await;
                }
                attempted => return attempted,
            }
        }
    }

    /// Reads the journal at `path`, once no dropped writer of this process locks it.
    pub(crate) async fn look(
        &self,
        path: &Path,
        owners: &TrustedOwners,
    ) -> Result<journal::Recovered, JournalError> {
        let look = async || {
            let (path, owners) = (path.to_owned(), owners.clone());
            spawn_blocking(move || journal::look(&path, &owners)).await
        };
        self.past_dropped(path, look).await
    }

    fn has(&self, path: &Path) -> bool {
        self.lock().contains(path)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a journal as in use, until dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    live: Live,
    path: PathBuf,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.live.lock().remove(&self.path);
    }
}
