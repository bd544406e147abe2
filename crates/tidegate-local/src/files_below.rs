//! Opens the files of a tree that is read, never through a link to a directory.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fmt, io};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::beneath::{self, Entered};

/// The files below a directory. No symbolic link is followed on the way from the directory to a file: a name that was
/// listed as a directory may be a link by now, and lead out of the tree. The directory itself may be a link.
#[derive(Debug)]
pub struct FilesBelow {
    root: PathBuf,
    follows: bool,
    opened: OnceLock<OwnedFd>,
}

/// A name was a directory or a file when it was listed, and is a symbolic link now.
#[derive(Debug)]
struct LinkAbove {
    /// The path of the link.
    link: PathBuf,
}

impl fmt::Display for LinkAbove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} became a symbolic link since it was listed, and is not followed", self.link.display())
    }
}

impl std::error::Error for LinkAbove {}

impl FilesBelow {
    /// The files below `root`. A name that is itself a link to a file is opened if `follows`.
    pub fn new(root: impl Into<PathBuf>, follows: bool) -> Self {
        Self { root: root.into(), follows, opened: OnceLock::new() }
    }

    /// The path of the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Opens the file `name`, a path below the directory, for reading. Does not wait for the other end of a pipe.
    ///
    /// # Errors
    /// Those of the system, and one that names the link if a link is in the way.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let root = self.root()?;
        if let Some(file) = open_at_once(root, name) {
            return Ok(file);
        }
        let (below, last) = name.rsplit_once('/').unwrap_or(("", name));
        let link = |link| io::Error::other(LinkAbove { link });
        let directory = match beneath::below(root.try_clone()?, &self.root, below)? {
            Entered::Directory(directory) => directory,
            Entered::Missing => return Err(Errno::NOENT.into()),
            Entered::Link(above) => return Err(link(above)),
        };
        let flags = if self.follows { READ } else { READ | OFlags::NOFOLLOW };
        match openat(&directory, last, flags, Mode::empty()) {
            Err(Errno::LOOP) if !self.follows => Err(link(self.path(name))),
            opened => Ok(opened?.into()),
        }
    }

    /// The directory, which stays the same for all files.
    fn root(&self) -> io::Result<&OwnedFd> {
        match self.opened.get() {
            Some(opened) => Ok(opened),
            None => {
                let opened = beneath::root(&self.root)?;
                Ok(self.opened.get_or_init(|| opened))
            }
        }
    }
}

/// Without O_NONBLOCK, opening a pipe would wait for its other end.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens a file on a way without links by one call; `None` if that fails, or if the system has no such call.
#[cfg(target_os = "linux")]
fn open_at_once(root: &OwnedFd, name: &str) -> Option<File> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    openat2(root, name, READ, Mode::empty(), resolve).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: &OwnedFd, _: &str) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn read(files: &FilesBelow, name: &str) -> String {
        let read = files.open(name).and_then(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        });
        read.unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn no_file_is_opened_through_a_link_to_a_directory() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("real/d/e")).expect("directories");
        fs::create_dir(at("other")).expect("a directory");
        fs::write(at("real/d/e/f"), "inside").expect("a file");
        fs::write(at("real/f"), "above").expect("a file");
        fs::write(at("other/f"), "outside").expect("a file");
        symlink("real", at("root")).expect("a link");
        symlink("../other/f", at("real/to-file")).expect("a link");
        let files = |follows| FilesBelow::new(at("root"), follows);
        let (followed, unfollowed) = (files(true), files(false));
        assert_eq!((read(&followed, "d/e/f"), read(&unfollowed, "f")), ("inside".into(), "above".into()));
        assert_eq!(read(&followed, "to-file"), "outside", "a link to a file is that file");
        assert!(read(&unfollowed, "to-file").contains("root/to-file became a symbolic link"));
        assert_eq!(followed.open("d/x").expect_err("no file").kind(), io::ErrorKind::NotFound);
        fs::rename(at("real/d/e"), at("moved")).expect("a rename");
        symlink("../../other", at("real/d/e")).expect("a link");
        for files in [&followed, &unfollowed, &files(true)] {
            let error = files.open("d/e/f").expect_err("a link");
            let above = error.get_ref().and_then(|error| error.downcast_ref::<LinkAbove>());
            assert_eq!(above.expect("a link above").link, at("root/d/e"));
        }
    }
}
