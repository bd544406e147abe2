//! A file that bytes are sent from, as it was when it was opened.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A regular file and what it was when it was opened.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(super) file: File,
    state: State,
}

/// What changes when a file does: its size, and the times of its last write and change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl SourceFile {
    /// Opens a file; what is not a regular file is refused. Blocks.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for its other end, so what it is comes first.
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "it is a directory" } else { "it is not a regular file" };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let file = File::open(path)?;
        let state = State::of(&file.metadata()?);
        Ok(Self { file, state })
    }

    /// Its size when it was opened, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.state.size
    }

    /// The file itself, at its start.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Fails where the file is not what it was when it was opened. One system call, no wait for a
    /// local disk: the file is open.
    pub(crate) fn check_unchanged(&self) -> io::Result<()> {
        let now = State::of(&self.file.metadata()?);
        if now == self.state {
            return Ok(());
        }
        let (before, now) = (self.state.size, now.size);
        Err(io::Error::new(io::ErrorKind::InvalidData, SourceChanged::Modified { before, now }))
    }
}

/// The source is not what it was when the transfer began.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceChanged {
    /// It ends before the bytes that it had.
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
