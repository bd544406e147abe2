//! Applies to a file the properties of the file that it replaces: its place behind a link, its mode, its access
//! control list, its owner.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};

use super::fault::{fault, invalid};
use tidegate_core::backend::{Fault, FaultKind};

#[cfg(target_os = "linux")]
mod access_list;

#[cfg(not(target_os = "linux"))]
mod access_list {
    use super::{AccessListMatch, File, Path};

    pub(super) fn take_over(_: &File, _: &Path, _: bool) -> AccessListMatch {
        AccessListMatch::All
    }
}

/// Whether a file has the same access control list as the file it replaces, possibly none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessListMatch {
    All,
    Nothing,
}

/// The most links in a row, as in Linux.
const LINKS: usize = 40;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_ALL: u32 = 0o002;
/// The mode bits that are kept: never set-user-ID, set-group-ID or sticky.
const RIGHTS: u32 = 0o777;
/// The mode of an unfinished file, because the file that it replaces may be as private.
pub(super) const PRIVATE: u32 = 0o600;

/// The path of the file that a write to `path` replaces, and that file's metadata if it exists: the end of the
/// symbolic links there, if there are any. The last one may lead to a file that does not exist yet.
///
/// The way there, including these links, is checked as by [`check_way`]: otherwise another user could choose the file
/// that is replaced.
pub(super) fn behind_links(path: &Path) -> Result<(PathBuf, Option<Metadata>), Fault> {
    behind_allowed_links(path, || Ok(()))
}

/// The same. `refuse_links` is called before a link is followed, and where there may be a link on the way.
pub(super) fn behind_allowed_links(
    path: &Path,
    refuse_links: impl FnOnce() -> Result<(), Fault>,
) -> Result<(PathBuf, Option<Metadata>), Fault> {
    let mut path = path.to_owned();
    if plain_way(path.parent().unwrap_or(Path::new("/"))).is_some()
        && let Some(found) = entry_at(&path)
    {
        return Ok((path, found));
    }
    refuse_links()?;
    for _ in 0..LINKS {
        let directory = path.parent().unwrap_or(Path::new("/"));
        check_way(directory)?;
        match link_at(&path).map_err(|error| error.at(directory))? {
            At::Link(leads_to) => path = directory.join(leads_to),
            At::Entry(found) => return Ok((path, Some(found))),
            At::Nothing => return Ok((path, None)),
        }
    }
    Err(circle())
}

/// The file at a path, or `Some(None)` if there is nothing; `None` for a link, and if the system does not tell.
pub(super) fn entry_at(path: &Path) -> Option<Option<Metadata>> {
    match link_at(path) {
        Ok(At::Entry(found)) => Some(Some(found)),
        Ok(At::Nothing) => Some(None),
        Ok(At::Link(_)) | Err(_) => None,
    }
}

/// Refuses a directory that another user could have chosen: the way to it goes through a symbolic link in a sticky
/// directory that everybody may write to (`/tmp`), and the link belongs neither to the caller nor to that directory's
/// owner. Linux has this rule only for the last name of a path, and only with `protected_symlinks`.
///
/// Returns the directory's path without links. Names that do not exist yet stay in it, to be made there.
pub(super) fn check_way(directory: &Path) -> Result<PathBuf, Fault> {
    if let Some(plain) = plain_way(directory) {
        return Ok(plain);
    }
    let mut rest = std::path::absolute(directory).map_err(|error| fault(error, directory))?;
    let (mut way, mut links) = (PathBuf::from("/"), 0);
    loop {
        let mut components = rest.components();
        let Some(component) = components.next() else { return Ok(way) };
        let behind = components.as_path();
        match component {
            Component::Normal(name) => {
                let next = way.join(name);
                match link_at(&next).map_err(|error| error.at(directory))? {
                    At::Entry(_) => way = next,
                    At::Nothing => return Ok(next.join(behind)),
                    At::Link(_) if links == LINKS => return Err(circle()),
                    At::Link(leads_to) => {
                        links += 1;
                        rest = leads_to.join(behind);
                        continue;
                    }
                }
            }
            Component::RootDir => way = PathBuf::from("/"),
            Component::ParentDir => drop(way.pop()),
            Component::CurDir | Component::Prefix(_) => {}
        }
        rest = behind.to_owned();
    }
}

/// The absolute path of the directory, if it exists and the way to it has no symbolic link.
fn plain_way(directory: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(directory).ok()?;
    let has_parents = absolute.components().any(|component| component == Component::ParentDir);
    (!has_parents && has_no_links(&absolute)).then_some(absolute)
}

/// Whether the directory exists and the way to it has no symbolic link. Linux tells with one system call; where the
/// system cannot tell, the answer is no.
fn has_no_links(directory: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(CWD, directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        false
    }
}

/// The entry at a path.
enum At {
    Nothing,
    /// Anything but a symbolic link.
    Entry(Metadata),
    /// A link that is followed, and its target.
    Link(PathBuf),
}

/// The reason why a link is not followed.
enum Unfollowed {
    System(io::Error),
    Planted(Fault),
}

impl Unfollowed {
    fn at(self, directory: &Path) -> Fault {
        match self {
            Self::System(error) => fault(error, directory),
            Self::Planted(fault) => fault,
        }
    }
}

/// Looks for a symbolic link at `path`, whose directory is not a link.
fn link_at(path: &Path) -> Result<At, Unfollowed> {
    let link = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => found,
        Ok(found) => return Ok(At::Entry(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(At::Nothing),
        Err(error) => return Err(Unfollowed::System(error)),
    };
    let holder = fs::metadata(path.parent().unwrap_or(Path::new("/"))).map_err(Unfollowed::System)?;
    if !may_follow(&link, &holder, rustix::process::geteuid().as_raw()) {
        let message = format!(
            "{} is a symbolic link of another user, in a directory that everybody may write to: it is not followed",
            path.display()
        );
        return Err(Unfollowed::Planted(Fault::new(FaultKind::Denied, message)));
    }
    fs::read_link(path).map(At::Link).map_err(Unfollowed::System)
}

fn circle() -> Fault {
    invalid("symbolic links go round in a circle")
}

fn may_follow(link: &Metadata, directory: &Metadata, caller: u32) -> bool {
    const OPEN: u32 = STICKY | WRITABLE_BY_ALL;
    directory.mode() & OPEN != OPEN || link.uid() == caller || link.uid() == directory.uid()
}

/// Gives `file`, which is private until now, its rights at `path`: those of the file there, or else those of a new
/// file. An existing file also passes on its access control list, its group if the caller may set it, and its owner
/// if the caller is root. If the list or the group cannot be kept, nobody gains a right that they did not have.
///
/// `preserved` rights, which the user asked for, are set instead. Where the system refuses that, the others are set:
/// some file systems have one mode for all files.
pub(super) fn take_over(file: &File, path: &Path, preserved: Option<u32>) -> io::Result<()> {
    let mut now = file.metadata()?;
    let is_preserved = || preserved.is_some_and(|rights| set_permissions(file, rights, path));
    let rights = match fs::symlink_metadata(path) {
        // Something other than a file has appeared since the path was looked up: its rights are unknown.
        Ok(replaced) if !replaced.is_file() => PRIVATE,
        Ok(replaced) => {
            let is_root = rustix::process::geteuid().is_root();
            if is_root && (now.uid(), now.gid()) != (replaced.uid(), replaced.gid()) {
                // A network file system or a container may refuse this: then the rules for other users apply.
                let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
                now = file.metadata()?;
            }
            if now.gid() != replaced.gid() {
                let _ = fchown(file, None, Some(replaced.gid()));
                now = file.metadata()?;
            }
            let has_same_group = now.gid() == replaced.gid();
            match access_list::take_over(file, path, has_same_group) {
                AccessListMatch::All => kept_rights(replaced.mode(), has_same_group),
                // The mode's group bits are the list's mask, and the list may give named users fewer rights than
                // others have.
                AccessListMatch::Nothing => replaced.mode() & 0o700,
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_preserved() => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => rights_of_new(path)?,
        Err(error) => return Err(error),
    };
    if is_preserved() {
        return Ok(());
    }
    if now.mode() & RIGHTS == rights {
        return Ok(()); // also where a file system has one mode for all files
    }
    file.set_permissions(Permissions::from_mode(rights))
}

/// Sets these rights; false if the system refuses.
pub(super) fn set_permissions(file: &File, rights: u32, path: &Path) -> bool {
    let set = file.set_permissions(Permissions::from_mode(rights & RIGHTS));
    set.inspect_err(|error| {
        tracing::warn!(file = %path.display(), %error, "the file's permissions could not be preserved");
    })
    .is_ok()
}

/// The rights of the replaced file. If the group differs, its rights would go to other people: then group and others
/// get only the rights that both had.
fn kept_rights(mode: u32, has_same_group: bool) -> u32 {
    if has_same_group {
        return mode & RIGHTS;
    }
    let both = (mode >> 3) & mode & 0o7;
    mode & 0o700 | both << 3 | both
}

/// The rights of a new file at `path`, by the process's umask and the directory's rules. The only way to learn them
/// is to make a file: one without a name, if the system can.
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
            take_over(&written(&new), &old, None).expect("taken over");
            assert_eq!(mode(&new), has, "{had:o}");
        }
    }

    #[test]
    fn a_new_file_has_the_rights_that_others_get() {
        let directory = tempfile::tempdir().expect("a directory");
        let (new, other) = (directory.path().join("new"), directory.path().join("other"));
        take_over(&written(&new), &directory.path().join("missing"), None).expect("taken over");
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
        take_over(&written(&new), &old, None).expect("taken over");
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
        assert_eq!(behind_links(&at("missing")).expect("a path").0, at("missing"));
        assert_eq!(behind_links(&at("twice")).expect("a path").0, at("d/file"));
        assert_eq!(behind_links(&at("circle")).expect_err("a fault").kind, FaultKind::Invalid);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_system_call_tells_whether_a_way_has_links() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().canonicalize().expect("a path");
        let at = |name: &str| directory.join(name);
        fs::create_dir_all(at("real/inner")).expect("directories");
        symlink("real", at("link")).expect("a link");
        fs::write(at("file"), "").expect("a file");
        assert!(has_no_links(&at("real/inner")));
        for path in ["link", "link/inner", "missing", "file"] {
            assert!(!has_no_links(&at(path)), "{path}");
        }
        assert_eq!(check_way(&at("link/inner")).expect("a way"), at("real/inner"));
        assert_eq!(check_way(&at("real/../real/inner")).expect("a way"), at("real/inner"));
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
            behind_links(&link).map(|(path, _)| path).map_err(|fault| fault.kind)
        };
        assert_eq!(own(4711, 0, 0o1777), Err(FaultKind::Denied));
        assert_eq!(own(4711, 4711, 0o1777).as_deref(), Ok(file.as_path()));
        assert_eq!(own(0, 4711, 0o1777).as_deref(), Ok(file.as_path()));
        assert_eq!(own(4711, 0, 0o755).as_deref(), Ok(file.as_path()));
        assert_eq!(own(4711, 0, 0o1775).as_deref(), Ok(file.as_path()));
        assert_eq!(own(4711, 0, 0o777).as_deref(), Ok(file.as_path()));
    }

    #[test]
    fn a_planted_link_is_not_followed_anywhere_in_a_path() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give a link to another user");
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().canonicalize().expect("a path");
        let at = |name: &str| directory.join(name);
        fs::create_dir_all(at("home/keys")).expect("directories");
        fs::create_dir(at("sticky")).expect("a directory");
        fs::set_permissions(at("sticky"), Permissions::from_mode(0o1777)).expect("permissions");
        symlink("../home", at("sticky/out")).expect("a link");
        symlink("sticky/out", at("to")).expect("a link");
        symlink("sticky/out/file", at("last")).expect("a link");
        symlink("sticky/../sticky/out/keys", at("twice")).expect("a link");
        let (through, around) = (
            [
                "sticky/out/file",
                "sticky/out/keys/file",
                "sticky/out/new/file",
                "to/file",
                "last",
                "twice/file",
            ],
            ["sticky/file", "home/keys/file", "sticky/new/file"],
        );
        let own = |uid| std::os::unix::fs::lchown(at("sticky/out"), Some(uid), None).expect("an owner");
        own(4711);
        for path in through {
            let fault = behind_links(&at(path)).expect_err(path);
            assert_eq!(fault.kind, FaultKind::Denied, "{path}");
            assert!(fault.message.contains("sticky/out is a symbolic link of another user"), "{fault}");
        }
        for path in around {
            assert_eq!(behind_links(&at(path)).expect(path).0, at(path));
        }
        own(0);
        for path in through {
            behind_links(&at(path)).expect(path);
        }
        assert_eq!(check_way(&at("twice")).expect("a way"), at("home/keys"));
        assert_eq!(check_way(&at("sticky/out/new/er")).expect("a way"), at("home/new/er"));
    }
}
