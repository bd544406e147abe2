//! The files of an attempt, and the writer of one.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate::checksum::Checksum;
use tidegate::progress::Progress;
use tidegate::{ErrorKind, Writer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::record::{TaskFile, UploadRecord, UploadState};
use super::{Job, Result};

/// The files of an attempt, by their keys relative to the output directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(Arc<Mutex<BTreeMap<String, FileState>>>);

#[derive(Debug)]
enum FileState {
    /// A writer is at work on it.
    Open,
    Closed(Box<TaskFile>),
}

impl Files {
    /// Takes the place of a file; `None` if there is one of this key. `record` is the key of the upload's record.
    pub(super) fn open(&self, key: &str, record: String) -> Option<OpenFile> {
        let mut files = self.lock();
        if files.contains_key(key) {
            return None;
        }
        files.insert(key.to_owned(), FileState::Open);
        Some(OpenFile { files: self.clone(), key: key.to_owned(), record })
    }

    /// All files, or the key of one that is open.
    pub(super) fn closed(&self) -> Result<Vec<TaskFile>, String> {
        let closed = |(key, file): (&String, &FileState)| match file {
            FileState::Closed(file) => Ok((**file).clone()),
            FileState::Open => Err(key.clone()),
        };
        self.lock().iter().map(closed).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FileState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the key of a file that is being written. A drop before the file is closed removes the file from the attempt.
#[derive(Debug)]
pub(super) struct OpenFile {
    files: Files,
    key: String,
    pub(super) record: String,
}

impl OpenFile {
    /// Writes the record of the upload.
    pub(super) async fn write_record(&self, job: &Job, state: UploadState) -> Result {
        let record = UploadRecord { key: self.key.clone(), state };
        job.write(&self.record, record.to_json()).await
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut files = self.files.lock();
        if let Some(FileState::Open) = files.get(&self.key) {
            files.remove(&self.key);
        }
    }
}

/// Writes one file of a task attempt; from [`TaskAttempt::writer`](super::TaskAttempt::writer).
///
/// A drop discards the file: the upload is aborted in the background, and the file does not count.
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
        let Self { job, writer, open, until } = self;
        let lifetime = job.remaining(until)?;
        let pending = writer.prepare().lifetime(lifetime).await?;
        if let Err(error) = open.write_record(&job, UploadState::Closed(pending.clone())).await {
            // The first error is reported; the record, old or new, names the upload.
            let _ = job.store.abandon(&pending).await;
            return Err(error);
        }
        let checksum = pending.checksum();
        let file = TaskFile { record: open.record.clone(), pending };
        open.files.lock().insert(open.key.clone(), FileState::Closed(Box::new(file)));
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
