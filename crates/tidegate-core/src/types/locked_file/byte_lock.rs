//! A lock of a file's first byte, beside the `flock` of the whole file. Like a `flock` it belongs to the open file, so a
//! second `open` sees it even in the process that has set it; and it can be cleared while the file stays open and locked.
//! Linux calls it an open file description lock: fcntl_locking(2).

use std::fs::File;
use std::io;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use super::{File, io};
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    #[expect(clippy::cast_possible_truncation, reason = "the constants are below 4")]
    fn first_byte(kind: libc::c_int) -> libc::flock {
        let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
        libc::flock { l_type, l_whence, l_start: 0, l_len: 1, l_pid: 0 }
    }

    pub(in super::super) fn set(file: &File, is_set: bool) -> io::Result<()> {
        let kind = if is_set { libc::F_WRLCK } else { libc::F_UNLCK };
        fcntl(file, FcntlArg::F_OFD_SETLK(&first_byte(kind)))?;
        Ok(())
    }

    pub(in super::super) fn is_set(file: &File) -> io::Result<bool> {
        let mut found = first_byte(libc::F_RDLCK);
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok(libc::c_int::from(found.l_type) != libc::F_UNLCK)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::{File, io};

    pub(in super::super) fn set(_: &File, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn is_set(_: &File) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) use system::{is_set, set};
