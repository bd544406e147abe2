//! The commit of a job: publishes the files of its tasks as one set, and brings the job to its end.

use std::collections::HashSet;

use tidegate::store::{Manifest, SetProgress};
use tidegate::upload::Pending;
use tidegate::{Error as StoreError, ErrorKind};
use tokio::time::sleep;

use super::clean_up::EndedUploads;
use super::success::PublishedFile;
use super::work_path::{FIRST_PAUSE, JobState, OTHERS, PATIENCE, TRIES};
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
    /// held in memory: up to 64 MiB of JSON, which is about 90,000 files of one part.
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
            if attempt > 0 {
                sleep(FIRST_PAUSE * (1 << (attempt - 1))).await;
            }
            match self.store.find_set(&self.pointer()).await? {
                SetProgress::Complete(objects) => {
                    let files = objects.into_iter().map(PublishedFile::from).collect();
                    // The pointer does not say which uploads it is of: all records are looked at.
                    return self.finish(files, &HashSet::new()).await;
                }
                SetProgress::Begun(set) => {
                    if let Some(committed) = self.go_on(&set).await? {
                        return Ok(committed);
                    }
                }
                SetProgress::NotBegun => {
                    if let Some(committed) = self.begin().await? {
                        return Ok(committed);
                    }
                }
                // A late attempt holds the pointer for a moment, or another process is giving the job up. If that process has
                // died, its claim is ended after some tries.
                _ if attempt < PATIENCE => {}
                _ => self.end_claim().await?,
            }
        }
        match self.state().await? {
            JobState::Gone => self.completed_before().await,
            JobState::BeingAborted => Err(self.refused(ErrorKind::Closed, BEING_ABORTED)),
            JobState::Open(_) | JobState::Begun | JobState::PointerClaimed => {
                Err(self.refused(ErrorKind::Closed, OTHERS))
            }
        }
    }

    /// Begins the set; `None` if another process has begun it meanwhile.
    async fn begin(&self) -> Result<Option<CommittedJob>> {
        let tasks = self.read_tasks().await;
        // Only now: a job that was complete before has lost some of its manifests.
        match self.state().await? {
            JobState::Open(_) => {}
            JobState::Begun | JobState::PointerClaimed => return Ok(None),
            JobState::BeingAborted => return Err(self.refused(ErrorKind::Closed, BEING_ABORTED)),
            JobState::Gone => return self.completed_before().await.map(Some),
        }
        let Some(tasks) = tasks? else { return Ok(None) };
        let files: Vec<_> = tasks.into_iter().flat_map(|task| task.files).collect();
        let kept: HashSet<String> = files.iter().map(|file| file.record.clone()).collect();
        if files.is_empty() {
            return self.finish(Vec::new(), &kept).await.map(Some);
        }
        let set = self.store.manifest(&self.pointer(), files.into_iter().map(|file| file.pending))?;
        match self.store.commit_all(&set).await {
            Ok(_) => {
                let files = set.pending().iter().map(PublishedFile::from).collect();
                self.finish(files, &kept).await.map(Some)
            }
            Err(error) => self.unless_over(&set, error).await,
        }
    }

    /// Completes a set that was begun; `None` if another process has done so meanwhile.
    async fn go_on(&self, set: &Manifest) -> Result<Option<CommittedJob>> {
        match self.store.commit_all(set).await {
            Ok(_) => {
                let kept = self.records_of(set).await?;
                let files = set.pending().iter().map(PublishedFile::from).collect();
                self.finish(files, &kept).await.map(Some)
            }
            Err(error) => self.unless_over(set, error).await,
        }
    }

    /// The error of the set's commit; `None` if it comes of another process at work on this job.
    async fn unless_over(&self, set: &Manifest, error: StoreError) -> Result<Option<CommittedJob>> {
        if !matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::AlreadyExists | ErrorKind::Replaced) {
            return Err(error.into());
        }
        match self.store.find_set(&self.pointer()).await? {
            SetProgress::NotBegun => match self.state().await? {
                JobState::Gone => self.completed_before().await.map(Some),
                _ => Err(error.into()),
            },
            SetProgress::Begun(begun) if tokens(&begun) == tokens(set) => {
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
        let tokens = tokens(set);
        let files = manifests.into_iter().flatten().flat_map(|(_, manifest)| manifest.files);
        Ok(files.filter(|file| tokens.contains(file.pending.token())).map(|file| file.record).collect())
    }

    /// Ends a job whose files are published. `kept` are the records of these files, as far as they are known.
    async fn finish(&self, files: Vec<PublishedFile>, kept: &HashSet<String>) -> Result<CommittedJob> {
        let committed = CommittedJob::of(&files);
        // Without settings it is written already, if it was to be.
        if let Some(settings) = self.settings().await?
            && settings.success_marker
        {
            self.write_success(settings.created, files).await?;
        }
        let EndedUploads { abandoned, unreadable, .. } = self.clean_up(kept).await?;
        Ok(CommittedJob { abandoned, unreadable, ..committed })
    }

    /// What a job without settings has published before.
    pub(super) async fn completed_before(&self) -> Result<CommittedJob> {
        match self.read_success().await? {
            Some(committed) => Ok(committed),
            None => {
                let message = "there is no such job: it was completed, given up, or never set up";
                Err(self.refused(ErrorKind::NotFound, message))
            }
        }
    }
}

/// The tokens of a set's uploads, which name the set.
pub(super) fn tokens(set: &Manifest) -> HashSet<&str> {
    set.pending().iter().map(Pending::token).collect()
}

const BEING_ABORTED: &str = "the job is being given up: `tidegate abandon --job` ends that";
