//! Opens directories below a root, each relative to the one above and never through a symbolic link.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::fault::{fault, invalid};
use super::replaced::check_way;
use tidegate_core::backend::Fault;

/// The result of opening a directory.
pub(super) enum Entered {
    Directory(OwnedFd),
    /// Nothing, or a file.
    Missing,
    /// A symbolic link, with its path.
    Link(PathBuf),
}

/// Opens the root itself, which may be a link: the user named it.
pub(super) fn root(root: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(root, PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens the root, to remove something below it. Fails if another user could have chosen the way to it, see
/// [`check_way`]. The opened directory is the one that was checked, even if names change meanwhile.
///
/// `None` if there is no such directory.
pub(super) fn root_to_change(root: &Path) -> Result<Option<OwnedFd>, Fault> {
    let failed = |error: Errno| fault(error.into(), root);
    let opened = match self::root(root) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let checked = statat(CWD, check_way(root)?, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    if id(&checked) != id(&fstat(&opened).map_err(failed)?) {
        return Err(invalid(format!("{} was replaced meanwhile", root.display())));
    }
    Ok(Some(opened))
}

/// Opens a directory of `parent`.
pub(super) fn child(parent: impl AsFd, name: &str) -> Result<Entered, Errno> {
    open(parent, name, OFlags::RDONLY, || name.into())
}

/// Opens the directory `below` (names separated by slashes) of `root`. Use [`again`] before reading its entries: a
/// user who may not read the directories above may still use this one.
pub(super) fn directory(root: &Path, below: &str) -> Result<Entered, Errno> {
    match self::root(root) {
        Ok(directory) => self::below(directory, root, below),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Entered::Missing),
        Err(error) => Err(error),
    }
}

/// The same for a root that is already open; `root` is its path.
pub(super) fn below(mut directory: OwnedFd, root: &Path, below: &str) -> Result<Entered, Errno> {
    let mut end = 0;
    for name in below.split('/').filter(|name| !name.is_empty()) {
        end += name.len();
        match open(&directory, name, PATH, || root.join(&below[..end]))? {
            Entered::Directory(child) => directory = child,
            ended => return Ok(ended),
        }
        end += 1; // the slash
    }
    Ok(Entered::Directory(directory))
}

/// Opens a directory again, to read its entries.
pub(super) fn again(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Whether `name` is a directory, and not a link to one.
pub(super) fn is_directory(parent: impl AsFd, name: &str) -> bool {
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// Device and inode.
pub(super) fn id(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// The fault for listing or removing something below a link.
pub(super) fn is_a_link(link: &Path) -> Fault {
    let link = link.display();
    invalid(format!(
        "{link} is a symbolic link, and only what it leads to has files: name that directory instead"
    ))
}

#[cfg(target_os = "linux")]
const PATH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PATH: OFlags = OFlags::RDONLY;

fn open(
    parent: impl AsFd,
    name: &str,
    how: OFlags,
    path: impl FnOnce() -> PathBuf,
) -> Result<Entered, Errno> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&parent, name, flags, Mode::empty()) {
        Ok(child) => Ok(Entered::Directory(child)),
        Err(Errno::NOENT) => Ok(Entered::Missing),
        Err(error @ (Errno::NOTDIR | Errno::LOOP)) => {
            match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => {
                    Ok(Entered::Link(path()))
                }
                Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => Err(error),
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(Entered::Missing),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}
