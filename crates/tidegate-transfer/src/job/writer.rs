//! The files of an attempt, and the writer of one.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use std::{io, iter};

use bytes::Bytes;
use tidegate::checksum::Checksum;
use tidegate::progress::Progress;
use tidegate::upload::Pending;
use tidegate::{ErrorKind, Writer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::record::{TaskFile, UploadRecord, UploadState};
use super::{Job, JobError, Result};

/// The files of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Files(Arc<FileTable>);

#[derive(Debug)]
struct FileTable {
    /// By their keys relative to the output directory.
    by_key: Mutex<BTreeMap<String, File>>,
    /// Counts the cancelled calls that are being undone.
    cancelled: TaskTracker,
}

impl Default for Files {
    fn default() -> Self {
        let cancelled = TaskTracker::new();
        // A closed tracker still counts; `wait` needs it closed to return at zero.
        cancelled.close();
        Self(Arc::new(FileTable { by_key: Mutex::default(), cancelled }))
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
        self.0.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the calls that were cancelled are undone: their requests may have an effect until then.
    pub(super) async fn settled(&self) {
        self.0.cancelled.wait().await;
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

/// Holds the key of a file that is being written. Dropped before the close, it marks the file as failed, unless the file was
/// discarded or never had a writer.
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

    /// Writes the record of the upload. If the caller is cancelled while the request is in flight, the request goes on; then
    /// the upload is abandoned and the record removed. A request that is cancelled might arrive after the end of the job has
    /// removed the record. And MinIO keeps the directory of an object for ever if an overwrite of the object was cancelled
    /// before it was deleted.
    pub(super) async fn write_record(&self, job: &Job, state: UploadState) -> Result {
        let is_opening = matches!(state, UploadState::Opening);
        let text = UploadRecord { key: self.0.key.clone(), state }.to_json();
        let (at, record) = (job.clone(), self.0.record.clone());
        let write = async move { at.write(&record, text).await };
        let (at, record, files) = (job.clone(), self.0.record.clone(), self.0.files.clone());
        let undo = move |writing: JoinHandle<Result>| {
            let undoing = files.0.cancelled.token();
            async move {
                drop(writing.await);
                let undone = match is_opening {
                    true => at.store.delete(&record).await.map_err(JobError::from),
                    false => at.end_below(&record, &HashSet::new(), &HashSet::new()).await.map(drop),
                };
                at.remove_directories(iter::once(&record)).await;
                drop(undoing);
                if let Err(error) = &undone {
                    tracing::warn!(%error, "the upload of a cancelled call could not be abandoned; the end of the job abandons it");
                }
                match undone {
                    Err(JobError::Store(error)) => Err(error),
                    _ => Ok(()),
                }
            }
        };
        job.store.tide().run_to_end(write, undo).await.unwrap_or_else(|_| {
            let message = "the runtime was shut down while the file's record was written";
            Err(job.refused_object(ErrorKind::Closed, self.key(), message))
        })
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
        if let Err(error) = open.write_record(&job, UploadState::Closed(pending.clone())).await {
            // The first error is reported; the record, old or new, names the upload.
            let _ = job.store.abandon(&pending).await;
            return Err(error);
        }
        if open.close(pending.clone()) {
            return Ok(pending.checksum());
        }
        job.store.abandon(&pending).await?;
        job.store.delete(open.record()).await?;
        Err(job.refused_object(ErrorKind::Closed, open.key(), "the file was discarded before it was closed"))
    }

    /// Discards the file, and waits until the store has released the upload. The attempt can be committed without the file,
    /// also if this fails.
    ///
    /// # Errors
    /// Those of [`Writer::abort`]; the end of the attempt or of the job abandons the upload then.
    pub async fn abort(self) -> Result {
        self.open.0.discard();
        self.writer.abort().await?;
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
    /// How long the job's uploads still live, which end at `until`.
    pub(super) fn remaining(&self, until: SystemTime) -> Result<Duration> {
        let left = until.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero());
        left.ok_or_else(|| {
            self.refused(ErrorKind::Closed, "the lifetime of the job is over: its uploads may be gone")
        })
    }
}
