//! Uploads a file: its parts are streamed from disk, never gathered in memory (only what fits in one slab
//! is).

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::streamed::Streamed;
use crate::backend::local::FilesBelow;
use crate::memory::budget::Budget;
use crate::memory::payload::{SourceChanged, SourceFile};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::driver::{Driver, ReadyBytes, RequestBody, RequestBytes, UploadSource};
use crate::upload::plan::Plan;
use crate::upload::session::Upload;
use crate::upload::strategy::Policy;

/// Where the file to upload is.
#[derive(Clone, Debug)]
pub(in crate::upload) enum FileToUpload {
    /// At a path, whose links are followed.
    At(PathBuf),
    /// Below a directory, by this name.
    Below(Arc<FilesBelow>, String),
}

impl FileToUpload {
    fn path(&self) -> PathBuf {
        match self {
            Self::At(path) => path.clone(),
            Self::Below(files, name) => files.path(name),
        }
    }

    fn open(&self) -> io::Result<SourceFile> {
        match self {
            Self::At(path) => SourceFile::open(path),
            Self::Below(files, name) => SourceFile::of(files.open(name)?),
        }
    }
}

/// Opens the file, to be uploaded as `object`.
pub(in crate::upload) async fn open(source: &FileToUpload, object: &str) -> Result<SourceFile> {
    let opened = tokio::task::spawn_blocking({
        let source = source.clone();
        move || source.open()
    });
    let opened = opened.await.unwrap_or_else(|ended| Err(io::Error::other(ended)));
    opened.map_err(|error| {
        let message = format!("can't read {}: {error}", source.path().display());
        Error::new(ErrorKind::Source, Operation::Write, object, message).with_source(error)
    })
}

/// The error of a source of `object` that could not be read.
pub(in crate::upload) fn unreadable(object: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Source, Operation::Write, object, error.to_string()).with_source(error)
}

/// Fails where a file that was empty when it was opened now has another size than the bytes that were `read`.
/// A file whose content the kernel generates on read (/proc) still reports no size, and passes.
pub(in crate::upload) async fn check_all_read(file: &tokio::fs::File, read: u64) -> io::Result<()> {
    let now = file.metadata().await?.len();
    if now == 0 || now == read {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, SourceChanged::Modified { before: read, now }))
}

/// Sends a file. Dropping the future aborts the upload.
pub(in crate::upload) async fn send(
    file: Arc<SourceFile>,
    upload: Arc<Upload>,
    policy: Policy,
    budget: Budget,
) -> Result<Object> {
    let plan = Plan::new(upload.backend.capabilities(), policy.cut);
    let size = file.size();
    let ranges = FileRanges { file, upload, budget, line: Arc::default() };
    Driver::new(ranges, plan, policy.in_flight).run(size).await
}

/// The ranges of a file.
struct FileRanges {
    file: Arc<SourceFile>,
    upload: Arc<Upload>,
    budget: Budget,
    /// Held by the part that waits for memory and a limiter permit: one part at a time, in order.
    line: Arc<Mutex<()>>,
}

/// The bytes of one request.
struct FileBytes {
    range: Streamed,
    budget: Budget,
    line: Arc<Mutex<()>>,
}

impl RequestBytes for FileBytes {
    async fn ready(self, upload: &Upload) -> Result<ReadyBytes> {
        let line = self.line.lock_owned().await;
        let payload = self.range.payload(upload, &self.budget).await?;
        Ok(ReadyBytes { body: RequestBody::Bytes(payload), line: Some(line), ring: None })
    }
}

impl UploadSource for FileRanges {
    type Bytes = FileBytes;

    fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    fn take(&mut self, range: Range<u64>, _: &mut Plan) -> Result<FileBytes> {
        let range = Streamed { file: self.file.clone(), offset: range.start, len: range.end - range.start };
        Ok(FileBytes { range, budget: self.budget.clone(), line: self.line.clone() })
    }

    fn check(&self) -> Result<()> {
        self.file.check_unchanged().map_err(|error| unreadable(&self.upload.requests.object, error))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_file_that_was_empty_is_to_be_read_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut source = tokio::fs::File::from_std(file.reopen().unwrap());
        let mut bytes = Vec::new();
        file.write_all(b"grown").unwrap();
        source.read_to_end(&mut bytes).await.unwrap();
        check_all_read(&source, 5).await.unwrap();
        file.write_all(b" and grown").unwrap();
        let changed = check_all_read(&source, 5).await.unwrap_err().to_string();
        assert!(changed.contains("had 5 bytes and has 15"), "{changed}");
        check_all_read(&tokio::fs::File::open("/proc/self/limits").await.unwrap(), 1000).await.unwrap();
    }
}
