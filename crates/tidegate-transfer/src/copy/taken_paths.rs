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

const NEEDS_DIRECTORY: &str = "needs a directory of this name";

/// The files and directories that the objects of a command take on this machine, in whatever order they come. The first
/// object has the name, but links are made last.
#[derive(Debug)]
pub(super) struct TakenPaths {
    files: HashedNames,
    directories: HashedNames,
    links: Links,
}

impl TakenPaths {
    pub(super) fn new(links: Links) -> Self {
        Self { files: HashedNames::default(), directories: HashedNames::default(), links }
    }

    /// The item, or a failure.
    pub(super) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let item = found?;
        let root = local_root(&item.to.store.location());
        let refused = match self.link_of(&item) {
            Some(_) => self.refuse_link(&item),
            None => self.take(&root, &item.to.key).map_err(|why| refused(&item, &why)),
        };
        refused.map_err(CopyOutcome::Failed)?;
        Ok(item)
    }

    /// Refuses a link whose name another object needs a directory of.
    pub(super) fn refuse_link(&self, item: &CopyItem) -> Result {
        match self.link_of(item).is_some_and(|name| self.directories.has(name)) {
            true => Err(refused(item, NEEDS_DIRECTORY)),
            false => Ok(()),
        }
    }

    fn link_of<'a>(&self, item: &'a CopyItem) -> Option<&'a str> {
        item.to.key.strip_suffix(LINK_SUFFIX).filter(|_| self.links == Links::Preserve)
    }

    /// Takes a name below `root` for a file, and the names above it for directories.
    fn take(&mut self, root: &Path, name: &str) -> Result<(), String> {
        if self.directories.has(name) {
            return Err(NEEDS_DIRECTORY.to_owned());
        }
        let above = || name.match_indices('/').map(|(at, _)| &name[..at]);
        // A directory on the disk stays: the object of its name fails, and those below it do not.
        if let Some(file) = above().find(|above| self.files.has(*above) && !root.join(above).is_dir()) {
            return Err(format!("is the file {}", root.join(file).display()));
        }
        self.files.add(name);
        // The deepest first: the names above one that is taken are taken as well.
        above().collect::<Vec<_>>().into_iter().rev().all(|above| self.directories.add(above));
        Ok(())
    }
}

fn refused(item: &CopyItem, why: &str) -> Error {
    let (source, target) = (item.source.name(), item.to.url());
    Error::Failed(format!("{source}: not copied to {target}: another object of this command {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_or_a_directory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        let mut taken = TakenPaths::new(Links::Files);
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
}
