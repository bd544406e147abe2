//! The sources that bytes are sent from: a file as it was when it was opened, and anything else that can be read at
//! any offset.

use std::borrow::Borrow;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;

use crate::types::object::FileAttributes;

/// Bytes that can be read at any offset, again and again.
pub trait ReadAt: std::fmt::Debug + Send + Sync + 'static {
    /// Reads bytes that are in memory, without waiting for a disk; `None` if the bytes are not in memory, or if
    /// that is unknown. `Some(0)` at the end.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// Reads, waiting for the disk; 0 at the end.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fails if the bytes are known to have changed.
    fn check_unchanged(&self) -> io::Result<()> {
        Ok(())
    }

    /// The disk that the bytes are on, for error messages.
    fn disk(&self) -> String;

    /// The error for bytes from `offset` on that have another checksum than before.
    fn differs(&self, offset: u64) -> io::Error;
}

/// A regular file, and its state when it was opened.
#[derive(Debug)]
pub struct SourceFile {
    file: CachedFile,
    state: FileVersion,
}

/// A file whose bytes are read without waiting if they are in memory.
#[derive(Debug)]
pub struct CachedFile<F = File> {
    /// The file that is read.
    pub file: F,
    /// Set once the file system has turned out not to say which bytes are in memory.
    cached: OnceLock<Cached>,
}

/// Knowledge about a file system that does not support `RWF_NOWAIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cached {
    /// All of the file is in memory.
    All,
    /// Any read may wait for a disk.
    Unknown,
}

/// The part of a file's metadata that changes when its bytes do: its size and the time of its last write. Not the
/// time of its last change, which a rename, a new link or new permissions move as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    size: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        Self { size: metadata.size(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

impl SourceFile {
    /// Opens a file; anything but a regular file is refused. Blocks for as long as the disk takes.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Without O_NONBLOCK, opening a pipe would wait for its other end. The flag has no effect on a regular
        // file.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
        Self::of(File::options().read(true).custom_flags(flags).open(path)?)
    }

    /// The same for a file that is open already, at its start.
    pub fn of(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(match metadata.is_dir() {
                true => rustix::io::Errno::ISDIR.into(),
                false => io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"),
            });
        }
        let state = FileVersion::of(&metadata);
        Ok(Self { file: CachedFile::new(file), state })
    }

    /// Its time and its permissions.
    pub fn attributes(&self) -> io::Result<FileAttributes> {
        Ok(FileAttributes::of_file(&self.file.file.metadata()?))
    }

    /// Its size when it was opened, in bytes.
    pub fn size(&self) -> u64 {
        self.state.size
    }

    /// Another handle of the file, which shares its position.
    pub fn try_clone(&self) -> io::Result<File> {
        self.file.file.try_clone()
    }

    /// The file itself, at its start.
    pub fn into_file(self) -> File {
        self.file.file
    }

    /// Fails if the file has changed since it was opened. This is one system call, which does not wait for a local
    /// disk, because the file is open.
    pub fn check_unchanged(&self) -> io::Result<()> {
        let now = FileVersion::of(&self.file.file.metadata()?);
        if now == self.state {
            return Ok(());
        }
        let (before, now) = (self.state.size, now.size);
        Err(io::Error::new(io::ErrorKind::InvalidData, SourceChanged::Modified { before, now }))
    }
}

impl ReadAt for SourceFile {
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.file.read_cached(buffer, offset)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.file.read_at(buffer, offset)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        Self::check_unchanged(self)
    }

    fn disk(&self) -> String {
        "the disk of the source".to_owned()
    }

    fn differs(&self, offset: u64) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, SourceChanged::Rewritten { offset })
    }
}

impl<F: Borrow<File>> CachedFile<F> {
    /// A source that reads this file.
    pub fn new(file: F) -> Self {
        Self { file, cached: OnceLock::new() }
    }

    /// Reads bytes that are in memory, without waiting for a disk; `None` if the bytes are not in memory, or if the
    /// system can't tell.
    #[cfg(target_os = "linux")]
    pub fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let file = self.file.borrow();
        match self.cached.get() {
            None => match preadv2(file, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
                Ok(read) => Ok(Some(read)),
                Err(Errno::AGAIN | Errno::INTR) => Ok(None),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.cached.get_or_init(|| in_memory(file));
                    self.read_cached(buffer, offset)
                }
                Err(error) => Err(error.into()),
            },
            Some(Cached::All) => file.read_at(buffer, offset).map(Some),
            Some(Cached::Unknown) => Ok(None),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn read_cached(&self, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }
}

/// Whether a file system that does not support `RWF_NOWAIT` has no disk (tmpfs).
#[cfg(target_os = "linux")]
fn in_memory(file: &File) -> Cached {
    // statfs(2): TMPFS_MAGIC, RAMFS_MAGIC
    const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    match rustix::fs::fstatfs(file) {
        Ok(found) if u32::try_from(found.f_type).is_ok_and(|kind| IN_MEMORY.contains(&kind)) => Cached::All,
        Ok(_) | Err(_) => Cached::Unknown,
    }
}

/// The source has changed since the transfer began.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceChanged {
    /// The source ends before bytes that it had.
    #[error("the source was truncated while it was sent: it ends before offset {offset}")]
    Truncated {
        /// A missing byte.
        offset: u64,
    },
    /// A second read gave other bytes than the first.
    #[error(
        "the source was changed while it was sent: bytes from offset {offset} read differently for a retry"
    )]
    Rewritten {
        /// Where the part begins.
        offset: u64,
    },
    /// It was written to.
    #[error("the source was changed while it was sent: it had {before} bytes and has {now} now")]
    Modified {
        /// Its size when the transfer began.
        before: u64,
        /// Its size now.
        now: u64,
    },
}
