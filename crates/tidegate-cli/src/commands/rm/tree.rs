//! Removes everything below a place, or what is selected of it.

use futures::StreamExt;
use tidegate::Store;
use tidegate::backend::Entry;
use tidegate::text::printable;

use super::{Tally, is_local};
use crate::exit::{CommandFailure, Outcome};
use crate::lines::{ObjectLines, RemoveLine};
use crate::removal::{self, Removal};
use crate::select::{Selection, SourceArgument};
use crate::stores::Stores;
use crate::{listing, output};

/// A tree whose objects are removed, or those of them that are selected.
pub(super) struct RemovedTree<'a> {
    pub(super) store: Store,
    pub(super) prefix: String,
    pub(super) source: &'a SourceArgument,
    pub(super) selection: Selection,
}

impl RemovedTree<'_> {
    /// The result if there was nothing to remove. An empty bucket or directory is fine, and so is a filter that takes
    /// nothing.
    fn refuse_nothing(&self) -> Outcome {
        if self.selection.is_filtered() {
            Ok(())
        } else if self.source.pattern.is_some() {
            Err(self.source.no_match())
        } else if self.prefix.is_empty() {
            Ok(())
        } else {
            Err(CommandFailure::nothing_at(&self.source.location, "there is no object below it"))
        }
    }

    /// Prints the objects.
    pub(super) async fn show(&self, tally: &mut Tally, lines: &mut ObjectLines) -> Outcome {
        let mut entries = std::pin::pin!(listing::ahead(self.selection.list(&self.store, &self.prefix)));
        let root = self.store.location();
        let mut failed = None;
        while let Some(entry) = entries.next().await {
            match entry {
                Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => {
                    let url = format!("{root}/{}", entry.key());
                    lines.print(&RemoveLine { url: &url, dry_run: true }).await?;
                    tally.removed += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    failed.replace(CommandFailure::from(error)).iter().for_each(output::fail);
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
    pub(super) async fn remove(
        &self,
        stores: &Stores,
        tally: &mut Tally,
        lines: &mut ObjectLines,
    ) -> Outcome {
        let entries = listing::ahead(self.selection.list(&self.store, &self.prefix));
        let listed = entries.filter_map(|entry| async {
            match entry {
                // `Entry::Other` in a local directory: links, which are removed and not followed, devices, pipes and
                // sockets.
                Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => Some(Ok(entry.key().to_owned())),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }
        });
        let Removal { removed, failed, stopped } =
            removal::remove(stores.tide(), &self.store, is_local(&self.source.location), listed, lines)
                .await?;
        tally.removed += removed;
        tally.failed += failed;
        match stopped {
            None if tally.removed + tally.failed == 0 => self.refuse_nothing(),
            None => Ok(()),
            Some(failure) if tally.removed == 0 => {
                // Nothing was removed, so exit with the cause's code.
                tally.failed = 0;
                Err(failure)
            }
            Some(failure) => {
                let (removed, all) = (tally.removed, tally.removed + tally.failed);
                let why = failure.sentence().unwrap_or_default();
                let below = printable(self.source.text());
                Err(CommandFailure::Failed(format!(
                    "removed {removed} of {all} objects below {below}, then stopped: {why}"
                )))
            }
        }
    }
}
