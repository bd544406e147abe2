//! One attempt of a task: writes files that nobody sees, and hands them to the job.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate::checksum::Checksum;
use tidegate::progress::Progress;
use tidegate::store::SetProgress;
use tidegate::upload::WriterBuilder;
use tidegate::{ErrorKind, Writer};
use tokio::io::AsyncRead;
use tokio::time::sleep;

use super::clean_up::EndedUploads;
use super::commit::tokens;
use super::manifests::AtKey;
use super::record::{AttemptState, TaskFile, TaskManifest, UploadRecord};
use super::success::SUCCESS;
use super::work_path::{FIRST_PAUSE, JobState, OTHERS, PATIENCE, Settings, TRIES, WORK_PATH};
use super::{Job, JobError, Result};

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
    files: Arc<Files>,
    /// True once a commit found the job over: from then on the uploads are given up.
    is_over: AtomicBool,
}

/// Whether attempts may be committed.
enum Openness {
    Open(Settings),
    /// They may never be, for this reason.
    Over(JobError),
}

/// The files of an attempt, by the keys of their records.
#[derive(Debug, Default)]
struct Files(Mutex<BTreeMap<String, FileState>>);

#[derive(Debug)]
enum FileState {
    /// A writer is at work on this key, relative to the output directory.
    Open(String),
    Closed(String, Box<TaskFile>),
}

impl Files {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FileState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the key of a file that is being written, so that no other file of the attempt takes the key. A drop before the file is
/// closed removes the file from the attempt.
#[derive(Debug)]
struct OpenFile {
    files: Arc<Files>,
    record: String,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut files = self.files.lock();
        if let Some(FileState::Open(_)) = files.get(&self.record) {
            files.remove(&self.record);
        }
    }
}

/// What [`Job::abort_attempt`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptAbort {
    /// So many uploads are abandoned.
    Abandoned(u64),
    /// The attempt was committed: it does not count any more, and the end of the job abandons its uploads. The attempt of
    /// the task that was committed before it, if there is one, counts again.
    LeftToJob,
    /// The job's set is begun: nothing is abandoned. The end of the job abandons what the set does not have.
    JobBegun,
}

impl Job {
    /// Begins an attempt of a task. The name of the task is unique in the job, and that of the attempt in the task.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the job is over or was not set up. [`ErrorKind::InvalidInput`] if a name has other characters
    /// than an id ([`Job::new`]).
    pub async fn attempt(&self, task: &str, attempt: &str) -> Result<TaskAttempt> {
        self.check_name("name of a task", task)?;
        self.check_name("name of an attempt", attempt)?;
        let settings = match self.openness().await? {
            Openness::Open(settings) => settings,
            Openness::Over(over) => return Err(over),
        };
        Ok(TaskAttempt {
            job: self.clone(),
            task: task.to_owned(),
            attempt: attempt.to_owned(),
            until: settings.until(),
            run: fastrand::u64(..),
            next: AtomicU64::new(0),
            files: Arc::default(),
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
            JobState::Open(_) | JobState::PointerClaimed => Some(self.mark(task, attempt).await?),
            // No attempt is committed any more.
            JobState::BeingAborted | JobState::Gone => {
                let found = self.find_manifest(&self.manifest_key(task, attempt)).await?;
                found.map(|(_, manifest)| manifest.state)
            }
        };
        // A driver may have read the manifest already, so that the uploads may be in its set.
        if state.is_some_and(|state| state != AttemptState::GivenUp) {
            return Ok(AttemptAbort::LeftToJob);
        }
        let ended = self.end_below(&self.attempt_records(task, attempt), &HashSet::new()).await?;
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
        match self.withdraw(task, attempt).await? {
            AtKey::Old(there) => Ok(there.state),
            AtKey::New(mark, manifest) => {
                // The end of the job may have removed the work path before the mark was written.
                if manifest.state == AttemptState::GivenUp
                    && !matches!(self.state().await?, JobState::Open(_) | JobState::PointerClaimed)
                {
                    self.remove_manifest(&self.manifest_key(task, attempt), &mark).await?;
                }
                Ok(manifest.state)
            }
        }
    }

    /// Abandons the uploads of the records whose keys begin with `prefix`, but for those in `kept`, and removes these records.
    async fn end_below(&self, prefix: &str, kept: &HashSet<String>) -> Result<EndedUploads> {
        let mut records = self.list(prefix).await?;
        records.retain(|record| !kept.contains(&record.key));
        let ended = self.end_recorded(&records).await?;
        let stays = |key: &String| {
            ended.unreadable.contains(key) || ended.opening.iter().any(|(record, _)| record.key == *key)
        };
        let keys: Vec<_> = records.into_iter().map(|record| record.key).filter(|key| !stays(key)).collect();
        self.store.delete_many(keys).await.into_result()?;
        Ok(ended)
    }

    /// Waits until no late attempt has the set's pointer, or ends what that attempt has begun: it may have died.
    async fn openness(&self) -> Result<Openness> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                sleep(FIRST_PAUSE * (1 << (attempt - 1))).await;
            }
            let why = match self.state().await? {
                JobState::Open(settings) => return Ok(Openness::Open(settings)),
                JobState::PointerClaimed if attempt < PATIENCE => continue,
                JobState::PointerClaimed => {
                    self.end_claim().await?;
                    continue;
                }
                JobState::Begun => "the job is being committed, or is complete",
                JobState::BeingAborted => "the job is being given up",
                JobState::Gone => "the job was completed, given up, or never set up",
            };
            return Ok(Openness::Over(self.refused(ErrorKind::Closed, why)));
        }
        Err(self.refused(ErrorKind::Closed, OTHERS))
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
    /// is over. Otherwise those of [`Writer::open_session`] and of writing the record.
    pub async fn writer(
        &self,
        key: &str,
        options: impl FnOnce(WriterBuilder) -> WriterBuilder + Send,
    ) -> Result<TaskWriter> {
        let refused = |kind, message: &str| self.job.refused_object(kind, key, message);
        if key == SUCCESS || key.starts_with(WORK_PATH) {
            return Err(refused(
                ErrorKind::InvalidInput,
                "a job keeps this key for itself: write to another",
            ));
        }
        let lifetime = self.lifetime()?;
        let open = self.reserve(key)?;
        let job = &self.job;
        let opening = UploadRecord::Opening { key: key.to_owned() };
        job.write(&open.record, opening.to_json(key)).await?;
        let mut writer = match options(job.store.writer(key)).await {
            Ok(writer) => writer,
            Err(error) => {
                // Nothing was opened. If the record stays, it does no harm.
                let _ = job.store.delete(&open.record).await;
                return Err(error.into());
            }
        };
        let recorded = async {
            let point = writer.open_session(lifetime).await?;
            if let Some(warning) = point.warning() {
                let message = format!("{warning}: set up the job with a shorter lifetime");
                return Err(refused(ErrorKind::InvalidInput, &message));
            }
            job.write(&open.record, UploadRecord::Open(point).to_json(key)).await
        };
        match recorded.await {
            Ok(_) => {
                Ok(TaskWriter { job: job.clone(), writer, open, key: key.to_owned(), until: self.until })
            }
            Err(error) => {
                // The first error is reported. Whatever is not ended here is ended with the job, by the record.
                if writer.abort().await.is_ok() {
                    let _ = job.store.delete(&open.record).await;
                }
                Err(error)
            }
        }
    }

    /// Makes the attempt's closed files those of the task, in place of any earlier attempt's. Nothing is visible until the
    /// job is committed. Files whose writers were dropped or aborted do not count.
    ///
    /// May be repeated. After the future is dropped the attempt may be committed or not: commit it again, or abort it.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the job is over, or becomes so meanwhile, or the attempt was given up: then this attempt's
    /// uploads are abandoned, and it leaves nothing behind. Those of an attempt that was committed before it was given up are
    /// left to the end of the job. [`ErrorKind::InvalidInput`] if a file is open. Otherwise those of the store: repeat it.
    pub async fn commit(&self) -> Result {
        let mut files = Vec::new();
        for file in self.files.lock().values() {
            match file {
                FileState::Closed(_, file) => files.push((**file).clone()),
                FileState::Open(key) => {
                    let message =
                        "the file is open: close its writer, or drop it, before the attempt is committed";
                    return Err(self.job.refused_object(ErrorKind::InvalidInput, key, message));
                }
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let manifest = TaskManifest {
            job: self.job.id.clone(),
            task: self.task.clone(),
            attempt: self.attempt.clone(),
            state: AttemptState::Committed,
            written: now.as_nanos().try_into().unwrap_or(u64::MAX),
            files,
        };
        if self.is_over.load(Ordering::Acquire) {
            let over =
                self.job.refused(ErrorKind::Closed, "the job was over when the attempt was committed before");
            return self.end_late(&manifest, over).await;
        }
        if let Openness::Over(over) = self.job.openness().await? {
            return self.end_late(&manifest, over).await;
        }
        match self.job.hand_in(manifest.clone()).await? {
            AtKey::Old(there) if there.state != AttemptState::Committed => {
                return self.end_given_up(there.state).await;
            }
            AtKey::Old(_) | AtKey::New(..) => {}
        }
        match self.job.openness().await? {
            Openness::Open(_) => Ok(()),
            Openness::Over(over) => self.end_late(&manifest, over).await,
        }
    }

    /// Gives the attempt up; see [`Job::abort_attempt`].
    ///
    /// # Errors
    /// Those of [`Job::abort_attempt`].
    pub async fn abort(self) -> Result<AttemptAbort> {
        self.job.abort_attempt(&self.task, &self.attempt).await
    }

    /// The beginning of the keys of this value's records.
    fn records(&self) -> String {
        format!("{}{:016x}-", self.job.attempt_records(&self.task, &self.attempt), self.run)
    }

    /// How long the job's uploads still live.
    fn lifetime(&self) -> Result<Duration> {
        remaining(self.until).ok_or_else(|| self.job.refused(ErrorKind::Closed, OVERDUE))
    }

    /// Takes a place for a file of this key.
    fn reserve(&self, key: &str) -> Result<OpenFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let record = format!("{}{number}.json", self.records());
        let mut files = self.files.lock();
        let is_taken = files.values().any(|file| match file {
            FileState::Open(taken) | FileState::Closed(taken, _) => taken == key,
        });
        if is_taken {
            let message = "the attempt has a file of this key already";
            return Err(self.job.refused_object(ErrorKind::InvalidInput, key, message));
        }
        files.insert(record.clone(), FileState::Open(key.to_owned()));
        drop(files);
        Ok(OpenFile { files: self.files.clone(), record })
    }

    /// Gives up the uploads of an attempt that was committed after the job was over. Succeeds if the job's set has all of these
    /// uploads: then they are published.
    async fn end_late(&self, manifest: &TaskManifest, over: JobError) -> Result {
        self.is_over.store(true, Ordering::Release);
        let (job, files) = (&self.job, &manifest.files);
        let mut in_set = HashSet::new();
        if !files.is_empty() {
            let set = job.store.manifest(&job.pointer(), files.iter().map(|file| file.pending.clone()))?;
            // Claims the pointer, so that no driver begins a set with these uploads meanwhile.
            match job.store.abandon_all(&set).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Closed => {
                    if let SetProgress::Begun(begun) = job.store.find_set(&job.pointer()).await? {
                        let tokens = tokens(&begun);
                        let has = |file: &&TaskFile| tokens.contains(file.pending.token());
                        in_set = files.iter().filter(has).map(|file| file.record.clone()).collect();
                    }
                    let others = files.iter().filter(|file| !in_set.contains(&file.record));
                    let published = job.abandon_unpublished(others.map(|file| &file.pending)).await?;
                    if in_set.len() + published == files.len() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let key = job.manifest_key(&self.task, &self.attempt);
        if let Some((object, there)) = job.find_manifest(&key).await?
            && there.state == AttemptState::Committed
            && there.has_files_of(manifest)
        {
            job.remove_manifest(&key, &object).await?;
        }
        job.end_below(&self.records(), &in_set).await?;
        Err(over)
    }

    /// Ends what an attempt has that was given up while its job goes on.
    async fn end_given_up(&self, state: AttemptState) -> Result {
        // A driver may be publishing what was committed before.
        if state == AttemptState::GivenUp {
            self.job.end_below(&self.records(), &HashSet::new()).await?;
        }
        let message =
            format!("attempt {} of task {} was given up: begin another one", self.attempt, self.task);
        Err(self.job.refused(ErrorKind::Closed, message))
    }
}

/// Writes one file of a task attempt; from [`TaskAttempt::writer`].
///
/// A drop discards the file: the upload is aborted in the background, and the file does not count.
#[derive(Debug)]
pub struct TaskWriter {
    job: Job,
    writer: Writer,
    open: OpenFile,
    key: String,
    until: SystemTime,
}

impl TaskWriter {
    /// Takes all of `bytes`; see [`Writer::write_bytes`].
    ///
    /// # Errors
    /// Those of the writer, which has failed then.
    pub async fn write_bytes(&mut self, bytes: Bytes) -> Result {
        Ok(self.writer.write_bytes(bytes).await?)
    }

    /// Takes all of `bytes`, whose buffer it shares; see [`Writer::write_shared`].
    ///
    /// # Errors
    /// Those of the writer, which has failed then.
    pub async fn write_shared(&mut self, bytes: Bytes) -> Result {
        Ok(self.writer.write_shared(bytes).await?)
    }

    /// Reads `source` to its end; returns how many bytes that was. See [`Writer::read_from`].
    ///
    /// # Errors
    /// Those of the writer, which has failed then.
    pub async fn read_from(&mut self, source: &mut (impl AsyncRead + Unpin + Send)) -> Result<u64> {
        Ok(self.writer.read_from(source).await?)
    }

    /// Bytes taken so far; see [`Writer::position`].
    pub fn position(&self) -> u64 {
        self.writer.position()
    }

    /// The progress figures.
    pub fn progress(&self) -> Progress {
        self.writer.progress()
    }

    /// Ends the file: all its bytes are at the store, nothing is visible, and the attempt's commit includes it. Returns the
    /// checksum, which [covers](Checksum::covers) all bytes.
    ///
    /// # Cancellation
    /// The file does not count; the end of the attempt or of the job abandons its upload.
    ///
    /// # Errors
    /// Those of [`Writer::prepare`] and of writing the record: the file does not count. [`ErrorKind::Closed`] once the job's
    /// lifetime is over.
    pub async fn close(self) -> Result<Checksum> {
        let Self { job, writer, open, key, until } = self;
        let lifetime = remaining(until).ok_or_else(|| job.refused(ErrorKind::Closed, OVERDUE))?;
        let pending = writer.prepare().lifetime(lifetime).await?;
        if let Err(error) = job.write(&open.record, UploadRecord::Closed(pending.clone()).to_json(&key)).await
        {
            // The first error is reported; the record, old or new, names the upload.
            let _ = job.store.abandon(&pending).await;
            return Err(error);
        }
        let checksum = pending.checksum();
        let file = TaskFile { record: open.record.clone(), pending };
        open.files.lock().insert(open.record.clone(), FileState::Closed(key, Box::new(file)));
        Ok(checksum)
    }

    /// Discards the file and waits until the store has released the upload.
    ///
    /// # Errors
    /// Those of [`Writer::abort`]; the end of the attempt or of the job abandons the upload then.
    pub async fn abort(self) -> Result {
        self.writer.abort().await?;
        Ok(self.job.store.delete(&self.open.record).await?)
    }
}

const OVERDUE: &str = "the lifetime of the job is over: its uploads may be gone";

/// The time that is left until `until`; `None` if `until` has passed.
fn remaining(until: SystemTime) -> Option<Duration> {
    until.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero())
}
