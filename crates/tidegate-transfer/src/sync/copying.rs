//! The copies of a synchronization: carries out the steps of the plan as the listings come.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, future};
use tidegate::backend::local::{FilesBelow, LINK_SUFFIX};
use tidegate::{Object, Store};

use super::extra::{ExtraObject, ExtraObjects, lost_keys};
use super::recheck::Recheck;
use super::{BATCH, SyncWork};
use crate::copy::copies::{self, CopyOutcome};
use crate::copy::item::{self, CopyItem, ItemSource};
use crate::copy::job::CopyJob;
use crate::copy::link;
use crate::error::{Error, Result};
use crate::event::{self, Event, Failure};
use crate::figures::count;
use crate::links::Links;
use crate::listing::TreeObject;
use crate::obstacle::{InTheWay, Obstacle};
use crate::plan::{Change, PlanStep, TargetDisk};
use crate::planted::Planted;

/// The copies of a synchronization, and what it has found so far.
pub(super) struct Copying<'a> {
    work: SyncWork<'a>,
    job: &'a CopyJob,
    /// The files of a source on this machine.
    files: Option<Arc<FilesBelow>>,
    found: Mutex<Found>,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) unchanged: u64,
    /// What only the target has, if it is to be removed.
    pub(super) extra: Option<ExtraObjects>,
    /// The objects that wait for the removal of what is in their way, and what that is.
    blocked: ExtraObjects,
    pub(super) in_the_way: InTheWay,
    /// How many objects were in the way and are removed.
    pub(super) removed: u64,
}

impl<'a> Copying<'a> {
    pub(super) fn new(work: SyncWork<'a>, job: &'a CopyJob) -> Self {
        let extra = work.deletes().then(ExtraObjects::default);
        let source = &work.trees.source;
        let files = source.path("").and_then(|root| source.links.files_of_source(&root));
        Self { work, job, files, found: Mutex::new(Found { extra, ..Found::default() }) }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_found(self) -> Found {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn copy_all(&self) -> Result {
        let trees = self.work.trees;
        let found = self.job.events.found();
        let steps = trees.steps().filter_map(|step| future::ready(self.without_work(step)));
        let steps = steps.inspect(move |_| _ = found.fetch_add(1, Relaxed));
        let copies = steps.map(|step| Box::pin(self.carry_out(step)));
        let sides = [&trees.source, &trees.target];
        let stores: Vec<_> =
            sides.into_iter().filter(|tree| !tree.is_local()).map(|tree| &tree.store).collect();
        copies::all(self.job, &stores, copies).await?;
        let extra = self.found().extra.take();
        if let Some(extra) = extra {
            let extra = self.work.without_files_of_source(extra).await?;
            self.found().extra = Some(extra);
        }
        let blocked = std::mem::take(&mut self.found().blocked);
        if blocked.count > 0 {
            self.copy_blocked(blocked, &stores).await?;
        }
        // A link fails also if the object that needs a directory of its name was not copied: a dry run says so too.
        let prefix = trees.target.place("").key;
        let refused = |link: &CopyItem| self.work.refuse_link(link.to.key.strip_prefix(&prefix)?);
        link::copy_deferred(self.job, |link| refused(link).map_or(Ok(()), Err)).await
    }

    /// Removes what is in the way of the `blocked` objects, and copies them: a file that became a directory, or a
    /// directory that became a file. Comes after all other copies, and only if they went well.
    async fn copy_blocked(&self, mut blocked: ExtraObjects, stores: &[&Store]) -> Result {
        // The failure of a link is reported when the links are made.
        let is_refused = |link: &str| self.work.refuse_link(link).is_some();
        if self.job.events.failures() > 0 || self.job.links.any(is_refused) {
            self.say_uncopied(blocked.count);
            return Ok(());
        }
        let (extra, in_the_way) = {
            let found = &mut *self.found();
            (found.extra.take(), std::mem::take(&mut found.in_the_way))
        };
        let mut extra = extra.unwrap_or_default();
        let removed = self.make_way(&mut extra, &mut blocked, &in_the_way).await;
        {
            let found = &mut *self.found();
            (found.extra, found.in_the_way) = (Some(extra), in_the_way);
        }
        if !removed? {
            return Ok(());
        }
        let (blocked, unread) = blocked.read().map_err(|error| lost_keys(&error))?;
        let copies = blocked.map(|ExtraObject { key, .. }| Box::pin(self.copy_now(key, None)));
        copies::all(self.job, stores, copies).await?;
        unread.get().map_or(Ok(()), |error| Err(lost_keys(error)))
    }

    /// Removes those of the extra objects that are in the way of the `blocked` ones. False if something of it stays: then
    /// nothing is removed, and the failures are reported.
    async fn make_way(
        &self,
        extra: &mut ExtraObjects,
        blocked: &mut ExtraObjects,
        in_the_way: &InTheWay,
    ) -> Result<bool> {
        let failures = self.work.obstacles_that_stay(extra, blocked, in_the_way).await?;
        if !failures.is_empty() {
            let others = blocked.count.saturating_sub(failures.len() as u64);
            failures.into_iter().for_each(|failure| self.job.events.failed(event::Step::Copy, failure));
            self.say_uncopied(others);
            return Ok(false);
        }
        self.work.may_remove(extra.count)?;
        self.work.prove_distinct(extra).await?;
        let target = &self.work.trees.target;
        let (extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let extra = extra.filter(|object| future::ready(in_the_way.has(&object.key)));
        let recheck = Recheck::of(self.work.trees, self.job.events.clone());
        let mut batches = std::pin::pin!(extra.chunks(BATCH));
        while let Some(batch) = batches.next().await {
            for key in recheck.still_extra(batch).await {
                target.store.delete(&key).await?;
                self.found().removed += 1;
                self.job.events.push(Event::Removed { url: format!("{}/{key}", target.store.location()) });
            }
        }
        if recheck.failed.load(Relaxed) > 0 {
            let kept = count(recheck.failed.load(Relaxed), "object");
            return Err(Error::Failed(format!("{kept} not removed: they could not be described")));
        }
        if recheck.changed.load(Relaxed) > 0 {
            let kept = count(recheck.changed.load(Relaxed), "object");
            return Err(Error::Failed(format!("{kept} not removed: changed since the listing")));
        }
        if let Some(error) = unread.get() {
            return Err(lost_keys(error));
        }
        target.path("").map_or(Ok(()), |root| in_the_way.remove_directories(&root))?;
        Ok(true)
    }

    /// Says how many objects wait for the removal of what is in their way, in vain.
    fn say_uncopied(&self, objects: u64) {
        if objects > 0 {
            let (all, why) = (
                count(objects, "object"),
                "what is in the way is removed only when everything else went well",
            );
            self.job.events.warn(format!("{all} not copied: {why}"));
        }
    }

    /// The step, unless it needs no work.
    fn without_work(&self, step: PlanStep) -> Option<PlanStep> {
        match step {
            PlanStep::Do(Change::None) => {
                self.found().unchanged += 1;
                None
            }
            PlanStep::Do(Change::Remove(object)) => {
                let unkept = self.found().extra.as_mut()?.push(&object).err()?;
                let failure = Failure::new(event::Step::Remove, None, lost_keys(&unkept));
                Some(PlanStep::Do(Change::Stop(failure)))
            }
            PlanStep::Do(Change::Keep { object, behind }) => {
                self.work.keep(&object.key, &behind);
                None
            }
            step => Some(step),
        }
    }

    async fn carry_out(&self, step: PlanStep) -> CopyOutcome {
        let change = match step {
            PlanStep::Do(change) => change,
            PlanStep::Compare { source, target } => {
                match Box::pin(self.work.trees.ask(&source, &target)).await {
                    Ok(Some(how)) => Change::Replace(source, how),
                    Ok(None) => {
                        self.found().unchanged += 1;
                        Change::None
                    }
                    Err(failure) => return CopyOutcome::Failed(failure),
                }
            }
        };
        match change {
            Change::Add(source) | Change::Replace(source, _) => self.copy(source).await,
            Change::Refuse { source, by } => {
                CopyOutcome::Failed(self.work.trees.refused(&source.key, by.as_deref()))
            }
            Change::LeaveOut(path, kind) => {
                self.job.leave_out(&path, kind);
                CopyOutcome::LeftOut
            }
            Change::Fail(failure) => CopyOutcome::Unlisted(failure),
            Change::Stop(failure) => CopyOutcome::Stopped(failure.error),
            // They need no work.
            Change::None | Change::Remove(_) | Change::Keep { .. } => CopyOutcome::LeftOut,
        }
    }

    async fn copy(&self, source: TreeObject) -> CopyOutcome {
        let trees = self.work.trees;
        // Looked for only where it matters: each look costs system calls.
        let makes_link = trees.target.links == Links::Preserve && source.key.ends_with(LINK_SUFFIX);
        if makes_link {
            let (from, to) = (trees.source.place(&source.key), trees.target.place(&source.key));
            if let Err(error) = link::refuse_file_as_link(trees.target.links, &from, &to) {
                return CopyOutcome::Failed(error);
            }
        }
        let plants = trees.rules.options.plants;
        let deletes = self.work.deletes();
        if deletes
            && trees.target.is_local()
            && let Err(error) = trees.target.place(&source.key).file()
        {
            return CopyOutcome::Failed(error);
        }
        match (deletes || makes_link).then(|| trees.obstacle(&source.key)).flatten() {
            Some(obstacle) if deletes && !plants.has(Planted::LastingObstacle) => {
                let found = &mut *self.found();
                found.in_the_way.add(obstacle, &source.key, trees.target.links);
                return match found.blocked.push(&source) {
                    Ok(()) => CopyOutcome::LeftOut,
                    Err(unkept) => CopyOutcome::Stopped(lost_keys(&unkept)),
                };
            }
            // The write itself would replace it.
            Some(obstacle @ Obstacle::Replaced(_)) if !plants.has(Planted::LinkOverFile) => {
                let root = trees.target.path("").unwrap_or_default();
                let target = trees.target.place(&source.key).url();
                return CopyOutcome::Failed(obstacle.failure(&root, &target));
            }
            _ => {}
        }
        self.copy_now(source.key, Some(source.object)).await
    }

    /// Copies the object of this key; `object` is its description in the listing.
    async fn copy_now(&self, key: String, object: Option<Object>) -> CopyOutcome {
        let trees = self.work.trees;
        let place = trees.source.place(&key);
        let source = match trees.source.path(&key) {
            Some(path) => ItemSource::file(path, place).of_tree(self.files.clone()),
            None => ItemSource::object(place),
        };
        let source = match object {
            Some(object) => source.described(self.job, object),
            None => source,
        };
        item::copy(self.job, CopyItem { source, to: trees.target.place(&key) }).await
    }
}
