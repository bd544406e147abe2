//! Compares two trees, as `sync` and `check` do: both are listed in parallel, and their objects paired by key, page by
//! page.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::listing::{MissedEntry as _, OrderedListing, TreeObject};
use crate::merge::{self, Pair};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, future};
use tidegate::Object;
use tidegate::backend::OtherKind;
use tidegate::backend::local::{LINK_SUFFIX, LinkPolicy};
use tidegate::object::FileAttributes;
use tidegate::text::printable;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::event::{Failure, Side, Step};
use crate::figures::count;
use crate::links::{LinkRules, Links, WriteLinks, skipped_links};
use crate::obstacle::Obstacle;
use crate::planted::Planted;
use crate::resolved::resolved;
use crate::select::ObjectFilter;
use crate::two_addresses;
use crate::walk::{Missed, OtherTree};

pub(crate) mod checksums;
mod no_objects;
mod taken;
mod tree;
mod verdict;

use no_objects::NoObjects;
use taken::TakenNames;
pub use tree::Tree;
pub use verdict::Comparison;
use verdict::Sides;
pub(crate) use verdict::{CompareOptions, Difference, Verdict, time_of_file};

/// How many objects are compared at once, where a listing does not tell.
const AT_ONCE: usize = 64;
/// How many files are read at once for their checksums.
const READERS: usize = 4;

/// Two trees that are compared.
#[derive(Debug)]
pub(crate) struct Trees {
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    pub(crate) options: CompareOptions,
    filter: ObjectFilter,
    /// Permits to read files for their checksums: each reader holds a thread and a buffer.
    readers: Semaphore,
    /// How many symbolic links of the source were left out, as asked for.
    skipped_links: AtomicU64,
    /// How many objects had no checksum in common, although checksums were to be compared.
    incomparable: AtomicU64,
    /// The names that are no objects, as far as [`pairs`](Self::pairs) has come.
    pub(crate) no_objects: Arc<NoObjects>,
}

/// What would make the target like the source, for one key.
#[derive(Debug)]
pub(crate) enum Change {
    None,
    /// The source has the object, and the target does not.
    Add(TreeObject),
    Replace(TreeObject, Difference),
    /// The target has the object, and the source does not.
    Remove(TreeObject),
    /// The source has the object, and its name on the target's disk is that of another: see [`Trees::taken`].
    Taken(TreeObject, String),
    /// The source has something that is no object; the message says what.
    LeftOut(String),
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
        let readers = Semaphore::new(READERS);
        let (skipped_links, incomparable) = (AtomicU64::new(0), AtomicU64::new(0));
        let (source, target) = (from, to);
        let directories = (source.directory.as_deref(), target.directory.as_deref());
        let no_objects = NoObjects::below(directories.0, directories.1, &filter).into();
        let trees =
            Self { source, target, options, filter, readers, skipped_links, incomparable, no_objects };
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

    /// Whether the filter takes everything.
    pub(crate) fn takes_everything(&self) -> bool {
        self.filter.is_everything()
    }

    /// The keys of both trees in order, without those that the filter leaves out. Of a key in both trees, the object of
    /// the source decides; one that is only in the target is left alone if it would not be taken from the source.
    pub(crate) fn pairs(&self) -> BoxStream<'static, Pair<Missed>> {
        let as_files = self.source.is_local() || self.target.is_local();
        let (names, filter) = (self.filter.of_names(), self.filter.clone());
        let source = OrderedListing::new(self.source.list(&names, as_files));
        let target = OrderedListing::new(self.target.list_target(&names, as_files));
        let plants = self.options.plants;
        let no_objects = self.no_objects.clone();
        let pairs = merge::merge(source, target).inspect(move |pair| no_objects.see(pair));
        let pairs = pairs.filter(move |pair| {
            future::ready(match pair {
                Pair::Both { source: object, .. }
                | Pair::SourceOnly(object)
                | Pair::TargetOnly(object)
                | Pair::Taken { source: object, .. } => filter.takes(&object.key, &object.object),
                Pair::Disorder(_) => !plants.has(Planted::UnorderedListing),
                Pair::SourceMissed(_) | Pair::TargetMissed(_) => true,
            })
        });
        if !self.target.is_local() || plants.has(Planted::LinkOverFile) {
            return pairs.boxed();
        }
        let mut taken = TakenNames::new(self.target.links, self.target.directory.clone());
        let with_taken = move |pair| {
            let (Pair::Both { source, .. } | Pair::SourceOnly(source)) = &pair else { return pair };
            match taken.taken_by(&source.key) {
                Some(by) => Pair::Taken { source: source.clone(), by: by.to_owned() },
                None => pair,
            }
        };
        pairs.map(with_taken).boxed()
    }

    /// The failure of a copy whose name on the target's disk another object of the source has.
    pub(crate) fn taken(&self, source: &TreeObject, by: &str) -> Error {
        let (from, to) = (self.source.place(&source.key).url(), self.target.place(&source.key).url());
        let by = self.source.place(by).url();
        let message = format!("{from}: not copied to {to}: another object of this command goes there: {by}");
        Error::Failed(printable(&message).into_owned())
    }

    /// The link that an object of the target lies behind; `None` if the target's links are not followed.
    pub(crate) fn target_link_above(&self, key: &str) -> Option<PathBuf> {
        let follows = self.target.rules.lists == LinkPolicy::Follow;
        follows.then(|| self.target.link_above(key)).flatten()
    }

    /// What is in the way of the object `key` in the target, if that is a directory on this machine.
    pub(crate) fn obstacle(&self, key: &str) -> Option<Obstacle> {
        let Tree { directory, links, rules, .. } = &self.target;
        Obstacle::find(directory.as_deref()?, key, *links, rules.writes)
    }

    /// Whether what is in the way of the object `key` would be listed as an object that only the target has, and so may be
    /// removed.
    pub(crate) fn may_be_extra(&self, obstacle: &Obstacle, key: &str) -> bool {
        let is_listed = match obstacle {
            // A link to a directory is no object, unless all links are. A link to a file is listed by its name, which both
            // sides have if it is that of the object.
            Obstacle::Link(name) => {
                self.target.links == Links::Preserve
                    || name != key && self.target.path(name).is_some_and(|path| path.is_file())
            }
            // Nothing is removed through a link.
            Obstacle::Directory(name) => self.target.link_above(&format!("{name}/")).is_none(),
            Obstacle::File(_) | Obstacle::Replaced(_) => true,
        };
        // With links as objects, the key of a link has a suffix, which a filter may leave out.
        let is_object = matches!(obstacle, Obstacle::Link(_)) && self.target.links == Links::Preserve;
        let suffix = if is_object { LINK_SUFFIX } else { "" };
        is_listed && self.filter.takes_name(&format!("{}{suffix}", obstacle.name()))
    }

    /// Whether the filter takes a path below the source.
    pub(crate) fn takes_path(&self, path: &Path) -> bool {
        self.source.key_of(path).is_none_or(|key| self.filter.takes_name(key))
    }

    /// Compares two objects of one key as far as the listings describe them.
    pub(crate) fn compare(&self, source: &Object, target: &Object) -> Verdict {
        let verdict = self.options.compare(source, target, self.sides());
        match verdict {
            Verdict::Different(Difference::Newer) if self.has_preserved_times() => Verdict::Unknown,
            verdict => verdict,
        }
    }

    fn sides(&self) -> Sides {
        match (self.source.is_local(), self.target.is_local()) {
            (true, _) => Sides::FromDisk,
            (false, true) => Sides::ToDisk,
            (false, false) => Sides::Stores,
        }
    }

    /// Whether the files of one tree may have their times in the metadata of the other's objects.
    fn has_preserved_times(&self) -> bool {
        self.options.files.preserve && self.source.is_local() != self.target.is_local()
    }

    /// Compares two objects by all that their stores say of them. A file that has the time in the metadata of its
    /// object is the same, whatever the object's own time.
    fn compare_described(&self, source: &Object, target: &Object) -> Verdict {
        let verdict = self.options.compare(source, target, self.sides());
        if verdict != Verdict::Different(Difference::Newer) || !self.has_preserved_times() {
            return verdict;
        }
        let (file, object) = if self.source.is_local() { (source, target) } else { (target, source) };
        let (kept, _) = FileAttributes::from_metadata(&object.attributes.metadata);
        match file.modified.is_some_and(|time| kept.is_modified_at(time)) {
            true => Verdict::Same,
            false => verdict,
        }
    }

    /// Compares the trees without changing anything, in key order. An error does not end the comparison if it is of
    /// one object or of one directory.
    pub(crate) fn changes(&self) -> impl Stream<Item = Result<Change, Failure>> + '_ {
        let pairs = self.pairs().filter_map(move |pair| {
            let is_kept = match &pair {
                Pair::SourceMissed(Missed::LeftOut(_, OtherKind::Link)) => {
                    self.skipped_links.fetch_add(1, Relaxed);
                    false
                }
                Pair::TargetOnly(object) => !self.no_objects.is_in_source(&object.key),
                Pair::TargetMissed(missed) => !missed.is_harmless(),
                Pair::SourceMissed(Missed::LeftOut(path, _)) => self.takes_path(path),
                _ => true,
            };
            future::ready(is_kept.then_some(pair))
        });
        let failed = |side: Option<Side>, error: Error| Failure::new(Step::List, side, error);
        let changes = pairs.map(move |pair| async move {
            let side = match &pair {
                Pair::SourceMissed(_) => Some(Side::Source),
                Pair::TargetMissed(_) => Some(Side::Target),
                _ => None,
            };
            Ok(match pair {
                Pair::Both { source, target } => match self.compare(&source.object, &target) {
                    Verdict::Same => Change::None,
                    Verdict::Different(how) => Change::Replace(source, how),
                    Verdict::Unknown | Verdict::Fresh => {
                        match self.ask(&source, &target).await.map_err(|error| failed(None, error))? {
                            Some(how) => Change::Replace(source, how),
                            None => Change::None,
                        }
                    }
                },
                Pair::SourceOnly(object) => Change::Add(object),
                Pair::TargetOnly(object) => Change::Remove(object),
                Pair::Taken { source, by } => Change::Taken(source, by),
                Pair::SourceMissed(missed) | Pair::TargetMissed(missed) => match missed {
                    Missed::Failed(error) => return Err(failed(side, error)),
                    Missed::LeftOut(path, kind) => Change::LeftOut(format!("{} is {kind}", path.display())),
                },
                Pair::Disorder(disorder) => return Err(failed(None, disorder.into())),
            })
        });
        changes.buffered(AT_ONCE)
    }

    /// The line about symbolic links that [`changes`](Self::changes) has passed over; `None` if there were none.
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
        let verdict = if self.options.by == Comparison::Checksum {
            checksums::compare(&self.readers, (&self.source, source), (&self.target, &theirs)).await?
        } else if self.compare(&source.object, target) == Verdict::Fresh {
            let sides = ((&self.source, source), (&self.target, &theirs));
            checksums::compare_fresh(&self.readers, sides.0, sides.1).await?
        } else {
            let described = future::join(described(&self.source, source), described(&self.target, &theirs));
            let (ours, theirs) = described.await;
            self.compare_described(&ours?, &theirs?)
        };
        if (self.options.by == Comparison::Checksum) && verdict == Verdict::Different(Difference::Unproven) {
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
        let mut trees = Trees {
            source: Tree::new(&tide.open("memory://b").await.unwrap(), ""),
            target: Tree::directory(&tide, directory.path()),
            filter: ObjectFilter::default(),
            options: CompareOptions { files, ..CompareOptions::default() },
            readers: Semaphore::new(1),
            skipped_links: AtomicU64::new(0),
            incomparable: AtomicU64::new(0),
            no_objects: Arc::default(),
        };
        let (mut new, old) = (object(Some(3), Some(200)), object(Some(3), Some(105)));
        assert_eq!(trees.compare(&new, &old), Verdict::Unknown);
        assert_eq!(trees.compare(&old, &new), Verdict::Same);
        let newer = Verdict::Different(Difference::Newer);
        for (mtime, verdict) in
            [(None, newer), (Some("10.5"), Verdict::Same), (Some("10"), Verdict::Same), (Some("11"), newer)]
        {
            new.attributes.metadata =
                mtime.map(|mtime| ("mtime".to_owned(), mtime.to_owned())).into_iter().collect();
            assert_eq!(trees.compare_described(&new, &old), verdict, "{mtime:?}");
        }
        let larger = object(Some(4), Some(200));
        assert_eq!(trees.compare_described(&larger, &old), Verdict::Different(Difference::Size));
        trees.options.files.preserve = false;
        assert_eq!(trees.compare(&new, &old), newer);
    }
}
