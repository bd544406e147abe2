//! The commit of a job: publishes the files of its tasks as one set, and brings the job to its end.

use std::collections::HashSet;

use tidegate::ErrorKind;
use tidegate::store::{Manifest, SetProgress};
use tokio::time::sleep;

use super::clean_up::EndedUploads;
use super::success::PublishedFile;
use super::work_path::{JobPhase, JobState, NO_SUCH_JOB, OTHERS, Settings, TRIES, pause_after};
use super::{Job, JobError, Result};

/// What a job has published; from [`Job::commit`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommittedJob {
    /// How many files are visible.
    pub objects: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// How many uploads of other attempts this call has abandoned.
    pub abandoned: u64,
    /// The keys of records that could not be read, and are removed. If there are uploads of theirs, sweeps end them.
    pub unreadable: Vec<String>,
}

impl Job {
    /// Publishes the files of all tasks, then writes `_SUCCESS`, abandons the uploads of attempts that do not count, and
    /// removes the work path. Call it when the attempts that are to count have returned from
    /// [`commit`](super::TaskAttempt::commit).
    ///
    /// May be repeated at any point, by any process, and by several at the same time: one set is published. Each file is whole
    /// or not there; the files become visible one after the other, and `_SUCCESS` comes last. The manifests of all attempts are
    /// held in memory: up to 64 MiB of JSON, which is about 80,000 files of one part.
    ///
    /// # Cancellation
    /// The job may be anywhere on its way: commit it again, or [`roll_forward`](super::roll_forward()).
    ///
    /// # Errors
    /// If the set was not begun, nothing is visible: [`ErrorKind::InvalidInput`] if the manifest of a task is not this job's, or
    /// two files have one key; [`ErrorKind::TooLarge`] past the limit above; [`ErrorKind::Closed`] if the job is being given
    /// up; [`ErrorKind::NotFound`] if there is no such job, or it has ended and `_SUCCESS` does not say so;
    /// [`ErrorKind::SessionLost`], [`ErrorKind::AlreadyExists`] and [`ErrorKind::Replaced`] of an upload, as of
    /// [`Store::commit_all`](tidegate::Store::commit_all). If the set was begun and an upload is lost:
    /// [`JobError::CannotComplete`]. All others: commit again.
    pub async fn commit(&self) -> Result<CommittedJob> {
        for attempt in 0..TRIES {
            let committed = match self.unclaimed_set().await? {
                SetProgress::Complete(objects) => {
                    let files = objects.into_iter().map(PublishedFile::from).collect();
                    // The pointer does not say which uploads it is of: all records are looked at.
                    return self.finish(files, &HashSet::new()).await;
                }
                SetProgress::Begun(set) => match self.publish(&set).await? {
                    Some(files) => return self.finish(files, &self.records_of(&set).await?).await,
                    None => None,
                },
                _ => self.begin().await?,
            };
            if let Some(committed) = committed {
                return Ok(committed);
            }
            sleep(pause_after(attempt)).await;
        }
        match self.settings().await? {
            // The pointer goes last: it was removed by hand, and its set is complete.
            Some(Settings { phase: JobPhase::Ending, .. }) => {
                let committed = self.read_success().await?.unwrap_or_default();
                self.end_completed(committed, &HashSet::new()).await
            }
            _ => Err(self.refused(ErrorKind::Timeout, OTHERS)),
        }
    }

    /// Begins the set; `None` if another process has begun it meanwhile.
    async fn begin(&self) -> Result<Option<CommittedJob>> {
        let tasks = self.read_tasks().await;
        // Only now: a job that was complete before has lost some of its manifests.
        match self.state().await? {
            JobState::Begun => return Ok(None),
            JobState::Gone => return self.completed_before().await.map(Some),
            state => self.require_open(state)?,
        }
        let Some(tasks) = tasks? else { return Ok(None) };
        let files: Vec<_> = tasks.into_iter().flat_map(|task| task.files).collect();
        let kept: HashSet<String> = files.iter().map(|file| file.record.clone()).collect();
        // Also without files: of several drivers, the one that begins the set decides which tasks count.
        let set = self.store.manifest(&self.pointer(), files.into_iter().map(|file| file.pending))?;
        match self.publish(&set).await? {
            Some(files) => self.finish(files, &kept).await.map(Some),
            None => Ok(None),
        }
    }

    /// Publishes a set; `None` if another process has published or ended the job's meanwhile.
    async fn publish(&self, set: &Manifest) -> Result<Option<Vec<PublishedFile>>> {
        let Err(error) = self.store.commit_all(set).await else {
            return Ok(Some(set.pending().iter().map(PublishedFile::from).collect()));
        };
        if !matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::AlreadyExists | ErrorKind::Replaced) {
            return Err(error.into());
        }
        match self.store.find_set(&self.pointer()).await? {
            SetProgress::NotBegun => match self.state().await? {
                JobState::Gone => Ok(None),
                _ => Err(error.into()),
            },
            SetProgress::Begun(begun) if begun.tokens() == set.tokens() => {
                Err(JobError::CannotComplete { pointer: self.url(&self.pointer()), error })
            }
            _ => Ok(None),
        }
    }

    /// The keys of the records of a set's uploads, as far as the manifests tell: an attempt that came too late may have
    /// removed its own.
    async fn records_of(&self, set: &Manifest) -> Result<HashSet<String>> {
        let manifests = match self.read_manifests().await {
            Ok(manifests) => manifests,
            Err(JobError::Refused { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let tokens = set.tokens();
        let files = manifests.into_iter().flatten().flat_map(|(_, manifest)| manifest.files);
        Ok(files.filter(|file| tokens.contains(file.pending.token())).map(|file| file.record).collect())
    }

    /// Ends a job whose files are published. `kept` are the records of these files, as far as they are known.
    async fn finish(&self, files: Vec<PublishedFile>, kept: &HashSet<String>) -> Result<CommittedJob> {
        let published = CommittedJob::of(&files);
        let committed = match self.enter(JobPhase::Ending).await? {
            Some(Settings { success_marker: true, created, .. }) => {
                self.write_success(created, files).await?;
                published
            }
            Some(_) => published,
            // Another process has ended the job: `_SUCCESS` is written, if it was to be.
            None => self.read_success().await?.unwrap_or(published),
        };
        self.end_completed(committed, kept).await
    }

    async fn end_completed(&self, committed: CommittedJob, kept: &HashSet<String>) -> Result<CommittedJob> {
        let EndedUploads { abandoned, unreadable, .. } = self.clean_up(kept).await?;
        Ok(CommittedJob { abandoned, unreadable, ..committed })
    }

    /// What a job without settings has published before.
    async fn completed_before(&self) -> Result<CommittedJob> {
        self.read_success().await?.ok_or_else(|| self.refused(ErrorKind::NotFound, NO_SUCH_JOB))
    }
}
