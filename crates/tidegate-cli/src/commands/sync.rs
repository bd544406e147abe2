//! `tidegate sync`: makes one tree like another.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::{StreamExt, future, stream};
use tidegate::checksum::Algorithm;
use tidegate::location::Location;
use tidegate::text::printable;
use tidegate::{Object, Store};
use tidegate_transfer::listing::{MissedEntry as _, TreeObject};

use crate::compare::{Change, CompareOptions, LeftOutNames, Step, Tree, TreeArguments, Trees, Verdict};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::lines::{CopyLine, ObjectLines, RemoveLine};
use crate::obstacle::InTheWay;
use crate::removal::{self, Removal};
use crate::select::FilterOptions;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::transfer::choices::Carried;
use crate::transfer::copies::{self, CopyOutcome};
use crate::transfer::emptied::EmptiedDirectories;
use crate::transfer::item::{self, CopyItem, ItemSource};
use crate::transfer::job::{CopyJob, CopyWriteSettings};
use crate::transfer::links::{self, DeferredLinks};
use crate::transfer::options::TransferOptions;
use crate::transfer::report::{CopyDisplay, CopyReport};
use crate::two_addresses::{self, DistinctOption, Places};
use crate::walk::Missed;
use crate::{output, text};

mod extra;
mod recheck;

use extra::{ExtraObject, ExtraObjects, lost_keys};
use recheck::Recheck;

/// How many objects are looked at again at once before their removal: as many as S3 removes by one request.
const BATCH: usize = 1000;

/// Copy what is new or has changed below SRC to DST: up, down, or between stores
///
///     tidegate sync photos s3://BUCKET/photos
///     tidegate sync --delete --dry-run s3://BUCKET/site ./site
///     tidegate sync s3://BUCKET/tables gs://OTHER/tables
///
/// Both names stand for everything below them. An object is copied if DST has none of its name,
/// if the sizes differ, or if the source is newer. Downloaded files get the times of their
/// objects, so an unchanged tree takes no requests beyond the listings. Use --checksum if the
/// clocks of this machine and the store differ.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    trees: TreeArguments,

    /// Remove from DST what SRC does not have, after all copies. What is in the way of a copy goes right before it.
    /// Nothing is removed if anything could not be listed, read or copied.
    #[arg(long)]
    delete: bool,

    /// With --delete, remove nothing if more than N objects would be removed.
    #[arg(long, requires = "delete", value_name = "N")]
    max_delete: Option<u64>,

    /// With --delete, remove everything below DST if SRC is empty. Without this, an empty source removes nothing.
    #[arg(long, requires = "delete")]
    delete_all: bool,

    /// Print what would be copied and removed, and change nothing.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,

    /// Force downloaded files to disk before the command ends. They, and their names, then survive a loss of power.
    #[arg(long)]
    fsync: bool,

    #[command(flatten)]
    compare: CompareOptions,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    distinct: DistinctOption,

    #[command(flatten)]
    carried: Carried,

    #[command(flatten)]
    transfer: TransferOptions,
}

impl SyncArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let (source, target) = self.trees.locations()?;
        let filter = self.filter.clone().filter()?;
        let attributes = self.carried.clone().attributes()?;
        let show = self.transfer.display(invocation, false);
        Stores::with(invocation, self.transfer.engine(Algorithm::default()), async |stores| {
            self.transfer.reach_source(stores, &[&source], false)?;
            self.spread.open(stores, &[&source, &target]).await?;
            let trees = Trees::open(stores, &source, &target, self.compare, filter.clone()).await?;
            if self.dry_run {
                return self.show(&trees, &source, invocation).await;
            }
            let report = CopyReport::new(show, ObjectLines::of(invocation)?, stores, false);
            report.tree(source.to_string(), trees.target.url());
            let writing = CopyWriteSettings::of_sync(attributes, self.fsync).with_files(self.compare.files);
            let job = CopyJob {
                stores,
                writing,
                report,
                journals: &[],
                is_dry_run: false,
                links: DeferredLinks::default(),
                emptied: EmptiedDirectories::default(),
                distinct: self.distinct,
            };
            let sync = Sync::new(&job, &trees, &self);
            let copied = {
                let mut copies = std::pin::pin!(sync.copy_all());
                tokio::select! {
                    copied = &mut copies => copied,
                    never = job.report.watch() => match never {},
                }
            };
            job.report_left_out();
            let Sync { found, .. } = sync;
            let SyncFindings { objects, unchanged, extra, in_the_way, removed: before, .. } =
                found.into_inner();
            let closed = job.report.close(copied).await;
            if closed.is_err() && extra.as_ref().is_some_and(|extra| extra.count > 0) {
                output::warn(match before {
                    0 => "nothing removed, because not everything could be listed and copied",
                    _ => "nothing more removed, because not everything could be listed and copied",
                });
            }
            closed?;
            self.refuse_nothing(&source, objects)?;
            let removed = match extra {
                Some(extra) => {
                    let mut lines = ObjectLines::of(invocation)?;
                    let extra = (extra, in_the_way);
                    let removed = self.remove(stores, &trees, extra, objects, &mut lines).await;
                    lines.finish().await?;
                    before + removed?
                }
                None => 0,
            };
            if show != CopyDisplay::Nothing || invocation.is_json() {
                let unchanged = text::count(unchanged, "object");
                let removed = if self.delete { format!(", {removed} removed") } else { String::new() };
                output::say(&format!("{unchanged} unchanged{removed}"));
            }
            Ok(())
        })
        .await
    }

    /// Fails if nothing lies below a prefix, which is more often mistyped than meant. An empty bucket or directory is
    /// fine.
    fn refuse_nothing(&self, source: &Location, objects: u64) -> Outcome {
        let is_prefix = source.in_store().is_some_and(|(_, _, key)| !key.is_empty());
        if objects == 0 && is_prefix && !self.delete_all && self.filter.given().is_none() {
            return Err(CommandFailure::nothing_at(source, "there is no object below it"));
        }
        Ok(())
    }

    /// Refuses to remove `extra` objects if that is more than allowed, or if the source, which has `objects`, is empty.
    fn may_remove(&self, trees: &Trees, extra: u64, objects: u64) -> Outcome {
        let refused = |why: String| Err(CommandFailure::Failed(format!("nothing removed: {why}")));
        let count = text::count(extra, "object");
        match self.max_delete {
            _ if extra == 0 => Ok(()),
            _ if objects == 0 && !self.delete_all => refused(format!(
                "the source is empty, or its objects are left out, and {count} below {} would be removed: add --delete-all if that is meant",
                printable(&trees.target.url())
            )),
            Some(most) if extra > most => {
                refused(format!("{count} would be removed, and --max-delete is {most}"))
            }
            _ => Ok(()),
        }
    }

    /// Proves that the source is not in the target by another address, and not the other way round: asks for the first
    /// of the objects that would be removed.
    async fn prove_distinct(&self, trees: &Trees, extra: &mut ExtraObjects) -> Outcome {
        let (source, target) = (trees.source.place(""), trees.target.place(""));
        if extra.count == 0 || !self.distinct.wants_proof() || !two_addresses::may_be_one(&source, &target) {
            return Ok(());
        }
        let (mut extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let Some(first) = extra.next().await else {
            return Err(unread.get().map_or_else(|| CommandFailure::NobodyReads, lost_keys));
        };
        let place = trees.target.place(&first.key);
        let unproven = || two_addresses::unproven(&trees.source.url(), &place);
        match two_addresses::compare(&trees.source.store, &place).await {
            Ok(Places::Different) => Ok(()),
            Ok(Places::Alike | Places::Empty) => Err(unproven()),
            Err(failure) => {
                output::fail(&failure);
                Err(unproven())
            }
        }
    }

    /// Removes what only the target has; returns how many objects that were.
    async fn remove(
        &self,
        stores: &Stores,
        trees: &Trees,
        (mut extra, in_the_way): (ExtraObjects, InTheWay),
        objects: u64,
        lines: &mut ObjectLines,
    ) -> Outcome<u64> {
        self.may_remove(trees, extra.count, objects)?;
        if extra.count == 0 {
            return Ok(0);
        }
        self.prove_distinct(trees, &mut extra).await?;
        let all = text::count(extra.count, "object");
        let (extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let target = &trees.target;
        let changed = Arc::new(AtomicU64::new(0));
        let recheck = Arc::new(Recheck::of(trees, changed.clone()));
        let extra = extra.filter(move |object| future::ready(!in_the_way.has(&object.key)));
        // In batches, because keys that are ready together are removed by one request.
        let keys = extra.chunks(BATCH).then(move |batch| {
            let recheck = recheck.clone();
            async move { stream::iter(recheck.still_extra(batch).await) }
        });
        let keys = keys.flatten().map(Ok);
        let removal = removal::remove(stores.tide(), &target.store, target.is_local(), keys, lines);
        let Removal { removed, failed, stopped } = removal.await?;
        if changed.load(Relaxed) > 0 {
            let kept = text::count(changed.load(Relaxed), "object");
            output::warn(&format!("{kept} not removed: changed since the listing"));
        }
        let stopped = stopped.or_else(|| unread.get().map(lost_keys));
        match stopped {
            Some(failure) if removed == 0 => Err(failure),
            None if failed == 0 => Ok(removed),
            stopped => {
                let why = stopped.and_then(|failure| failure.sentence());
                let why = why.map_or_else(String::new, |why| format!(", then stopped: {why}"));
                Err(CommandFailure::Failed(format!("removed {removed} of {all}{why}")))
            }
        }
    }

    /// Prints what would be copied and removed.
    async fn show(&self, trees: &Trees, source: &Location, invocation: &Invocation) -> Outcome {
        let mut lines = ObjectLines::of_dry_run(invocation)?;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut objects, mut extra, mut failed) = (0_u64, ExtraObjects::default(), None);
        while let Some(change) = changes.next().await {
            match change {
                Ok(Change::LeftOut(what)) => output::warn(&format!("left out: {what}")),
                Ok(Change::Remove(object)) => match trees.target_link_above(&object.key) {
                    Some(link) if self.delete => output::warn(&behind_link(trees, &object.key, &link)),
                    _ => extra.push(&object).map_err(|error| lost_keys(&error))?,
                },
                Ok(change) => {
                    objects += 1;
                    if let Err(failure) = self.announce(trees, &change, &mut lines).await {
                        failed.replace(failure).iter().for_each(output::fail);
                    }
                }
                Err(failure) => failed.replace(failure).iter().for_each(output::fail),
            }
        }
        trees.skipped_line().iter().for_each(|line| output::say(line));
        trees.incomparable_line().iter().for_each(|line| output::warn(line));
        let ended = match failed {
            Some(failure) => Err(failure),
            None => self.refuse_nothing(source, objects),
        };
        let ended = match ended {
            Ok(()) if self.delete => self.announce_removals(trees, extra, objects, &mut lines).await,
            ended => ended,
        };
        lines.finish().await?;
        ended
    }

    /// Prints what a real run would copy for `change`. Fails as the real run would if something is in the way.
    async fn announce(&self, trees: &Trees, change: &Change, lines: &mut ObjectLines) -> Outcome {
        let url = |tree: &Tree, key: &str| tree.place(key).url();
        match change {
            Change::Add(TreeObject { key, object }) | Change::Replace(TreeObject { key, object }, _) => {
                let (source, target) = (url(&trees.source, key), url(&trees.target, key));
                if let (Some(obstacle), Some(root)) = (trees.obstacle(key), trees.target.path(""))
                    && !(self.delete && trees.may_be_extra(&obstacle))
                    && let Some(failure) = obstacle.failure(&root, &target)
                {
                    return Err(failure);
                }
                lines.print(&CopyLine::planned(&source, &target, object.known_size())).await
            }
            Change::Taken(source, by) => Err(trees.taken(source, by)),
            Change::Remove(_) | Change::None | Change::LeftOut(_) => Ok(()),
        }
    }

    /// Prints what a real run would remove.
    async fn announce_removals(
        &self,
        trees: &Trees,
        mut extra: ExtraObjects,
        objects: u64,
        lines: &mut ObjectLines,
    ) -> Outcome {
        self.may_remove(trees, extra.count, objects)?;
        self.prove_distinct(trees, &mut extra).await?;
        let (mut extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        while let Some(object) = extra.next().await {
            let url = trees.target.place(&object.key).url();
            lines.print(&RemoveLine { url: &url, dry_run: true }).await?;
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

/// A synchronization, and what it has found so far.
struct Sync<'a> {
    job: &'a CopyJob<'a>,
    trees: &'a Trees,
    args: &'a SyncArgs,
    found: RefCell<SyncFindings>,
}

#[derive(Default)]
struct SyncFindings {
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

impl<'a> Sync<'a> {
    fn new(job: &'a CopyJob<'a>, trees: &'a Trees, args: &'a SyncArgs) -> Self {
        let extra = args.delete.then(ExtraObjects::default);
        let found = RefCell::new(SyncFindings { extra, ..SyncFindings::default() });
        Self { job, trees, args, found }
    }

    async fn copy_all(&self) -> Outcome {
        let found = self.job.report.found();
        let work = self.trees.steps().filter_map(|step| future::ready(self.plan(step))).inspect(move |_| {
            found.fetch_add(1, Relaxed);
        });
        let copies = work.map(|work| self.carry_out(work));
        let trees = [&self.trees.source, &self.trees.target];
        let stores: Vec<_> =
            trees.into_iter().filter(|tree| !tree.is_local()).map(|tree| &tree.store).collect();
        copies::all(self.job, &stores, copies).await?;
        let blocked = std::mem::take(&mut self.found.borrow_mut().blocked);
        if blocked.count > 0 {
            self.copy_blocked(blocked, &stores).await?;
        }
        links::copy_deferred(self.job).await
    }

    /// Removes what is in the way of the `blocked` objects, and copies them: a file that became a directory, or a
    /// directory that became a file. Comes after all other copies, and only if they went well.
    async fn copy_blocked(&self, mut blocked: ExtraObjects, stores: &[&Store]) -> Outcome {
        let all = text::count(blocked.count, "object");
        if self.job.report.has_failures() {
            let why = "what is in the way is removed only when everything else went well";
            self.job.report.warn(&format!("{all} not copied: {why}"));
            return Ok(());
        }
        let (extra, in_the_way, objects) = {
            let found = &mut *self.found.borrow_mut();
            (found.extra.take(), std::mem::take(&mut found.in_the_way), found.objects)
        };
        let mut extra = extra.unwrap_or_default();
        let removed = self.make_way(&mut extra, &in_the_way, objects).await;
        {
            let found = &mut *self.found.borrow_mut();
            (found.extra, found.in_the_way) = (Some(extra), in_the_way);
        }
        removed?;
        let (blocked, unread) = blocked.read().map_err(|error| lost_keys(&error))?;
        let copies = blocked.map(|ExtraObject { key, .. }| self.copy_now(key, None));
        copies::all(self.job, stores, copies).await?;
        unread.get().map_or(Ok(()), |error| Err(lost_keys(error)))
    }

    /// Removes those of the extra objects that are in the way.
    async fn make_way(&self, extra: &mut ExtraObjects, in_the_way: &InTheWay, objects: u64) -> Outcome {
        self.args.may_remove(self.trees, extra.count, objects)?;
        self.args.prove_distinct(self.trees, extra).await?;
        let target = &self.trees.target;
        let (extra, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let extra = extra.filter(|object| future::ready(in_the_way.has(&object.key)));
        let changed = Arc::new(AtomicU64::new(0));
        let recheck = Recheck::of(self.trees, changed.clone());
        let mut batches = std::pin::pin!(extra.chunks(BATCH));
        while let Some(batch) = batches.next().await {
            for key in recheck.still_extra(batch).await {
                target.store.delete(&key).await?;
                self.found.borrow_mut().removed += 1;
                self.job.report.removed(&format!("{}/{key}", target.store.location()), false).await?;
            }
        }
        if changed.load(Relaxed) > 0 {
            let kept = text::count(changed.load(Relaxed), "object");
            return Err(CommandFailure::Failed(format!("{kept} not removed: changed since the listing")));
        }
        if let Some(error) = unread.get() {
            return Err(lost_keys(error));
        }
        target.path("").map_or(Ok(()), |root| in_the_way.remove_directories(&root))
    }

    /// Decides what to do for a key, as far as the listings tell; `None` for nothing.
    fn plan(&self, step: Step) -> Option<Work> {
        let found = &mut *self.found.borrow_mut();
        let is_of_source = matches!(step, Step::Both { .. } | Step::SourceOnly(_) | Step::Taken { .. });
        found.objects += u64::from(is_of_source);
        match step {
            Step::Both { source, target } => match self.trees.compare(&source.object, &target) {
                Verdict::Same => {
                    found.unchanged += 1;
                    None
                }
                Verdict::Different(_) => Some(Work::Copy(source)),
                Verdict::Unknown | Verdict::Fresh => Some(Work::Ask { source, target: target.into() }),
            },
            Step::SourceOnly(source) => Some(Work::Copy(source)),
            Step::Taken { source, by } => {
                Some(Work::Report(CopyOutcome::Failed(self.trees.taken(&source, &by))))
            }
            Step::TargetOnly(object) => {
                if let Some(link) = self.trees.target_link_above(&object.key) {
                    if found.extra.is_some() {
                        self.job.report.warn(&behind_link(self.trees, &object.key, &link));
                    }
                    return None;
                }
                let extra = found.extra.as_mut().filter(|_| !found.left_out.has(&object.key))?;
                let unkept = extra.push(&object).err()?;
                Some(Work::Report(CopyOutcome::Stopped(lost_keys(&unkept))))
            }
            Step::SourceMissed(missed) => {
                if let Missed::LeftOut(path, _) = &missed {
                    found.left_out.add(&self.trees.source, path);
                    if !self.trees.takes_path(path) {
                        return None;
                    }
                }
                Some(Work::Report(self.missed(missed, &self.trees.source)))
            }
            Step::TargetMissed(missed) if missed.is_harmless() => None,
            Step::TargetMissed(missed) => Some(Work::Report(self.missed(missed, &self.trees.target))),
            Step::Disorder(disorder) => Some(Work::Report(CopyOutcome::Stopped(disorder.into()))),
        }
    }

    fn missed(&self, missed: Missed, tree: &Tree) -> CopyOutcome {
        match missed {
            // The listing of a store ends with its error; the walk of a directory continues.
            Missed::Failed(failure @ CommandFailure::Store(_)) if !tree.is_local() => {
                CopyOutcome::Stopped(failure)
            }
            Missed::Failed(failure) => CopyOutcome::Failed(failure),
            Missed::LeftOut(path, kind) => {
                self.job.leave_out(&path, kind);
                CopyOutcome::LeftOut
            }
        }
    }

    async fn carry_out(&self, work: Work) -> CopyOutcome {
        match work {
            Work::Copy(source) => self.copy(source).await,
            Work::Ask { source, target } => match Box::pin(self.trees.ask(&source, &target)).await {
                Ok(Some(_)) => self.copy(source).await,
                Ok(None) => {
                    self.found.borrow_mut().unchanged += 1;
                    CopyOutcome::LeftOut
                }
                Err(failure) => CopyOutcome::Failed(failure),
            },
            Work::Report(outcome) => outcome,
        }
    }

    async fn copy(&self, source: TreeObject) -> CopyOutcome {
        if self.args.delete
            && let Some(obstacle) = self.trees.obstacle(&source.key)
            && self.trees.may_be_extra(&obstacle)
        {
            let found = &mut *self.found.borrow_mut();
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
        let place = self.trees.source.place(&key);
        let source = match self.trees.source.path(&key) {
            Some(path) => ItemSource::file(path, place),
            None => ItemSource::object(place),
        };
        let source = match object {
            Some(object) => source.described(self.job, object),
            None => source,
        };
        item::copy(self.job, CopyItem { source, to: self.trees.target.place(&key) }).await
    }
}
