//! Looks for symbolic links on the way from a root to a file that is to be written.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, statat};
use rustix::io::Errno;

use super::fault::{fault, invalid};
use crate::backend::Fault;

/// Opens the directory of the file of `key`; `None` if it does not exist yet. Fails if the file is a symbolic link or
/// lies below one. Only the root itself may be a link.
pub(super) fn directory(root: &Path, key: &str) -> Result<Option<OwnedFd>, Fault> {
    let failed = |error: Errno| fault(error.into(), root);
    let mut directory = match open(root, OFlags::DIRECTORY | PATH, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut start = 0;
    // Most files lie in directories that exist: these are opened by one call. The loop finds out what else is there.
    if let Some((below, _)) = key.rsplit_once('/')
        && let Some(opened) = open_at_once(&directory, below)
    {
        (directory, start) = (opened, below.len() + 1);
    }
    loop {
        let name = key[start..].split('/').next().unwrap_or_default();
        let end = start + name.len();
        let kind = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(FileType::from_raw_mode(found.st_mode)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(error)),
        };
        match kind {
            Some(FileType::Symlink) => return Err(written_through(&root.join(&key[..end]))),
            _ if end == key.len() => return Ok(Some(directory)),
            Some(FileType::Directory) => {}
            _ => return Ok(None),
        }
        // Fails if a link has come there since.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | PATH;
        directory = openat(&directory, name, flags, Mode::empty()).map_err(failed)?;
        start = end + 1;
    }
}

pub(super) fn written_through(link: &Path) -> Fault {
    let link = link.display();
    invalid(format!(
        "{link} is a symbolic link, and nothing is written through links: remove it, or have links followed, if that is meant"
    ))
}

/// Opens the directory `below` of `root` without following a symbolic link; `None` if that fails, or if the system has
/// no such call.
#[cfg(target_os = "linux")]
fn open_at_once(root: &OwnedFd, below: &str) -> Option<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    openat2(root, below, OFlags::DIRECTORY | PATH, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: &OwnedFd, _: &str) -> Option<OwnedFd> {
    None
}

#[cfg(target_os = "linux")]
const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PATH: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
