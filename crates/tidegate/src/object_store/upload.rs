//! A multipart upload as one stream: parts follow each other as they were given.

use std::fmt;
use std::sync::Arc;

use ::object_store::path::Path;
use ::object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::error::convert;
use super::{STORE, put_result};
use crate::{ErrorKind, Operation, Writer};

/// The last part that was given, which waits for those before it: whoever waits for any part moves all that
/// come before. An error is told to each that comes behind it.
type Line = Shared<BoxFuture<'static, Result<(), Arc<crate::Error>>>>;

/// An upload; dropped, it aborts.
pub(super) struct Upload {
    writer: Arc<Mutex<Option<Writer>>>,
    /// Set by an abort: parts that are given are not waited for any more.
    aborted: CancellationToken,
    line: Line,
    location: Path,
}

impl Upload {
    pub(super) fn new(writer: Writer, location: Path) -> Self {
        let line = futures::future::ready(Ok(())).boxed().shared();
        let aborted = CancellationToken::new();
        Self { writer: Arc::new(Mutex::new(Some(writer))), aborted, line, location }
    }

    /// The writer, which is not there any more where the upload has ended.
    async fn take(&self) -> Result<Writer> {
        let ended = || Error::Generic { store: STORE, source: "the upload has ended before".into() };
        self.writer.lock().await.take().ok_or_else(ended)
    }
}

async fn write(writer: &Mutex<Option<Writer>>, part: PutPayload) -> Option<Result<(), crate::Error>> {
    let mut writer = writer.lock().await;
    let writer = writer.as_mut()?;
    for bytes in part {
        if let Err(error) = writer.write(bytes).await {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("location", &self.location).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let (before, writer, aborted) = (self.line.clone(), self.writer.clone(), self.aborted.clone());
        let object = self.location.to_string();
        let taken = async move {
            before.await?;
            let written = tokio::select! {
                biased;
                () = aborted.cancelled() => None,
                written = write(&writer, part) => written,
            };
            let ended = || {
                let message = "the upload has ended before this part";
                Err(crate::Error::new(ErrorKind::Closed, Operation::Write, object, message))
            };
            written.unwrap_or_else(ended).map_err(Arc::new)
        };
        self.line = taken.boxed().shared();
        let (taken, location) = (self.line.clone(), self.location.clone());
        async move { taken.await.map_err(|error| convert(error.again(), &location)) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let failed = |error: &crate::Error| convert(error.again(), &self.location);
        self.line.clone().await.map_err(|error| failed(&error))?;
        let writer = self.take().await?;
        writer.finish().await.map(put_result).map_err(|error| failed(&error))
    }

    async fn abort(&mut self) -> Result<()> {
        self.aborted.cancel();
        // A part that its caller does not wait for any more may have the writer: moved on, it gives it back.
        // What it ends with is that it was aborted.
        let _ = self.line.clone().await;
        let writer = self.take().await?;
        writer.abort().await.map_err(|error| convert(error, &self.location))
    }
}

#[cfg(test)]
mod tests {
    use ::object_store::ObjectStore;

    use super::*;
    use crate::Tidegate;

    /// Review 5: "however their futures are waited for".
    #[tokio::test]
    async fn many_parts_may_be_waited_for_from_the_last_to_the_first() {
        let tide = Tidegate::builder().build().unwrap();
        let store = super::super::TidegateStore::new(tide.open("memory://m").await.unwrap());
        let path = Path::from("k");
        let mut upload = store.put_multipart_opts(&path, Default::default()).await.unwrap();
        let mut parts: Vec<_> = (0..10_000).map(|_| upload.put_part(vec![1; 1000].into())).collect();
        while let Some(part) = parts.pop() {
            part.await.unwrap();
        }
        upload.complete().await.unwrap();
        assert_eq!(store.store().head("k").await.unwrap().size, 10_000_000);
    }
}
