//! Looks for symbolic links on the way from a root to a file that is to be written.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, open, openat, statat};
use rustix::io::Errno;

use super::fault::{fault, invalid};
use tidegate_core::backend::Fault;

/// Opens the directory of the file of a key below a root, if it exists and there is no symbolic link anywhere on the way
/// there.
pub(super) fn directory_at_once((root, key): &(PathBuf, String)) -> Option<OwnedFd> {
    open_at_once(CWD, &root.join(key.rsplit_once('/').map_or("", |(below, _)| below)))
}

/// Opens the directory of the file of `key`; `None` if it does not exist yet. Fails if there is a symbolic link on the way
/// there. Only the root itself may be a link, or lie behind links.
pub(super) fn directory(root: &Path, key: &str) -> Result<Option<OwnedFd>, Fault> {
    let below = key.rsplit_once('/').map_or("", |(below, _)| below);
    // Most files lie in directories that exist, on a way without links: these are opened by one call.
    if let Some(opened) = open_at_once(CWD, &root.join(below)) {
        return Ok(Some(opened));
    }
    let failed = |error: Errno| fault(error.into(), root);
    let mut directory = match open(root, OFlags::DIRECTORY | PATH, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if below.is_empty() {
        return Ok(Some(directory));
    }
    // The same for a root behind links.
    if let Some(opened) = open_at_once(&directory, Path::new(below)) {
        return Ok(Some(opened));
    }
    let mut end = 0;
    for name in below.split('/') {
        end += name.len();
        match kind_of(&directory, name).map_err(failed)? {
            Some(FileType::Symlink) => return Err(written_through(&root.join(&key[..end]))),
            Some(FileType::Directory) => {}
            _ => return Ok(None),
        }
        // Fails if a link has come there since.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | PATH;
        directory = openat(&directory, name, flags, Mode::empty()).map_err(failed)?;
        end += 1; // the slash
    }
    Ok(Some(directory))
}

/// The same, and fails too if the file itself is a symbolic link.
pub(super) fn directory_of_no_link(root: &Path, key: &str) -> Result<Option<OwnedFd>, Fault> {
    let Some(directory) = directory(root, key)? else { return Ok(None) };
    let name = key.rsplit('/').next().unwrap_or(key);
    match kind_of(&directory, name).map_err(|error| fault(error.into(), root))? {
        Some(FileType::Symlink) => Err(written_through(&root.join(key))),
        _ => Ok(Some(directory)),
    }
}

fn kind_of(directory: &OwnedFd, name: &str) -> Result<Option<FileType>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn written_through(link: &Path) -> Fault {
    let link = link.display();
    invalid(format!(
        "{link} is a symbolic link, and nothing is written through links: remove it, or have links followed, if that is meant"
    ))
}

/// Opens the directory `path` of `root` without following a symbolic link; `None` if that fails, or if the system has no
/// such call.
#[cfg(target_os = "linux")]
fn open_at_once(root: impl AsFd, path: &Path) -> Option<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    openat2(root, path, OFlags::DIRECTORY | PATH, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: impl AsFd, _: &Path) -> Option<OwnedFd> {
    None
}

#[cfg(target_os = "linux")]
pub(super) const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(super) const PATH: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
