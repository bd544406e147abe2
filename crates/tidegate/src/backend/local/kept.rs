//! Files of sessions that are kept for another process: for a commit, or to be continued.
//!
//! Until when a session is kept is in the times of its file, which need no other file. The time of the last access stays
//! when more parts are written; that of the last change does not. A file system that keeps no time of access tells only
//! of a session that nobody has written to since.

use std::fs::{File, FileTimes, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{OFlags, Stat};

use super::target;
use crate::types::checksum::{Checksum, Hasher};

/// How many bytes are read at once.
const PIECE: usize = 256 << 10;

/// Has sweeps leave the file alone until then.
pub(super) fn mark(file: &File, until: SystemTime) -> io::Result<()> {
    file.set_times(FileTimes::new().set_accessed(until).set_modified(until))
}

/// Until when a listed file is kept.
pub(super) fn until(found: &Stat) -> Option<SystemTime> {
    let accessed = u64::try_from(found.st_atime).ok().map(Duration::from_secs);
    let accessed = accessed.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    target::modified(found).max(accessed).filter(|until| *until > SystemTime::now())
}

/// Whether the file is kept.
pub(super) fn is_marked(file: &File) -> io::Result<bool> {
    let (metadata, now) = (file.metadata()?, SystemTime::now());
    Ok([metadata.accessed(), metadata.modified()].into_iter().flatten().any(|time| time > now))
}

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
