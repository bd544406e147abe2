//! What is in the way of an object that is to become a file, or a link, on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidegate::backend::local::LINK_SUFFIX;
use tidegate::text::printable;

use crate::error::{Error, Result};
use crate::hashed::HashedNames;
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
    /// A device, a named pipe or a socket in the place of the object.
    NotRegular(String),
}

impl Obstacle {
    /// Looks for what is in the way of the object `key` below the directory `root`.
    pub(crate) fn find(root: &Path, key: &str, links: Links, writes: WriteLinks) -> Option<Self> {
        // As a path, such a key may lead out of the root. Its write is refused.
        if !may_be_file(key) {
            return None;
        }
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
            (Some(_), _) if !found.is_file() => Some(Self::NotRegular(name.to_owned())),
            (Some(_), _) => Some(Self::Replaced(name.to_owned())),
            (None, WriteLinks::Refuse) if found.is_symlink() => Some(Self::Link(name.to_owned())),
            (None, WriteLinks::Follow) if path.is_dir() => Some(Self::Directory(name.to_owned())),
            (None, _) if path.metadata().is_ok_and(|found| !found.is_file()) => {
                Some(Self::NotRegular(name.to_owned()))
            }
            (None, _) => None,
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
            Self::NotRegular(name) => format!("{} is not a regular file", path(name)),
            Self::Replaced(name) => format!(
                "{} is a file, and a symbolic link would replace it: remove it, or add --delete if only the target has it",
                path(name)
            ),
        };
        Error::Failed(printable(&format!("{target}: {why}")).into_owned())
    }
}

/// Whether a file may have this key as its path below a directory: no other path leads to the same file.
pub(crate) fn may_be_file(key: &str) -> bool {
    !key.split('/').any(|name| matches!(name, "" | "." | ".."))
}

/// Fails if a name in the path `name` below `root` is longer than the file system there allows.
pub(crate) fn refuse_long_names(root: &Path, name: &str) -> Result {
    let longest = name.split('/').map(str::len).max().unwrap_or_default() as u64;
    let directory = root.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    // Where the system does not tell, the write will.
    let Ok(most) = rustix::fs::statvfs(directory).map(|system| system.f_namemax) else { return Ok(()) };
    if longest <= most {
        return Ok(());
    }
    let path = root.join(name).display().to_string();
    Err(Error::Failed(format!("{}: a file's name has at most {most} bytes there", printable(&path))))
}

/// What is in the way of objects below one root, by names below the root.
#[derive(Debug, Default)]
pub(crate) struct InTheWay {
    /// Files and links, by the keys that they have as objects, each with the key of an object that it is in the way of.
    files: BTreeMap<String, (Obstacle, String)>,
    /// The same for directories.
    directories: BTreeMap<String, String>,
}

impl InTheWay {
    /// Adds what is in the way of the object `of`.
    pub(crate) fn add(&mut self, obstacle: Obstacle, of: &str, links: Links) {
        let key = match &obstacle {
            Obstacle::Directory(name) => {
                self.directories.entry(name.clone()).or_insert_with(|| of.to_owned());
                return;
            }
            // A link has a key of its own.
            Obstacle::Link(name) if links == Links::Preserve => format!("{name}{LINK_SUFFIX}"),
            Obstacle::Link(name)
            | Obstacle::File(name)
            | Obstacle::Replaced(name)
            | Obstacle::NotRegular(name) => name.clone(),
        };
        self.files.entry(key).or_insert_with(|| (obstacle, of.to_owned()));
    }

    /// Whether the object of this key is in the way.
    pub(crate) fn has(&self, key: &str) -> bool {
        let mut above = key.match_indices('/').map(|(at, _)| &key[..at]);
        self.files.contains_key(key) || above.any(|name| self.directories.contains_key(name))
    }

    /// The failures of objects that something is still in the way of when the objects of the keys `removed` are gone:
    /// something that no removal names, such as a named pipe, or what a filter leaves out. `refused` is the failure of an
    /// object if another one needs the directory of this name that is in its way.
    pub(crate) fn that_stays(
        &self,
        removed: &HashedNames,
        root: &Path,
        links: Links,
        refused: impl Fn(&str, &str) -> Option<Error>,
    ) -> Result<Vec<Error>> {
        let target = |key: &str| root.join(key).display().to_string();
        let files = self.files.iter().filter(|(key, _)| !removed.has(&***key));
        let mut failures: Vec<_> =
            files.map(|(_, (obstacle, of))| obstacle.failure(root, &target(of))).collect();
        for (name, of) in &self.directories {
            if let Some(failure) = refused(name, of) {
                failures.push(failure);
                continue;
            }
            // Nothing is removed through a link.
            let mut ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
            let is_behind_link = ends.any(|end| root.join(&name[..end]).is_symlink());
            let stays = match is_behind_link {
                true => Some(root.join(name)),
                false => entry_that_stays(root, name, links, removed)?,
            };
            if let Some(path) = stays {
                let directory = root.join(name);
                failures.push(Error::Failed(format!(
                    "{}: {} is in the way, and is not removed, because {} stays: it is left out, or no object of the \
                     target",
                    printable(&target(of)),
                    printable(&directory.display().to_string()),
                    printable(&path.display().to_string()),
                )));
            }
        }
        Ok(failures)
    }

    /// Whether the directory of this name is in the way.
    pub(crate) fn has_directory(&self, name: &str) -> bool {
        self.directories.contains_key(name)
    }

    /// Removes the directories that are in the way, if they and the directories in them are empty.
    pub(crate) fn remove_directories(&self, root: &Path) -> Result {
        let remove = |name: &String| remove_empty(&root.join(name));
        self.directories.keys().try_for_each(remove)
    }
}

/// An entry below the directory `name`, other than a directory, whose key is not among those that are `removed`.
fn entry_that_stays(root: &Path, name: &str, links: Links, removed: &HashedNames) -> Result<Option<PathBuf>> {
    let directory = root.join(name);
    let failed = |error| Error::of_file(&directory, &error);
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let file = entry.file_name();
        let Some(file) = file.to_str() else { return Ok(Some(entry.path())) };
        let suffix = if kind.is_symlink() && links == Links::Preserve { LINK_SUFFIX } else { "" };
        let key = format!("{name}/{file}{suffix}");
        if kind.is_dir() {
            if let Some(stays) = entry_that_stays(root, &key, links, removed)? {
                return Ok(Some(stays));
            }
        } else if !removed.has(&*key) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Removes a directory that holds nothing but directories. It stays, with a part of them, if it holds more.
fn remove_empty(directory: &Path) -> Result {
    let failed = |error| Error::of_file(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_dir() {
            let (path, directory) = (entry.path(), directory.display());
            return Err(Error::Failed(format!(
                "{}: not removed: it is new since the listing, and {directory} is in the way of an object",
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
            ("d/../d", files, refuse, None),
            ("d/./e", files, refuse, None),
            ("/d", files, refuse, None),
        ] {
            assert_eq!(find(key, links, writes), expected, "{key} {links:?} {writes:?}");
        }
    }

    #[test]
    fn only_what_is_in_the_way_is_removed_before_its_replacement() {
        let mut in_the_way = InTheWay::default();
        in_the_way.add(Obstacle::File("a/f".to_owned()), "a/f/x", Links::Files);
        in_the_way.add(Obstacle::Directory("d".to_owned()), "d", Links::Files);
        in_the_way.add(Obstacle::Link("l".to_owned()), "l/x", Links::Preserve);
        for key in ["a/f", "d/x", "d/e/y", "l.rclonelink"] {
            assert!(in_the_way.has(key), "{key}");
        }
        for key in ["a", "a/f/x", "a/f.rclonelink", "a/ff", "d", "d-x", "e/d/x", "l"] {
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

    #[test]
    fn what_stays_in_the_way_is_known_before_anything_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("d/e")).unwrap();
        fs::create_dir_all(at("real/e")).unwrap();
        fs::write(at("d/e/x"), "1").unwrap();
        symlink("/", at("d/link")).unwrap();
        symlink("real", at("l")).unwrap();
        let stays = |obstacle: Obstacle, links, removed: &[&str]| {
            let (mut in_the_way, mut names) = (InTheWay::default(), HashedNames::default());
            in_the_way.add(obstacle, "d", links);
            removed.iter().for_each(|key| _ = names.add(*key));
            let failures = in_the_way.that_stays(&names, root.path(), links, |_, _| None).unwrap();
            failures.iter().map(ToString::to_string).collect::<String>()
        };
        let (directory, files, preserve) =
            (|name: &str| Obstacle::Directory(name.to_owned()), Links::Files, Links::Preserve);
        assert_eq!(stays(directory("d"), files, &["d/e/x", "d/link"]), "");
        assert_eq!(stays(directory("d"), preserve, &["d/e/x", "d/link.rclonelink"]), "");
        assert_eq!(stays(directory("real"), files, &[]), "");
        for (links, removed, name) in [
            (files, ["d/e/x", "d/e"], "d/link stays"),
            (preserve, ["d/e/x", "d/link"], "d/link stays"),
            (files, ["d/link", "d/e"], "d/e/x stays"),
        ] {
            let failure = stays(directory("d"), links, &removed);
            assert!(failure.contains(name) && failure.contains("d: "), "{failure}");
        }
        assert!(stays(directory("l/e"), files, &[]).contains("l/e stays"));
        assert!(stays(directory("l"), files, &[]).contains("l stays"));
        let file = || Obstacle::File("f".to_owned());
        assert_eq!(stays(file(), files, &["f"]), "");
        assert!(stays(file(), files, &["g"]).contains("f is a file"));
    }
}
