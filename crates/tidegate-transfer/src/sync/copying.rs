//! The copies of a synchronization: decides for each key as the listings come, and carries out what was decided.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, future};
use tidegate::{Object, Store};

use super::extra::{ExtraObject, ExtraObjects, lost_keys};
use super::recheck::Recheck;
use super::{BATCH, SyncWork, behind_link};
use crate::compare::Verdict;
use crate::copy::copies::{self, CopyOutcome};
use crate::copy::item::{self, CopyItem, ItemSource};
use crate::copy::job::CopyJob;
use crate::copy::link;
use crate::error::{Error, Result};
use crate::event::{Event, Side};
use crate::figures::count;
use crate::listing::{MissedEntry as _, TreeObject};
use crate::merge::Pair;
use crate::obstacle::InTheWay;
use crate::planted::Planted;
use crate::walk::Missed;

/// The copies of a synchronization, and what it has found so far.
pub(super) struct Copying<'a> {
    work: SyncWork<'a>,
    job: &'a CopyJob,
    found: Mutex<Found>,
}

#[derive(Default)]
pub(super) struct Found {
    /// Objects of the source.
    pub(super) objects: u64,
    pub(super) unchanged: u64,
    /// What only the target has, if it is to be removed.
    pub(super) extra: Option<ExtraObjects>,
    /// The objects that wait for the removal of what is in their way, and what that is.
    blocked: ExtraObjects,
    pub(super) in_the_way: InTheWay,
    /// How many objects were in the way and are removed.
    pub(super) removed: u64,
}

/// What is to be done for a key.
enum Decision {
    Copy(TreeObject),
    Ask { source: TreeObject, target: Box<Object> },
    Report(CopyOutcome),
}

impl<'a> Copying<'a> {
    pub(super) fn new(work: SyncWork<'a>, job: &'a CopyJob) -> Self {
        let extra = work.deletes().then(ExtraObjects::default);
        Self { work, job, found: Mutex::new(Found { extra, ..Found::default() }) }
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
        let decisions = trees.pairs().filter_map(|pair| future::ready(self.plan(pair))).inspect(move |_| {
            found.fetch_add(1, Relaxed);
        });
        let copies = decisions.map(|decision| self.carry_out(decision));
        let sides = [&trees.source, &trees.target];
        let stores: Vec<_> =
            sides.into_iter().filter(|tree| !tree.is_local()).map(|tree| &tree.store).collect();
        copies::all(self.job, &stores, copies).await?;
        let blocked = std::mem::take(&mut self.found().blocked);
        if blocked.count > 0 {
            self.copy_blocked(blocked, &stores).await?;
        }
        link::copy_deferred(self.job).await
    }

    /// Removes what is in the way of the `blocked` objects, and copies them: a file that became a directory, or a
    /// directory that became a file. Comes after all other copies, and only if they went well.
    async fn copy_blocked(&self, mut blocked: ExtraObjects, stores: &[&Store]) -> Result {
        let all = count(blocked.count, "object");
        if self.job.events.failures() > 0 {
            let why = "what is in the way is removed only when everything else went well";
            self.job.events.warn(format!("{all} not copied: {why}"));
            return Ok(());
        }
        let (extra, in_the_way, objects) = {
            let found = &mut *self.found();
            (found.extra.take(), std::mem::take(&mut found.in_the_way), found.objects)
        };
        let mut extra = extra.unwrap_or_default();
        let removed = self.make_way(&mut extra, &in_the_way, objects).await;
        {
            let found = &mut *self.found();
            (found.extra, found.in_the_way) = (Some(extra), in_the_way);
        }
        removed?;
        let (blocked, unread) = blocked.read().map_err(|error| lost_keys(&error))?;
        let copies = blocked.map(|ExtraObject { key, .. }| self.copy_now(key, None));
        copies::all(self.job, stores, copies).await?;
        unread.get().map_or(Ok(()), |error| Err(lost_keys(error)))
    }

    /// Removes those of the extra objects that are in the way.
    async fn make_way(&self, extra: &mut ExtraObjects, in_the_way: &InTheWay, objects: u64) -> Result {
        self.work.may_remove(extra.count, objects)?;
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
        target.path("").map_or(Ok(()), |root| in_the_way.remove_directories(&root))
    }

    /// Decides what to do for a key, as far as the listings tell; `None` for nothing.
    fn plan(&self, pair: Pair<Missed>) -> Option<Decision> {
        let trees = self.work.trees;
        let found = &mut *self.found();
        let is_of_source = matches!(pair, Pair::Both { .. } | Pair::SourceOnly(_) | Pair::Taken { .. });
        found.objects += u64::from(is_of_source);
        match pair {
            Pair::Both { source, target } => match trees.compare(&source.object, &target) {
                Verdict::Same => {
                    found.unchanged += 1;
                    None
                }
                Verdict::Different(_) => Some(Decision::Copy(source)),
                Verdict::Unknown | Verdict::Fresh => Some(Decision::Ask { source, target: target.into() }),
            },
            Pair::SourceOnly(source) => Some(Decision::Copy(source)),
            Pair::Taken { source, by } => {
                Some(Decision::Report(CopyOutcome::Failed(trees.taken(&source, &by))))
            }
            Pair::TargetOnly(object) => {
                if let Some(link) = trees.target_link_above(&object.key) {
                    if found.extra.is_some() {
                        self.job.events.warn(behind_link(trees, &object.key, &link));
                    }
                    return None;
                }
                let is_left_out = trees.no_objects.is_in_source(&object.key)
                    && !trees.options.plants.has(Planted::RemovalBelowLeftOut);
                let extra = found.extra.as_mut().filter(|_| !is_left_out)?;
                let unkept = extra.push(&object).err()?;
                Some(Decision::Report(CopyOutcome::Stopped(lost_keys(&unkept))))
            }
            Pair::SourceMissed(missed) => {
                if matches!(&missed, Missed::LeftOut(path, _) if !trees.takes_path(path)) {
                    return None;
                }
                Some(Decision::Report(self.missed(missed, Side::Source)))
            }
            Pair::TargetMissed(missed) if missed.is_harmless() => None,
            Pair::TargetMissed(missed) => Some(Decision::Report(self.missed(missed, Side::Target))),
            Pair::Disorder(disorder) => Some(Decision::Report(CopyOutcome::Stopped(disorder.into()))),
        }
    }

    fn missed(&self, missed: Missed, side: Side) -> CopyOutcome {
        let tree = match side {
            Side::Source => &self.work.trees.source,
            Side::Target => &self.work.trees.target,
        };
        match missed {
            // The listing of a store ends with its error; the walk of a directory continues.
            Missed::Failed(failure @ (Error::Store(_) | Error::Unsorted { .. })) if !tree.is_local() => {
                CopyOutcome::Stopped(failure)
            }
            Missed::Failed(failure) => CopyOutcome::Unlisted(side, failure),
            Missed::LeftOut(path, kind) => {
                self.job.leave_out(&path, kind);
                CopyOutcome::LeftOut
            }
        }
    }

    async fn carry_out(&self, decision: Decision) -> CopyOutcome {
        match decision {
            Decision::Copy(source) => self.copy(source).await,
            Decision::Ask { source, target } => match Box::pin(self.work.trees.ask(&source, &target)).await {
                Ok(Some(_)) => self.copy(source).await,
                Ok(None) => {
                    self.found().unchanged += 1;
                    CopyOutcome::LeftOut
                }
                Err(failure) => CopyOutcome::Failed(failure),
            },
            Decision::Report(outcome) => outcome,
        }
    }

    async fn copy(&self, source: TreeObject) -> CopyOutcome {
        let trees = self.work.trees;
        if self.work.deletes()
            && let Some(obstacle) = trees.obstacle(&source.key)
            && trees.may_be_extra(&obstacle, &source.key)
            && !trees.options.plants.has(Planted::LastingObstacle)
        {
            let found = &mut *self.found();
            found.in_the_way.add(obstacle, trees.target.links);
            return match found.blocked.push(&source) {
                Ok(()) => CopyOutcome::LeftOut,
                Err(unkept) => CopyOutcome::Stopped(lost_keys(&unkept)),
            };
        }
        self.copy_now(source.key, Some(source.object)).await
    }

    /// Copies the object of this key; `object` is its description in the listing.
    async fn copy_now(&self, key: String, object: Option<Object>) -> CopyOutcome {
        let trees = self.work.trees;
        let place = trees.source.place(&key);
        let source = match trees.source.path(&key) {
            Some(path) => ItemSource::file(path, place),
            None => ItemSource::object(place),
        };
        let source = match object {
            Some(object) => source.described(self.job, object),
            None => source,
        };
        item::copy(self.job, CopyItem { source, to: trees.target.place(&key) }).await
    }
}
