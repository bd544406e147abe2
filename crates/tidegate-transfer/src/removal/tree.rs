//! Removes everything below a place, or what is selected of it.

use futures::StreamExt;
use tidegate::Store;
use tidegate::backend::Entry;
use tidegate::text::printable;

use super::{Removal, Removing, Tally, is_local};
use crate::ahead::ahead;
use crate::error::{Error, Result};
use crate::event::Step;
use crate::select::{Selection, Source};

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
    fn refuse_nothing(&self) -> Result {
        if self.selection.is_filtered() {
            Ok(())
        } else if self.source.pattern.is_some() {
            Err(self.source.no_match())
        } else if self.prefix.is_empty() {
            Ok(())
        } else {
            Err(Error::nothing_at(&self.source.location, "there is no object below it"))
        }
    }

    /// Says which objects would be removed.
    pub(super) async fn show(&self, removing: &Removing, tally: &mut Tally) -> Result {
        let mut entries = std::pin::pin!(ahead(self.selection.list(&self.store, &self.prefix)));
        let root = self.store.location();
        let mut failed = None;
        while let Some(entry) = entries.next().await {
            match entry {
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
        match failed {
            Some(failure) => Err(failure),
            None if tally.removed == 0 => self.refuse_nothing(),
            None => Ok(()),
        }
    }

    /// Removes the objects. Continues after a failure, unless every other removal would fail for the same cause.
    pub(super) async fn remove(&self, removing: &Removing, tally: &mut Tally) -> Result {
        let entries = ahead(self.selection.list(&self.store, &self.prefix));
        let listed = entries.filter_map(|entry| async {
            match entry {
                // `Entry::Other` in a local directory: links, which are removed and not followed, devices, pipes and
                // sockets.
                Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => Some(Ok(entry.key().to_owned())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }
        });
        let is_local = is_local(&self.source.location);
        let Removal { removed, failed, stopped } =
            super::remove(&removing.events, &self.store, is_local, listed).await;
        tally.removed += removed;
        tally.failed += failed;
        match stopped {
            None if tally.removed + tally.failed == 0 => self.refuse_nothing(),
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
