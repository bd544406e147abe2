//! Says what a synchronization would do, and changes nothing.

use futures::StreamExt;

use super::extra::{ExtraObjects, lost_keys};
use super::{SyncWork, behind_link};
use crate::compare::{Change, Tree};
use crate::error::Result;
use crate::event::{Event, Failure, Step};
use crate::listing::TreeObject;
use crate::planted::Planted;

impl SyncWork<'_> {
    /// Says what would be copied and removed.
    pub(super) async fn show(&self) -> Result {
        let trees = self.trees;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut objects, mut extra, mut failed) = (0_u64, ExtraObjects::default(), None);
        // Of several failures, the last is the error of the operation.
        let mut fail = |failure: Failure| {
            if let Some(before) = failed.replace(failure) {
                self.events.push(Event::Failed(before));
            }
        };
        while let Some(change) = changes.next().await {
            match change {
                Ok(Change::LeftOut(what)) => {
                    self.events.count(|report| report.left_out += 1);
                    self.events.warn(format!("left out: {what}"));
                }
                Ok(Change::Remove(object)) => match trees.target_link_above(&object.key) {
                    Some(link) if self.deletes() => self.events.warn(behind_link(trees, &object.key, &link)),
                    _ => extra.push(&object).map_err(|error| lost_keys(&error))?,
                },
                Ok(change) => {
                    objects += 1;
                    if let Err(error) = self.announce(&change) {
                        fail(Failure::new(Step::Copy, None, error));
                    }
                    self.events.flow().await;
                }
                Err(failure) => fail(failure),
            }
        }
        trees.skipped_line().into_iter().for_each(|line| self.events.say(line));
        self.warn_of_names();
        if let Some(failure) = failed {
            return Err(failure.error);
        }
        self.refuse_nothing(objects)?;
        if self.deletes() { self.announce_removals(extra, objects).await } else { Ok(()) }
    }

    /// Says what a real run would copy for `change`. Fails as the real run would if something is in the way.
    fn announce(&self, change: &Change) -> Result {
        let trees = self.trees;
        let url = |tree: &Tree, key: &str| tree.place(key).url();
        match change {
            Change::Add(TreeObject { key, object }) | Change::Replace(TreeObject { key, object }, _) => {
                let (source, target) = (url(&trees.source, key), url(&trees.target, key));
                if let (Some(obstacle), Some(root)) = (trees.obstacle(key), trees.target.path(""))
                    && !(self.deletes() && trees.may_be_extra(&obstacle, key))
                    && let Some(failure) = obstacle.failure(&root, &target)
                {
                    return Err(failure);
                }
                self.events.push(Event::WouldCopy { source, target, bytes: object.known_size() });
                Ok(())
            }
            Change::Taken(source, by) => Err(trees.taken(source, by)),
            Change::None => {
                self.events.count(|report| report.unchanged += 1);
                Ok(())
            }
            Change::Remove(_) | Change::LeftOut(_) => Ok(()),
        }
    }

    /// Says what a real run would remove.
    async fn announce_removals(&self, mut extra: ExtraObjects, objects: u64) -> Result {
        self.may_remove(extra.count, objects)?;
        self.prove_distinct(&mut extra).await?;
        let (mut extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        if self.trees.options.plants.has(Planted::UntoldRemoval) {
            extra.next().await;
        }
        while let Some(object) = extra.next().await {
            self.events.push(Event::WouldRemove { url: self.trees.target.place(&object.key).url() });
            self.events.flow().await;
        }
        unread.get().map_or(Ok(()), |error| Err(lost_keys(error)))
    }
}
