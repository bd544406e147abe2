//! The operations that a spool needs of a disk, and their implementation for a directory.

use std::fmt::Debug;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::memory::payload::CachedFile;

/// A file to spool into, and its disk.
///
/// The file does not outlive the process, so nothing is synced. Reads and writes may come from many threads at
/// once, never for the same bytes.
#[async_trait]
pub trait Disk: Debug + Send + Sync + 'static {
    /// Its name for people: the directory.
    fn name(&self) -> String;

    /// Writes all bytes of `pieces`, each at its offset. After an error any of them may be written.
    async fn write(&self, pieces: Vec<(u64, Bytes)>) -> io::Result<()>;

    /// Reads bytes that are in memory, without waiting for a disk; `None` if the bytes are not in memory, or if
    /// that is unknown.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// Reads, waiting for the disk.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Free and total bytes of the disk.
    fn space(&self) -> io::Result<Space>;

    /// Gives back the space of everything that was written; called when no block is used.
    fn clear(&self) -> io::Result<()>;
}

/// How full a disk is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free: u64,
    /// The size of the disk.
    pub total: u64,
}

/// A file without a name in a directory: when the process ends, however it ends, its space is free.
///
/// It is opened with `O_TMPFILE` on Linux; elsewhere, and on file systems without that, it is unlinked
/// as soon as it is open.
#[derive(Debug)]
pub struct DirectoryDisk {
    directory: PathBuf,
    file: Arc<CachedFile>,
}

impl DirectoryDisk {
    /// Opens a file in `directory`, which must exist and be writable.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            directory: directory.to_owned(),
            file: Arc::new(CachedFile::new(tempfile::tempfile_in(directory)?)),
        })
    }
}

#[async_trait]
impl Disk for DirectoryDisk {
    fn name(&self) -> String {
        self.directory.display().to_string()
    }

    async fn write(&self, pieces: Vec<(u64, Bytes)>) -> io::Result<()> {
        let file = self.file.clone();
        let write =
            move || pieces.iter().try_for_each(|(offset, piece)| file.file.write_all_at(piece, *offset));
        tokio::task::spawn_blocking(write).await.unwrap_or_else(|ended| Err(io::Error::other(ended)))
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.file.read_cached(buffer, offset)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.file.read_at(buffer, offset)
    }

    fn space(&self) -> io::Result<Space> {
        let found = rustix::fs::fstatvfs(&self.file.file)?;
        Ok(Space { free: found.f_bavail * found.f_frsize, total: found.f_blocks * found.f_frsize })
    }

    fn clear(&self) -> io::Result<()> {
        self.file.file.set_len(0)
    }
}
