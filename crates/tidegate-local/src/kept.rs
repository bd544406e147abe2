//! Files of sessions that are kept for another process: for a commit, or to be continued.
//!
//! Until when a session is kept is in the times of its file, which need no other file. The time of the last access stays
//! when more parts are written and when the file is read; that of the last change does not stay when parts are written. A
//! file system that keeps no time of access tells only of a session that nobody has written to since.

use std::fs::{File, FileTimes, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, utimensat};
use rustix::io::Errno;

use super::facts::timespec;
use super::target;
use tidegate_core::types::checksum::{Checksum, Hasher};

/// How many bytes are read at once.
const PIECE: usize = 256 << 10;

/// How much later than the time of the last change the time of the last access is. Most file systems (`relatime`) set the
/// latter only if it is not later than the former, so a read leaves it.
const BEHIND: Duration = Duration::from_secs(1);

/// Has sweeps leave the file alone until then.
pub(super) fn mark(file: &File, until: SystemTime) -> io::Result<()> {
    let accessed = until.checked_add(BEHIND).unwrap_or(until);
    file.set_times(FileTimes::new().set_accessed(accessed).set_modified(until))
}

/// Until when a listed file is kept.
pub(super) fn until(found: &Stat) -> Option<SystemTime> {
    let accessed = u64::try_from(found.st_atime).ok().map(Duration::from_secs);
    let accessed = accessed.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    latest(target::modified(found), accessed)
}

/// Until when the file is kept, if it is.
pub(super) fn until_of(file: &File) -> io::Result<Option<SystemTime>> {
    let metadata = file.metadata()?;
    Ok(latest(metadata.modified().ok(), metadata.accessed().ok()))
}

fn latest(modified: Option<SystemTime>, accessed: Option<SystemTime>) -> Option<SystemTime> {
    let accessed = accessed.and_then(|accessed| accessed.checked_sub(BEHIND));
    modified.max(accessed).filter(|until| *until > SystemTime::now())
}

/// Gives the file at `path` the time of the last change that its object is to have. If it has been published meanwhile, the
/// object there stays as it is: the file is named, not opened. A file system that has no such times does not fail the commit.
pub(super) fn set_modified(path: &Path, modified: SystemTime) -> io::Result<()> {
    let times = Timestamps { last_access: UNCHANGED, last_modification: timespec(modified) };
    match utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Err(Errno::NOENT.into()),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "the file's time could not be set");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Marks the file at `path` again, which was not published. Where it was, by another process, this does nothing.
pub(super) fn mark_again(path: &Path, until: SystemTime) {
    let accessed = until.checked_add(BEHIND).unwrap_or(until);
    let times = Timestamps { last_access: timespec(accessed), last_modification: timespec(until) };
    match utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "an unfinished file could not be marked again: a sweep may remove it");
        }
    }
}

const UNCHANGED: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };

/// Takes the mark from a file that is published, whose time of the last change is that of an object already.
pub(super) fn unmark(file: &File) {
    if let Err(error) = file.set_times(FileTimes::new().set_accessed(SystemTime::now())) {
        tracing::debug!(%error, "the time of the last access of a file that is published could not be set");
    }
}

/// Whether the first `checksum.covers()` bytes of the file at `path` have this checksum: another process may have written to
/// it since.
pub(super) fn has_bytes(path: &Path, checksum: &Checksum) -> io::Result<bool> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let (mut hasher, mut file) = (Hasher::new(checksum.algorithm()), file.take(checksum.covers()));
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.finish() == *checksum),
            Ok(read) => hasher.update(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
