//! Walks through symbolic links to directories, without ever walking in a circle.
//!
//! A directory is not entered if it is one of the directories above itself, by device and inode: those that the walk
//! is in, those above the root, and the root. Every endless way enters some directory again while it is in it, so
//! every walk ends.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::{FileKind, TreeWalk};
use crate::beneath;
use crate::beneath::Entered;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Device and inode of the directory that the link `name` leads to; `None` if it leads to none.
pub(super) fn directory_behind(parent: impl AsFd, name: &std::ffi::CStr) -> Option<(u64, u64)> {
    let found = statat(parent, name, AtFlags::empty()).ok()?;
    let is_directory = FileKind::of(FileType::from_raw_mode(found.st_mode)) == FileKind::Directory;
    is_directory.then(|| beneath::id(&found))
}

/// Opens a directory of `parent`, or what a link there leads to.
pub(super) fn child(parent: impl AsFd, name: &str) -> Result<Entered, Errno> {
    match openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(child) => Ok(Entered::Directory(child)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Entered::Missing),
        Err(error) => Err(error),
    }
}

/// Opens the directory `below` (names separated by slashes) of `root`.
pub(super) fn directory(root: &Path, below: &str) -> Result<Entered, Errno> {
    let root = beneath::root(root)?;
    child(root, if below.is_empty() { "." } else { below })
}

/// Device and inode of all directories above the directory `below` of the root: those above the root, and those on the
/// way from the root.
pub(super) fn above(root: &Path, below: &str) -> Result<Vec<(u64, u64)>, Errno> {
    let opened = beneath::root(root)?;
    let mut found = Vec::new();
    let ends = below.match_indices('/').map(|(at, _)| &below[..at]);
    for way in std::iter::once("").chain(ends).filter(|_| !below.is_empty()) {
        if let Entered::Directory(directory) = directory(root, way)? {
            found.push(id(&directory)?);
        }
    }
    let mut at = opened;
    loop {
        let parent = openat(&at, "..", DIRECTORY_PATH, Mode::empty())?;
        if id(&parent)? == id(&at)? {
            return Ok(found); // the root of all
        }
        found.push(id(&parent)?);
        at = parent;
    }
}

#[cfg(target_os = "linux")]
const DIRECTORY_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY_PATH: OFlags = DIRECTORY;

fn id(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    fstat(directory).map(|found| beneath::id(&found))
}

impl TreeWalk {
    /// Whether the walk is in this directory, or below it.
    pub(super) fn is_in(&self, directory: &OwnedFd) -> Result<bool, Errno> {
        Ok(self.is_way_back(id(directory)?))
    }

    /// The same of the directory with this device and inode.
    pub(super) fn is_way_back(&self, id: (u64, u64)) -> bool {
        self.above.contains(&id) || self.levels.iter().any(|level| level.id == id)
    }
}
