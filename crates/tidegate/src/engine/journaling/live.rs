//! Tracks the journals that this process uses. A journal whose writer was just dropped stays locked until the
//! writer's last operations have ended: a resume waits for that, instead of failing because the journal is locked.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::journal::{self, JournalError};
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;

/// How long to wait for a journal of this process: longer than a dropped writer takes to release its file.
const LETS_GO: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The journals that writers and claims of this process use now, each as [`mark`] gives it; 0 is an empty place. A
/// lock belongs to the process, so this table does too: a second engine must know whether the first one still uses a
/// journal. Changed without a mutex, which a forked child could inherit locked. A journal for which there is no place
/// counts as dropped: a resume waits before it fails with [`JournalError::InUse`].
static IN_USE: [AtomicU64; 1 << 14] = [const { AtomicU64::new(0) }; 1 << 14];

/// The table's entry for the journal at `path`, whatever the path: its file and this process. Never 0.
async fn mark(path: &Path) -> Option<u64> {
    let found = tokio::fs::metadata(path).await.ok()?;
    let mut hasher = DefaultHasher::new();
    (std::process::id(), found.dev(), found.ino()).hash(&mut hasher);
    Some(hasher.finish().max(1))
}

/// Marks the journal at `path` as in use until the guard is dropped.
pub(crate) async fn uses(path: &Path) -> InUse {
    let mark = mark(path).await;
    let is_taken =
        |place: &&AtomicU64| mark.is_some_and(|mark| place.compare_exchange(0, mark, SeqCst, SeqCst).is_ok());
    InUse { place: IN_USE.iter().find(is_taken) }
}

/// Runs `attempt` on the journal at `path`, and retries while a dropped writer of this process still locks it.
pub(crate) async fn past_dropped<T, F: Future<Output = Result<T, JournalError>>>(
    path: &Path,
    attempt: impl Fn() -> F,
) -> Result<T, JournalError> {
    let began = Instant::now();
    loop {
        match attempt().await {
            Err(error)
                if error.is_of_this_process() && began.elapsed() < LETS_GO && !is_in_use(path).await =>
            {
                sleep(LOOK_AGAIN).await;
            }
            attempted => return attempted,
        }
    }
}

/// Reads the journal at `path`, once no dropped writer of this process locks it.
pub(crate) async fn look(path: &Path, owners: &TrustedOwners) -> Result<journal::Recovered, JournalError> {
    let look = || {
        let (path, owners) = (path.to_owned(), owners.clone());
        spawn_blocking(move || journal::look(&path, &owners))
    };
    past_dropped(path, look).await
}

async fn is_in_use(path: &Path) -> bool {
    let Some(mark) = mark(path).await else { return false };
    IN_USE.iter().any(|place| place.load(SeqCst) == mark)
}

/// Marks a journal as in use, until dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    place: Option<&'static AtomicU64>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(0, SeqCst);
        }
    }
}
