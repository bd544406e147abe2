//! Gives a job up.

use std::collections::{BTreeMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use tidegate::store::SetProgress;
use tidegate::{ErrorKind, Object};

use super::clean_up::EndedUploads;
use super::record::{TaskFile, UploadRecord};
use super::work_path::{AT_ONCE, JobPhase, JobState, NO_SUCH_JOB};
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
    /// The set of the job was begun, or the job was completed meanwhile: nothing of it is abandoned. [`Job::commit`] or
    /// [`roll_forward`](super::roll_forward()) brings the job to its end.
    Begun,
    /// The job was over, completed or given up: what a late attempt had left is removed.
    #[non_exhaustive]
    Removed {
        /// How many uploads are abandoned.
        uploads: u64,
    },
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
        let state = self.state().await?;
        self.abort_from(state).await
    }

    /// Gives up a job in this state.
    pub(super) async fn abort_from(&self, state: JobState) -> Result<JobAbort> {
        match state {
            JobState::Begun => return Ok(JobAbort::Begun),
            JobState::Gone => return self.remove_left().await,
            JobState::Open | JobState::BeingAborted => {}
        }
        // From here on, no attempt is committed, and the manifests are all that a driver may have read.
        if self.enter(JobPhase::BeingAborted).await?.is_none() {
            // Another process has ended the job since.
            return match self.read_success().await? {
                Some(_) => Ok(JobAbort::Begun),
                None => self.remove_left().await,
            };
        }
        let is_begun =
            async || Ok::<_, JobError>(!matches!(self.unclaimed_set().await?, SetProgress::NotBegun));
        if is_begun().await? {
            return Ok(JobAbort::Begun);
        }
        let done = self.abandon_tasks().await?;
        if is_begun().await? {
            return Ok(JobAbort::Begun);
        }
        let EndedUploads { abandoned, visible, unreadable, .. } = self.clean_up(&done).await?;
        // A driver may have completed the job since.
        if self.read_success().await?.is_some() {
            return Ok(JobAbort::Begun);
        }
        Ok(JobAbort::Abandoned { uploads: abandoned + done.len() as u64, visible, unreadable })
    }

    /// Removes what is left of a job that is over: the objects of the work path that are provably a job's. A directory of
    /// another program may have such a name, too.
    async fn remove_left(&self) -> Result<JobAbort> {
        let left = self.list(&self.work_path()).await?;
        let checks: Vec<_> = left.into_iter().map(|object| self.owned(object)).collect();
        let owned: Vec<Option<Object>> = stream::iter(checks).buffered(AT_ONCE).try_collect().await?;
        let owned: Vec<Object> = owned.into_iter().flatten().collect();
        // The state is read again: if a job of this id was set up meanwhile, these objects may be that job's.
        if owned.is_empty() || self.state().await? != JobState::Gone {
            return Err(self.refused(ErrorKind::NotFound, NO_SUCH_JOB));
        }
        let is_record = |object: &Object| object.key.starts_with(&self.records());
        let (records, manifests): (Vec<_>, Vec<_>) = owned.into_iter().partition(is_record);
        let uploads = self.remove(&records, &HashSet::new()).await?.abandoned;
        // A job of this id that is set up from here on may have manifests of these keys.
        for manifest in &manifests {
            self.remove_unchanged(&manifest.key, manifest).await?;
        }
        self.remove_directories(records.iter().chain(&manifests).map(|object| &object.key)).await;
        Ok(JobAbort::Removed { uploads })
    }

    /// The object, if it is a record of an upload or a manifest of this job.
    async fn owned(&self, object: Object) -> Result<Option<Object>> {
        let is_candidate =
            object.key.starts_with(&self.records()) || object.key.starts_with(&self.manifests());
        if !is_candidate {
            return Ok(None);
        }
        let Some((_, text)) = self.describe_and_read(&object.key).await? else { return Ok(None) };
        let is_record = object.key.starts_with(&self.records()) && UploadRecord::from_json(&text).is_some();
        Ok((is_record || self.manifest_of(&object.key, &text).is_ok()).then_some(object))
    }

    /// Abandons the uploads that a driver may be about to publish; returns the keys of their records.
    async fn abandon_tasks(&self) -> Result<HashSet<String>> {
        let mut done = HashSet::new();
        match self.read_manifests().await {
            Ok(manifests) => {
                // A set has one file of each key, and the attempts of a task have files of one key.
                let mut sets: Vec<BTreeMap<String, TaskFile>> = Vec::new();
                for file in manifests.into_iter().flatten().flat_map(|(_, manifest)| manifest.files) {
                    let key = file.pending.key().to_owned();
                    match sets.iter_mut().find(|set| !set.contains_key(&key)) {
                        Some(set) => drop(set.insert(key, file)),
                        None => sets.push(BTreeMap::from([(key, file)])),
                    }
                }
                for files in sets {
                    self.abandon_set(files.into_values().collect(), &mut done).await?;
                }
            }
            // One can't be read, or all are too large together. A driver may have read the others before.
            Err(JobError::Refused { .. }) => {
                for object in self.list(&self.manifests()).await? {
                    let read = self.describe_and_read(&object.key).await?;
                    if let Some(Ok(manifest)) = read.map(|(_, text)| self.manifest_of(&object.key, &text)) {
                        self.abandon_set(manifest.files, &mut done).await?;
                    }
                }
            }
            Err(error) => return Err(error),
        }
        Ok(done)
    }

    /// Abandons these uploads. The set's pointer is claimed meanwhile, so that a driver begins before, or not at all. One that
    /// begins between two sets finds that its uploads are gone, or keeps those of the sets that follow.
    async fn abandon_set(&self, files: Vec<TaskFile>, done: &mut HashSet<String>) -> Result {
        let pending = files.iter().map(|file| file.pending.clone());
        match self.store.abandon_all(&self.store.manifest(&self.pointer(), pending)?).await {
            Ok(()) => done.extend(files.into_iter().map(|file| file.record)),
            // The set was begun, or files of it were published alone: the records tell of each.
            Err(error) if error.kind() == ErrorKind::Closed => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
