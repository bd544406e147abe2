//! Gives a job up.

use std::collections::{BTreeMap, HashSet};

use tidegate::ErrorKind;
use tidegate::store::SetProgress;

use super::clean_up::EndedUploads;
use super::work_path::Standing;
use super::{Job, JobError, Result};

/// What [`Job::abort`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobAbort {
    /// Nothing of the job is published any more, and the work path is gone.
    #[non_exhaustive]
    Abandoned {
        /// How many uploads are abandoned.
        uploads: u64,
        /// How many files had been published before, and stay: of a set that was ended by
        /// [`Store::abandon_set`](tidegate::Store::abandon_set).
        visible: u64,
        /// The keys of records that could not be read, and are removed. If there are uploads of theirs, sweeps end them.
        unreadable: Vec<String>,
    },
    /// The set of the job was begun: nothing is abandoned. [`Job::commit`] or [`roll_forward`](super::roll_forward())
    /// brings the job to its end.
    Begun,
}

impl Job {
    /// Abandons the uploads of all attempts by their records, and removes the work path. Once the set of the job was begun,
    /// abandons nothing and says so. Of this and a [`commit`](Self::commit) at the same time, the one that writes the set's
    /// intent first goes on.
    ///
    /// May be repeated, by any process.
    ///
    /// # Cancellation
    /// Some uploads may be abandoned: repeat it. Nobody commits the job any more, unless its set was begun.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is nothing of the job. Otherwise those of the store: repeat it.
    pub async fn abort(&self) -> Result<JobAbort> {
        match self.store.find_set(&self.pointer()).await? {
            SetProgress::Begun(_) | SetProgress::Complete(_) => return Ok(JobAbort::Begun),
            SetProgress::NotBegun => {
                if matches!(self.standing().await?, Standing::Gone)
                    && self.list(&self.work_path()).await?.is_empty()
                {
                    let message = "there is no such job: it was completed, given up, or never set up";
                    return Err(self.refused(ErrorKind::NotFound, message));
                }
            }
            // Another process was giving up uploads of the job, and may have died.
            _ => match self.store.abandon_set(&self.pointer()).await {
                Err(error) if error.kind() == ErrorKind::Closed => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                ended => drop(ended?),
            },
        }
        // From here on, no attempt is committed, and the manifests of tasks are all that a driver may have read.
        self.close().await?;
        self.abandon_tasks().await?;
        if matches!(self.standing().await?, Standing::Begun) {
            return Ok(JobAbort::Begun);
        }
        let EndedUploads { abandoned, visible, unreadable, .. } = self.clean_up(&HashSet::new()).await?;
        Ok(JobAbort::Abandoned { uploads: abandoned, visible, unreadable })
    }

    /// Abandons the uploads that a driver may be about to publish. The set's pointer is claimed meanwhile, so that the driver
    /// begins before, or not at all.
    async fn abandon_tasks(&self) -> Result {
        let tasks = match self.read_tasks().await {
            Ok(tasks) => tasks.unwrap_or_default(),
            // No driver begins a set where a manifest can't be read; the records name all uploads.
            Err(JobError::Refused { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // No driver begins a set of two files with one key either.
        let files = tasks.into_iter().flat_map(|task| task.files);
        let by_key: BTreeMap<String, _> =
            files.map(|file| (file.pending.key().to_owned(), file.pending)).collect();
        if by_key.is_empty() {
            return Ok(());
        }
        let set = self.store.manifest(&self.pointer(), by_key.into_values())?;
        match self.store.abandon_all(&set).await {
            // The set was begun, or files of it were published alone.
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            abandoned => Ok(abandoned?),
        }
    }
}
