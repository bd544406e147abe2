//! Refuses copies of several sources that would replace each other.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use tidegate::backend::local::LINK_SUFFIX;
use tidegate::location::local_root;

use super::copies::CopyOutcome;
use super::sources::FoundItem;
use crate::error::Error;
use crate::links::{Links, WriteLinks};
use crate::place::Place;
use crate::resolved::resolved;
use crate::select::Selection;

/// The targets of a command with several sources. A second object with the same target fails, and so does one whose
/// target is another source: the first would be lost, and a move would have removed it at its source.
pub(crate) struct DistinctTargets {
    /// Two hashes of each target: whole URLs of a million objects would take much memory.
    seen: HashSet<(u64, u64)>,
    hashers: (RandomState, RandomState),
    /// The sources that the command names one by one.
    sources: HashSet<String>,
    /// The trees that the command takes objects of.
    trees: Vec<SourceTree>,
    links: Links,
}

/// A tree that a command takes objects of.
pub(crate) struct SourceTree {
    /// A place whose key is the prefix of the tree.
    pub(crate) root: Place,
    pub(crate) selection: Selection,
}

impl SourceTree {
    fn holds(&self, target: &str) -> bool {
        let root = match self.root.is_local() {
            true => resolved(&local_root(&self.root.store.location())).to_string_lossy().into_owned(),
            false => self.root.url(),
        };
        let key = target.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
        key.is_some_and(|key| self.selection.takes_name(key))
    }
}

impl DistinctTargets {
    /// `sources` are the places of objects that the command names one by one.
    pub(crate) fn new(sources: Vec<Place>, trees: Vec<SourceTree>, links: Links) -> Self {
        let hashers = (RandomState::new(), RandomState::new());
        let sources = sources.iter().map(|source| identity(source, links)).collect();
        Self { seen: HashSet::new(), hashers, sources, trees, links }
    }

    /// The item, or a failure.
    pub(crate) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let item = found?;
        let target = identity(&item.to, self.links);
        let refused = |why: &str| {
            let (source, target) = (item.source.name(), item.to.url());
            Err(CopyOutcome::Failed(Error::Failed(format!("{source}: not copied to {target}: {why}"))))
        };
        let is_source =
            || self.sources.contains(&target) || self.trees.iter().any(|tree| tree.holds(&target));
        if is_source() && target != identity(item.source.place(), self.links) {
            return refused("that is another source of this command");
        }
        if !self.seen.insert((self.hashers.0.hash_one(&target), self.hashers.1.hash_one(&target))) {
            return refused("another object of this command goes there");
        }
        Ok(item)
    }
}

/// What tells a place from others: the URL, or the path without links. A file and a link of one name
/// (`--links preserve`) are one place on this machine.
fn identity(place: &Place, links: Links) -> String {
    let path = match place.file() {
        Ok(path) if place.is_local() => path,
        _ => return place.url(),
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let link = name.strip_suffix(LINK_SUFFIX).filter(|link| links == Links::Preserve && !link.is_empty());
    let path = match (link, place.links) {
        // The name itself is replaced, and not what a link of that name leads to.
        (Some(_), _) | (None, WriteLinks::Refuse) => {
            resolved(path.parent().unwrap_or(&path)).join(link.unwrap_or(name))
        }
        (None, WriteLinks::Follow) => resolved(&path),
    };
    path.to_string_lossy().into_owned()
}
