//! `tidegate sync`: makes one tree like another.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::{Stream, StreamExt, future, stream};
use serde::Serialize;
use tidegate::Object;
use tidegate::checksum::Algorithm;
use tidegate::location::Location;
use tidegate::text::printable;

use crate::compare::{Change, CompareOptions, Step, Tree, TreeObject, Trees, Verdict, disorder};
use crate::exit::{CommandFailure, Outcome};
use crate::removal::{self, Removal};
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::transfer::choices::Carried;
use crate::transfer::directory::{self, CopyOutcome};
use crate::transfer::job::{CopyJob, CopyWriteSettings};
use crate::transfer::options::TransferOptions;
use crate::transfer::report::{CompletedCopy, CopyDisplay, CopyReport};
use crate::transfer::{download, upload};
use crate::walk::Missed;
use crate::{output, text};

/// Copy what is new or has changed below SRC to DST: up, down, or between stores.
///
/// An object is copied if DST has none of its name, if the sizes differ, or if the source is newer, in whole seconds.
/// Downloaded files get the times of their objects, so an unchanged tree takes no requests beyond the listings. Both
/// names stand for what lies below them: `tidegate sync photos s3://bucket/photos`.
#[derive(Debug, clap::Args)]
pub(crate) struct SyncArgs {
    /// Source: a directory, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or dev://BUCKET/PREFIX.
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Target: a directory, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or dev://BUCKET/PREFIX.
    #[arg(value_name = "DST")]
    target: OsString,

    #[command(flatten)]
    compare: CompareOptions,

    /// Remove from DST what SRC does not have, after all copies. Nothing is removed if anything could not be listed,
    /// read or copied.
    #[arg(long)]
    delete: bool,

    /// With --delete, remove nothing if more than N objects would be removed.
    #[arg(long, requires = "delete", value_name = "N")]
    max_delete: Option<u64>,

    /// With --delete, remove everything below DST if SRC is empty. Without this, an empty source removes nothing.
    #[arg(long, requires = "delete")]
    delete_all: bool,

    /// Print what would be copied and removed, and change nothing.
    #[arg(long)]
    dry_run: bool,

    /// Force downloaded files and their names to disk before sync ends, so that they survive a loss of power.
    #[arg(long)]
    fsync: bool,

    #[command(flatten)]
    carried: Carried,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    transfer: TransferOptions,
}

impl SyncArgs {
    pub(crate) async fn run(self) -> Outcome {
        let (source, target) = (tree(&self.source)?, tree(&self.target)?);
        let attributes = self.carried.clone().attributes()?;
        let show = self.transfer.display(false);
        Stores::with(self.transfer.engine(Algorithm::default()), async |stores| {
            self.spread.open(stores, &[&source, &target]).await?;
            let trees = Trees::open(stores, &source, &target, self.compare).await?;
            if self.dry_run {
                return self.show(&trees, &source).await;
            }
            let report = CopyReport::new(show, stores, false)?;
            report.tree(source.to_string(), trees.target.url());
            let writing = CopyWriteSettings::of_sync(attributes, self.fsync);
            let job = CopyJob { stores, writing, report, journals: &[] };
            let sync = Sync::new(&job, &trees)?;
            let copied = {
                let mut copies = std::pin::pin!(sync.copy_all());
                tokio::select! {
                    copied = &mut copies => copied,
                    never = job.report.watch() => match never {},
                }
            };
            if let Some(line) = job.writing.left_out.line() {
                job.report.say(&line);
            }
            let Sync { objects, unchanged, source_missed, extra, .. } = sync;
            let is_whole = !source_missed.into_inner();
            let (objects, unchanged) = (objects.into_inner(), unchanged.into_inner());
            let extra = extra.into_inner().unwrap_or_else(PoisonError::into_inner);
            let closed = job.report.close(copied).await;
            if self.delete && extra.count > 0 && (closed.is_err() || !is_whole) {
                output::say("nothing removed, because not everything could be listed and copied");
            }
            closed?;
            self.refuse_nothing(&source, objects)?;
            let removed = match self.delete {
                true => self.remove(stores, &trees, extra, objects).await?,
                false => 0,
            };
            if matches!(show, CopyDisplay::Bar | CopyDisplay::Line) {
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
        if objects == 0 && is_prefix && !self.delete_all {
            return Err(CommandFailure::nothing_at(source, "there is no object below it"));
        }
        Ok(())
    }

    /// How many objects may be removed, of `extra`; `objects` is how many the source has.
    fn may_remove(&self, trees: &Trees, extra: u64, objects: u64) -> Outcome {
        let refused = |why: String| Err(CommandFailure::Failed(format!("nothing removed: {why}")));
        let count = text::count(extra, "object");
        match self.max_delete {
            _ if extra == 0 => Ok(()),
            _ if objects == 0 && !self.delete_all => refused(format!(
                "the source is empty, and {count} below {} would be removed: add --delete-all if that is meant",
                printable(&trees.target.url())
            )),
            Some(most) if extra > most => {
                refused(format!("{count} would be removed, and --max-delete is {most}"))
            }
            _ => Ok(()),
        }
    }

    /// Removes what only the target has; returns how many objects that were.
    async fn remove(&self, stores: &Stores, trees: &Trees, extra: ExtraKeys, objects: u64) -> Outcome<u64> {
        self.may_remove(trees, extra.count, objects)?;
        if extra.count == 0 {
            return Ok(0);
        }
        let all = text::count(extra.count, "object");
        let (keys, unread) = extra.read().map_err(|error| lost_keys(&error))?;
        let target = &trees.target;
        let removal = removal::remove(stores.tide(), &target.store, target.is_local(), keys).await;
        let Removal { removed, failed, stopped } = removal;
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
    async fn show(&self, trees: &Trees, source: &Location) -> Outcome {
        let mut out = output::text()?;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut objects, mut extra, mut failed) = (0_u64, 0_u64, None);
        while let Some(change) = changes.next().await {
            let planned = match change {
                Ok(change) => {
                    objects += u64::from(!matches!(change, Change::Remove(_)));
                    extra += u64::from(matches!(change, Change::Remove(_)));
                    self.planned(trees, change)
                }
                Err(failure) => {
                    failed.replace(failure).iter().for_each(removal::say);
                    None
                }
            };
            match planned {
                Some(planned) if self.transfer.is_json() => out.json(&planned)?,
                Some(PlannedChange::Copy { source, target }) => writeln!(out, "copy {source} -> {target}")?,
                Some(PlannedChange::Remove { target }) => writeln!(out, "remove {target}")?,
                None => {}
            }
            out.flow().await?;
        }
        out.finish().await?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        self.refuse_nothing(source, objects)?;
        if self.delete { self.may_remove(trees, extra, objects) } else { Ok(()) }
    }

    fn planned(&self, trees: &Trees, change: Change) -> Option<PlannedChange> {
        let url = |tree: &Tree, key: &str| tree.place(key).url();
        match change {
            Change::Add(TreeObject { key, .. }) | Change::Replace(TreeObject { key, .. }, _) => {
                Some(PlannedChange::Copy {
                    source: url(&trees.source, &key),
                    target: url(&trees.target, &key),
                })
            }
            Change::Remove(TreeObject { key, .. }) if self.delete => {
                Some(PlannedChange::Remove { target: url(&trees.target, &key) })
            }
            Change::Remove(_) | Change::None => None,
        }
    }
}

/// A line of `--dry-run --json`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", tag = "action")]
enum PlannedChange {
    Copy { source: String, target: String },
    Remove { target: String },
}

/// Parses a tree's location.
pub(super) fn tree(text: &OsString) -> Outcome<Location> {
    if text == "-" {
        return Err(CommandFailure::Usage("-: this is no tree: name a directory or a prefix".to_owned()));
    }
    Ok(Location::try_from(text.as_os_str())?)
}

/// A synchronization, and what it has found so far.
struct Sync<'a> {
    job: &'a CopyJob<'a>,
    trees: &'a Trees,
    /// Objects of the source.
    objects: AtomicU64,
    unchanged: AtomicU64,
    /// Whether something in the source could not be listed, so that its objects may be missing.
    source_missed: AtomicBool,
    extra: Mutex<ExtraKeys>,
}

/// What is to be done for a key.
enum Work {
    Copy(TreeObject),
    Ask { source: TreeObject, target: Box<Object> },
    Report(CopyOutcome),
}

impl<'a> Sync<'a> {
    fn new(job: &'a CopyJob<'a>, trees: &'a Trees) -> Outcome<Self> {
        Ok(Self {
            job,
            trees,
            objects: AtomicU64::new(0),
            unchanged: AtomicU64::new(0),
            source_missed: AtomicBool::new(false),
            extra: Mutex::new(ExtraKeys::new().map_err(|error| lost_keys(&error))?),
        })
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
        directory::all(self.job, &stores, copies).await.map(drop)
    }

    /// Decides what to do for a key, as far as the listings tell; `None` for nothing.
    fn plan(&self, step: Step) -> Option<Work> {
        if matches!(step, Step::Both { .. } | Step::SourceOnly(_)) {
            self.objects.fetch_add(1, Relaxed);
        }
        match step {
            Step::Both { source, target } => match self.trees.options.compare(&source.object, &target) {
                Verdict::Same => {
                    self.unchanged.fetch_add(1, Relaxed);
                    None
                }
                Verdict::Different(_) => Some(Work::Copy(source)),
                Verdict::Unknown => Some(Work::Ask { source, target: target.into() }),
            },
            Step::SourceOnly(source) => Some(Work::Copy(source)),
            Step::TargetOnly(TreeObject { object, .. }) => {
                let mut extra = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
                let unkept = extra.push(&object.key).err()?;
                Some(Work::Report(CopyOutcome::Stopped(lost_keys(&unkept))))
            }
            Step::SourceMissed(missed) => {
                self.source_missed.fetch_or(matches!(missed, Missed::Failed(_)), Relaxed);
                Some(Work::Report(self.missed(missed)))
            }
            Step::TargetMissed(Missed::LeftOut(..)) => None,
            Step::TargetMissed(missed) => Some(Work::Report(self.missed(missed))),
            Step::Disorder { key } => Some(Work::Report(CopyOutcome::Stopped(disorder(&key)))),
        }
    }

    fn missed(&self, missed: Missed) -> CopyOutcome {
        match missed {
            // The listing of a store ends with its error.
            Missed::Failed(failure @ CommandFailure::Store(_)) => CopyOutcome::Stopped(failure),
            Missed::Failed(failure) => CopyOutcome::Failed(failure),
            Missed::LeftOut(path, kind) => {
                let path = path.display().to_string();
                self.job.report.say(&format!("left out: {} is {kind}", printable(&path)));
                CopyOutcome::LeftOut
            }
        }
    }

    async fn carry_out(&self, work: Work) -> CopyOutcome {
        match work {
            Work::Copy(source) => self.copy(source).await.into(),
            Work::Ask { source, target } => match Box::pin(self.trees.ask(&source, &target)).await {
                Ok(Some(_)) => self.copy(source).await.into(),
                Ok(None) => {
                    self.unchanged.fetch_add(1, Relaxed);
                    CopyOutcome::LeftOut
                }
                Err(failure) => CopyOutcome::Failed(failure),
            },
            Work::Report(outcome) => outcome,
        }
    }

    async fn copy(&self, source: TreeObject) -> Outcome<CompletedCopy> {
        let size = source.object.known_size();
        self.job.report.expect(size);
        let to = self.trees.target.place(&source.key);
        if let Some(path) = self.trees.source.path(&source.key) {
            return upload::file(self.job, &path, path.display().to_string(), &to).await;
        }
        let from = self.trees.source.place(&source.key);
        download::object(self.job, &from.url(), &from, size, &to).await
    }
}

/// The keys to remove at the end, in a file without a name: a million of them would take much memory.
struct ExtraKeys {
    file: BufWriter<File>,
    count: u64,
}

impl ExtraKeys {
    fn new() -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile()?), count: 0 })
    }

    /// Adds a key: its length in four bytes, and its bytes.
    fn push(&mut self, key: &str) -> io::Result<()> {
        let length = u32::try_from(key.len()).map_err(io::Error::other)?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(key.as_bytes())?;
        self.count += 1;
        Ok(())
    }

    /// The keys in the order in which they were added. They end early with an error, which is in the second value then.
    fn read(
        self,
    ) -> io::Result<(impl Stream<Item = tidegate::Result<String>> + Send + 'static, Arc<OnceLock<io::Error>>)>
    {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let (mut file, mut left) = (BufReader::new(file), self.count);
        let unread = Arc::new(OnceLock::new());
        let error = unread.clone();
        let keys = std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            read_key(&mut file).map_err(|unread| error.get_or_init(|| unread).kind()).ok()
        });
        Ok((stream::iter(keys.fuse().map(Ok)), unread))
    }
}

fn read_key(file: &mut impl Read) -> io::Result<String> {
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let mut key = vec![0; u32::from_le_bytes(length) as usize];
    file.read_exact(&mut key)?;
    String::from_utf8(key).map_err(io::Error::other)
}

fn lost_keys(error: &io::Error) -> CommandFailure {
    CommandFailure::Failed(format!("the keys to remove could not be kept in a temporary file: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_to_remove_are_kept_in_order() {
        let mut kept = ExtraKeys::new().unwrap();
        let keys: Vec<String> = (0..2000).map(|number| format!("é/{number}\n")).collect();
        keys.iter().for_each(|key| kept.push(key).unwrap());
        let (read, unread) = kept.read().unwrap();
        let read: Vec<_> = read.map(Result::unwrap).collect().await;
        assert_eq!(read, keys);
        assert!(unread.get().is_none());
    }
}
