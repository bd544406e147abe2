//! Compares two trees, as `sync` and `check` do: both are listed in parallel, and their objects paired by key, page by
//! page.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{Stream, StreamExt, future};
use tidegate::Object;
use tidegate::backend::OtherKind;
use tidegate::backend::local::LINK_SUFFIX;
use tidegate::text::printable;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::event::{self, Events, Failure};
use crate::figures::count;
use crate::folding::DirectoryNames;
use crate::links::{LinkRules, Links, WriteLinks, skipped_links};
use crate::listing::{OrderedListing, TreeObject};
use crate::merge::merge;
use crate::plan::{Change, NoObjects, PlanStep, TreePlan};
use crate::planted::Planted;
use crate::resolved::resolved;
use crate::select::ObjectFilter;
use crate::two_addresses;
use crate::walk::OtherTree;

pub(crate) mod checksums;
mod target_disk;
mod tree;
mod verdict;

pub use tree::Tree;
use tree::TreeKeys;
pub(crate) use tree::key_of;
pub use verdict::Comparison;
pub(crate) use verdict::{CompareOptions, CompareRules, Difference, Sides, Verdict, time_of_file};

/// How many objects are compared at once, where a listing does not tell.
const AT_ONCE: usize = 64;
/// How many files are read at once for their checksums.
const READERS: usize = 4;

/// Two trees that are compared.
#[derive(Debug)]
pub(crate) struct Trees {
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    pub(crate) rules: CompareRules,
    filter: ObjectFilter,
    plan: Mutex<TreePlan>,
    /// What the directory that is the target does with names.
    names: Option<DirectoryNames>,
    /// Permits to read files for their checksums: each reader holds a thread and a buffer.
    readers: Semaphore,
    /// How many symbolic links of the source were left out, as asked for.
    skipped_links: AtomicU64,
    /// How many objects had no checksum in common, although checksums were to be compared.
    incomparable: AtomicU64,
}

impl Trees {
    /// Takes both trees together. Refuses a source that is no tree, and trees that overlap.
    pub(crate) fn new(from: Tree, to: Tree, options: CompareOptions, filter: ObjectFilter) -> Result<Self> {
        if let Some(path) = &from.directory {
            let found = path.metadata().map_err(|error| Error::of_file(path, &error))?;
            if !found.is_dir() {
                let message =
                    format!("{}: this is no directory: use `tidegate cp` for a single file", path.display());
                return Err(Error::Refused(message));
            }
        }
        if let Some(path) = &to.directory
            && path.metadata().is_ok_and(|found| !found.is_dir())
        {
            return Err(Error::Refused(format!("{}: this is no directory", path.display())));
        }
        let links = options.files.links;
        let (mut from, mut to) =
            (from.with_links(links, links.of_source()), to.with_links(links, links.of_target()));
        if options.plants.has(Planted::WriteThroughLink) {
            to = to.with_links(links, LinkRules { writes: WriteLinks::Follow, ..links.of_target() });
        }
        from.except.extend(to.directory.as_deref().map(resolved));
        let other = |tree: &Tree| OtherTree::at(tree.directory.as_deref()?);
        (from.other, to.other) = (other(&to), other(&from));
        let trees = Self::of(from, to, options, filter);
        if trees.source.overlaps(&trees.target) {
            let (source, target) = (trees.source.name(), trees.target.name());
            return Err(Error::Refused(format!("{source} and {target} overlap: one is in the other")));
        }
        if let (Some(source), Some(target)) = (&trees.source.directory, &trees.target.directory)
            && let Some((ours, theirs)) = two_addresses::shared_by_mount(source, target)
        {
            return Err(two_addresses::overlap(&ours, &theirs));
        }
        Ok(trees)
    }

    fn of(source: Tree, target: Tree, options: CompareOptions, filter: ObjectFilter) -> Self {
        let sides = match (source.is_local(), target.is_local()) {
            (true, true) => Sides::Disks,
            (true, false) => Sides::FromDisk,
            (false, true) => Sides::ToDisk,
            (false, false) => Sides::Stores,
        };
        let rules = CompareRules { options, sides };
        let directories = (source.directory.as_deref(), target.directory.as_deref());
        let no_objects = NoObjects::below(directories.0, directories.1, &filter);
        let target_links = target.is_local().then_some((target.links, target.rules.lists));
        let names = directories.1.map(|root| DirectoryNames::below(root, false));
        let plan = TreePlan::new(rules, filter.clone(), target_links, no_objects);
        Self {
            source,
            target,
            rules,
            filter,
            plan: Mutex::new(plan),
            names,
            readers: Semaphore::new(READERS),
            skipped_links: AtomicU64::new(0),
            incomparable: AtomicU64::new(0),
        }
    }

    /// The same trees, for a command that writes the target, or only says what it would write (`is_dry_run`).
    pub(crate) fn with_writes(mut self, is_dry_run: bool) -> Self {
        self.source.other = self.source.other.map(OtherTree::written);
        self.names = self.target.directory.as_deref().map(|root| DirectoryNames::below(root, !is_dry_run));
        self
    }

    /// Fails if nothing lies below a prefix, which is more often mistyped than meant. An empty bucket or directory is
    /// fine. For the end of [`steps`](Self::steps).
    pub(crate) fn refuse_nothing(&self) -> Result {
        let source = &self.source;
        let is_prefix = !source.is_local() && !source.is_whole_store();
        if is_prefix && !source.has_entries() {
            return Err(Error::nothing_at(&source.name(), "there is no object below it"));
        }
        Ok(())
    }

    /// The plan, as far as [`steps`](Self::steps) has come.
    pub(crate) fn plan(&self) -> MutexGuard<'_, TreePlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steps for the keys of both trees, in order. Lists both sides.
    pub(crate) fn steps(&self) -> impl Stream<Item = PlanStep> + '_ {
        let keys = TreeKeys::of(&self.source, &self.target);
        let names = self.filter.of_names();
        let source = OrderedListing::new(self.source.list(&names, keys));
        let target = OrderedListing::new(self.target.list_target(&names, keys));
        merge(source, target).filter_map(|pair| future::ready(self.plan().next(pair, self)))
    }

    /// The changes for the keys of both trees, in order. Nothing is changed.
    pub(crate) fn changes(&self) -> impl Stream<Item = Change> + '_ {
        let changes = self.steps().map(move |step| async move {
            match step {
                PlanStep::Do(change) => change,
                PlanStep::Compare { source, target } => match self.ask(&source, &target).await {
                    Ok(Some(how)) => Change::Replace(source, how),
                    Ok(None) => Change::None,
                    Err(error) => Change::Fail(Failure::new(event::Step::List, None, error)),
                },
            }
        });
        changes.buffered(AT_ONCE)
    }

    /// Whether an object of the source has the file that the target lists as `key`. For the end of
    /// [`steps`](Self::steps).
    pub(crate) fn has_file_of(&self, key: &str) -> bool {
        let link = key.strip_suffix(LINK_SUFFIX).filter(|_| self.target.links == Links::Preserve);
        self.plan().has_file_of(link.unwrap_or(key), self)
    }

    /// Whether two names of the target may be one file: by links, or by what its file system does with names.
    pub(crate) fn may_share_files(&self) -> bool {
        self.target.rules.writes == WriteLinks::Follow
            || self.names.as_ref().is_some_and(DirectoryNames::has_folded)
    }

    /// The failure of a copy whose name on the target's disk another object of the source has.
    pub(crate) fn refused(&self, key: &str, by: Option<&str>) -> Error {
        let (from, to) = (self.source.place(key).url(), self.target.place(key).url());
        let Some(by) = by else { return Error::maybe_one_file(&from, &to) };
        let by = self.source.place(by).url();
        let message = format!("{from}: not copied to {to}: another object of this command goes there: {by}");
        Error::Failed(printable(&message).into_owned())
    }

    /// Says that a name in the source is no object.
    pub(crate) fn leave_out(&self, events: &Events, path: &Path, kind: OtherKind) {
        events.leave_out(path, kind, self.source.links == Links::Follow, &self.skipped_links);
    }

    /// The lines about what is left out: empty objects of the source in place of directories, and keys that belong to no
    /// tree.
    pub(crate) fn left_out_lines(&self) -> impl Iterator<Item = String> {
        self.plan()
            .no_files_of_source()
            .into_iter()
            .chain(self.source.kept_lines())
            .chain(self.target.job_lines())
    }

    /// The line about symbolic links that were left out; `None` if there were none.
    pub(crate) fn skipped_line(&self) -> Option<String> {
        skipped_links(self.skipped_links.load(Relaxed))
    }

    /// The line about objects that have no checksum in common, so that they count as different; `None` if there were
    /// none.
    pub(crate) fn incomparable_line(&self) -> Option<String> {
        let objects = Some(self.incomparable.load(Relaxed)).filter(|objects| *objects > 0)?;
        Some(format!(
            "{}: source and target have no checksum of one kind, so --checksum cannot compare them and counts them as \
             different",
            count(objects, "object")
        ))
    }

    /// Compares two objects of one key that the listings do not tell apart: describes them, and reads files for their
    /// checksums. `None` if they are the same.
    pub(crate) async fn ask(&self, source: &TreeObject, target: &Object) -> Result<Option<Difference>> {
        let theirs = TreeObject { key: source.key.clone(), object: target.clone() };
        let verdict = if self.rules.options.by == Comparison::Checksum {
            checksums::compare(&self.readers, (&self.source, source), (&self.target, &theirs)).await?
        } else if self.rules.compare(&source.object, target) == Verdict::Fresh {
            let sides = ((&self.source, source), (&self.target, &theirs));
            checksums::compare_fresh(&self.readers, sides.0, sides.1).await?
        } else {
            let described = future::join(described(&self.source, source), described(&self.target, &theirs));
            let (ours, theirs) = described.await;
            self.rules.compare_described(&ours?, &theirs?)
        };
        if self.rules.options.by == Comparison::Checksum
            && verdict == Verdict::Different(Difference::Unproven)
        {
            self.incomparable.fetch_add(1, Relaxed);
        }
        Ok(match verdict {
            Verdict::Same | Verdict::Fresh => None,
            Verdict::Different(how) => Some(how),
            Verdict::Unknown => Some(Difference::Unproven),
        })
    }
}

/// The description of an object, which may have more than a listing.
async fn described(tree: &Tree, object: &TreeObject) -> Result<Object> {
    Ok(tree.store.head(&object.object.key).await?)
}

#[cfg(test)]
mod tests {
    use super::verdict::tests::object;
    use super::*;
    use crate::links::FileOptions;

    #[tokio::test]
    async fn a_file_with_the_time_in_the_metadata_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let tide = tidegate::Tidegate::builder().build().unwrap();
        let files = FileOptions { preserve: true, ..FileOptions::default() };
        let source = Tree::new(&tide.open("memory://b").await.unwrap(), "");
        let target = Tree::directory(&tide, directory.path());
        let options = CompareOptions { files, ..CompareOptions::default() };
        let mut rules = Trees::of(source, target, options, ObjectFilter::default()).rules;
        let (mut new, old) = (object(Some(3), Some(200)), object(Some(3), Some(105)));
        assert_eq!(rules.compare(&new, &old), Verdict::Unknown);
        assert_eq!(rules.compare(&old, &new), Verdict::Same);
        let newer = Verdict::Different(Difference::Newer);
        for (mtime, verdict) in
            [(None, newer), (Some("10.5"), Verdict::Same), (Some("10"), Verdict::Same), (Some("11"), newer)]
        {
            new.attributes.metadata =
                mtime.map(|mtime| ("mtime".to_owned(), mtime.to_owned())).into_iter().collect();
            assert_eq!(rules.compare_described(&new, &old), verdict, "{mtime:?}");
        }
        let larger = object(Some(4), Some(200));
        assert_eq!(rules.compare_described(&larger, &old), Verdict::Different(Difference::Size));
        rules.options.files.preserve = false;
        assert_eq!(rules.compare(&new, &old), newer);
    }
}
