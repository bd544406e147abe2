//! What the plan of two trees asks of the directory that is the target.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use tidegate::Object;

use super::Trees;
use crate::links::{Links, WriteLinks};
use crate::obstacle::Obstacle;
use crate::plan::{FileBehindLinks, TargetDisk};
use crate::resolved::resolved;

impl TargetDisk for Trees {
    fn has_directory(&self, name: &str) -> bool {
        let follows = self.target.links == Links::Follow;
        self.target.path(name).is_some_and(|path| path.is_dir() && (follows || !path.is_symlink()))
    }

    fn link_above(&self, key: &str) -> Option<PathBuf> {
        let directory = self.target.directory.as_deref()?;
        let above = key.match_indices('/').map(|(at, _)| directory.join(&key[..at]));
        above.into_iter().find(|path| path.is_symlink())
    }

    fn file_behind_links(&self, key: &str) -> Option<FileBehindLinks> {
        let target = &self.target;
        let directory = target.directory.as_deref().filter(|_| target.rules.writes == WriteLinks::Follow)?;
        let file = resolved(&directory.join(key));
        let key_below = |root: &Path| file.strip_prefix(root).ok()?.to_str().map(str::to_owned);
        let in_source = || key_below(target.other.as_ref()?.resolved()).map(FileBehindLinks::OfSource);
        let root = target.resolved.get_or_init(|| resolved(directory));
        let in_target = key_below(root).map(FileBehindLinks::OfTarget);
        in_target.or_else(in_source).or_else(|| Some(FileBehindLinks::OfTarget(file.display().to_string())))
    }

    fn file(&self, name: &str) -> Option<Object> {
        let path = self.target.path(name)?;
        let found = match self.target.links {
            Links::Files | Links::Follow => path.metadata(),
            Links::Skip | Links::Preserve => path.symlink_metadata(),
        };
        let found = found.ok().filter(Metadata::is_file)?;
        let mut file = Object::default();
        (file.key, file.size, file.modified) = (name.to_owned(), found.len(), found.modified().ok());
        Some(file)
    }

    fn folded(&self, name: &str) -> Option<String> {
        self.names.as_ref()?.folded(name)
    }

    fn obstacle(&self, key: &str) -> Option<Obstacle> {
        let target = &self.target;
        Obstacle::find(target.directory.as_deref()?, key, target.links, target.rules.writes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tidegate::Tidegate;

    use super::*;
    use crate::compare::{CompareOptions, Tree};
    use crate::links::FileOptions;
    use crate::select::ObjectFilter;

    #[test]
    fn a_file_is_what_a_listing_would_have_of_the_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("file"), "12345").unwrap();
        symlink("file", at("link")).unwrap();
        let tide = Tidegate::builder().build().unwrap();
        for (links, names) in [
            (Links::Files, ["file", "link"].as_slice()),
            (Links::Follow, &["file", "link"]),
            (Links::Skip, &["file"]),
            (Links::Preserve, &["file"]),
        ] {
            let (source, target) = (Tree::directory(&tide, "/source"), Tree::directory(&tide, root.path()));
            let files = FileOptions { links, ..FileOptions::default() };
            let options = CompareOptions { files, ..CompareOptions::default() };
            let rules = (links.of_source(), links.of_target());
            let (source, target) = (source.with_links(links, rules.0), target.with_links(links, rules.1));
            let trees = Trees::of(source, target, options, ObjectFilter::default());
            let has = |name: &&str| trees.file(name).is_some_and(|file| file.size == 5);
            let found: Vec<_> =
                ["directory", "file", "link", "none"].into_iter().filter(|name| has(name)).collect();
            assert_eq!(found, names, "{links:?}");
        }
    }
}
