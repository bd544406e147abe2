//! Renames within the root, by the system's own rename.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use async_trait::async_trait;
use rustix::fs::{AtFlags, CWD, renameat, unlinkat};
use rustix::io::Errno;

use super::condition::exists;
use super::fault::{blocking, fault};
use super::target::{self, Target};
use super::{Local, parents, temp};
use tidegate_core::backend::{Attempt, Fault, FaultKind, Rename};
use tidegate_core::types::object::Object;

#[async_trait]
impl Rename for Local {
    /// [`FaultKind::Unsupported`] for links, between file systems, and with `create_only` where the file system has
    /// no such rename: such a file is copied instead.
    async fn rename(
        &self,
        from: &str,
        to: &str,
        create_only: bool,
        _attempt: Attempt,
    ) -> Result<Object, Fault> {
        if self.link(from)?.is_some() || self.link(to)?.is_some() {
            return Err(unsupported("a symbolic link is not renamed"));
        }
        let (from, to) = (Target::to_write(&self.root, from)?, self.to_write(to)?);
        let (root, parents) = (self.root.clone(), self.parents.clone());
        blocking(move || {
            let failed = |error: io::Error| Self::or_no_root(&root, fault(error, from.directory()));
            let found = fs::symlink_metadata(from.path()).map_err(failed)?;
            if found.is_symlink() || (to.path().is_symlink() && !create_only) {
                return Err(unsupported("a symbolic link is not renamed"));
            }
            target::check_readable(&found)?;
            let directory = Self::directory_of(&root, &from)?.ok_or_else(|| failed(Errno::NOENT.into()))?;
            let to = to.on_a_safe_way()?;
            let replaced = fs::symlink_metadata(to.path()).ok();
            if create_only && replaced.is_some() {
                return Err(exists());
            }
            replaced.as_ref().map_or(Ok(()), target::check_regular)?;
            to.check_directories()?;
            // The bytes are on disk before the name, as for every object.
            File::open(from.path()).and_then(|file| file.sync_all()).map_err(failed)?;
            parents.make(to.directory()).map_err(|error| {
                parents.remove_empty(to.directory());
                let is_in_the_way = error.kind() == io::ErrorKind::AlreadyExists;
                let error = if is_in_the_way { io::ErrorKind::NotADirectory.into() } else { error };
                fault(error, to.directory())
            })?;
            let is_same_file =
                |there: &fs::Metadata| (there.dev(), there.ino()) == (found.dev(), found.ino());
            let renamed = match &replaced {
                // The system's rename does nothing between two names of one file.
                Some(there) if is_same_file(there) => unlinkat(&directory, from.name(), AtFlags::empty()),
                _ if create_only => rename_new(&directory, &from, &to),
                _ => renameat(&directory, from.name(), CWD, to.path()),
            };
            if let Err(error) = renamed {
                parents.remove_empty(to.directory());
                return Err(match error {
                    Errno::EXIST if create_only => exists(),
                    Errno::XDEV | Errno::NOSYS => unsupported("the file system has no such rename"),
                    Errno::INVAL | Errno::OPNOTSUPP if create_only => {
                        unsupported("the file system can't rename without replacing")
                    }
                    error => failed(error.into()),
                });
            }
            parents.settle(to.directory());
            // The new name first: a power loss in between leaves both names, never none.
            for directory in [to.directory(), from.directory()] {
                parents::sync(directory).map_err(|error| temp::unsynced(directory, error))?;
            }
            let metadata = fs::metadata(to.path());
            Ok(target::describe(to.key(), &metadata.map_err(|error| temp::unsynced(to.directory(), error))?))
        })
        .await
    }
}

fn unsupported(message: &str) -> Fault {
    Fault::new(FaultKind::Unsupported, message)
}

#[cfg(target_os = "linux")]
fn rename_new(directory: &OwnedFd, from: &Target, to: &Target) -> Result<(), Errno> {
    use rustix::fs::{RenameFlags, renameat_with};
    renameat_with(directory, from.name(), CWD, to.path(), RenameFlags::NOREPLACE)
}

#[cfg(not(target_os = "linux"))]
fn rename_new(_: &OwnedFd, _: &Target, _: &Target) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
