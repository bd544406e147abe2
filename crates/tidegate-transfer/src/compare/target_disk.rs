//! What the plan of two trees asks of the directory that is the target.

use std::path::{Path, PathBuf};

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

    fn has_file(&self, name: &str) -> bool {
        let file = self.target.path(name).and_then(|path| path.symlink_metadata().ok());
        file.is_some_and(|found| found.is_file())
    }

    fn folded(&self, name: &str) -> Option<String> {
        self.names.as_ref()?.folded(name)
    }

    fn obstacle(&self, key: &str) -> Option<Obstacle> {
        let target = &self.target;
        Obstacle::find(target.directory.as_deref()?, key, target.links, target.rules.writes)
    }
}
