//! Makes one tree like another.

use std::future::IntoFuture;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use futures::{StreamExt, future, stream};
use tidegate::text::printable;
use tidegate::{Attributes, Object, Store};

use crate::compare::{Change, CompareOptions, Comparison, LeftOutNames, Step, Tree, Trees, Verdict};
use crate::copy::copies::{self, CopyOutcome};
use crate::copy::emptied::EmptiedDirectories;
use crate::copy::item::{self, CopyItem, ItemSource};
use crate::copy::job::{CopyJob, CopyWriteSettings, Sides};
use crate::copy::link::{self, DeferredLinks};
use crate::copy::open_files;
use crate::error::{Error, Result};
use crate::event::{self, Event, Events, Report, Side};
use crate::figures::count;
use crate::links::FileOptions;
use crate::listing::{MissedEntry as _, TreeObject};
use crate::obstacle::InTheWay;
use crate::place::Stores;
use crate::planted::Planted;
use crate::removal::{self, Removal};
use crate::run::Run;
use crate::select::ObjectFilter;
use crate::two_addresses::{self, Distinct, Places};
use crate::walk::Missed;

mod extra;
mod recheck;

use extra::{ExtraObject, ExtraObjects, lost_keys};
use recheck::Recheck;

/// How many objects are looked at again at once before their removal: as many as S3 removes by one request.
const BATCH: usize = 1000;

/// What becomes of what only the target has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// It stays.
    #[default]
    Keep,
    /// It is removed, after all copies; what is in the way of a copy, right before that. Nothing is removed if anything
    /// could not be listed, read or copied, nor if the source is empty.
    Remove,
    /// As [`Extra::Remove`], and everything is removed if the source is empty.
    RemoveAll,
}

/// Copies what is new or has changed below a tree to another. Configure it, then [`start`](Self::start) it for its
/// events, or await it for its report.
///
/// An object is copied if the target has none of its name, if the sizes differ, or if the source is newer. Downloaded
/// files get the times of their objects, so an unchanged tree takes no requests beyond the listings.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use futures::StreamExt;
/// use tidegate_transfer::{Event, Extra, ObjectFilter, Sync, Tree};
/// # let tide = tidegate::Tidegate::builder().build()?;
/// let (source, target) = (tide.open("memory://a").await?, tide.open("memory://b").await?);
/// source.put("x.log", "1").await?;
/// target.put("old.log", "1").await?;
/// let mut run = Sync::new(Tree::new(&source, ""), Tree::new(&target, ""))
///     .filter(ObjectFilter::default().include("*.log")?)
///     .extra(Extra::Remove)
///     .start();
/// while let Some(event) = run.next().await {
///     if let Event::Copied(copied) = event {
///         println!("{} -> {}", copied.source, copied.target);
///     }
/// }
/// let report = run.result()?;
/// assert_eq!((report.copied, report.removed), (1, 1));
/// # Ok::<(), tidegate_transfer::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Run`]. Trees that overlap are refused.
#[derive(Debug)]
#[must_use = "a synchronization does nothing unless it is started or awaited"]
pub struct Sync {
    source: Tree,
    target: Tree,
    options: SyncOptions,
    compare: CompareOptions,
    filter: ObjectFilter,
    attributes: Attributes,
    fsync: bool,
    are_apart: bool,
    verifies: bool,
    open_files: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct SyncOptions {
    extra: Extra,
    max_delete: Option<u64>,
    is_dry_run: bool,
    distinct: Distinct,
}

impl Sync {
    /// Makes `target` like `source`.
    pub fn new(source: Tree, target: Tree) -> Self {
        Self {
            source,
            target,
            options: SyncOptions::default(),
            compare: CompareOptions::default(),
            filter: ObjectFilter::default(),
            attributes: Attributes::default(),
            fsync: false,
            are_apart: false,
            verifies: false,
            open_files: open_files(),
        }
    }

    /// What becomes of what only the target has. Default: it stays.
    pub fn extra(mut self, extra: Extra) -> Self {
        self.options.extra = extra;
        self
    }

    /// Removes nothing if more objects than this would be removed.
    pub fn max_delete(mut self, most: Option<u64>) -> Self {
        self.options.max_delete = most;
        self
    }

    /// Changes nothing: events say what would be done.
    pub fn dry_run(mut self, is_dry_run: bool) -> Self {
        self.options.is_dry_run = is_dry_run;
        self
    }

    /// Whether a bucket of the same name behind another address is taken for another place without a proof.
    pub fn distinct(mut self, distinct: Distinct) -> Self {
        self.options.distinct = distinct;
        self
    }

    /// How objects are compared. Default: by size and time.
    pub fn compare(mut self, by: Comparison) -> Self {
        self.compare.by = by;
        self
    }

    /// What is kept of files, and what becomes of links.
    pub fn files(mut self, files: FileOptions) -> Self {
        self.compare.files = files;
        self
    }

    /// Takes some of the objects only. What the filter leaves out stays in the target, too.
    pub fn filter(self, filter: ObjectFilter) -> Self {
        Self { filter, ..self }
    }

    /// The attributes of the copies; those of a source object that are not set here are carried over.
    pub fn attributes(self, attributes: Attributes) -> Self {
        Self { attributes, ..self }
    }

    /// Forces downloaded files, and their names, to disk.
    pub fn fsync(self, fsync: bool) -> Self {
        Self { fsync, ..self }
    }

    /// Says that the two sides are reached by different accounts, so that the target's may not read the source.
    pub fn two_accounts(self, are_apart: bool) -> Self {
        Self { are_apart, ..self }
    }

    /// Reads each object back after it was written, and compares it.
    pub fn verify(self, verifies: bool) -> Self {
        Self { verifies, ..self }
    }

    /// How many files the operation may have open. Default: the process's limit.
    pub fn open_files(self, most: usize) -> Self {
        Self { open_files: most, ..self }
    }

    /// Plants a bug, which a test then finds.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    pub fn planted(mut self, bug: Option<Planted>) -> Self {
        self.compare.plants = crate::planted::Plants::of(bug);
        self
    }

    /// The operation as a stream of events. Nothing is done before the first event is asked for.
    pub fn start(self) -> Run {
        let events = Events::new(self.target.store.tide());
        Run::new(events.clone(), self.work(events))
    }

    async fn work(self, events: Events) -> Result {
        let sides = Sides {
            source: Stores::from(self.source.store.tide()),
            target: Stores::from(self.target.store.tide()),
            are_apart: self.are_apart,
        };
        let trees = Trees::new(self.source, self.target, self.compare, self.filter)?;
        let plan = SyncWork { trees: &trees, options: self.options, events: &events };
        if self.options.is_dry_run {
            return plan.show().await;
        }
        events.push(Event::Trees { source: trees.source.name(), target: trees.target.url() });
        let writing = CopyWriteSettings::of_sync(self.attributes, self.fsync).with_files(self.compare.files);
        let job = CopyJob {
            stores: sides,
            writing,
            events: events.clone(),
            journals: Vec::new(),
            except: Vec::new(),
            open_files: self.open_files,
            verifies: self.verifies,
            is_dry_run: false,
            links: DeferredLinks::default(),
            emptied: EmptiedDirectories::default(),
            distinct: self.options.distinct,
            plants: trees.options.plants,
        };
        plan.carry_out(&job).await
    }
}

impl IntoFuture for Sync {
    type Output = Result<Report>;
    type IntoFuture = BoxFuture<'static, Result<Report>>;

    fn into_future(self) -> Self::IntoFuture {
        IntoFuture::into_future(self.start())
    }
}

/// What both the real run and the dry run need.
#[derive(Clone, Copy)]
struct SyncWork<'a> {
    trees: &'a Trees,
    options: SyncOptions,
    events: &'a Events,
}

impl SyncWork<'_> {
    fn deletes(&self) -> bool {
        self.options.extra != Extra::Keep
    }

    async fn carry_out(&self, job: &CopyJob) -> Result {
        let copying = Copying::new(*self, job);
        let copied = copying.copy_all().await;
        job.report_left_out();
        let Found { objects, unchanged, extra, in_the_way, removed: before, .. } = copying.into_found();
        self.events.count(|report| report.unchanged += unchanged);
        self.trees.incomparable_line().into_iter().for_each(|line| self.events.warn(line));
        let goes_on = self.trees.options.plants.has(Planted::RemovalAfterFailure);
        if !goes_on && (copied.is_err() || self.events.failures() > 0) {
            if extra.as_ref().is_some_and(|extra| extra.count > 0) {
                self.events.warn(match before {
                    0 => "nothing removed, because not everything could be listed and copied",
                    _ => "nothing more removed, because not everything could be listed and copied",
                });
            }
            return copied;
        }
        self.refuse_nothing(objects)?;
        match extra {
            Some(extra) => self.remove(job, (extra, in_the_way), objects).await,
            None => Ok(()),
        }
    }

    /// Fails if nothing lies below a prefix, which is more often mistyped than meant. An empty bucket or directory is
    /// fine.
    fn refuse_nothing(&self, objects: u64) -> Result {
        let source = &self.trees.source;
        let is_prefix = !source.is_local() && !source.is_whole_store();
        let takes_all = self.options.extra != Extra::RemoveAll && self.trees.takes_everything();
        if objects == 0 && is_prefix && takes_all {
            return Err(Error::nothing_at(&source.name(), "there is no object below it"));
        }
        Ok(())
    }

    /// Refuses to remove `extra` objects if that is more than allowed, or if the source, which has `objects`, is empty.
    fn may_remove(&self, extra: u64, objects: u64) -> Result {
        let refused = |why: String| Err(Error::NotRemoved(why));
        let all = count(extra, "object");
        match self.options.max_delete {
            _ if extra == 0 => Ok(()),
            _ if objects == 0 && self.options.extra != Extra::RemoveAll => refused(format!(
                "the source is empty, or its objects are left out, and {all} below {} would be removed: add --delete-all if that is meant",
                printable(&self.trees.target.url())
            )),
            Some(most) if extra > most => {
                refused(format!("{all} would be removed, and --max-delete is {most}"))
            }
            _ => Ok(()),
        }
    }

    /// Proves that the source is not in the target by another address, and not the other way round: asks for the first
    /// of the objects that would be removed.
    async fn prove_distinct(&self, extra: &mut ExtraObjects) -> Result {
        let trees = self.trees;
        let (source, target) = (trees.source.place(""), trees.target.place(""));
        if extra.count == 0
            || !self.options.distinct.wants_proof()
            || !two_addresses::may_be_one(&source, &target)
        {
            return Ok(());
        }
        let (mut extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let Some(first) = extra.next().await else {
            let unread = unread.get().map(lost_keys);
            return Err(unread.unwrap_or_else(|| Error::NotRemoved("its keys are gone".to_owned())));
        };
        let place = trees.target.place(&first.key);
        let unproven = || two_addresses::unproven(&trees.source.url(), &place);
        match two_addresses::compare(&trees.source.store, &place).await {
            Ok(Places::Different) => Ok(()),
            Ok(Places::Alike | Places::Empty) => Err(unproven()),
            Err(failure) => {
                self.events.failed(event::Step::Remove, failure);
                Err(unproven())
            }
        }
    }

    /// Removes what only the target has.
    async fn remove(
        &self,
        job: &CopyJob,
        (mut extra, in_the_way): (ExtraObjects, InTheWay),
        objects: u64,
    ) -> Result {
        if extra.count == 0 {
            return Ok(());
        }
        self.events.push(Event::Removing);
        self.may_remove(extra.count, objects)?;
        self.prove_distinct(&mut extra).await?;
        let all = count(extra.count, "object");
        let (extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let target = &self.trees.target;
        let changed = Arc::new(AtomicU64::new(0));
        let recheck = Arc::new(Recheck::of(self.trees, changed.clone()));
        let extra = extra.filter(move |object| future::ready(!in_the_way.has(&object.key)));
        // In batches, because keys that are ready together are removed by one request.
        let keys = extra.chunks(BATCH).then(move |batch| {
            let recheck = recheck.clone();
            async move { stream::iter(recheck.still_extra(batch).await) }
        });
        let keys = keys.flatten().map(Ok).boxed();
        let removal = removal::remove(&job.events, &target.store, target.is_local(), keys);
        let Removal { removed, failed, stopped } = removal.await;
        if changed.load(Relaxed) > 0 {
            let kept = count(changed.load(Relaxed), "object");
            self.events.warn(format!("{kept} not removed: changed since the listing"));
        }
        let stopped = stopped.or_else(|| unread.get().map(lost_keys));
        match stopped {
            Some(failure) if removed == 0 => Err(failure),
            None if failed == 0 => Ok(()),
            stopped => {
                let why = stopped.map_or_else(String::new, |why| format!(", then stopped: {why}"));
                Err(Error::Failed(format!("removed {removed} of {all}{why}")))
            }
        }
    }

    /// Says what would be copied and removed.
    async fn show(&self) -> Result {
        let trees = self.trees;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut objects, mut extra, mut failed) = (0_u64, ExtraObjects::default(), None);
        // Of several failures, the last is the error of the operation.
        let mut fail = |failure: Error| {
            if let Some(before) = failed.replace(failure) {
                self.events.failed(event::Step::List, before);
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
                    if let Err(failure) = self.announce(&change) {
                        fail(failure);
                    }
                    self.events.flow().await;
                }
                Err(failure) => fail(failure),
            }
        }
        trees.skipped_line().into_iter().for_each(|line| self.events.say(line));
        trees.incomparable_line().into_iter().for_each(|line| self.events.warn(line));
        if let Some(failure) = failed {
            return Err(failure);
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

/// The warning about an object that only the target has and that stays, because a link leads to it.
fn behind_link(trees: &Trees, key: &str, link: &Path) -> String {
    let (url, link) = (trees.target.place(key).url(), link.display());
    printable(&format!("{url} not removed: {link} is a symbolic link, and nothing is removed through links"))
        .into_owned()
}

/// The copies of a synchronization, and what it has found so far.
struct Copying<'a> {
    work: SyncWork<'a>,
    job: &'a CopyJob,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Objects of the source.
    objects: u64,
    unchanged: u64,
    left_out: LeftOutNames,
    /// What only the target has, if it is to be removed.
    extra: Option<ExtraObjects>,
    /// The objects that wait for the removal of what is in their way, and what that is.
    blocked: ExtraObjects,
    in_the_way: InTheWay,
    /// How many objects were in the way and are removed.
    removed: u64,
}

/// What is to be done for a key.
enum Work {
    Copy(TreeObject),
    Ask { source: TreeObject, target: Box<Object> },
    Report(CopyOutcome),
}

impl<'a> Copying<'a> {
    fn new(work: SyncWork<'a>, job: &'a CopyJob) -> Self {
        let extra = work.deletes().then(ExtraObjects::default);
        Self { work, job, found: Mutex::new(Found { extra, ..Found::default() }) }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_found(self) -> Found {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    async fn copy_all(&self) -> Result {
        let trees = self.work.trees;
        let found = self.job.events.found();
        let work = trees.steps().filter_map(|step| future::ready(self.plan(step))).inspect(move |_| {
            found.fetch_add(1, Relaxed);
        });
        let copies = work.map(|work| self.carry_out(work));
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
        let changed = Arc::new(AtomicU64::new(0));
        let recheck = Recheck::of(self.work.trees, changed.clone());
        let mut batches = std::pin::pin!(extra.chunks(BATCH));
        while let Some(batch) = batches.next().await {
            for key in recheck.still_extra(batch).await {
                target.store.delete(&key).await?;
                self.found().removed += 1;
                self.job.events.push(Event::Removed { url: format!("{}/{key}", target.store.location()) });
            }
        }
        if changed.load(Relaxed) > 0 {
            let kept = count(changed.load(Relaxed), "object");
            return Err(Error::Failed(format!("{kept} not removed: changed since the listing")));
        }
        if let Some(error) = unread.get() {
            return Err(lost_keys(error));
        }
        target.path("").map_or(Ok(()), |root| in_the_way.remove_directories(&root))
    }

    /// Decides what to do for a key, as far as the listings tell; `None` for nothing.
    fn plan(&self, step: Step) -> Option<Work> {
        let trees = self.work.trees;
        let found = &mut *self.found();
        let is_of_source = matches!(step, Step::Both { .. } | Step::SourceOnly(_) | Step::Taken { .. });
        found.objects += u64::from(is_of_source);
        match step {
            Step::Both { source, target } => match trees.compare(&source.object, &target) {
                Verdict::Same => {
                    found.unchanged += 1;
                    None
                }
                Verdict::Different(_) => Some(Work::Copy(source)),
                Verdict::Unknown | Verdict::Fresh => Some(Work::Ask { source, target: target.into() }),
            },
            Step::SourceOnly(source) => Some(Work::Copy(source)),
            Step::Taken { source, by } => Some(Work::Report(CopyOutcome::Failed(trees.taken(&source, &by)))),
            Step::TargetOnly(object) => {
                if let Some(link) = trees.target_link_above(&object.key) {
                    if found.extra.is_some() {
                        self.job.events.warn(behind_link(trees, &object.key, &link));
                    }
                    return None;
                }
                let is_left_out = found.left_out.has(&object.key)
                    && !trees.options.plants.has(Planted::RemovalBelowLeftOut);
                let extra = found.extra.as_mut().filter(|_| !is_left_out)?;
                let unkept = extra.push(&object).err()?;
                Some(Work::Report(CopyOutcome::Stopped(lost_keys(&unkept))))
            }
            Step::SourceMissed(missed) => {
                if let Missed::LeftOut(path, _) = &missed {
                    found.left_out.add(&trees.source, path);
                    if !trees.takes_path(path) {
                        return None;
                    }
                }
                Some(Work::Report(self.missed(missed, Side::Source)))
            }
            Step::TargetMissed(missed) if missed.is_harmless() => None,
            Step::TargetMissed(missed) => Some(Work::Report(self.missed(missed, Side::Target))),
            Step::Disorder(disorder) => Some(Work::Report(CopyOutcome::Stopped(disorder.into()))),
        }
    }

    fn missed(&self, missed: Missed, side: Side) -> CopyOutcome {
        let tree = match side {
            Side::Source => &self.work.trees.source,
            Side::Target => &self.work.trees.target,
        };
        match missed {
            // The listing of a store ends with its error; the walk of a directory continues.
            Missed::Failed(failure @ Error::Store(_)) if !tree.is_local() => CopyOutcome::Stopped(failure),
            Missed::Failed(failure) => CopyOutcome::Unlisted(side, failure),
            Missed::LeftOut(path, kind) => {
                self.job.leave_out(&path, kind);
                CopyOutcome::LeftOut
            }
        }
    }

    async fn carry_out(&self, work: Work) -> CopyOutcome {
        match work {
            Work::Copy(source) => self.copy(source).await,
            Work::Ask { source, target } => match Box::pin(self.work.trees.ask(&source, &target)).await {
                Ok(Some(_)) => self.copy(source).await,
                Ok(None) => {
                    self.found().unchanged += 1;
                    CopyOutcome::LeftOut
                }
                Err(failure) => CopyOutcome::Failed(failure),
            },
            Work::Report(outcome) => outcome,
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
            found.in_the_way.add(obstacle);
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
