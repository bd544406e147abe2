//! Gives a job up.

use std::collections::{BTreeMap, HashSet};

use tidegate::ErrorKind;
use tidegate::store::SetProgress;
use tidegate::upload::Pending;

use super::clean_up::EndedUploads;
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
    /// The set of the job was begun, or the job was completed meanwhile: nothing of it is abandoned. [`Job::commit`] or [`roll_forward`](super::roll_forward())
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
        if self.is_begun().await? {
            return Ok(JobAbort::Begun);
        }
        let is_over = self.settings().await?.is_none();
        if is_over && self.list(&self.work_path()).await?.is_empty() {
            let message = "there is no such job: it was completed, given up, or never set up";
            return Err(self.refused(ErrorKind::NotFound, message));
        }
        // From here on, no attempt is committed, and the manifests are all that a driver may have read.
        self.close().await?;
        self.abandon_tasks().await?;
        if self.is_begun().await? {
            return Ok(JobAbort::Begun);
        }
        let EndedUploads { abandoned, visible, unreadable, .. } = self.clean_up(&HashSet::new()).await?;
        // A driver may have completed the job since.
        if !is_over && self.read_success().await?.is_some() {
            return Ok(JobAbort::Begun);
        }
        Ok(JobAbort::Abandoned { uploads: abandoned, visible, unreadable })
    }

    async fn is_begun(&self) -> Result<bool> {
        Ok(!matches!(self.unclaimed_set().await?, SetProgress::NotBegun))
    }

    /// Abandons the uploads that a driver may be about to publish. The set's pointer is claimed meanwhile, so that the driver
    /// begins before, or not at all.
    async fn abandon_tasks(&self) -> Result {
        let manifests = match self.read_manifests().await {
            Ok(manifests) => manifests,
            // No driver begins a set where a manifest can't be read; the records name all uploads.
            Err(JobError::Refused { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // A set has one file of each key, and the attempts of a task have files of one key. A driver that begins between two
        // sets finds that its uploads are gone, or keeps those of the sets that follow.
        let mut sets: Vec<BTreeMap<String, Pending>> = Vec::new();
        for file in manifests.into_iter().flatten().flat_map(|(_, manifest)| manifest.files) {
            let key = file.pending.key().to_owned();
            match sets.iter_mut().find(|set| !set.contains_key(&key)) {
                Some(set) => drop(set.insert(key, file.pending)),
                None => sets.push(BTreeMap::from([(key, file.pending)])),
            }
        }
        for set in sets {
            let set = self.store.manifest(&self.pointer(), set.into_values())?;
            match self.store.abandon_all(&set).await {
                // The set was begun, or files of it were published alone.
                Err(error) if error.kind() == ErrorKind::Closed => {}
                abandoned => abandoned?,
            }
        }
        Ok(())
    }
}
