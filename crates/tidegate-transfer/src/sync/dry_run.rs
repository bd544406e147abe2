//! Says what a synchronization would do, and changes nothing.

use futures::StreamExt;

use super::SyncWork;
use super::extra::{ExtraObjects, lost_keys};
use crate::compare::Tree;
use crate::copy::link;
use crate::error::{Error, Result};
use crate::event::{Event, Failure, Step};
use crate::plan::{Change, Way};
use crate::planted::Planted;

impl SyncWork<'_> {
    /// Says what would be copied and removed.
    pub(super) async fn show(&self) -> Result {
        let trees = self.trees;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut extra, mut failed) = (ExtraObjects::default(), None);
        // Of several failures, the last is the error of the operation.
        let mut fail = |failure: Failure| {
            if let Some(before) = failed.replace(failure) {
                self.events.push(Event::Failed(before));
            }
        };
        while let Some(change) = changes.next().await {
            match change {
                Change::None => self.events.count(|report| report.unchanged += 1),
                Change::Add(object) | Change::Replace(object, _) => match self.blocked(&object.key) {
                    Some(error) => fail(Failure::new(Step::Copy, None, error)),
                    None => {
                        let url = |tree: &Tree| tree.place(&object.key).url();
                        let (source, target) = (url(&trees.source), url(&trees.target));
                        let bytes = object.object.known_size();
                        self.events.push(Event::WouldCopy { source, target, bytes });
                    }
                },
                Change::Refuse { source, by } => {
                    fail(Failure::new(Step::Copy, None, trees.refused(&source, &by)));
                }
                Change::Remove(_) if !self.deletes() => {}
                Change::Remove(object) => extra.push(&object).map_err(|error| lost_keys(&error))?,
                Change::Keep { object, behind } => self.keep(&object.key, &behind),
                Change::LeaveOut(path, kind) => trees.leave_out(self.events, &path, kind),
                Change::Fail(failure) | Change::Stop(failure) => fail(failure),
            }
            self.events.flow().await;
        }
        trees.skipped_line().into_iter().for_each(|line| self.events.say(line));
        self.warn_of_names();
        if let Some(failure) = failed {
            return Err(failure.error);
        }
        self.refuse_nothing()?;
        if self.deletes() { self.announce_removals(extra).await } else { Ok(()) }
    }

    /// The failure of a copy that something is in the way of, and stays there.
    fn blocked(&self, key: &str) -> Option<Error> {
        let target = &self.trees.target;
        let (from, to) = (self.trees.source.place(key), target.place(key));
        if let Err(error) = link::refuse_file_as_link(target.links, &from, &to) {
            return Some(error);
        }
        let obstacle = match self.trees.plan().way_of(key, target) {
            Way::Free => return None,
            Way::Extra(_) if self.deletes() => return None,
            Way::Extra(obstacle) | Way::Blocked(obstacle) => obstacle,
        };
        Some(obstacle.failure(&target.path("")?, &target.place(key).url()))
    }

    /// Says what a real run would remove.
    async fn announce_removals(&self, mut extra: ExtraObjects) -> Result {
        self.may_remove(extra.count)?;
        self.prove_distinct(&mut extra).await?;
        let (mut extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        if self.trees.rules.options.plants.has(Planted::UntoldRemoval) {
            extra.next().await;
        }
        while let Some(object) = extra.next().await {
            self.events.push(Event::WouldRemove { url: self.trees.target.place(&object.key).url() });
            self.events.flow().await;
        }
        unread.get().map_or(Ok(()), |error| Err(lost_keys(error)))
    }
}
