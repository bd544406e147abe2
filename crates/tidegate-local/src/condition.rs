//! On what condition a file is published under its name.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::facts::FileFacts;
use super::fault::fault;
use tidegate_core::backend::{Fault, FaultKind, WriteOptions};

/// What has to be in the place of a file that is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Anything: a file there is replaced.
    #[default]
    None,
    /// No file: `create_only`.
    NoFile,
    /// This file, as it was when it was described: `replaces`.
    This(FileFacts),
}

impl Condition {
    /// As a write with these options asks for.
    pub(super) fn of_write(options: &WriteOptions) -> Result<Self, Fault> {
        let Some(replaced) = &options.replaces else {
            return Ok(if options.create_only { Self::NoFile } else { Self::None });
        };
        // An object of another store has an ETag that no file has. No file is this one and none.
        let facts = replaced.etag.as_deref().and_then(FileFacts::of_etag).filter(|_| !options.create_only);
        facts.map(Self::This).ok_or_else(another)
    }

    pub(super) fn is_create_only(self) -> bool {
        self == Self::NoFile
    }

    /// Fails if `found` is not what has to be there.
    pub(super) fn check(self, found: Option<&Metadata>) -> Result<(), Fault> {
        match self {
            Self::NoFile if found.is_some() => Err(exists()),
            Self::This(facts) if found.map(FileFacts::from) != Some(facts) => Err(another()),
            Self::None | Self::NoFile | Self::This(_) => Ok(()),
        }
    }

    /// Holds the file that is to be replaced in its place, for the moment in which another gets its name. The system has
    /// no rename on the condition which file it replaces; so the file is locked before it is looked at, and of several
    /// writers with this condition only one finds it in its place. Writers without it take no lock.
    pub(super) fn hold(self, path: &Path) -> Result<Option<HeldFile>, Fault> {
        if !matches!(self, Self::This(_)) {
            return Ok(None);
        }
        let directory = path.parent().unwrap_or(path);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => another(),
            _ => fault(error, directory),
        };
        // Do not wait if it is a pipe by now.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another program has locked the file that is to be replaced";
                return Err(Fault::new(FaultKind::Undone, message).with_answered(true));
            }
            Err(TryLockError::Error(error)) => {
                let place = directory.display();
                let message = format!("the file system of {place} has no locks, which this condition needs");
                return Err(Fault::new(FaultKind::Unsupported, message).with_source(error));
            }
        }
        let held = HeldFile(file);
        let locked = held.0.metadata().map_err(failed)?;
        self.check(Some(&locked))?;
        // Another file may have got the name before this one was locked.
        let there = fs::symlink_metadata(path).map_err(failed)?;
        match (there.dev(), there.ino()) == (locked.dev(), locked.ino()) {
            true => Ok(Some(held)),
            false => Err(another()),
        }
    }
}

/// A locked file.
#[derive(Debug)]
pub(super) struct HeldFile(File);

impl Drop for HeldFile {
    fn drop(&mut self) {
        // A forked child may have the file open, too, and would keep the lock.
        let _ = self.0.unlock();
    }
}

pub(super) fn exists() -> Fault {
    Fault::new(FaultKind::Exists, "there is a file already")
}

fn another() -> Fault {
    Fault::new(FaultKind::Exists, "the file is not the one that was to be replaced")
}
