//! Errors of a journal.

use std::io;
use std::path::{Path, PathBuf};

use super::format::VERSION;
use tidegate_core::types::error::ErrorKind;
use tidegate_core::types::printable::printable;
use tidegate_core::types::trusted_file::UntrustedFile;

/// A journal that can't be used, or can't do what was asked. Its display is one sentence that names the
/// file and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The disk or a quota is full. The new bytes are not in the journal, the earlier ones are, and the write may
    /// be tried again.
    #[error(
        "journal {}: no space to write to it: {source} (free some, or add a journal directory)",
        name(path)
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file system refused something.
    #[error("journal {}: {doing} failed: {source} ({})", name(path), advice(.source))]
    Io {
        /// The file, or its directory.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The disk did not take the written bytes, and which of them will survive is unknown: no later sync can be
    /// believed. The journal accepts nothing more.
    #[error(
        "journal {}: bytes from offset {durable} of the object on may be lost: the disk did not take \
         them: {reason} ({}, then resume the upload from the journal)",
        name(path),
        if *is_full { "free some space" } else { "look at the disk" }
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// All bytes of the object below this offset are safe.
        durable: u64,
        /// The system's error.
        reason: String,
        /// Whether the disk or a quota is full, which some file systems report only when they sync.
        is_full: bool,
    },
    /// A frame that was once whole is damaged.
    #[error(
        "journal {} is damaged at byte {offset}: {what} (that is no interrupted write: look at the disk, \
         and restore the file or upload the object again)",
        name(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// The fault, as half a sentence.
        what: &'static str,
    },
    /// Another process, or another writer of this process, has the journal.
    #[error("journal {} is in use{}", name(path), by(.holder.as_deref()))]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that last opened the journal for writing, as `PID on HOST`, if that is known. It need not be
        /// the process that has the journal now: a process that only reads the journal, to verify it, is not named.
        holder: Option<String>,
    },
    /// Another user may have written the file, so it is not used.
    #[error("journal {0}")]
    Untrusted(UntrustedFile),
    /// A later version of Tidegate wrote it.
    #[error(
        "journal {} has version {version} of the format, this Tidegate reads up to {VERSION}: resume it \
         with the Tidegate that wrote it, or a later one",
        name(path)
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file is not a journal.
    #[error("{} is not a journal: {why}", name(path))]
    Other {
        /// The file.
        path: PathBuf,
        /// Why, as half a sentence.
        why: &'static str,
    },
    /// The bytes that were to be read were acknowledged by the store, and their space was given back.
    #[error(
        "journal {} has no bytes of the object below offset {first} any more: the store has acknowledged \
         them (if its session is gone, upload the object again)",
        name(path)
    )]
    GivenBack {
        /// The file.
        path: PathBuf,
        /// The first byte that is still there.
        first: u64,
    },
    /// The journal's state does not allow the operation.
    #[error("journal {}: {what}", name(path))]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why, as a sentence's rest.
        what: &'static str,
    },
}

impl JournalError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        if let Some(refused) = UntrustedFile::of(&source) {
            return Self::Untrusted(refused.clone());
        }
        let path = path.to_owned();
        if is_full(&source) { Self::Full { path, source } } else { Self::Io { path, doing, source } }
    }

    pub(super) fn damaged(path: &Path, offset: u64, what: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), offset, what }
    }

    pub(super) fn refused(path: &Path, what: &'static str) -> Self {
        Self::Refused { path: path.to_owned(), what }
    }

    /// Whether a writer of this process has the journal.
    pub fn is_of_this_process(&self) -> bool {
        matches!(self, Self::InUse { holder: Some(holder), .. } if *holder == this_process())
    }

    /// The kind of the [`Error`](tidegate_core::types::error::Error) with which an operation fails because of this one.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Full { .. } | Self::Lost { is_full: true, .. } => ErrorKind::NoSpace,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    ErrorKind::PermissionDenied
                }
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Source,
            },
            Self::Lost { .. } => ErrorKind::Source,
            Self::Damaged { .. } => ErrorKind::Integrity,
            Self::InUse { .. } | Self::Other { .. } | Self::Refused { .. } => ErrorKind::InvalidInput,
            Self::Untrusted(_) => ErrorKind::PermissionDenied,
            Self::Newer { .. } => ErrorKind::Unsupported,
            Self::GivenBack { .. } => ErrorKind::SessionLost,
        }
    }
}

impl From<JournalError> for io::Error {
    fn from(error: JournalError) -> Self {
        let kind = match &error {
            JournalError::Full { source, .. } | JournalError::Io { source, .. } => source.kind(),
            JournalError::Damaged { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The file's name, fit for a terminal.
fn name(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "create the directory, or mount its disk again",
        io::ErrorKind::NotADirectory => "name a directory",
        io::ErrorKind::PermissionDenied => "let this user write there",
        io::ErrorKind::ReadOnlyFilesystem => {
            "mount it for writing; a disk that failed is often mounted read-only"
        }
        io::ErrorKind::AlreadyExists => "an upload's id is used once",
        _ => "look at the disk",
    }
}

fn by(holder: Option<&str>) -> String {
    match holder {
        Some(holder) if holder == this_process() => {
            ": a writer of this process has it (finish, abort or drop that one)".to_owned()
        }
        Some(holder) => format!(": process {holder} opened it last (wait for that to end, or end it)"),
        None => " (wait for that to end, or end it)".to_owned(),
    }
}

/// The name of this process, as a journal that it has records it.
pub(super) fn this_process() -> String {
    format!("{} on {}", std::process::id(), rustix::system::uname().nodename().to_string_lossy())
}

/// Whether a disk has no room left.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
