//! One attempt of a task: writes files that nobody sees, and hands them to the job.

use std::collections::HashSet;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use tidegate::store::SetProgress;
use tidegate::upload::WriterBuilder;
use tidegate::{ErrorKind, Object};

use super::clean_up::EndedUploads;
use super::record::{AttemptState, TaskFile, TaskManifest, UploadState};
use super::success::SUCCESS;
use super::work_path::{JobPhase, JobState, WORK_PATH};
use super::writer::{Files, Missing, OpenFile};
use super::{Job, JobError, Result, TaskWriter};

/// One attempt of a task, in one process; from [`Job::attempt`]. Several attempts of a task may run at the same time, on any
/// machines: the files of the last one that [commits](Self::commit) count.
///
/// Dropping it does nothing: [`abort`](Self::abort), or the end of the job, abandons what it has written.
#[derive(Debug)]
pub struct TaskAttempt {
    job: Job,
    task: String,
    attempt: String,
    until: SystemTime,
    /// Tells the records of two processes with one attempt apart.
    run: u64,
    next: AtomicU64,
    files: Files,
    /// True once a commit found the job over: from then on the uploads are given up.
    is_over: AtomicBool,
}

/// What [`Job::abort_attempt`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptAbort {
    /// So many uploads are abandoned.
    Abandoned(u64),
    /// The attempt was committed. Unless a driver has read its manifest already, it does not count, and the attempt of the
    /// task that was committed before it, if there is one, counts again. The end of the job abandons what the set does not
    /// have.
    LeftToJob,
    /// The job's set is begun: nothing is abandoned. The end of the job abandons what the set does not have.
    JobBegun,
}

impl Job {
    /// Begins an attempt of a task. The name of the task is unique in the job, and that of the attempt in the task.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the job is being given up, is over, or was not set up; a job whose commit was begun may still
    /// allow it, and refuses its files. [`ErrorKind::InvalidInput`] if a name has other characters than an id
    /// ([`Job::new`]).
    pub async fn attempt(&self, task: &str, attempt: &str) -> Result<TaskAttempt> {
        self.check_name("name of a task", task)?;
        self.check_name("name of an attempt", attempt)?;
        let settings = self.settings().await?;
        let Some(settings) = settings.filter(|settings| settings.phase == JobPhase::Open) else {
            return Err(
                self.refused(ErrorKind::Closed, "the job is being given up, is over, or was never set up")
            );
        };
        Ok(TaskAttempt {
            job: self.clone(),
            task: task.to_owned(),
            attempt: attempt.to_owned(),
            until: settings.until(),
            run: fastrand::u64(..),
            next: AtomicU64::new(0),
            files: Files::default(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Gives an attempt up: from here on nobody commits it, and its uploads, of any process, are abandoned by their records.
    /// An upload that another process is just opening is left to the end of the job.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the attempt's manifest can't be read: nothing is abandoned; or if a record can't be read:
    /// the other uploads are abandoned. Otherwise those of the store: repeat it.
    pub async fn abort_attempt(&self, task: &str, attempt: &str) -> Result<AttemptAbort> {
        self.check_name("name of a task", task)?;
        self.check_name("name of an attempt", attempt)?;
        let state = match self.state().await? {
            JobState::Begun => return Ok(AttemptAbort::JobBegun),
            JobState::Open => Some(self.mark(task, attempt).await?),
            // No attempt is committed any more.
            JobState::BeingAborted | JobState::Gone => {
                let found = self.read_manifest(&self.manifest_key(task, attempt)).await?;
                found.map(|(_, manifest)| manifest.state)
            }
        };
        // A driver may have read the manifest already, so that the uploads may be in its set.
        if state.is_some_and(|state| state != AttemptState::GivenUp) {
            return Ok(AttemptAbort::LeftToJob);
        }
        let records = self.attempt_records(task, attempt);
        let ended = self.end_below(&records, &HashSet::new(), &HashSet::new()).await?;
        match ended.unreadable.first() {
            None => Ok(AttemptAbort::Abandoned(ended.abandoned)),
            Some(key) => {
                let message = "this is no record of an upload, or it is one of a later version of Tidegate: its upload stays";
                Err(self.refused_object(ErrorKind::InvalidInput, key, message))
            }
        }
    }

    /// Marks an attempt as given up.
    async fn mark(&self, task: &str, attempt: &str) -> Result<AttemptState> {
        let (written, state) = self.withdraw(task, attempt).await?;
        // The end of the job may have removed the work path before the mark was written.
        if let Some(mark) = written
            && state == AttemptState::GivenUp
            && self.state().await? != JobState::Open
        {
            self.remove_unchanged(&self.manifest_key(task, attempt), &mark).await?;
        }
        Ok(state)
    }

    /// Abandons the uploads of the records whose keys begin with `prefix`, and removes these records. Those of the records in
    /// `done` are abandoned already; those in `kept` stay, with their records.
    pub(super) async fn end_below(
        &self,
        prefix: &str,
        done: &HashSet<String>,
        kept: &HashSet<String>,
    ) -> Result<EndedUploads> {
        let mut listed = self.list(prefix).await?;
        listed.retain(|record| !kept.contains(&record.key));
        let (done, due): (Vec<_>, Vec<_>) = listed.into_iter().partition(|record| done.contains(&record.key));
        let ended = self.end_recorded(&due).await?;
        let stays = |record: &&Object| {
            ended.unreadable.contains(&record.key)
                || ended.opening.iter().any(|(opening, _)| opening.key == record.key)
        };
        let over = due.iter().filter(|record| !stays(record)).chain(&done);
        self.store.delete_many(over.map(|record| record.key.clone())).await.into_result()?;
        Ok(ended)
    }

    fn attempt_records(&self, task: &str, attempt: &str) -> String {
        format!("{}{task}/{attempt}/", self.records())
    }
}

impl TaskAttempt {
    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Opens a file on its final key, relative to the output directory. `options` may set attributes, conditions, the
    /// strategy and all else that a [`WriterBuilder`] has, but not the strategy `journal`. Conditions are decided when the job
    /// is committed.
    ///
    /// Before the upload is opened, a record of it is in the store: whatever dies, the end of the job abandons the upload.
    ///
    /// # Cancellation
    /// The upload is aborted in the background; a record of it may stay, which does no harm.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the attempt has a file of this key, if the key is in a work path or `_SUCCESS`, and if the
    /// store may end the upload before the job's [lifetime](super::SetUpJob::lifetime). [`ErrorKind::Closed`] once the lifetime
    /// is over, and once the job is committed, being given up, or over. Otherwise those of
    /// [`Writer::open_session`](tidegate::Writer::open_session) and of writing the record.
    pub async fn writer(
        &self,
        key: &str,
        options: impl FnOnce(WriterBuilder) -> WriterBuilder + Send,
    ) -> Result<TaskWriter> {
        let job = &self.job;
        let refused = |message: &str| job.refused_object(ErrorKind::InvalidInput, key, message);
        if key == SUCCESS || key.starts_with(WORK_PATH) {
            return Err(refused("a job keeps this key for itself: write to another"));
        }
        let lifetime = job.remaining(self.until)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(open) = self.files.open(key, format!("{}{number}.json", self.records())) else {
            return Err(refused("the attempt has a file of this key already"));
        };
        open.write_record(job, UploadState::Opening).await?;
        self.check_open(&open).await?;
        let mut writer = match options(job.store.writer(key)).await {
            Ok(writer) => writer,
            Err(error) => {
                // Nothing was opened. If the record stays, it does no harm.
                let _ = job.store.delete(open.record()).await;
                return Err(error.into());
            }
        };
        let recorded = async {
            let point = writer.open_session(lifetime).await?;
            if let Some(warning) = point.warning() {
                return Err(refused(&format!("{warning}: set up the job with a shorter lifetime")));
            }
            open.write_record(job, UploadState::Open(point)).await
        };
        match recorded.await {
            Ok(()) => {
                open.opened();
                Ok(TaskWriter { job: job.clone(), writer, open, until: self.until })
            }
            Err(error) => {
                // The first error is reported. Whatever is not ended here is ended with the job, by the record.
                if writer.abort().await.is_ok() {
                    let _ = job.store.delete(open.record()).await;
                }
                Err(error)
            }
        }
    }

    /// Fails if the job is over, and removes the file's record then.
    async fn check_open(&self, open: &OpenFile) -> Result {
        let checked = self.job.check_not_ended().await;
        if checked.is_err() {
            // The first error is reported. If the record stays, it does no harm.
            let _ = self.job.store.delete(open.record()).await;
            self.job.remove_directories(iter::once(open.record())).await;
        }
        checked
    }

    /// Makes the attempt's closed files those of the task, in place of any earlier attempt's. Nothing is visible until the
    /// job is committed. Files whose writers were aborted do not count.
    ///
    /// A commit at the same time as the driver's may succeed and not count: the driver has read the tasks before.
    ///
    /// First waits for the requests that cancelled calls of this attempt have in flight, and for what undoes them.
    ///
    /// May be repeated. After the future is dropped the attempt may be committed or not: commit it again, or abort it.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the job is over, or becomes so meanwhile, or the attempt was given up: then this attempt's
    /// uploads are abandoned, and it leaves nothing behind. Those of an attempt that was committed before it was given up are
    /// left to the end of the job. [`ErrorKind::InvalidInput`] while the job goes on, if a file is open, or if the writer of one
    /// was lost before it was closed, or failed ([`TaskWriter`]): nothing has changed. [`ErrorKind::TooLarge`] if the files are
    /// more than a driver reads ([`Job::commit`]). Otherwise those of the store: repeat it.
    pub async fn commit(&self) -> Result {
        self.files.settled().await;
        let (files, missing) = self.files.closed();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let manifest = TaskManifest {
            job: self.job.id.clone(),
            task: self.task.clone(),
            attempt: self.attempt.clone(),
            state: AttemptState::Committed,
            written: now.as_nanos().try_into().unwrap_or(u64::MAX),
            files,
        };
        if let Some(missing) = missing {
            return Err(self.refuse_without(&missing, &manifest).await);
        }
        if self.is_over.load(Ordering::Acquire) {
            let over =
                self.job.refused(ErrorKind::Closed, "the job was over when the attempt was committed before");
            return self.end_late(&manifest, over).await;
        }
        let state = self.job.hand_in(&manifest).await?;
        if state != AttemptState::Committed {
            return self.end_given_up(state).await;
        }
        match self.job.require_open(self.job.state().await?) {
            Ok(()) => Ok(()),
            Err(over) => self.end_late(&manifest, over).await,
        }
    }

    /// The error of a commit that misses a file. If the job is over, the uploads of the attempt are ended first.
    async fn refuse_without(&self, missing: &Missing, others: &TaskManifest) -> JobError {
        let (key, message) = match missing {
            Missing::Open(key) => {
                (key, "the file is open: close or abort its writer before the attempt is committed")
            }
            Missing::Failed(key) => {
                (key, "the file was not closed: write it again, abort its writer, or begin another attempt")
            }
        };
        if let Ok(state) = self.job.state().await
            && let Err(over) = self.job.require_open(state)
            && let Err(over) = self.end_late(others, over).await
        {
            return over;
        }
        self.job.refused_object(ErrorKind::InvalidInput, key, message)
    }

    /// Gives the attempt up; see [`Job::abort_attempt`]. First waits as [`commit`](Self::commit) does.
    ///
    /// # Errors
    /// Those of [`Job::abort_attempt`].
    pub async fn abort(self) -> Result<AttemptAbort> {
        self.files.settled().await;
        self.job.abort_attempt(&self.task, &self.attempt).await
    }

    /// The beginning of the keys of this value's records.
    fn records(&self) -> String {
        format!("{}{:016x}-", self.job.attempt_records(&self.task, &self.attempt), self.run)
    }

    /// Gives up the uploads of an attempt that was committed after the job was over. Succeeds if the job's set has all of these
    /// uploads: then they are published.
    async fn end_late(&self, manifest: &TaskManifest, over: JobError) -> Result {
        self.is_over.store(true, Ordering::Release);
        let (job, files) = (&self.job, &manifest.files);
        let (mut done, mut in_set) = (HashSet::new(), HashSet::new());
        if !files.is_empty() {
            let set = job.store.manifest(&job.pointer(), files.iter().map(|file| file.pending.clone()))?;
            // Claims the pointer, so that no driver begins a set with these uploads meanwhile.
            match job.store.abandon_all(&set).await {
                Ok(()) => done.extend(files.iter().map(|file| file.record.clone())),
                Err(error) if error.kind() == ErrorKind::Closed => {
                    if let SetProgress::Begun(begun) = job.store.find_set(&job.pointer()).await? {
                        let tokens = begun.tokens();
                        let has = |file: &&TaskFile| tokens.contains(file.pending.token());
                        in_set = files.iter().filter(has).map(|file| file.record.clone()).collect();
                    }
                    let others = files.iter().filter(|file| !in_set.contains(&file.record));
                    let published = job.abandon_unpublished(others.map(|file| &file.pending)).await?;
                    if in_set.len() + published == files.len() {
                        return Ok(());
                    }
                    let others = files.iter().filter(|file| !in_set.contains(&file.record));
                    done.extend(others.map(|file| file.record.clone()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        job.end_below(&self.records(), &done, &in_set).await?;
        let key = job.manifest_key(&self.task, &self.attempt);
        if let Some((object, there)) = job.read_manifest(&key).await?
            && there.state == AttemptState::Committed
            && there.has_files_of(manifest)
        {
            job.remove_unchanged(&key, &object).await?;
        }
        Err(over)
    }

    /// Ends what an attempt has that was given up while its job goes on.
    async fn end_given_up(&self, state: AttemptState) -> Result {
        // A driver may be publishing what was committed before.
        if state == AttemptState::GivenUp {
            self.job.end_below(&self.records(), &HashSet::new(), &HashSet::new()).await?;
        }
        let message =
            format!("attempt {} of task {} was given up: begin another one", self.attempt, self.task);
        Err(self.job.refused(ErrorKind::Closed, message))
    }
}
