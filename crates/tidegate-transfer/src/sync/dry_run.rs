//! Says what a synchronization would do, and changes nothing.

use futures::StreamExt;

use super::SyncWork;
use super::extra::{ExtraObject, ExtraObjects, lost_keys};
use crate::compare::Tree;
use crate::copy::link;
use crate::error::Result;
use crate::event::{Event, Failure, Step};
use crate::obstacle::{InTheWay, Obstacle, refuse_long_names};
use crate::plan::{Change, TargetDisk};
use crate::planted::Planted;

impl SyncWork<'_> {
    /// Says what would be copied and removed.
    pub(super) async fn show(&self) -> Result {
        let trees = self.trees;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut extra, mut failed) = (ExtraObjects::default(), None);
        let (mut blocked, mut in_the_way) = (ExtraObjects::default(), InTheWay::default());
        // A link is made when all files are in place.
        let mut links = ExtraObjects::default();
        // Of several failures, the last is the error of the operation.
        let mut fail = |failure: Failure| {
            if let Some(before) = failed.replace(failure) {
                self.events.push(Event::Failed(before));
            }
        };
        while let Some(change) = changes.next().await {
            match change {
                Change::None => self.events.count(|report| report.unchanged += 1),
                Change::Add(object) | Change::Replace(object, _) => match self.obstacle(&object.key) {
                    Err(error) => fail(Failure::new(Step::Copy, None, error)),
                    Ok(Some(obstacle)) => {
                        in_the_way.add(obstacle, &object.key, trees.target.links);
                        blocked.push(&object).map_err(|error| lost_keys(&error))?;
                    }
                    Ok(None) if self.link_of(&object.key).is_some() => {
                        links.push(&object).map_err(|error| lost_keys(&error))?;
                    }
                    Ok(None) => self.would_copy(&object.key, object.object.known_size()),
                },
                Change::Refuse { source, by } => {
                    fail(Failure::new(Step::Copy, None, trees.refused(&source.key, by.as_deref())));
                }
                Change::Remove(_) if !self.deletes() => {}
                Change::Remove(object) => extra.push(&object).map_err(|error| lost_keys(&error))?,
                Change::Keep { object, behind } => self.keep(&object.key, &behind),
                Change::LeaveOut(path, kind) => trees.leave_out(self.events, &path, kind),
                Change::Fail(failure) | Change::Stop(failure) => fail(failure),
            }
            self.events.flow().await;
        }
        let announce = |link: ExtraObject| match self.refuse_link(&link.key) {
            Some(error) => fail(Failure::new(Step::Copy, None, error)),
            None => self.would_copy(&link.key, link.size),
        };
        links.each(announce).await?;
        trees.skipped_line().into_iter().for_each(|line| self.events.say(line));
        trees.left_out_lines().for_each(|line| self.events.say(line));
        self.warn_of_names();
        if let Some(failure) = failed {
            return Err(failure.error);
        }
        self.refuse_nothing()?;
        let extra = self.without_files_of_source(extra).await?;
        match self.deletes() {
            true => self.announce_removals(extra, (blocked, in_the_way)).await,
            false => Ok(()),
        }
    }

    fn would_copy(&self, key: &str, bytes: Option<u64>) {
        let url = |tree: &Tree| tree.place(key).url();
        let (source, target) = (url(&self.trees.source), url(&self.trees.target));
        self.events.push(Event::WouldCopy { source, target, bytes });
    }

    /// What is in the way of an object, if that may be removed. Fails if the object can't be written.
    fn obstacle(&self, key: &str) -> Result<Option<Obstacle>> {
        let target = &self.trees.target;
        let Some(root) = target.path("") else { return Ok(None) };
        let (from, to) = (self.trees.source.place(key), target.place(key));
        link::refuse_file_as_link(target.links, &from, &to)?;
        to.file()?;
        refuse_long_names(&root, self.link_of(key).unwrap_or(key))?;
        match self.trees.obstacle(key) {
            Some(obstacle) if !self.deletes() => Err(obstacle.failure(&root, &to.url())),
            obstacle => Ok(obstacle),
        }
    }

    /// Says what a real run would remove, and the copies of the `blocked` objects, whose way is free then.
    async fn announce_removals(
        &self,
        mut extra: ExtraObjects,
        (mut blocked, in_the_way): (ExtraObjects, InTheWay),
    ) -> Result {
        let mut failures = self.obstacles_that_stay(&mut extra, &mut blocked, &in_the_way).await?;
        if let Some(last) = failures.pop() {
            failures.into_iter().for_each(|failure| self.events.failed(Step::Copy, failure));
            return Err(last);
        }
        self.may_remove(extra.count)?;
        self.prove_distinct(&mut extra).await?;
        blocked.each(|object| self.would_copy(&object.key, object.size)).await?;
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
