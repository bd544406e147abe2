//! Tracks the directories made on the way to an object, to remove them if the object never comes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The directories that this store, or the downloads of this engine, made and that hold no object of its making yet.
#[derive(Debug, Default)]
pub struct Parents {
    made: Mutex<BTreeSet<PathBuf>>,
}

impl Parents {
    fn made(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `directory` with its parents, and syncs the new entries to disk.
    ///
    /// Holds the lock meanwhile: so a publish into a directory that another write made ([`settle`](Self::settle))
    /// returns only when that directory is on disk.
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

    /// Keeps `directory` and its parents: there is an object now.
    pub(super) fn settle(&self, directory: &Path) {
        let mut made = self.made();
        for ancestor in directory.ancestors() {
            made.remove(ancestor);
        }
    }

    /// Removes `directory` and its parents, if they were made here and are empty.
    pub(super) fn remove_empty(&self, directory: &Path) {
        let mut made = self.made();
        for ancestor in directory.ancestors() {
            if made.contains(ancestor) {
                if fs::remove_dir(ancestor).is_err() {
                    break; // not empty: another write uses it
                }
                made.remove(ancestor);
            }
        }
    }
}

/// Syncs a directory's entries to disk, if its file system can.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}
