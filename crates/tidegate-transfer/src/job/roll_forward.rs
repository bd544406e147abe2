//! All jobs of an output directory: those that were begun are brought to their end.

use futures::TryStreamExt;
use tidegate::{Entry, ErrorKind, Store};

use super::work_path::{JobState, WORK_PATH};
use super::{CommittedJob, Job, JobAbort, JobError, Result};

/// A job of an output directory, and what was done with it.
#[derive(Debug)]
#[non_exhaustive]
pub struct FoundJob {
    /// The id.
    pub id: String,
    /// What was done, or why it could not be.
    pub outcome: Result<JobOutcome>,
}

/// What was done with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobOutcome {
    /// It is complete.
    Committed(CommittedJob),
    /// Its set was not begun. It may be at work: it is left alone.
    NotBegun,
    /// It is given up, or what was left of a job that is over is removed.
    Ended(JobAbort),
}

/// Completes every job of `out` whose set was begun, and ends every job whose end was interrupted. Other jobs are left alone.
/// If one job fails, the others are still tried.
///
/// May be repeated, by any process, while jobs are at work.
///
/// # Cancellation
/// Any job may be anywhere on its way: repeat it.
///
/// # Errors
/// Those of listing `out`; each job has its own.
pub async fn roll_forward(out: &Store) -> Result<Vec<FoundJob>> {
    let mut found = Vec::new();
    for job in jobs(out).await? {
        if let Some(outcome) = job.roll_forward().await.transpose() {
            found.push(FoundJob { id: job.id, outcome });
        }
    }
    Ok(found)
}

/// Gives up every job of `out` whose set is not begun, see [`Job::abort`]. A job that is at work fails.
///
/// # Cancellation
/// Any job may be anywhere on its way: repeat it.
///
/// # Errors
/// Those of listing `out`; each job has its own.
pub async fn abandon_unfinished(out: &Store) -> Result<Vec<FoundJob>> {
    let mut found = Vec::new();
    for job in jobs(out).await? {
        if let Some(outcome) = job.give_up().await.transpose() {
            found.push(FoundJob { id: job.id, outcome });
        }
    }
    Ok(found)
}

/// Gives up every job of `out`, whose directory is to be removed, unless one of them is begun: then gives up none.
///
/// # Cancellation
/// Any job may be anywhere on its way: repeat it.
///
/// # Errors
/// [`ErrorKind::Closed`] if a job is begun: it has to be completed first. Otherwise those of the store.
pub async fn give_up_all(out: &Store) -> Result<Vec<FoundJob>> {
    let jobs = jobs(out).await?;
    for job in &jobs {
        if job.state().await? == JobState::Begun {
            return Err(job.is_begun());
        }
    }
    let mut found = Vec::new();
    for job in jobs {
        match job.give_up().await? {
            Some(JobOutcome::Ended(JobAbort::Begun)) => return Err(job.is_begun()),
            Some(outcome) => found.push(FoundJob { id: job.id, outcome: Ok(outcome) }),
            None => {}
        }
    }
    Ok(found)
}

/// The jobs that have a work path below `out`.
async fn jobs(out: &Store) -> Result<Vec<Job>> {
    let entries: Vec<Entry> = out.list(WORK_PATH).recursive(false).try_collect().await?;
    let id = |entry: &Entry| Some(entry.key().strip_prefix(WORK_PATH)?.strip_suffix('/')?.to_owned());
    // A name that is no id is another program's.
    Ok(entries.iter().filter_map(id).filter_map(|id| Job::new(out, id).ok()).collect())
}

impl Job {
    /// `None` if there is nothing of the job.
    async fn roll_forward(&self) -> Result<Option<JobOutcome>> {
        match self.state().await? {
            JobState::Begun => self.complete().await,
            JobState::Open => Ok(Some(JobOutcome::NotBegun)),
            // If the job is gone, an attempt that came too late may have left records.
            state @ (JobState::BeingAborted | JobState::Gone) => match ended(self.abort_from(state).await)? {
                Some(JobOutcome::Ended(JobAbort::Begun)) => self.complete().await,
                ended => Ok(ended),
            },
        }
    }

    fn is_begun(&self) -> JobError {
        let message = format!(
            "the job has begun to publish: `tidegate commit --job {}` completes it",
            self.store.location()
        );
        self.refused(ErrorKind::Closed, message)
    }

    async fn complete(&self) -> Result<Option<JobOutcome>> {
        Ok(Some(JobOutcome::Committed(self.commit().await?)))
    }

    async fn give_up(&self) -> Result<Option<JobOutcome>> {
        ended(self.abort().await)
    }
}

/// `None` if there is nothing of the job.
fn ended(ended: Result<JobAbort>) -> Result<Option<JobOutcome>> {
    match ended {
        Ok(ended) => Ok(Some(JobOutcome::Ended(ended))),
        // Another process has just removed it, or it is an empty directory of a disk.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
