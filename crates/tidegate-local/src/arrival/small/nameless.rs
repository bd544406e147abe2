//! Makes a file without a name (`O_TMPFILE`, open(2)): half as many system calls, and nothing is left behind wherever
//! the process ends.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::slice::from_ref;

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;

use crate::arrival::at_file;
use crate::target::Target;
use crate::temp::Publish;
use crate::waiting::WaitedWork;
use crate::write::write_all_at;
use crate::{Parents, replaced, target, temp};
use tidegate_core::backend::Fault;
use tidegate_core::types::object::Object;

/// Makes the file. `None`, with nothing left behind, if the file system cannot do this, if the directory does not
/// exist yet, or if another file came first. Of `how`, only the time and the permissions count.
pub(super) fn make(
    target: &Target,
    parents: &Parents,
    bytes: &Bytes,
    how: Publish,
    waiting: &WaitedWork,
) -> Result<Option<Object>, Fault> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let Some(directory) = target.directory_to_make_in()? else { return Ok(None) };
    let Ok(file) = openat(&directory, ".", flags, Mode::from_raw_mode(0o666)) else { return Ok(None) };
    let (file, failed) = (File::from(file), |error| at_file(error, target));
    write_all_at(&file, from_ref(bytes), 0).map_err(failed)?;
    if let Some(permissions) = how.permissions {
        replaced::set_permissions(&file, permissions, target.path());
    }
    if let Some(modified) = how.modified {
        temp::set_modified(&file, modified, target);
    }
    // Before the file has its name, so that a failure leaves nothing behind.
    let metadata = file.metadata().map_err(failed)?;
    if waiting.meanwhile(|| give_name(&file, &directory, target))?.is_err() {
        return Ok(None);
    }
    parents.settle(target.directory());
    Ok(Some(target::describe(target.key(), &metadata)))
}

/// Gives the file its name in the directory.
fn give_name(file: &File, directory: &OwnedFd, target: &Target) -> rustix::io::Result<()> {
    let (directory, name) = (directory.as_fd(), Path::new(target.name()));
    match linkat(file, "", directory, name, AtFlags::EMPTY_PATH) {
        // Before Linux 6.10 this needs a privilege.
        Err(Errno::NOENT) => give_name_by_number(file, directory, name),
        named => named,
    }
}

/// By the way that open(2) describes.
fn give_name_by_number(file: &File, directory: BorrowedFd<'_>, name: &Path) -> rustix::io::Result<()> {
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, opened, directory, name, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::open;

    use super::*;
    use crate::arrival::target_at;
    use crate::waiting::Waiter;

    fn can(directory: &std::path::Path) -> bool {
        open(directory, OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR).is_ok()
    }

    fn made(path: &std::path::Path, text: &'static str, waiting: &WaitedWork) -> Result<bool, Fault> {
        let (target, _) = target_at(path, None)?;
        let how = Publish::default();
        Ok(make(&target, &Parents::default(), &Bytes::from_static(text.as_bytes()), how, waiting)?.is_some())
    }

    #[test]
    fn it_has_its_name_when_it_is_whole() {
        let (directory, waiter) = (tempfile::tempdir().unwrap(), Waiter::default());
        if !can(directory.path()) {
            return;
        }
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
    fn nothing_is_there_before_it_has_its_name() {
        let (directory, waiter) = (tempfile::tempdir().unwrap(), Waiter::default());
        if !can(directory.path()) {
            return;
        }
        let (path, waiting) = (directory.path().join("a"), waiter.waiting());
        let making = waiting.meanwhile(|| {
            let (path, waiting) = (path.clone(), waiting.clone());
            let making = std::thread::spawn(move || made(&path, "text", &waiting));
            // It is written, and waits for this.
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            making
        });
        assert!(making.unwrap().join().unwrap().unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"text");
    }

    #[test]
    fn it_has_none_where_nobody_waits() {
        let (directory, waiter) = (tempfile::tempdir().unwrap(), Waiter::default());
        if !can(directory.path()) {
            return;
        }
        let waiting = waiter.waiting();
        drop(waiter);
        made(&directory.path().join("a"), "text", &waiting).unwrap_err();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn it_is_named_by_its_number_too() {
        let directory = tempfile::tempdir().unwrap();
        if !can(directory.path()) {
            return;
        }
        let (target, _) = target_at(&directory.path().join("a"), None).unwrap();
        let opened = open(directory.path(), OFlags::TMPFILE | OFlags::WRONLY, Mode::RUSR);
        give_name_by_number(&opened.unwrap().into(), CWD, target.path()).unwrap();
        assert!(target.path().exists());
    }
}
