//! The files of an attempt, and the writer of one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use std::{io, iter};

use bytes::Bytes;
use tidegate::checksum::Checksum;
use tidegate::progress::Progress;
use tidegate::upload::{Pending, WriterBuilder};
use tidegate::{ErrorKind, Writer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::record::{TaskFile, UploadRecord, UploadState};
use super::{Job, JobError, Result};

/// The files of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// By their keys relative to the output directory.
    by_key: Arc<Mutex<BTreeMap<String, File>>>,
    /// What [`run_to_end`](Self::run_to_end) runs.
    in_flight: TaskTracker,
}

impl Default for Files {
    fn default() -> Self {
        let in_flight = TaskTracker::new();
        // A closed tracker still takes tasks; `wait` needs it closed to return once there are none.
        in_flight.close();
        Self { by_key: Arc::default(), in_flight }
    }
}

/// A file, and the key of its upload's record.
#[derive(Debug)]
struct File {
    record: String,
    state: FileState,
}

#[derive(Debug)]
enum FileState {
    /// A writer is at work on it, or is being opened. `is_missed`: true if dropping the writer makes the file `Failed`.
    Open {
        is_missed: bool,
    },
    /// Its writer was lost before it was closed. The attempt is not committed without the file, unless it is discarded.
    Failed,
    Closed(Box<Pending>),
}

/// A file that keeps its attempt from its commit, by its key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Open(String),
    Failed(String),
}

impl Files {
    /// Takes the place of a file; `None` if there is one of this key. `record` is the key of the upload's record.
    pub(super) fn open(&self, key: &str, record: String) -> Option<OpenFile> {
        let mut files = self.lock();
        let is_missed = match files.get(key).map(|file| &file.state) {
            None => false,
            Some(FileState::Failed) => true,
            Some(FileState::Open { .. } | FileState::Closed(_)) => return None,
        };
        let state = FileState::Open { is_missed };
        files.insert(key.to_owned(), File { record: record.clone(), state });
        Some(OpenFile(FileDiscard { files: self.clone(), key: key.to_owned(), record }))
    }

    /// The closed files, and one file, if any, that keeps the attempt from its commit.
    pub(super) fn closed(&self) -> (Vec<TaskFile>, Option<Missing>) {
        let (mut closed, mut missing) = (Vec::new(), None);
        for (key, File { record, state }) in &*self.lock() {
            match state {
                FileState::Closed(pending) => {
                    closed.push(TaskFile { record: record.clone(), pending: (**pending).clone() });
                }
                // It is waited for, whatever else is missing.
                FileState::Open { .. } => missing = Some(Missing::Open(key.clone())),
                FileState::Failed => {
                    missing.get_or_insert_with(|| Missing::Failed(key.clone()));
                }
            }
        }
        (closed, missing)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, which writes a record, to its end, also if the caller is cancelled: a request that is cancelled may have
    /// its effect later, when the record was removed; and MinIO keeps the directory of an object for ever whose overwrite was
    /// cancelled before the object was deleted. If the caller is cancelled, `undo` gets what comes of `work`. `lost` is the
    /// error if the runtime ends first.
    pub(super) async fn run_to_end<T, U>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
        undo: impl FnOnce(T) -> U + Send + 'static,
        lost: JobError,
    ) -> Result<T>
    where
        T: Send + 'static,
        U: Future<Output = Result> + Send,
    {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(self.in_flight.track_future(async move {
            if let Err(Ok(unclaimed)) = sender.send(work.await)
                && let Err(error) = undo(unclaimed).await
            {
                tracing::warn!(%error, "what a cancelled call has left stays until the end of its job");
            }
        }));
        receiver.await.unwrap_or(Err(lost))
    }

    /// Waits until nothing is [in flight](Self::run_to_end).
    pub(super) async fn settled(&self) {
        self.in_flight.wait().await;
    }
}

/// Discards the file of a writer that somebody else has, or that is lost; from [`TaskWriter::discarder`].
#[derive(Clone, Debug)]
pub struct FileDiscard {
    files: Files,
    key: String,
    record: String,
}

impl FileDiscard {
    /// Takes the file out of the attempt, which can then be committed. If the file's writer is still at work, the file is taken
    /// out when the writer is dropped or closed. The end of the attempt or of the job abandons what is left of the upload.
    ///
    /// Does nothing to a file that is closed, or that another writer has written since.
    pub fn discard(&self) {
        self.change(|state| match state {
            FileState::Open { .. } => Some(FileState::Open { is_missed: false }),
            FileState::Failed => None,
            closed @ FileState::Closed(_) => Some(closed),
        });
    }

    /// Changes the state of the file, unless another writer has its place.
    fn change(&self, next: impl FnOnce(FileState) -> Option<FileState>) {
        let mut files = self.files.lock();
        if files.get(&self.key).is_none_or(|file| file.record != self.record) {
            return;
        }
        let state = files.remove(&self.key).and_then(|file| next(file.state));
        if let Some(state) = state {
            files.insert(self.key.clone(), File { record: self.record.clone(), state });
        }
    }
}

/// Holds the key of a file that is being written. A drop before the file is closed has the file fail, if there is a writer
/// of it that was not told to discard it.
#[derive(Debug)]
pub(super) struct OpenFile(FileDiscard);

impl OpenFile {
    /// The key of the upload's record.
    pub(super) fn record(&self) -> &String {
        &self.0.record
    }

    fn key(&self) -> &str {
        &self.0.key
    }

    fn files(&self) -> &Files {
        &self.0.files
    }

    /// Writes the record of the upload.
    pub(super) async fn write_record(&self, job: &Job, state: UploadState) -> Result {
        let record = UploadRecord { key: self.0.key.clone(), state };
        job.write(self.record(), record.to_json()).await
    }

    /// There is a writer now: the attempt is not committed without the file.
    pub(super) fn opened(&self) {
        self.0.change(|_| Some(FileState::Open { is_missed: true }));
    }

    /// Has the file count; false if it was discarded.
    fn close(&self, pending: Pending) -> bool {
        let mut is_closed = false;
        self.0.change(|state| match state {
            FileState::Open { is_missed: true } => {
                is_closed = true;
                Some(FileState::Closed(Box::new(pending)))
            }
            discarded => Some(discarded),
        });
        is_closed
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.0.change(|state| match state {
            FileState::Open { is_missed } => is_missed.then_some(FileState::Failed),
            ended => Some(ended),
        });
    }
}

/// Writes one file of a task attempt; from [`TaskAttempt::writer`](super::TaskAttempt::writer).
///
/// The attempt is not committed without the file: a drop before [`close`](Self::close), and a close that fails or is
/// cancelled, keep it from its commit until the key is written again. [`abort`](Self::abort) discards the file, and the
/// attempt goes on. After a drop the upload is aborted in the background.
#[derive(Debug)]
pub struct TaskWriter {
    pub(super) job: Job,
    pub(super) writer: Writer,
    pub(super) open: OpenFile,
    pub(super) until: SystemTime,
}

impl TaskWriter {
    /// Opens the upload of a file, and records it.
    pub(super) async fn open(
        job: Job,
        open: OpenFile,
        options: WriterBuilder,
        until: SystemTime,
    ) -> Result<Self> {
        let lifetime = job.remaining(until)?;
        open.write_record(&job, UploadState::Opening).await?;
        if let Err(over) = job.check_not_ended().await {
            // The first error is reported. If the record stays, it does no harm.
            let _ = job.store.delete(open.record()).await;
            job.remove_directories(iter::once(open.record())).await;
            return Err(over);
        }
        let mut writer = match options.await {
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
                let message = format!("{warning}: set up the job with a shorter lifetime");
                return Err(job.refused_object(ErrorKind::InvalidInput, open.key(), &message));
            }
            open.write_record(&job, UploadState::Open(point)).await
        };
        match recorded.await {
            Ok(()) => Ok(Self { job, writer, open, until }),
            Err(error) => {
                // The first error is reported. Whatever is not ended here is ended with the job, by the record.
                if writer.abort().await.is_ok() {
                    let _ = job.store.delete(open.record()).await;
                }
                Err(error)
            }
        }
    }

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

    /// What discards the file when the writer itself can't be aborted: it is lost, or at work in another task.
    pub fn discarder(&self) -> FileDiscard {
        self.open.0.clone()
    }

    /// Ends the file: all its bytes are at the store, nothing is visible, and the attempt's commit includes it. Returns the
    /// checksum, which [covers](Checksum::covers) all bytes.
    ///
    /// # Cancellation
    /// As after an error.
    ///
    /// # Errors
    /// The errors of [`Writer::prepare`] and of writing the record; [`ErrorKind::Closed`] once the job's lifetime is over, and
    /// if the file was [discarded](Self::discarder): then the attempt can be committed without it. After another error it cannot
    /// be committed until a file of this key is written again, or discarded. The end of the attempt or of the job abandons the
    /// upload.
    pub async fn close(self) -> Result<Checksum> {
        let Self { job, writer, open, until } = self;
        let lifetime = job.remaining(until)?;
        let pending = writer.prepare().lifetime(lifetime).await?;
        let prepared = Prepared { job: job.clone(), open, pending };
        let (files, lost) = (prepared.open.files().clone(), job.interrupted(prepared.open.key()));
        let Prepared { open, pending, .. } =
            files.run_to_end(prepared.record(), Prepared::abandon, lost).await?;
        if open.close(pending.clone()) {
            return Ok(pending.checksum());
        }
        let message = "the file was discarded before it was closed";
        let discarded = job.refused_object(ErrorKind::Closed, open.key(), message);
        Prepared { job, open, pending }.abandon().await?;
        Err(discarded)
    }

    /// Discards the file, and waits until the store has released the upload. The attempt can be committed without the file,
    /// also if this fails.
    ///
    /// # Errors
    /// Those of [`Writer::abort`]; the end of the attempt or of the job abandons the upload then.
    pub async fn abort(self) -> Result {
        self.open.0.discard();
        self.abort_upload().await
    }

    /// Aborts the upload, and removes its record.
    pub(super) async fn abort_upload(self) -> Result {
        self.writer.abort().await?;
        Ok(self.job.store.delete(self.open.record()).await?)
    }
}

/// A file whose bytes are all at the store, and that does not count yet.
struct Prepared {
    job: Job,
    open: OpenFile,
    pending: Pending,
}

impl Prepared {
    async fn record(self) -> Result<Self> {
        let recorded = self.open.write_record(&self.job, UploadState::Closed(self.pending.clone())).await;
        if let Err(error) = recorded {
            // The first error is reported; the record, old or new, names the upload.
            let _ = self.job.store.abandon(&self.pending).await;
            return Err(error);
        }
        Ok(self)
    }

    async fn abandon(self) -> Result {
        self.job.store.abandon(&self.pending).await?;
        Ok(self.job.store.delete(self.open.record()).await?)
    }
}

/// As that of [`Writer`], but for the shutdown, which fails: [`close`](TaskWriter::close) alone ends the file.
impl AsyncWrite for TaskWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A shutdown of the library's writer would publish the object.
        let message = "a file of a task is ended by `close`, not by a shutdown";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::Unsupported, message)))
    }
}

impl Job {
    /// The error of a file whose record was being written when the runtime ended.
    pub(super) fn interrupted(&self, key: &str) -> JobError {
        let message = "the runtime was shut down, or a task panicked, while the file's record was written";
        self.refused_object(ErrorKind::Closed, key, message)
    }

    /// How long the job's uploads still live, which end at `until`.
    pub(super) fn remaining(&self, until: SystemTime) -> Result<Duration> {
        let left = until.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero());
        left.ok_or_else(|| {
            self.refused(ErrorKind::Closed, "the lifetime of the job is over: its uploads may be gone")
        })
    }
}
