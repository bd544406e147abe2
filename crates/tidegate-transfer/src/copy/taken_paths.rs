//! The names that the objects of a command take on this machine. Refuses an object whose name would have to be both a file
//! and a directory (`x` beside `x/y`), or whose file another object has by a name that the file system takes for the same.

use std::path::{Path, PathBuf};

use tidegate::backend::local::LINK_SUFFIX;
use tidegate::location::local_root;

use super::copies::CopyOutcome;
use super::item::CopyItem;
use super::sources::FoundItem;
use crate::error::{Error, Result};
use crate::folding::{DirectoryNames, FoldedNames};
use crate::hashed::HashedNames;
use crate::links::Links;

/// The files that the objects of a command take on this machine. The first object has the name, but links are made last.
#[derive(Debug)]
pub(super) struct TakenPaths {
    paths: Paths,
    links: Links,
    writes: bool,
    /// The directories that the command copies to: one, unless targets are named one by one.
    directories: Vec<(PathBuf, DirectoryNames)>,
    folded: FoldedNames,
}

/// The files and directories that objects take.
#[derive(Debug)]
pub(super) enum Paths {
    /// Objects come from one directory of this machine, below which no name is both.
    OfDirectory,
    /// Objects come in the order of their keys' bytes, and no object is a link. Has the earlier names that the current name
    /// begins with.
    InOrder(Vec<String>),
    /// They come in any order.
    Any { files: HashedNames, directories: HashedNames },
}

impl TakenPaths {
    /// A command that `writes` may make a file for a moment, to see what a directory does with names.
    pub(super) fn new(paths: Paths, links: Links, writes: bool) -> Self {
        Self { paths, links, writes, directories: Vec::new(), folded: FoldedNames::default() }
    }

    /// The item, or a failure.
    pub(super) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let item = found?;
        if self.links != Links::Preserve || !item.to.key.ends_with(LINK_SUFFIX) {
            self.take(&item).map_err(CopyOutcome::Failed)?;
        }
        Ok(item)
    }

    /// Gives an object its name, also one that becomes a link: those come when all files have their names.
    pub(super) fn take(&mut self, item: &CopyItem) -> Result {
        let (root, key) = (local_root(&item.to.store.location()), &*item.to.key);
        let link = key.strip_suffix(LINK_SUFFIX).filter(|_| self.links == Links::Preserve);
        let name = link.unwrap_or(key);
        self.paths.take(&root, name).map_err(|why| {
            let (source, target) = (item.source.name(), item.to.url());
            Error::Failed(format!("{source}: not copied to {target}: another object of this command {why}"))
        })?;
        let at = match self.directories.iter().position(|(directory, _)| *directory == root) {
            Some(at) => at,
            None => {
                let names = DirectoryNames::below(&root, self.writes);
                self.directories.push((root, names));
                self.directories.len() - 1
            }
        };
        let (root, names) = &self.directories[at];
        match names.folded(name) {
            Some(folded) if !self.folded.take(&(root, &folded), false) => {
                Err(Error::maybe_one_file(&item.source.name(), &item.to.url()))
            }
            _ => Ok(()),
        }
    }
}

impl Paths {
    /// For objects that come in any order.
    pub(super) fn any() -> Self {
        Self::Any { files: HashedNames::default(), directories: HashedNames::default() }
    }

    /// Takes a name below `root` for a file, and the names above it for directories.
    fn take(&mut self, root: &Path, name: &str) -> Result<(), String> {
        let above = || name.match_indices('/').map(|(at, _)| &name[..at]);
        // A directory on the disk stays: the object of its name fails, and those below it do not.
        let stays = |file: &str| !root.join(file).is_dir();
        let is_file = |file: &str| Err(format!("is the file {}", root.join(file).display()));
        match self {
            Self::OfDirectory => {}
            Self::InOrder(files) => {
                while files.last().is_some_and(|file| !name.starts_with(&**file)) {
                    files.pop();
                }
                if let Some(file) =
                    above().find(|above| files.iter().any(|file| file == above) && stays(above))
                {
                    return is_file(file);
                }
                files.push(name.to_owned());
            }
            Self::Any { files, directories } => {
                if directories.has(name) {
                    return Err("needs a directory of this name".to_owned());
                }
                if let Some(file) = above().find(|above| files.has(*above) && stays(above)) {
                    return is_file(file);
                }
                files.add(name);
                // The deepest first: the names above one that is taken are taken as well.
                above().collect::<Vec<_>>().into_iter().rev().all(|above| directories.add(above));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::Tidegate;
    use tidegate::backend::local::Local;

    use super::*;
    use crate::copy::item::ItemSource;
    use crate::place::Place;

    #[test]
    fn in_the_order_of_keys_few_names_are_kept() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        let mut taken = Paths::InOrder(Vec::new());
        let names = ["a", "a-", "a-b/c", "a/b", "a/b/c", "ab", "d", "d/e"];
        let refused = names.into_iter().filter(|name| taken.take(root.path(), name).is_err());
        assert_eq!(refused.collect::<Vec<_>>(), ["a/b", "a/b/c"]);
        let Paths::InOrder(kept) = taken else { panic!("{taken:?}") };
        assert_eq!(kept, ["d", "d/e"]);
    }

    #[test]
    fn a_name_is_a_file_or_a_directory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        let mut taken = Paths::any();
        let mut take = |name: &str| taken.take(root.path(), name).is_ok();
        for (name, is_free) in [
            ("x", true),
            ("x-", true),
            ("x/y", false),
            ("x/y/z", false),
            ("a/b/c", true),
            ("a/b", false),
            ("a", false),
            ("a/b/d", true),
            ("a/c", true),
            ("d", true),
            ("d/e", true),
        ] {
            assert_eq!(take(name), is_free, "{name}");
        }
    }

    #[test]
    fn the_second_object_of_one_file_fails() {
        let root = tempfile::tempdir().unwrap();
        let tide = Tidegate::builder().build().unwrap();
        let item = |key: &str| {
            let source = Place::named(tide.store(Arc::new(Local::new("/source"))), key);
            let to = Place::named(tide.store(Arc::new(Local::new(root.path()))), key);
            CopyItem { source: ItemSource::object(source), to }
        };
        let keys = ["IMG.jpg", "a/x", "A/X", "img.jpg", "b", "Img.JPG.rclonelink", "B.rclonelink"];
        let refused = |links, folds: bool| {
            let mut targets = TakenPaths::new(Paths::OfDirectory, links, true);
            if folds {
                targets.directories.push((root.path().to_owned(), DirectoryNames::that_fold(root.path())));
            }
            let mut refused: Vec<_> =
                keys.iter().filter(|key| targets.checked(Ok(item(key))).is_err()).collect();
            if links == Links::Preserve {
                refused.extend(keys[5..].iter().filter(|key| targets.take(&item(key)).is_err()));
            }
            refused.into_iter().copied().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(refused(Links::Files, true), "A/X img.jpg");
        assert_eq!(refused(Links::Preserve, true), "A/X img.jpg Img.JPG.rclonelink B.rclonelink");
        assert_eq!(refused(Links::Preserve, false), "");
    }
}
