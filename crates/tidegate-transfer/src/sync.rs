//! Makes one tree like another.

use std::future::IntoFuture;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures::future::BoxFuture;
use futures::{StreamExt, future, stream};
use tidegate::Attributes;
use tidegate::backend::local::LINK_SUFFIX;
use tidegate::text::printable;

use crate::compare::{CompareOptions, Comparison, Tree, Trees};
use crate::copy::emptied::EmptiedDirectories;
use crate::copy::job::{CopyJob, CopyWriteSettings, Sides};
use crate::copy::link::DeferredLinks;
use crate::copy::open_files;
use crate::error::{Error, Result};
use crate::event::{self, Event, Events, Report};
use crate::figures::count;
use crate::hashed::HashedNames;
use crate::links::{FileOptions, Links};
use crate::obstacle::InTheWay;
use crate::place::Stores;
use crate::planted::Planted;
use crate::removal::{self, Removal};
use crate::run::Run;
use crate::select::ObjectFilter;
use crate::two_addresses::{self, Distinct, Places};

mod copying;
mod dry_run;
mod extra;
mod recheck;

use copying::{Copying, Found};
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
/// use tidegate_transfer::{Event, Extra, ObjectFilter, SyncTrees, Tree};
/// # let tide = tidegate::Tidegate::builder().build()?;
/// let (source, target) = (tide.open("memory://a").await?, tide.open("memory://b").await?);
/// source.put("x.log", "1").await?;
/// target.put("old.log", "1").await?;
/// let mut run = SyncTrees::new(Tree::new(&source, ""), Tree::new(&target, ""))
///     .filter(ObjectFilter::default().include("*.log")?)
///     .delete(Extra::Remove)
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
pub struct SyncTrees {
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

impl SyncTrees {
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
    pub fn delete(mut self, extra: Extra) -> Self {
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
        let trees = trees.with_writes(self.options.is_dry_run);
        if self.options.distinct.wants_proof() {
            two_addresses::refuse_nested(&trees.source.place(""), &trees.target.place("")).await?;
        }
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
            plants: trees.rules.options.plants,
        };
        plan.carry_out(&job).await
    }
}

impl IntoFuture for SyncTrees {
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
    /// Says which objects could not be compared, and what stays in the target because it is no object.
    fn warn_of_names(&self) {
        let stays = self.deletes().then(|| self.trees.plan().no_objects_of_target()).flatten();
        self.trees.incomparable_line().into_iter().chain(stays).for_each(|line| self.events.warn(line));
    }

    /// Says that an object that only the target has stays, because a link leads to it.
    fn keep(&self, key: &str, link: &Path) {
        if !self.deletes() {
            return;
        }
        let (url, link) = (self.trees.target.place(key).url(), link.display());
        let line =
            format!("{url} not removed: {link} is a symbolic link, and nothing is removed through links");
        self.events.warn(printable(&line));
    }

    fn deletes(&self) -> bool {
        self.options.extra != Extra::Keep
    }

    async fn carry_out(&self, job: &CopyJob) -> Result {
        let copying = Copying::new(*self, job);
        let copied = copying.copy_all().await;
        job.report_left_out();
        self.trees.left_out_lines().for_each(|line| self.events.say(line));
        let Found { unchanged, extra, in_the_way, removed: before, .. } = copying.into_found();
        self.events.count(|report| report.unchanged += unchanged);
        self.warn_of_names();
        let goes_on = self.trees.rules.options.plants.has(Planted::RemovalAfterFailure);
        if !goes_on && (copied.is_err() || self.events.failures() > 0) {
            let has_failed = self.events.failures() > 0 || !matches!(copied, Err(Error::NotRemoved(_)));
            if has_failed && extra.as_ref().is_some_and(|extra| extra.count > 0) {
                self.events.warn(match before {
                    0 => "nothing removed, because not everything could be listed and copied",
                    _ => "nothing more removed, because not everything could be listed and copied",
                });
            }
            return copied;
        }
        self.refuse_nothing()?;
        match extra {
            Some(extra) => self.remove(job, (extra, in_the_way)).await,
            None => Ok(()),
        }
    }

    fn refuse_nothing(&self) -> Result {
        match self.options.extra {
            Extra::RemoveAll => Ok(()),
            _ => self.trees.refuse_nothing(),
        }
    }

    /// Keeps those of the `extra` files that objects of the source have by other names, and says so.
    async fn without_files_of_source(&self, extra: ExtraObjects) -> Result<ExtraObjects> {
        if !self.deletes() || !self.trees.may_share_files() {
            return Ok(extra);
        }
        let is_extra = |key: &str| {
            let is_of_source = self.trees.has_file_of(key);
            if is_of_source {
                let url = self.trees.target.place(key).url();
                let line = format!("{url} not removed: an object of the source is this file by another name");
                self.events.warn(printable(&line));
            }
            !is_of_source
        };
        extra.only(is_extra).await
    }

    /// Refuses to remove `extra` objects if that is more than allowed, or if the source is empty.
    fn may_remove(&self, extra: u64) -> Result {
        let refused = |why: String| Err(Error::NotRemoved(why));
        let all = count(extra, "object");
        match self.options.max_delete {
            _ if extra == 0 => Ok(()),
            _ if self.trees.plan().objects() == 0 && self.options.extra != Extra::RemoveAll => {
                refused(format!(
                    "the source is empty, or its objects are left out, and {all} below {} would be removed: add --delete-all if that is meant",
                    printable(&self.trees.target.url())
                ))
            }
            Some(most) if extra > most => {
                refused(format!("{all} would be removed, and --max-delete is {most}"))
            }
            _ => Ok(()),
        }
    }

    /// The failures of the `blocked` objects that something stays in the way of, although everything of `extra` is removed.
    async fn obstacles_that_stay(
        &self,
        extra: &mut ExtraObjects,
        blocked: &mut ExtraObjects,
        in_the_way: &InTheWay,
    ) -> Result<Vec<Error>> {
        let target = &self.trees.target;
        let Some(root) = target.path("") else { return Ok(Vec::new()) };
        let mut removed = HashedNames::default();
        let note = |object: ExtraObject| {
            if in_the_way.has(&object.key) {
                removed.add(&*object.key);
            }
        };
        extra.each(note).await?;
        let mut failures = Vec::new();
        let refuse = |object: ExtraObject| match self.link_of(&object.key) {
            // It fails with the directory.
            Some(name) if in_the_way.has_directory(name) => {}
            _ => failures.extend(self.refuse_link(&object.key)),
        };
        blocked.each(refuse).await?;
        let plan = self.trees.plan();
        let refused = |name: &str, of: &str| Some(self.trees.refused(of, Some(plan.needs_directory(name)?)));
        failures.extend(in_the_way.that_stays(&removed, &root, target.links, refused)?);
        Ok(failures)
    }

    /// The name of the link that an object of this key becomes.
    fn link_of<'k>(&self, key: &'k str) -> Option<&'k str> {
        let makes_links = self.trees.target.is_local() && self.trees.target.links == Links::Preserve;
        key.strip_suffix(LINK_SUFFIX).filter(|_| makes_links)
    }

    /// The failure of an object that would become a link if another one needs a directory of its name.
    fn refuse_link(&self, key: &str) -> Option<Error> {
        let plan = self.trees.plan();
        Some(self.trees.refused(key, Some(plan.needs_directory(self.link_of(key)?)?)))
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
    async fn remove(&self, job: &CopyJob, (mut extra, in_the_way): (ExtraObjects, InTheWay)) -> Result {
        if extra.count == 0 {
            return Ok(());
        }
        self.events.push(Event::Removing);
        self.may_remove(extra.count)?;
        self.prove_distinct(&mut extra).await?;
        let all = count(extra.count, "object");
        let (extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let target = &self.trees.target;
        let recheck = Arc::new(Recheck::of(self.trees, job.events.clone()));
        let rechecked = recheck.clone();
        let extra = extra.filter(move |object| future::ready(!in_the_way.has(&object.key)));
        // In batches, because keys that are ready together are removed by one request.
        let keys = extra.chunks(BATCH).then(move |batch| {
            let recheck = recheck.clone();
            async move { stream::iter(recheck.still_extra(batch).await) }
        });
        let keys = keys.flatten().map(Ok).boxed();
        let removal = removal::remove(&job.events, &target.store, target.is_local(), keys);
        let Removal { removed, mut failed, stopped } = removal.await;
        failed += rechecked.failed.load(Relaxed);
        let changed = rechecked.changed.load(Relaxed);
        if changed > 0 {
            let kept = count(changed, "object");
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
}
