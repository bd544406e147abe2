//! Refuses an object whose file another object of the command has, because the file system takes their names for one.

use std::path::PathBuf;

use tidegate::backend::local::LINK_SUFFIX;
use tidegate::location::local_root;

use super::copies::CopyOutcome;
use super::item::CopyItem;
use super::sources::FoundItem;
use crate::error::{Error, Result};
use crate::folding::DirectoryNames;
use crate::hashed::HashedNames;
use crate::links::Links;

/// The files that the objects of a command become below directories that do not tell all names apart. Nothing is kept of
/// other files.
#[derive(Debug)]
pub(super) struct FoldedTargets {
    /// The directories that the command copies to: one, unless targets are named one by one.
    directories: Vec<(PathBuf, DirectoryNames)>,
    names: HashedNames,
    links: Links,
    writes: bool,
}

impl FoldedTargets {
    /// A command that `writes` may make a file for a moment.
    pub(super) fn new(links: Links, writes: bool) -> Self {
        Self { directories: Vec::new(), names: HashedNames::default(), links, writes }
    }

    /// The item, or a failure. Links are made last.
    pub(super) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let item = found?;
        if self.links != Links::Preserve || !item.to.key.ends_with(LINK_SUFFIX) {
            self.take(&item, &item.to.key).map_err(CopyOutcome::Failed)?;
        }
        Ok(item)
    }

    /// The same for a link, when all files have their names.
    pub(super) fn take_link(&mut self, link: &CopyItem) -> Result {
        self.take(link, link.to.key.strip_suffix(LINK_SUFFIX).unwrap_or(&link.to.key))
    }

    fn take(&mut self, item: &CopyItem, name: &str) -> Result {
        let root = local_root(&item.to.store.location());
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
            Some(folded) if !self.names.add(&(root, &folded)) => {
                Err(Error::one_file(&item.source.name(), &item.to.url()))
            }
            _ => Ok(()),
        }
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
            let mut targets = FoldedTargets::new(links, true);
            if folds {
                targets.directories.push((root.path().to_owned(), DirectoryNames::that_fold(root.path())));
            }
            let mut refused: Vec<_> =
                keys.iter().filter(|key| targets.checked(Ok(item(key))).is_err()).collect();
            if links == Links::Preserve {
                refused.extend(keys[5..].iter().filter(|key| targets.take_link(&item(key)).is_err()));
            }
            refused.into_iter().copied().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(refused(Links::Files, true), "A/X img.jpg");
        assert_eq!(refused(Links::Preserve, true), "A/X img.jpg Img.JPG.rclonelink B.rclonelink");
        assert_eq!(refused(Links::Preserve, false), "");
    }
}
