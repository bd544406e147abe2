//! Refuses copies of several sources that would replace each other.

use std::collections::HashMap;

use tidegate::Store;
use tidegate::backend::local::LINK_SUFFIX;
use tidegate::location::local_root;

use super::copies::CopyOutcome;
use super::sources::FoundItem;
use crate::error::Error;
use crate::hashed::HashedNames;
use crate::links::{Links, WriteLinks};
use crate::place::Place;
use crate::resolved::resolved;
use crate::select::Selection;
use crate::two_addresses::in_bucket;

/// The targets of a command with several sources. A second object with the same target fails, and so does one whose
/// target is another source: the first would be lost, and a move would have removed it at its source.
pub(crate) struct DistinctTargets {
    /// The targets so far.
    seen: HashedNames,
    /// The sources that the command names one by one, and their stores.
    sources: HashMap<String, Store>,
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
            false => name_of(&self.root),
        };
        let key = target.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
        key.is_some_and(|key| self.selection.takes_name(key))
    }
}

impl DistinctTargets {
    /// `sources` are the places of objects that the command names one by one.
    pub(crate) fn new(sources: Vec<Place>, trees: Vec<SourceTree>, links: Links) -> Self {
        let sources = sources.into_iter().map(|source| (identity(&source, links), source.store)).collect();
        Self { seen: HashedNames::default(), sources, trees, links }
    }

    /// The store of the source that a target has the name of, if any.
    fn source_at(&self, target: &str) -> Option<&Store> {
        let tree = || self.trees.iter().find(|tree| tree.holds(target));
        self.sources.get(target).or_else(|| tree().map(|tree| &tree.root.store))
    }

    /// The item, or a failure.
    pub(crate) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let mut item = found?;
        let target = identity(&item.to, self.links);
        let refused = |why: &str| {
            let (source, target) = (item.source.name(), item.to.url());
            Err(CopyOutcome::Failed(Error::Failed(format!("{source}: not copied to {target}: {why}"))))
        };
        let own = identity(item.source.place(), self.links);
        let source = self.source_at(&target).filter(|_| target != own);
        if source.is_some_and(|source| source.is_local() || source.shares_endpoint_with(&item.to.store)) {
            return refused("that is another source of this command");
        }
        // Two endpoints may have two buckets of this name: their answers tell.
        let may_replace = source.cloned();
        if !self.seen.add(&target) {
            return refused("another object of this command goes there");
        }
        item.source.may_replace = may_replace;
        Ok(item)
    }
}

/// What tells a place from others: bucket and key, or the path without links. A file and a link of one name
/// (`--links preserve`) are one place on this machine.
fn identity(place: &Place, links: Links) -> String {
    let path = match place.file() {
        Ok(path) if place.is_local() => path,
        _ => return name_of(place),
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

/// The bucket and the key, whatever the endpoint, the profile and the protocol by which they are reached.
fn name_of(place: &Place) -> String {
    in_bucket(place).map_or_else(|| place.url(), |(bucket, key)| format!("{bucket}/{key}"))
}
