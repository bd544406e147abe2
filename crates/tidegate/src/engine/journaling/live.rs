//! Waits for journals whose writer was just dropped: such a journal stays locked until the writer's last operations have
//! ended. A resume waits for that, instead of failing because the journal is locked.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::journal::{self, JournalError, is_in_use};
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;

/// How long to wait for a journal of this process: longer than a dropped writer takes to release its file.
const LETS_GO: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Runs `attempt` on the journal at `path`, and retries while a dropped writer of this process still locks it.
pub(crate) async fn past_dropped<T, F: Future<Output = Result<T, JournalError>>>(
    path: &Path,
    owners: &TrustedOwners,
    attempt: impl Fn() -> F,
) -> Result<T, JournalError> {
    let began = Instant::now();
    loop {
        match attempt().await {
            Err(error)
                if error.is_of_this_process()
                    && began.elapsed() < LETS_GO
                    && !has_user(path, owners).await =>
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
    past_dropped(path, owners, look).await
}

/// Whether a writer or a claim, of whatever engine, still uses the journal.
async fn has_user(path: &Path, owners: &TrustedOwners) -> bool {
    let (path, owners) = (path.to_owned(), owners.clone());
    spawn_blocking(move || is_in_use(&path, &owners)).await
}
