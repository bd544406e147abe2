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
        if self.links == Links::Preserve && item.to.key.ends_with(LINK_SUFFIX) {
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
        if self.directories.has(name) {
            return Err("needs a directory of this name".to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

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
