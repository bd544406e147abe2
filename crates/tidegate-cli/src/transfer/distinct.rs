//! Refuses copies of several sources that would replace each other.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::copies::CopyOutcome;
use super::sources::FoundItem;
use crate::exit::CommandFailure;
use crate::resolved::resolved;
use crate::stores::ObjectPlace;

/// The targets of a command with several sources. A second object with the same target fails, and so does one whose
/// target is another source: the first would be lost, and a move would have removed it at its source.
pub(crate) struct DistinctTargets {
    /// Two hashes of each target: whole URLs of a million objects would take much memory.
    seen: HashSet<(u64, u64)>,
    hashers: (RandomState, RandomState),
    /// The sources that the command names one by one.
    sources: HashSet<String>,
}

impl DistinctTargets {
    /// `sources` are the places of objects that the command names one by one.
    pub(crate) fn new(sources: Vec<ObjectPlace>) -> Self {
        let hashers = (RandomState::new(), RandomState::new());
        let sources = sources.iter().map(identity).collect();
        Self { seen: HashSet::new(), hashers, sources }
    }

    /// The item, or a failure.
    pub(crate) fn checked(&mut self, found: FoundItem) -> FoundItem {
        let item = found?;
        let target = identity(&item.to);
        let refused = |why: &str| {
            let (source, target) = (item.source.name(), item.to.url());
            Err(CopyOutcome::Failed(CommandFailure::Failed(format!(
                "{source}: not copied to {target}: {why}"
            ))))
        };
        if self.sources.contains(&target) && target != identity(item.source.place()) {
            return refused("that is another source of this command");
        }
        if !self.seen.insert((self.hashers.0.hash_one(&target), self.hashers.1.hash_one(&target))) {
            return refused("another object of this command goes there");
        }
        Ok(item)
    }
}

/// What tells a place from others: the URL, or the path without links.
fn identity(place: &ObjectPlace) -> String {
    match place.file() {
        Ok(path) if place.is_local() => resolved(&path).to_string_lossy().into_owned(),
        _ => place.url(),
    }
}
