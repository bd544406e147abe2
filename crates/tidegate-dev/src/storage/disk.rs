//! Storage in files, one file per request. The file names are only numbers: the [`crate::catalog::ledger`]
//! records which object a file belongs to.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use crate::folder::Folder;

/// How many bytes are gathered for each write on a blocking thread.
const BATCH: usize = 1024 * 1024;
const READ_SIZE: usize = 256 * 1024;

/// The directory of data files.
#[derive(Debug)]
pub(crate) struct DataDir {
    folder: Arc<Folder>,
    next: AtomicU64,
}

impl DataDir {
    /// `first` must be larger than the number of every file in the directory.
    pub(crate) fn new(folder: Arc<Folder>, first: u64) -> Self {
        Self { folder, next: AtomicU64::new(first) }
    }

    /// The number in a data file's name; `None` if the server did not create the name.
    pub(crate) fn number_of(name: &str) -> Option<u64> {
        let number = u64::from_str_radix(name, 16).ok()?;
        (name == Self::name_of(number)).then_some(number)
    }

    fn name_of(number: u64) -> String {
        format!("{number:016x}")
    }

    fn next_name(&self) -> String {
        Self::name_of(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// A data file. When its last user drops it, it is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct DataFile {
    folder: Arc<Folder>,
    name: String,
    length: u64,
    is_kept: AtomicBool,
}

impl DataFile {
    /// A file from an earlier run.
    pub(crate) fn existing(folder: Arc<Folder>, name: String, length: u64) -> Self {
        Self { folder, name, length, is_kept: AtomicBool::new(true) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn set_kept(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Ordering::Release);
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Acquire)
            && let Err(error) = self.folder.remove_file(&self.name)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.folder.path_of(&self.name).display(), %error, "a data file is left behind");
        }
    }
}

#[derive(Debug)]
pub(crate) struct DiskWriter {
    dir: Arc<DataDir>,
    open: Option<OpenFile>,
    batch: Vec<Bytes>,
    batched: usize,
}

/// The file and the guard that removes it; both move to the blocking thread and back.
#[derive(Debug)]
struct OpenFile {
    file: File,
    data: DataFile,
}

impl DiskWriter {
    pub(crate) fn new(dir: Arc<DataDir>) -> Self {
        Self { dir, open: None, batch: Vec::new(), batched: 0 }
    }

    pub(crate) async fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        self.batched += bytes.len();
        self.batch.push(bytes);
        if self.batched >= BATCH {
            self.flush().await?;
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> io::Result<DataFile> {
        self.flush().await?;
        self.open.map(|open| open.data).ok_or_else(|| io::Error::other("the data file was not opened"))
    }

    async fn flush(&mut self) -> io::Result<()> {
        let open = self.open.take();
        let dir = Arc::clone(&self.dir);
        let batch = std::mem::take(&mut self.batch);
        self.batched = 0;
        let written = tokio::task::spawn_blocking(move || {
            let mut open = match open {
                Some(open) => open,
                None => OpenFile::create(&dir)?,
            };
            for bytes in batch {
                open.file.write_all(&bytes)?;
                open.data.length += bytes.len() as u64;
            }
            Ok::<OpenFile, io::Error>(open)
        });
        self.open = Some(written.await.map_err(io::Error::other)??);
        Ok(())
    }
}

impl OpenFile {
    fn create(dir: &DataDir) -> io::Result<Self> {
        let name = dir.next_name();
        let file = dir.folder.create_new(&name)?;
        let data =
            DataFile { folder: Arc::clone(&dir.folder), name, length: 0, is_kept: AtomicBool::new(false) };
        Ok(Self { file, data })
    }
}

pub(crate) fn read(data: Arc<DataFile>, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
    let open = async move {
        let opening = Arc::clone(&data);
        let opened = tokio::task::spawn_blocking(move || opening.folder.open_file(&opening.name));
        let mut file = tokio::fs::File::from_std(opened.await.map_err(io::Error::other)??);
        file.seek(io::SeekFrom::Start(range.start)).await?;
        let bytes = file.take(range.end - range.start);
        // The stream holds the data file, so that the file is not removed before it is read.
        Ok::<_, io::Error>(ReaderStream::with_capacity(bytes, READ_SIZE).inspect(move |_| {
            let _held = &data;
        }))
    };
    stream::once(open).try_flatten().boxed()
}
