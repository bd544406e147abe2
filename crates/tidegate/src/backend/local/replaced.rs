//! What a file takes over from the one that it replaces: its place behind a link, its mode, its owner.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::fault::{fault, invalid};
use crate::backend::{Fault, FaultKind};

/// As many links in a row as Linux follows.
const LINKS: usize = 40;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_ALL: u32 = 0o002;
/// The bits that are taken over: never set-user-ID, set-group-ID or sticky.
const RIGHTS: u32 = 0o777;
/// Of a file that is not finished: what it replaces may be as private as that.
pub(super) const PRIVATE: u32 = 0o600;

/// Where a file that is written at `path` is to be: where the symbolic links there lead to, if there are any. The last
/// one may lead to a file that is yet to be made.
///
/// A link in a sticky directory that everybody may write to (`/tmp`) is followed only if it belongs to the caller or to
/// the directory's owner, as Linux has it with `protected_symlinks`: else another user could choose what is replaced.
pub(super) fn behind_links(path: &Path) -> Result<PathBuf, Fault> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let failed = |error| fault(error, path.parent().unwrap_or(&path));
        let link = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => found,
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(failed(error)),
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        let holder = fs::metadata(directory).map_err(failed)?;
        if !may_follow(&link, &holder, rustix::process::geteuid().as_raw()) {
            let message = format!(
                "{} is a symbolic link of another user, in a directory that everybody may write to: it is not followed",
                path.display()
            );
            return Err(Fault::new(FaultKind::Denied, message));
        }
        let leads_to = fs::read_link(&path).map_err(failed)?;
        path = directory.join(leads_to);
    }
    Err(invalid("symbolic links go round in a circle"))
}

fn may_follow(link: &Metadata, directory: &Metadata, caller: u32) -> bool {
    const OPEN: u32 = STICKY | WRITABLE_BY_ALL;
    directory.mode() & OPEN != OPEN || link.uid() == caller || link.uid() == directory.uid()
}

/// Gives `file`, which is private until now, the rights that it is to have at `path`: those of the file there, or else
/// those of any new file. A file that is there also passes on its group where the caller may give it, and its owner if
/// the caller is root. Where the group can't be kept, its rights are given to nobody who did not have them.
pub(super) fn take_over(file: &File, path: &Path) -> io::Result<()> {
    let rights = match fs::symlink_metadata(path) {
        // It has come since its place was looked up: what it allows is not known.
        Ok(replaced) if !replaced.is_file() => PRIVATE,
        Ok(replaced) => {
            let mut now = file.metadata()?;
            let is_root = rustix::process::geteuid().is_root();
            if is_root && (now.uid(), now.gid()) != (replaced.uid(), replaced.gid()) {
                // Refused on a network's disk or in a container, it is as for other users.
                let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
                now = file.metadata()?;
            }
            if now.gid() != replaced.gid() {
                let _ = fchown(file, None, Some(replaced.gid()));
                now = file.metadata()?;
            }
            kept_rights(replaced.mode(), now.gid() == replaced.gid())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => rights_of_new(path)?,
        Err(error) => return Err(error),
    };
    if file.metadata()?.mode() & RIGHTS == rights {
        return Ok(()); // also where a file system has one mode for all files
    }
    file.set_permissions(Permissions::from_mode(rights))
}

/// The rights of the file that was replaced. With another group they go to other people: then group and others have
/// what both had before.
fn kept_rights(mode: u32, has_same_group: bool) -> u32 {
    if has_same_group {
        return mode & RIGHTS;
    }
    let both = (mode >> 3) & mode & 0o7;
    mode & 0o700 | both << 3 | both
}

/// The rights that a new file at `path` gets, by the process's umask and the directory's rules. There is no other way to
/// know them than to make a file: without a name, where the system can.
fn rights_of_new(path: &Path) -> io::Result<u32> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(file) = open(directory, flags, Mode::from_raw_mode(0o666)) {
            return Ok(File::from(file).metadata()?.mode() & RIGHTS);
        }
    }
    let probe = directory.join(super::temp::unused_name());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&probe)?;
    fs::remove_file(&probe)?;
    Ok(file.metadata()?.mode() & RIGHTS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").mode() & 0o7777
    }

    fn written(path: &Path) -> File {
        fs::write(path, "new").expect("a file");
        fs::set_permissions(path, Permissions::from_mode(PRIVATE)).expect("permissions");
        File::open(path).expect("the file")
    }

    #[test]
    fn the_rights_of_a_replaced_file_are_kept_without_special_bits() {
        let directory = tempfile::tempdir().expect("a directory");
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::write(&old, "old").expect("a file");
        for (had, has) in [(0o600, 0o600), (0o755, 0o755), (0o640, 0o640), (0o4755, 0o755), (0o2711, 0o711)] {
            fs::set_permissions(&old, Permissions::from_mode(had)).expect("permissions");
            take_over(&written(&new), &old).expect("taken over");
            assert_eq!(mode(&new), has, "{had:o}");
        }
    }

    #[test]
    fn a_new_file_has_the_rights_that_others_get() {
        let directory = tempfile::tempdir().expect("a directory");
        let (new, other) = (directory.path().join("new"), directory.path().join("other"));
        take_over(&written(&new), &directory.path().join("missing")).expect("taken over");
        fs::write(&other, "").expect("a file");
        assert_eq!(mode(&new), mode(&other));
    }

    #[test]
    fn rights_are_given_to_nobody_who_did_not_have_them() {
        for (mode, kept) in [(0o640, 0o600), (0o664, 0o644), (0o604, 0o600), (0o755, 0o755), (0o4777, 0o777)]
        {
            assert_eq!(kept_rights(mode, false), kept, "{mode:o}");
            assert_eq!(kept_rights(mode, true), mode & 0o777);
        }
    }

    #[test]
    fn root_keeps_another_owner() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can");
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::write(&old, "old").expect("a file");
        std::os::unix::fs::chown(&old, Some(4711), Some(4712)).expect("an owner");
        fs::set_permissions(&old, Permissions::from_mode(0o640)).expect("permissions");
        take_over(&written(&new), &old).expect("taken over");
        let found = fs::metadata(&new).expect("a file");
        assert_eq!((found.uid(), found.gid(), mode(&new)), (4711, 4712, 0o640));
    }

    #[test]
    fn links_are_followed_to_their_end_and_not_in_circles() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("d")).expect("a directory");
        symlink("d/file", at("relative")).expect("a link");
        symlink(at("relative"), at("twice")).expect("a link");
        symlink("circle", at("circle")).expect("a link");
        assert_eq!(behind_links(&at("missing")).expect("a path"), at("missing"));
        assert_eq!(behind_links(&at("twice")).expect("a path"), at("d/file"));
        assert_eq!(behind_links(&at("circle")).expect_err("a fault").kind, FaultKind::Invalid);
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_where_everybody_may_make_one() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give a link to another user");
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let (link, file) = (directory.path().join("link"), directory.path().join("file"));
        symlink("file", &link).expect("a link");
        let own = |link_owner, directory_owner, mode| {
            std::os::unix::fs::lchown(&link, Some(link_owner), None).expect("an owner");
            std::os::unix::fs::chown(directory.path(), Some(directory_owner), None).expect("an owner");
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).expect("permissions");
            behind_links(&link).map_err(|fault| fault.kind)
        };
        assert_eq!(own(4711, 0, 0o1777), Err(FaultKind::Denied));
        assert_eq!(own(4711, 4711, 0o1777).as_deref(), Ok(file.as_path()));
        assert_eq!(own(0, 4711, 0o1777).as_deref(), Ok(file.as_path()));
        assert_eq!(own(4711, 0, 0o755).as_deref(), Ok(file.as_path()));
        assert_eq!(own(4711, 0, 0o1775).as_deref(), Ok(file.as_path()));
        assert_eq!(own(4711, 0, 0o777).as_deref(), Ok(file.as_path()));
    }
}
