//! Looks for symbolic links on the way from a root to a file that is to be written.

use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, statat};
use rustix::io::Errno;

use super::fault::{fault, invalid};
use crate::backend::Fault;

/// Fails if the file of `key` is a symbolic link or lies below one. Only the root itself may be a link. What does not exist
/// yet is fine.
pub(super) fn check(root: &Path, key: &str) -> Result<(), Fault> {
    let failed = |error: Errno| fault(error.into(), root);
    let mut directory = match open(root, OFlags::DIRECTORY | PATH, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let mut end = 0;
    for name in key.split('/') {
        end += name.len();
        match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink => return Err(written_through(&root.join(&key[..end]))),
                FileType::Directory => {}
                _ => return Ok(()),
            },
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        // Fails if a link has come there since.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | PATH;
        directory = openat(&directory, name, flags, Mode::empty()).map_err(failed)?;
        end += 1; // the slash
    }
    Ok(())
}

pub(super) fn written_through(link: &Path) -> Fault {
    let link = link.display();
    invalid(format!(
        "{link} is a symbolic link, and nothing is written through links: remove it if that is meant"
    ))
}

#[cfg(target_os = "linux")]
const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PATH: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
