//! Removes everything below a place, or what is selected of it.

use std::collections::BTreeMap;
use std::future::ready;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, stream};
use tidegate::Store;
use tidegate::backend::{Entry, OtherKind};
use tidegate::text::printable;

use super::{Removal, Removing, Tally, is_local};
use crate::ahead::ahead;
use crate::error::{Error, Result};
use crate::event::Step;
use crate::place::Place;
use crate::select::{ListingNotes, Selection, Source};

/// A tree whose objects are removed, or those of them that are selected.
pub(super) struct RemovedTree<'a> {
    pub(super) store: Store,
    pub(super) prefix: String,
    pub(super) source: &'a Source,
    pub(super) selection: Selection,
}

impl RemovedTree<'_> {
    /// The result if there was nothing to remove. An empty bucket or directory is fine, and so is a filter that takes
    /// nothing.
    fn refuse_nothing(&self, noted: &ListingNotes) -> Result {
        if noted.has_jobs() {
            Err(Error::nothing_at(
                &self.source.location,
                "there is nothing but work paths of jobs that have not ended",
            ))
        } else if self.selection.is_filtered() && noted.has_matches() {
            Ok(())
        } else if self.source.pattern.is_some() {
            Err(self.source.no_match())
        } else if self.prefix.is_empty() {
            Ok(())
        } else {
            Err(Error::nothing_at(&self.source.location, "there is no object below it"))
        }
    }

    /// Whether all is removed, so that no directory of the tree stays.
    fn is_whole(&self) -> bool {
        self.source.pattern.is_none() && !self.selection.is_filtered()
    }

    /// The directory that the tree is below, if the store has it under a name of its own.
    async fn own_directory(&self) -> Result<Option<String>> {
        let name = self.prefix.trim_end_matches('/');
        if name.is_empty() || !self.is_whole() || is_local(&self.source.location) {
            return Ok(None);
        }
        let place = Place::named(self.store.clone(), name);
        Ok(place.is_directory().await?.then_some(place.key))
    }

    /// Removes directories that are empty now, the deepest first: some stores refuse to remove one that is not.
    async fn remove_directories(&self, removing: &Removing, mut directories: Vec<String>) -> Result<Removal> {
        directories.extend(self.own_directory().await?);
        let mut levels = BTreeMap::<usize, Vec<String>>::new();
        for directory in directories {
            levels.entry(directory.trim_end_matches('/').matches('/').count()).or_default().push(directory);
        }
        let mut all = Removal::default();
        for directories in levels.into_values().rev() {
            let keys = stream::iter(directories).map(Ok);
            let Removal { removed, failed, stopped } =
                super::remove(&removing.events, &self.store, false, keys).await;
            all.removed += removed;
            all.failed += failed;
            all.stopped = stopped;
            if all.failed > 0 || all.stopped.is_some() {
                break;
            }
        }
        Ok(all)
    }

    /// Says which objects would be removed.
    pub(super) async fn show(&self, removing: &Removing, tally: &mut Tally) -> Result {
        let noted = Arc::default();
        let entries = self.selection.list_noting(&self.store, &self.prefix, &noted);
        let mut entries = std::pin::pin!(ahead(entries));
        let root = self.store.location();
        let mut failed = None;
        while let Some(entry) = entries.next().await {
            match entry {
                Ok(Entry::Other { kind: OtherKind::Directory, .. }) if !self.is_whole() => {}
                Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => {
                    removing.removed(format!("{root}/{}", entry.key()));
                    removing.events.flow().await;
                    tally.removed += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    if let Some(before) = failed.replace(Error::from(error)) {
                        removing.events.failed(Step::List, before);
                    }
                }
            }
        }
        if failed.is_none()
            && let Some(directory) = self.own_directory().await?
        {
            removing.removed(format!("{root}/{directory}"));
            tally.removed += 1;
        }
        noted.lines(self.source).for_each(|line| removing.events.warn(line));
        match failed {
            Some(failure) => Err(failure),
            None if tally.removed == 0 => self.refuse_nothing(&noted),
            None => Ok(()),
        }
    }

    /// Removes the objects. Continues after a failure, unless every other removal would fail for the same cause.
    pub(super) async fn remove(&self, removing: &Removing, tally: &mut Tally) -> Result {
        let noted = Arc::default();
        let entries = ahead(self.selection.list_noting(&self.store, &self.prefix, &noted));
        let (directories, takes_directories) = (Arc::new(Mutex::new(Vec::new())), self.is_whole());
        let found = directories.clone();
        let listed = entries.filter_map(move |entry| {
            ready(match entry {
                Ok(Entry::Other { key, kind: OtherKind::Directory }) => {
                    if takes_directories {
                        found.lock().unwrap_or_else(PoisonError::into_inner).push(key);
                    }
                    None
                }
                // `Entry::Other` in a local directory: links, which are removed and not followed, devices, pipes and
                // sockets.
                Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => Some(Ok(entry.key().to_owned())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            })
        });
        let is_local = is_local(&self.source.location);
        let Removal { removed, failed, mut stopped } =
            super::remove(&removing.events, &self.store, is_local, listed).await;
        tally.removed += removed;
        tally.failed += failed;
        if failed == 0 && stopped.is_none() {
            let found = mem::take(&mut *directories.lock().unwrap_or_else(PoisonError::into_inner));
            let removal = self.remove_directories(removing, found).await?;
            tally.removed += removal.removed;
            tally.failed += removal.failed;
            stopped = removal.stopped;
        }
        noted.lines(self.source).for_each(|line| removing.events.warn(line));
        match stopped {
            None if tally.removed + tally.failed == 0 => self.refuse_nothing(&noted),
            None => Ok(()),
            Some(failure) if tally.removed == 0 => {
                // Nothing was removed, so the error is the cause.
                tally.failed = 0;
                Err(failure)
            }
            Some(failure) => {
                let (removed, all) = (tally.removed, tally.removed + tally.failed);
                let below = printable(self.source.text());
                Err(Error::Failed(format!(
                    "removed {removed} of {all} objects below {below}, then stopped: {failure}"
                )))
            }
        }
    }
}
