//! Sets up a job: writes its settings.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::BoxFuture;
use tidegate::ErrorKind;
use tidegate::store::SetProgress;

use super::work_path::{JobState, Settings};
use super::{FoundJob, Job, JobError, JobOutcome, Result, roll_forward};

/// The longest lifetime that every store grants.
const SIX_DAYS: Duration = Duration::from_secs(6 * 86_400);

/// Sets up a job; from [`Job::set_up`]. Awaited, it writes the settings and returns the jobs that it brought to their end.
#[derive(Debug)]
#[must_use = "nothing is written before it is awaited"]
pub struct SetUpJob {
    job: Job,
    lifetime: Duration,
    success_marker: bool,
    rolls_forward: bool,
    completes_begun: bool,
}

impl Job {
    /// Sets the job up, before its first attempt. May be repeated while the job is open; the first settings stay.
    ///
    /// # Cancellation
    /// The settings are written or not: repeat it.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if a job of this id was committed or given up and is not removed yet.
    /// [`ErrorKind::InvalidInput`] if `job.json` is another program's. Otherwise those of the store, and with
    /// [`roll_forward_earlier`](SetUpJob::roll_forward_earlier) those of the listing.
    pub fn set_up(&self) -> SetUpJob {
        SetUpJob {
            job: self.clone(),
            lifetime: SIX_DAYS,
            success_marker: true,
            rolls_forward: false,
            completes_begun: false,
        }
    }
}

impl SetUpJob {
    /// How long after now the job can be committed; six days by default. Sweeps leave the files of closed writers alone
    /// until then. Azure Blob Storage and Google's resumable uploads (files with `create_only` or `replaces`) live for a
    /// week, and a bucket may have a lifecycle rule that ends uploads earlier: [`TaskAttempt::writer`](super::TaskAttempt::writer)
    /// refuses a file that the store may end before.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Whether `_SUCCESS` is written at the end; it is by default. Without it, a commit that is repeated after the end fails
    /// with [`ErrorKind::NotFound`].
    pub fn success_marker(mut self, is_written: bool) -> Self {
        self.success_marker = is_written;
        self
    }

    /// Whether earlier jobs of the output directory whose set was begun are brought to their end first, by
    /// [`roll_forward`](super::roll_forward()); they are not by default. An earlier job that fails to end does not keep this one.
    pub fn roll_forward_earlier(mut self, rolls_forward: bool) -> Self {
        self.rolls_forward = rolls_forward;
        self
    }

    /// Whether a job of this id that was begun, or is complete, is brought to its end; such a job is refused by default.
    /// Awaiting this then returns the job among the others, as committed, and writes no settings: the job takes no more files,
    /// and its commit can be repeated. For a driver that begins again after a crash, and does not know how far the one before
    /// was.
    pub fn complete_begun(mut self, is_completed: bool) -> Self {
        self.completes_begun = is_completed;
        self
    }

    async fn run(self) -> Result<Vec<FoundJob>> {
        let Self { job, lifetime, success_marker, rolls_forward, completes_begun } = self;
        let mut earlier = Vec::new();
        if rolls_forward {
            earlier = match roll_forward(&job.store).await {
                Err(error) if job.has_no_directory(&error) => Vec::new(),
                found => found?,
            };
            earlier.retain(|found| found.id != job.id);
        }
        let over = |message| Err(job.refused(ErrorKind::Closed, message));
        // What a job of this id has left is found before its settings are written anew.
        match job.unclaimed_set().await {
            Err(error) if job.has_no_directory(&error) => {}
            Err(error) => return Err(error),
            Ok(SetProgress::NotBegun) if job.read_success().await?.is_none() => {}
            Ok(_) if completes_begun => return job.completed(earlier).await,
            Ok(_) => return over("a job of this id was committed before: each job has an id of its own"),
        }
        let settings = Settings::new(&job.id, lifetime, success_marker);
        let put = job.store.put(job.settings_key(), settings.to_json());
        match put.content_type("application/json").create_only().await {
            Ok(_) => Ok(earlier),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match job.state().await? {
                JobState::Open => Ok(earlier),
                JobState::Begun if completes_begun => job.completed(earlier).await,
                _ => over("a job of this id was committed or given up before: each job has an id of its own"),
            },
            Err(error) => Err(error.into()),
        }
    }
}

impl IntoFuture for SetUpJob {
    type Output = Result<Vec<FoundJob>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Job {
    /// Completes the job; returns it behind the earlier ones.
    async fn completed(&self, mut earlier: Vec<FoundJob>) -> Result<Vec<FoundJob>> {
        let outcome = Ok(JobOutcome::Committed(self.commit().await?));
        earlier.push(FoundJob { id: self.id.clone(), outcome });
        Ok(earlier)
    }

    /// Whether the output directory is one of this machine, and does not exist yet.
    fn has_no_directory(&self, error: &JobError) -> bool {
        error.kind() == ErrorKind::NoBucket && self.store.is_local()
    }
}
