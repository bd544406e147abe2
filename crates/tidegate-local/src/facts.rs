//! What the system says of a file, by which it is known again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, Timespec};

/// Distinguishes a file from other files, and its content from earlier content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    inode: u64,
    size: u64,
    /// Seconds since 1970 (negative before that), and nanoseconds on top.
    changed: (i64, u32),
}

impl FileFacts {
    #[cfg(test)]
    pub(super) fn new(inode: u64, size: u64, changed: (i64, u32)) -> Self {
        Self { inode, size, changed }
    }

    pub(super) fn size(self) -> u64 {
        self.size
    }

    /// Changes with the content, as far as the system can tell.
    pub(super) fn etag(self) -> String {
        let nanoseconds = i128::from(self.changed.0) * NANOSECONDS + i128::from(self.changed.1);
        format!("\"{:x}-{nanoseconds:x}-{:x}\"", self.inode, self.size)
    }

    /// The time of the last write; `None` if the system's clock cannot represent it.
    pub(super) fn modified(self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.changed;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        second?.checked_add(Duration::from_nanos(nanoseconds.into()))
    }

    /// Those of the file that was described with this ETag.
    pub(super) fn of_etag(etag: &str) -> Option<Self> {
        let mut fields = etag.strip_prefix('"')?.strip_suffix('"')?.split('-');
        let mut next = || u128::from_str_radix(fields.next()?, 16).ok();
        let (inode, nanoseconds, size) = (next()?, next()?.cast_signed(), next()?);
        let seconds = i64::try_from(nanoseconds.div_euclid(NANOSECONDS)).ok()?;
        let rest = u32::try_from(nanoseconds.rem_euclid(NANOSECONDS)).ok()?;
        let facts =
            Self { inode: inode.try_into().ok()?, size: size.try_into().ok()?, changed: (seconds, rest) };
        (facts.etag() == etag).then_some(facts)
    }
}

/// A time as the system sets it.
pub(super) fn timespec(time: SystemTime) -> Timespec {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let whole = -i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            // The nanoseconds count upwards from a whole second.
            if before.subsec_nanos() == 0 {
                (whole, 0)
            } else {
                (whole - 1, 1_000_000_000 - before.subsec_nanos())
            }
        }
    };
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
}

/// In a second.
const NANOSECONDS: i128 = 1_000_000_000;

impl From<&Metadata> for FileFacts {
    fn from(found: &Metadata) -> Self {
        let nanoseconds = u32::try_from(found.mtime_nsec()).unwrap_or_default();
        Self { inode: found.ino(), size: found.len(), changed: (found.mtime(), nanoseconds) }
    }
}

impl From<&Stat> for FileFacts {
    // The types of the fields differ between systems.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    fn from(found: &Stat) -> Self {
        let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or_default();
        let size = u64::try_from(found.st_size).unwrap_or_default();
        Self { inode: found.st_ino as u64, size, changed: (found.st_mtime as i64, nanoseconds) }
    }
}
