//! What is in the way of an object that is to become a file, or a link, on this machine.

use std::collections::BTreeSet;
use std::path::Path;

use tidegate::backend::local::LINK_SUFFIX;
use tidegate::text::printable;

use crate::error::{Error, Result};
use crate::links::{Links, WriteLinks};

/// What is in the way, with its name below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A symbolic link, in the place of the object or of a directory that it needs. Nothing is written through it.
    Link(String),
    /// A file in the place of a directory that the object needs.
    File(String),
    /// A file in the place of a link, which replaces it.
    Replaced(String),
    /// A directory in the place of the object.
    Directory(String),
}

impl Obstacle {
    /// Looks for what is in the way of the object `key` below the directory `root`.
    pub(crate) fn find(root: &Path, key: &str, links: Links, writes: WriteLinks) -> Option<Self> {
        let link = key.strip_suffix(LINK_SUFFIX).filter(|_| links == Links::Preserve);
        let name = link.unwrap_or(key);
        for end in name.match_indices('/').map(|(at, _)| at) {
            let (path, at) = (root.join(&name[..end]), || name[..end].to_owned());
            let found = path.symlink_metadata().ok()?;
            match writes {
                _ if found.is_dir() => {}
                WriteLinks::Refuse if found.is_symlink() => return Some(Self::Link(at())),
                WriteLinks::Follow if path.is_dir() => {}
                _ => return Some(Self::File(at())),
            }
        }
        let path = root.join(name);
        let found = path.symlink_metadata().ok()?;
        match (link, writes) {
            _ if found.is_dir() => Some(Self::Directory(name.to_owned())),
            (Some(_), _) if found.is_symlink() => None,
            (Some(_), _) => Some(Self::Replaced(name.to_owned())),
            (None, WriteLinks::Refuse) if found.is_symlink() => Some(Self::Link(name.to_owned())),
            (None, WriteLinks::Follow) if path.is_dir() => Some(Self::Directory(name.to_owned())),
            (None, _) => None,
        }
    }

    /// The name below the root.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Link(name) | Self::File(name) | Self::Replaced(name) | Self::Directory(name) => name,
        }
    }

    /// The failure of a copy to `target` below `root`.
    pub(crate) fn failure(&self, root: &Path, target: &str) -> Error {
        let path = |name: &str| root.join(name).display().to_string();
        let why = match self {
            Self::Link(name) => format!(
                "{} is a symbolic link, and nothing is written through links: remove it, or add --links follow, if \
                 that is meant",
                path(name)
            ),
            Self::File(name) => format!("{} is a file, and it would need to be a directory", path(name)),
            Self::Directory(name) => format!("{} is a directory", path(name)),
            Self::Replaced(name) => format!(
                "{} is a file of the target alone, and a symbolic link would replace it: remove it, or add --delete",
                path(name)
            ),
        };
        Error::Failed(printable(&format!("{target}: {why}")).into_owned())
    }
}

/// The names below a root that are in the way of other objects.
#[derive(Debug, Default)]
pub(crate) struct InTheWay {
    /// Keys of files and links.
    files: BTreeSet<String>,
    directories: BTreeSet<String>,
}

impl InTheWay {
    pub(crate) fn add(&mut self, obstacle: Obstacle, links: Links) {
        match obstacle {
            Obstacle::Directory(name) => _ = self.directories.insert(name),
            Obstacle::Link(name) | Obstacle::File(name) | Obstacle::Replaced(name) => {
                if links == Links::Preserve {
                    // A link has a key of its own.
                    self.files.insert(format!("{name}{LINK_SUFFIX}"));
                }
                self.files.insert(name);
            }
        }
    }

    /// Whether the object of this key is in the way.
    pub(crate) fn has(&self, key: &str) -> bool {
        let mut above = key.match_indices('/').map(|(at, _)| &key[..at]);
        self.files.contains(key) || above.any(|name| self.directories.contains(name))
    }

    /// Removes the directories that are in the way, if they and the directories in them are empty.
    pub(crate) fn remove_directories(&self, root: &Path) -> Result {
        let remove = |name: &String| remove_empty(&root.join(name));
        self.directories.iter().try_for_each(remove)
    }
}

/// Removes a directory that holds nothing but directories. It stays, with a part of them, if it holds more.
fn remove_empty(directory: &Path) -> Result {
    let failed = |error| Error::of_file(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_dir() {
            let (path, directory) = (entry.path(), directory.display());
            return Err(Error::Failed(format!(
                "{}: not removed: it is no object of the target, and {directory} is in the way of an object",
                printable(&path.display().to_string()),
            )));
        }
        remove_empty(&entry.path())?;
    }
    std::fs::remove_dir(directory).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_in_the_way_is_found() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("d/e")).unwrap();
        fs::write(at("f"), "1").unwrap();
        symlink("d", at("to-d")).unwrap();
        symlink("f", at("to-f")).unwrap();
        let find = |key: &str, links, writes| Obstacle::find(root.path(), key, links, writes);
        let some = |kind: fn(String) -> Obstacle, name: &str| Some(kind(name.to_owned()));
        let (files, preserve) = (Links::Files, Links::Preserve);
        let (refuse, follow) = (WriteLinks::Refuse, WriteLinks::Follow);
        for (key, links, writes, expected) in [
            ("d/new", files, refuse, None),
            ("new/er", files, refuse, None),
            ("f", files, refuse, None),
            ("d/e", files, refuse, some(Obstacle::Directory, "d/e")),
            ("f/x/y", files, refuse, some(Obstacle::File, "f")),
            ("to-d/x", files, refuse, some(Obstacle::Link, "to-d")),
            ("to-f", files, refuse, some(Obstacle::Link, "to-f")),
            ("to-d/x", files, follow, None),
            ("to-f", files, follow, None),
            ("to-d", files, follow, some(Obstacle::Directory, "to-d")),
            ("to-f/x", files, follow, some(Obstacle::File, "to-f")),
            ("to-f.rclonelink", preserve, refuse, None),
            ("f.rclonelink", preserve, refuse, some(Obstacle::Replaced, "f")),
            ("d.rclonelink", preserve, refuse, some(Obstacle::Directory, "d")),
            ("f.rclonelink", files, refuse, None),
        ] {
            assert_eq!(find(key, links, writes), expected, "{key} {links:?} {writes:?}");
        }
    }

    #[test]
    fn only_what_is_in_the_way_is_removed_before_its_replacement() {
        let mut in_the_way = InTheWay::default();
        in_the_way.add(Obstacle::File("a/f".to_owned()), Links::Files);
        in_the_way.add(Obstacle::Directory("d".to_owned()), Links::Files);
        in_the_way.add(Obstacle::Link("l".to_owned()), Links::Preserve);
        for key in ["a/f", "d/x", "d/e/y", "l.rclonelink"] {
            assert!(in_the_way.has(key), "{key}");
        }
        for key in ["a", "a/f/x", "a/f.rclonelink", "a/ff", "d", "d-x", "e/d/x"] {
            assert!(!in_the_way.has(key), "{key}");
        }
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("d/e/f")).unwrap();
        in_the_way.remove_directories(root.path()).unwrap();
        assert!(!root.path().join("d").exists());
        fs::create_dir_all(root.path().join("d/e")).unwrap();
        symlink("/", root.path().join("d/e/link")).unwrap();
        let failure = in_the_way.remove_directories(root.path()).unwrap_err();
        assert!(failure.to_string().contains("d/e/link: not removed"), "{failure:?}");
    }
}
