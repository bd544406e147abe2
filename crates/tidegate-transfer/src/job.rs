//! Jobs: many tasks on many machines write files below one directory, and one driver publishes all of them.
//!
//! A task attempt writes each file on its final key, as an upload that nobody sees. The driver publishes the files of the
//! attempts that count, as one set of pending uploads ([`Manifest`](tidegate::store::Manifest)). No byte is written twice,
//! and nothing is renamed. All that another process needs is below the directory's *work path*:
//!
//! | key below `__tidegate_<id>/` | what it is |
//! |---|---|
//! | `job.json` | the job's settings: the job goes on while it is there |
//! | `attempts/<task>/<attempt>/<name>.json` | the record of one upload, written before the upload is opened |
//! | `tasks/<task>/<attempt>.json` | the manifest of an attempt: its uploads, or the mark that it was given up |
//! | `commit.json` | the pointer of the set |
//!
//! Of the attempts of a task the last one that was committed counts, unless it was given up. A manifest is written where
//! nothing is, and the mark in place of it, so an attempt that was given up is never committed, however late its request comes.
//!
//! Until the set's intent exists nothing is visible, and the job can be given up. From then on every process completes it:
//! [`Job::commit`] again, or [`roll_forward`]. Once the set is complete `_SUCCESS` is written, the uploads of other attempts
//! are abandoned by their records, and the work path is removed: `job.json` near the end, and the pointer last. So a process
//! that finds no set and then `job.json` knows that it has read all tasks, see [`Job::commit`].
//!
//! Records and manifests on Google Cloud Storage may have addresses of resumable uploads: who can read the work path can
//! write to these uploads. See [`Pending`](tidegate::upload::Pending).

mod abort;
mod attempt;
mod clean_up;
mod commit;
mod error;
mod manifests;
mod record;
mod roll_forward;
mod set_up;
mod success;
#[cfg(test)]
mod tests;
mod work_path;
mod writer;

use tidegate::{ErrorKind, Store};

pub(crate) use work_path::{WORK_PATH, is_of_job};

pub use abort::JobAbort;
pub use attempt::{AttemptAbort, TaskAttempt};
pub use commit::CommittedJob;
pub use error::JobError;
pub use roll_forward::{FoundJob, JobOutcome, abandon_unfinished, give_up_all, roll_forward};
pub use set_up::SetUpJob;
pub use success::{SUCCESS, last_completed};
pub use writer::{FileDiscard, TaskWriter};

/// The result of an operation on a job.
pub type Result<T = (), E = JobError> = std::result::Result<T, E>;

/// The longest name of a job, a task or an attempt, in bytes.
const LONGEST_NAME: usize = 200;

/// A job that writes files below one directory. A value of this type has no state: every process that knows the directory
/// and the id has the same job.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate_transfer::job::Job;
///
/// let out = tidegate::Tidegate::builder().build()?.open("memory://warehouse").await?.within("t");
/// let job = Job::new(&out, "20261130-7f3a")?;
/// job.set_up().await?;
///
/// // On any machine:
/// let attempt = job.attempt("task-0", "task-0-attempt-0").await?;
/// let mut writer = attempt.writer("part-0.csv", |options| options.content_type("text/csv")).await?;
/// writer.write_bytes("1,tide\n".into()).await?;
/// writer.close().await?;
/// attempt.commit().await?; // nothing is visible
///
/// // The driver, when all tasks are done; again after a crash:
/// let committed = job.commit().await?;
/// assert_eq!((committed.objects, out.exists("part-0.csv").await?), (1, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    store: Store,
    id: String,
}

impl Job {
    /// The job `id` that writes below `out`, the output directory. The id is unique among all jobs of the directory, also
    /// later ones.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the id has other characters than ASCII letters, digits, `-`, `_` and `.`, is longer than
    /// 200 bytes, or has only dots.
    pub fn new(out: &Store, id: impl Into<String>) -> Result<Self> {
        let job = Self { store: out.clone(), id: id.into() };
        job.check_name("id of a job", &job.id)?;
        Ok(job)
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The output directory.
    pub fn out(&self) -> &Store {
        &self.store
    }

    /// Fails if a name cannot be a part of a key on every store.
    fn check_name(&self, what: &str, name: &str) -> Result {
        if is_name(name) {
            return Ok(());
        }
        let message = format!(
            "the {what} has 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`, and not dots alone: `{}` is none",
            name.escape_debug()
        );
        Err(self.refused(ErrorKind::InvalidInput, message))
    }

    /// An error that concerns the whole job.
    fn refused(&self, kind: ErrorKind, message: impl Into<String>) -> JobError {
        let object = format!("job {} of {}", self.id.escape_debug(), self.store.location());
        JobError::Refused { kind, object, message: message.into() }
    }

    /// An error that concerns one object of the work path.
    fn refused_object(&self, kind: ErrorKind, key: &str, message: impl Into<String>) -> JobError {
        JobError::Refused { kind, object: self.url(key), message: message.into() }
    }

    fn url(&self, key: &str) -> String {
        format!("{}/{key}", self.store.location())
    }
}

/// Whether this may be the id of a job, a task or an attempt.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.bytes().any(|byte| byte != b'.')
}
