//! A small file, all of whose bytes are there: made without a name, where the system can, and named when it is whole.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::{Arrival, PARENTS, at_file, new_mark, remove_left, target_at};
use crate::backend::Fault;
use crate::backend::local::batch::{Coming, batched};
use crate::backend::local::target::{self, Target};
use crate::backend::local::temp::{self, Publish};
use crate::backend::local::waiting::Waiting;
use crate::backend::local::write::write_all_at;
use crate::budget::Lease;
use crate::object::Object;

impl Arrival {
    /// Makes the file at `path` of `bytes`, which `memory` is for, all in one hand-off, where somebody still waits for
    /// it. What was left under `mark` is not gone on with, but removed.
    pub(crate) async fn of_bytes(
        coming: Coming,
        path: PathBuf,
        mark: String,
        bytes: Bytes,
        memory: Lease,
        how: Publish,
        waiting: Arc<Waiting>,
    ) -> Result<Object, Fault> {
        batched(coming, move || {
            let (target, is_there) = target_at(&path)?;
            let left = temp::path(&target, &temp::id(&mark, target.name()))?;
            // Beside a wait for the disk a name costs nothing.
            if !is_there
                && !how.sync
                && let Some(object) = nameless(&target, &bytes, &waiting)?
            {
                remove_left(&left);
                return Ok(object);
            }
            let begin = || {
                // By a name that nobody else has: it may be removed whenever nobody waits for it any more.
                let mut arrival = Self::begin(&path, &new_mark())?;
                arrival.other = Some(left);
                Ok(arrival)
            };
            let arrival = waiting.make(begin, Self::trace)?;
            let size = bytes.len() as u64;
            arrival.reserve(size)?;
            arrival.write(&[bytes], 0)?;
            drop(memory); // before the disk is waited for
            arrival.publish_now(size, how, &waiting)
        })
        .await
    }
}

/// Makes the file without a name (`O_TMPFILE`, open(2)), which takes half of the calls, and leaves nothing wherever the
/// process ends. `None`, and nothing is there, where the file system can't, the directory is yet to be made, or another
/// file has come.
#[cfg(target_os = "linux")]
fn nameless(target: &Target, bytes: &Bytes, waiting: &Waiting) -> Result<Option<Object>, Fault> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let Ok(file) = open(target.directory(), flags, Mode::from_raw_mode(0o666)) else { return Ok(None) };
    let file = std::fs::File::from(file);
    write_all_at(&file, std::slice::from_ref(bytes), 0).map_err(|error| at_file(error, target))?;
    if waiting.meanwhile(|| give_name(&file, target))?.is_err() {
        return Ok(None);
    }
    PARENTS.settle(target.directory());
    let metadata = file.metadata().map_err(|error| at_file(error, target))?;
    Ok(Some(target::describe(target.key(), &metadata)))
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Target, _: &Bytes, _: &Waiting) -> Result<Option<Object>, Fault> {
    Ok(None)
}

#[cfg(target_os = "linux")]
fn give_name(file: &std::fs::File, target: &Target) -> rustix::io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    match linkat(file, "", CWD, target.path(), AtFlags::EMPTY_PATH) {
        // Before Linux 6.10 that is for the privileged.
        Err(rustix::io::Errno::NOENT) => give_name_by_number(file, target),
        named => named,
    }
}

/// As open(2) has it.
#[cfg(target_os = "linux")]
fn give_name_by_number(file: &std::fs::File, target: &Target) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, opened, CWD, target.path(), AtFlags::SYMLINK_FOLLOW)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::backend::local::waiting::Waiter;

    fn made(path: &std::path::Path, text: &'static str, waiting: &Waiting) -> Result<bool, Fault> {
        let (target, _) = target_at(path)?;
        Ok(nameless(&target, &Bytes::from_static(text.as_bytes()), waiting)?.is_some())
    }

    #[test]
    fn it_has_its_name_when_it_is_whole() {
        let (directory, waiter) = (tempfile::tempdir().unwrap(), Waiter::default());
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        assert!(made(&path, "text", &waiter.waiting()).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"text");
        fs::write(&other, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&other));
        assert!(!made(&path, "other", &waiter.waiting()).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"text", "another's file is not replaced");
        assert!(!made(&directory.path().join("missing/a"), "text", &waiter.waiting()).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn it_has_none_where_nobody_waits() {
        let (directory, waiter) = (tempfile::tempdir().unwrap(), Waiter::default());
        let waiting = waiter.waiting();
        drop(waiter);
        made(&directory.path().join("a"), "text", &waiting).unwrap_err();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn it_is_named_by_its_number_too() {
        use rustix::fs::{Mode, OFlags, open};
        let directory = tempfile::tempdir().unwrap();
        let (target, _) = target_at(&directory.path().join("a")).unwrap();
        let opened = open(directory.path(), OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR);
        give_name_by_number(&opened.unwrap().into(), &target).unwrap();
        assert!(target.path().exists());
    }
}
