//! A multipart upload as one stream: parts follow each other as they were given.

use std::fmt;
use std::sync::Arc;

use ::object_store::path::Path;
use ::object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use async_trait::async_trait;
use futures::FutureExt;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::convert;
use super::{STORE, put_result};
use crate::{ErrorKind, Operation, Writer};

/// A part, and who is told when the writer has taken it.
type Part = (PutPayload, oneshot::Sender<Taken>);

/// An error is told to each part behind it as well.
type Taken = Result<(), Arc<crate::Error>>;

/// An upload; dropped, it aborts.
pub(super) struct Upload {
    /// Of the task, while it hands a part on.
    writer: Arc<Mutex<Option<Writer>>>,
    /// Parts that stand in line; `None` when it has ended.
    line: Option<mpsc::UnboundedSender<Part>>,
    /// The one task that hands them on.
    task: JoinSet<Taken>,
    aborted: CancellationToken,
    location: Path,
}

impl Upload {
    /// To be called in a runtime.
    pub(super) fn new(writer: Writer, location: Path) -> Self {
        let (line, parts) = mpsc::unbounded_channel();
        let (mut task, aborted) = (JoinSet::new(), CancellationToken::new());
        let writer = Arc::new(Mutex::new(Some(writer)));
        task.spawn(hand_on(writer.clone(), parts, aborted.clone()));
        Self { writer, line: Some(line), task, aborted, location }
    }

    /// Ends the line; the writer, and what became of the parts, when all are handed on.
    async fn end(&mut self) -> Result<(Writer, Taken)> {
        let ended = || Error::Generic { store: STORE, source: "the upload has ended before".into() };
        self.line.take().ok_or_else(ended)?;
        let taken = match self.task.join_next().await {
            Some(Ok(taken)) => taken,
            Some(Err(error)) => return Err(Error::Generic { store: STORE, source: error.into() }),
            None => return Err(ended()),
        };
        Ok((self.writer.lock().await.take().ok_or_else(ended)?, taken))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // So that its session is known to be on its way to its end when this returns; the task drops it otherwise.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
    }
}

/// Hands parts to the writer until there are no more, or the upload is aborted.
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
        // Who does not wait any more is not told.
        let _ = told.send(taken.clone());
    }
    taken
}

async fn write(writer: &Mutex<Option<Writer>>, part: PutPayload) -> Result<(), crate::Error> {
    // Without one the upload was dropped, and nobody waits.
    let mut writer = writer.lock().await;
    for bytes in part {
        if let Some(writer) = writer.as_mut() {
            writer.write(bytes).await?;
        }
    }
    Ok(())
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("location", &self.location).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let (told, taken) = oneshot::channel();
        if let Some(line) = &self.line {
            // Where the task is gone, so is who would tell.
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

    async fn complete(&mut self) -> Result<PutResult> {
        let (writer, taken) = self.end().await?;
        taken.map_err(|error| convert(error.again(), &self.location))?;
        writer.finish().await.map(put_result).map_err(|error| convert(error, &self.location))
    }

    async fn abort(&mut self) -> Result<()> {
        self.aborted.cancel();
        // What became of the parts is of no interest any more.
        let (writer, _) = self.end().await?;
        writer.abort().await.map_err(|error| convert(error, &self.location))
    }
}
