//! What a spool needs of a disk, and the one that a directory is on.

use std::fmt::Debug;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::memory::payload::CachedFile;

/// A file to spool into, and the disk that it is on.
///
/// Nothing in it outlives the process, so nothing is synced. Reads and writes may come from many
/// threads at once, never of the same bytes.
#[async_trait]
pub trait Disk: Debug + Send + Sync + 'static {
    /// Its name for people: the directory.
    fn name(&self) -> String;

    /// Writes all bytes of `pieces`, each at its offset. After an error any of them may be written.
    async fn write(&self, pieces: Vec<(u64, Bytes)>) -> io::Result<()>;

    /// Reads what is in memory without waiting for a disk; `None` where that is nothing, or unknown.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// Reads, waiting for the disk.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Free and total bytes of the disk.
    fn space(&self) -> io::Result<Space>;

    /// Gives back the space of everything that was written; called where nothing of it is used.
    fn clear(&self) -> io::Result<()>;
}

/// How full a disk is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// What may still be written.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// A file without a name in a directory: when the process ends, however it ends, its space is free.
///
/// It is opened with `O_TMPFILE` on Linux; elsewhere, and on file systems without that, it is unlinked
/// as soon as it is open.
#[derive(Debug)]
pub(crate) struct DirectoryDisk {
    directory: PathBuf,
    file: Arc<CachedFile>,
}

impl DirectoryDisk {
    /// Opens a file in `directory`, which must be there and writable.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
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
