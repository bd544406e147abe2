//! The directories made on the way to an object, so that an object that never comes leaves none.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The directories that this store made and that hold no object of its making yet.
#[derive(Debug, Default)]
pub(super) struct Parents {
    made: Mutex<BTreeSet<PathBuf>>,
}

impl Parents {
    fn made(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `directory` with its parents, and forces what it made to disk.
    ///
    /// The lock is held meanwhile, so that whoever publishes into a directory made by another
    /// ([`settle`](Self::settle)) returns only when it is on disk.
    pub(super) fn make(&self, directory: &Path) -> io::Result<()> {
        let mut made = self.made();
        let missing: Vec<&Path> = directory.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        for ancestor in missing.into_iter().rev() {
            match fs::create_dir(ancestor) {
                Ok(()) => {
                    made.insert(ancestor.to_owned());
                    if let Some(parent) = ancestor.parent() {
                        sync(parent)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && ancestor.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// There is an object in `directory` now: it and its parents stay.
    pub(super) fn settle(&self, directory: &Path) {
        let mut made = self.made();
        for ancestor in directory.ancestors() {
            made.remove(ancestor);
        }
    }

    /// Removes `directory` and its parents, as far as they were made here and are empty.
    pub(super) fn remove_empty(&self, directory: &Path) {
        let mut made = self.made();
        for ancestor in directory.ancestors() {
            if made.contains(ancestor) {
                if fs::remove_dir(ancestor).is_err() {
                    break; // not empty: whoever is in there goes on
                }
                made.remove(ancestor);
            }
        }
    }
}

/// Forces a directory's entries to disk, where its file system knows how.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}
