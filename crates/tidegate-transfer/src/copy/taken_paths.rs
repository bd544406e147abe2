//! Refuses an object whose name on this machine would have to be both a file and a directory: `x` beside `x/y`.

use std::path::Path;

use tidegate::backend::local::LINK_SUFFIX;
use tidegate::location::local_root;

use super::copies::CopyOutcome;
use super::item::CopyItem;
use super::sources::FoundItem;
use crate::error::{Error, Result};
use crate::hashed::HashedNames;
use crate::links::Links;

/// The files and directories that the objects of a command take on this machine. The first object has the name, but links
/// are made last.
#[derive(Debug)]
pub(super) enum TakenPaths {
    /// Objects come in the order of their keys' bytes, and no object is a link. Has the earlier names that the current name
    /// begins with.
    InOrder(Vec<String>),
    /// They come in any order.
    Any { files: HashedNames, directories: HashedNames, links: Links },
}

impl TakenPaths {
    /// In any order.
    pub(super) fn new(links: Links) -> Self {
        Self::Any { files: HashedNames::default(), directories: HashedNames::default(), links }
    }

    /// The item, or a failure.
    pub(super) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let item = found?;
        if let Self::Any { links: Links::Preserve, .. } = self
            && item.to.key.ends_with(LINK_SUFFIX)
        {
            return Ok(item);
        }
        self.take(&item, &item.to.key).map_err(CopyOutcome::Failed)?;
        Ok(item)
    }

    /// The same for a link, when all files have their names.
    pub(super) fn take_link(&mut self, link: &CopyItem) -> Result {
        self.take(link, link.to.key.strip_suffix(LINK_SUFFIX).unwrap_or(&link.to.key))
    }

    fn take(&mut self, item: &CopyItem, name: &str) -> Result {
        self.take_name(&local_root(&item.to.store.location()), name).map_err(|why| {
            let (source, target) = (item.source.name(), item.to.url());
            Error::Failed(format!("{source}: not copied to {target}: another object of this command {why}"))
        })
    }

    /// Takes a name below `root` for a file, and the names above it for directories.
    fn take_name(&mut self, root: &Path, name: &str) -> Result<(), String> {
        let above = || name.match_indices('/').map(|(at, _)| &name[..at]);
        // A directory on the disk stays: the object of its name fails, and those below it do not.
        let stays = |file: &str| !root.join(file).is_dir();
        let is_file = |file: &str| Err(format!("is the file {}", root.join(file).display()));
        match self {
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
            Self::Any { files, directories, .. } => {
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
    use super::*;

    #[test]
    fn in_the_order_of_keys_few_names_are_kept() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        let mut taken = TakenPaths::InOrder(Vec::new());
        let names = ["a", "a-", "a-b/c", "a/b", "a/b/c", "ab", "d", "d/e"];
        let refused = names.into_iter().filter(|name| taken.take_name(root.path(), name).is_err());
        assert_eq!(refused.collect::<Vec<_>>(), ["a/b", "a/b/c"]);
        let TakenPaths::InOrder(kept) = taken else { panic!("{taken:?}") };
        assert_eq!(kept, ["d", "d/e"]);
    }

    #[test]
    fn a_name_is_a_file_or_a_directory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        let mut taken = TakenPaths::new(Links::Files);
        let mut take = |name: &str| taken.take_name(root.path(), name).is_ok();
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
}
