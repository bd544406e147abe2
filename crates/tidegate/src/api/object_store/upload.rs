//! A multipart upload as one stream: its parts follow each other in the order of `put_part`.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use ::object_store::path::Path;
use ::object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use async_trait::async_trait;
use futures::FutureExt;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::convert;
use super::put_result;
use crate::{ErrorKind, Operation, Writer};

/// A part, and the channel that reports when the writer has taken it.
type Part = (PutPayload, oneshot::Sender<Taken>);

/// An error is reported to the part that caused it and to every later part.
type Taken = Result<(), Arc<crate::Error>>;

/// A multipart upload. Dropping it aborts.
pub(super) struct TidegateUpload {
    /// Locked by the task while it writes a part. Kept until the object is published: after a failure, an `abort`
    /// waits here for the abort that the failure has started.
    writer: Arc<Mutex<Option<Writer>>>,
    /// Queue of parts for the task; `None` once no more parts are accepted.
    line: Option<mpsc::UnboundedSender<Part>>,
    /// The one task that passes the parts to the writer.
    task: JoinSet<Taken>,
    aborted: CancellationToken,
    location: Path,
    stage: MultipartStage,
}

#[derive(Debug)]
enum MultipartStage {
    /// Parts are accepted, or a cancelled `complete` has begun to publish the object.
    Open,
    Completed,
    /// The first error of a part or of the completion.
    Failed(crate::Error),
    Aborted,
}

impl TidegateUpload {
    /// Must be called in a tokio runtime.
    pub(super) fn new(writer: Writer, location: Path) -> Self {
        let (line, parts) = mpsc::unbounded_channel();
        let (mut task, aborted) = (JoinSet::new(), CancellationToken::new());
        let writer = Arc::new(Mutex::new(Some(writer)));
        task.spawn(hand_on(writer.clone(), parts, aborted.clone()));
        Self { writer, line: Some(line), task, aborted, location, stage: MultipartStage::Open }
    }

    /// Waits until the task has passed on all parts.
    async fn end_line(&mut self) -> Result<(), crate::Error> {
        self.line = None;
        match self.task.join_next().await {
            Some(Ok(taken)) => taken.map_err(|error| error.again()),
            Some(Err(ended)) => {
                let message = "the task that takes the parts has ended early";
                Err(self.error(Operation::Write, message).with_source(ended))
            }
            None => Ok(()), // a cancelled `complete` has joined the task
        }
    }

    async fn publish(&mut self) -> Result<PutResult, crate::Error> {
        self.end_line().await?;
        let mut writer = self.writer.lock().await;
        let Some(open) = writer.as_mut() else {
            return Err(self.error(Operation::Complete, "the upload has ended before"));
        };
        let object = poll_fn(|cx| open.poll_finish(cx)).await?;
        *writer = None;
        Ok(put_result(object))
    }

    fn error(&self, operation: Operation, message: &'static str) -> crate::Error {
        crate::Error::new(ErrorKind::Closed, operation, self.location.to_string(), message)
    }
}

impl Drop for TidegateUpload {
    fn drop(&mut self) {
        // Starts the abort now, so that the engine knows of it when this returns. If the task holds the lock, the
        // task drops the writer.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
    }
}

/// Passes parts to the writer until there are no more, or the upload is aborted.
async fn hand_on(
    writer: Arc<Mutex<Option<Writer>>>,
    mut parts: mpsc::UnboundedReceiver<Part>,
    aborted: CancellationToken,
) -> Taken {
    let mut taken = Ok(());
    while let Some((part, told)) = parts.recv().await {
        if taken.is_ok() {
            let written = tokio::select! {
                biased;
                () = aborted.cancelled() => break,
                written = write(&writer, part) => written,
            };
            taken = written.map_err(Arc::new);
        }
        // Fails only if the part's future was dropped.
        let _ = told.send(taken.clone());
    }
    taken
}

async fn write(writer: &Mutex<Option<Writer>>, part: PutPayload) -> Result<(), crate::Error> {
    // `None` means that the upload was dropped, so nobody waits for this part.
    let mut writer = writer.lock().await;
    for bytes in part {
        if let Some(writer) = writer.as_mut() {
            writer.write_bytes(bytes).await?;
        }
    }
    Ok(())
}

impl fmt::Debug for TidegateUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TidegateUpload").field("location", &self.location).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for TidegateUpload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let (told, taken) = oneshot::channel();
        if let Some(line) = &self.line {
            // If the task has ended, the part's future sees a closed channel.
            let _ = line.send((part, told));
        }
        let location = self.location.clone();
        let ended = move |_| {
            let message = "the upload has ended before this part";
            crate::Error::new(ErrorKind::Closed, Operation::Write, location.to_string(), message).into()
        };
        let location = self.location.clone();
        async move {
            let taken = taken.await.map_err(ended).and_then(|taken| taken);
            taken.map_err(|error| convert(error.again(), &location))
        }
        .boxed()
    }

    /// Publishes the object. After an error, further calls return the same error. A cancelled call may be repeated.
    async fn complete(&mut self) -> Result<PutResult> {
        let published = match &self.stage {
            MultipartStage::Open => self.publish().await,
            MultipartStage::Completed => {
                Err(self.error(Operation::Complete, "the object was published before, and is there"))
            }
            MultipartStage::Failed(error) => Err(error.again()),
            MultipartStage::Aborted => Err(self.error(Operation::Complete, "the upload was aborted before")),
        };
        match &published {
            Ok(_) => self.stage = MultipartStage::Completed,
            Err(error) if matches!(self.stage, MultipartStage::Open) => {
                self.stage = MultipartStage::Failed(error.again())
            }
            Err(_) => {}
        }
        published.map_err(|error| convert(error, &self.location))
    }

    /// Waits until the store has aborted the session, also after a failed `complete` and after an earlier `abort`. If
    /// `complete` failed and the abort fails too, the error is that of `complete`, with the abort's in its message:
    /// `WriteMultipart::finish` aborts before it reports the first error, and if the abort fails it reports that
    /// error instead.
    async fn abort(&mut self) -> Result<()> {
        if matches!(self.stage, MultipartStage::Completed) {
            let error = self.error(Operation::Abort, "the object was published before, and is there");
            return Err(convert(error, &self.location));
        }
        self.aborted.cancel();
        // The outcome of the parts no longer matters.
        let _ = self.end_line().await;
        if matches!(self.stage, MultipartStage::Open) {
            self.stage = MultipartStage::Aborted;
        }
        let mut writer = self.writer.lock().await;
        let Some(ending) = writer.as_mut() else { return Ok(()) };
        let Err(error) = ending.end().await else { return Ok(()) };
        let error = match &self.stage {
            MultipartStage::Failed(first) => {
                first.again().and(&format!("the session could not be aborted: {error}"))
            }
            _ => error,
        };
        Err(convert(error, &self.location))
    }
}
