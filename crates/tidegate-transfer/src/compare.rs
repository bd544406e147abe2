//! Compares two trees, as `sync` and `check` do: both are listed in parallel, and their objects paired by key, page by
//! page.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::listing::{MissedEntry as _, OrderedListing, TreeObject};
use crate::merge;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, future};
use tidegate::Object;
use tidegate::backend::OtherKind;
use tidegate::backend::local::{LINK_SUFFIX, LinkPolicy};
use tidegate::object::FileAttributes;
use tidegate::text::printable;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::event::Finding;
use crate::figures::count;
use crate::links::{FileOptions, LinkRules, Links, WriteLinks, skipped_links};
use crate::obstacle::Obstacle;
use crate::planted::{Planted, Plants};
use crate::resolved::resolved;
use crate::select::ObjectFilter;
use crate::walk::{Missed, OtherTree};

pub(crate) mod checksums;
mod step;
mod taken;
mod tree;

pub(crate) use step::Step;
use taken::TakenNames;
pub use tree::Tree;

/// How many objects are compared at once, where a listing does not tell.
const AT_ONCE: usize = 64;
/// How many files are read at once for their checksums.
const READERS: usize = 4;

/// How two objects of one key are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// By size and time.
    #[default]
    Time,
    /// By size only.
    Size,
    /// By size and checksum. Stores keep checksums; local files are read to compute theirs. Takes one request for each
    /// object of a store whose listing has no checksums (S3). Objects without a checksum to compare count as different.
    Checksum,
}

/// How two trees are compared, and what their files are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompareOptions {
    pub(crate) by: Comparison,
    pub(crate) files: FileOptions,
    pub(crate) plants: Plants,
}

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
        let trees = Self { source: from, target: to, options, filter, readers, skipped_links, incomparable };
        if trees.source.overlaps(&trees.target) {
            let (source, target) = (trees.source.name(), trees.target.name());
            return Err(Error::Refused(format!("{source} and {target} overlap: one is in the other")));
        }
        Ok(trees)
    }

    /// Whether the filter takes everything.
    pub(crate) fn takes_everything(&self) -> bool {
        self.filter.is_everything()
    }

    /// The keys of both trees in order, without those that the filter leaves out. Of a key in both trees, the object of
    /// the source decides; one that is only in the target is left alone if it would not be taken from the source.
    pub(crate) fn steps(&self) -> BoxStream<'static, Step> {
        let as_files = self.source.is_local() || self.target.is_local();
        let (names, filter) = (self.filter.of_names(), self.filter.clone());
        let source = OrderedListing::new(self.source.list(&names, as_files));
        let target = OrderedListing::new(self.target.list_target(&names, as_files));
        let steps = merge::merge(source, target);
        let plants = self.options.plants;
        let can_share = self.target.is_local() && !plants.has(Planted::LinkOverFile);
        let mut taken = can_share.then(|| TakenNames::new(self.target.links, self.target.directory.clone()));
        let steps = steps.filter(move |step| {
            future::ready(match step {
                merge::Step::Both { source: object, .. }
                | merge::Step::SourceOnly(object)
                | merge::Step::TargetOnly(object) => filter.takes(&object.key, &object.object),
                merge::Step::Disorder(_) => !plants.has(Planted::UnorderedListing),
                merge::Step::SourceMissed(_) | merge::Step::TargetMissed(_) => true,
            })
        });
        steps.map(move |step| Step::of(step, taken.as_mut())).boxed()
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
    pub(crate) fn changes(&self) -> impl Stream<Item = Result<Change>> + '_ {
        let mut left_out = LeftOutNames::default();
        let steps = self.steps().filter_map(move |step| {
            if let Step::SourceMissed(Missed::LeftOut(path, _)) = &step {
                left_out.add(&self.source, path);
            }
            let is_kept = match &step {
                Step::SourceMissed(Missed::LeftOut(_, OtherKind::Link)) => {
                    self.skipped_links.fetch_add(1, Relaxed);
                    false
                }
                Step::TargetOnly(object) => !left_out.has(&object.key),
                Step::TargetMissed(missed) => !missed.is_harmless(),
                Step::SourceMissed(Missed::LeftOut(path, _)) => self.takes_path(path),
                _ => true,
            };
            future::ready(is_kept.then_some(step))
        });
        let changes = steps.map(move |step| async move {
            Ok(match step {
                Step::Both { source, target } => match self.compare(&source.object, &target) {
                    Verdict::Same => Change::None,
                    Verdict::Different(how) => Change::Replace(source, how),
                    Verdict::Unknown | Verdict::Fresh => match self.ask(&source, &target).await? {
                        Some(how) => Change::Replace(source, how),
                        None => Change::None,
                    },
                },
                Step::SourceOnly(object) => Change::Add(object),
                Step::TargetOnly(object) => Change::Remove(object),
                Step::Taken { source, by } => Change::Taken(source, by),
                Step::SourceMissed(missed) | Step::TargetMissed(missed) => match missed {
                    Missed::Failed(failure) => return Err(failure),
                    Missed::LeftOut(path, kind) => Change::LeftOut(format!("{} is {kind}", path.display())),
                },
                Step::Disorder(disorder) => return Err(disorder.into()),
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

/// Names in the source that are not objects, such as links to directories. `sync --delete` keeps what the target has at
/// or below such a name, because the source may have it there too.
#[derive(Debug, Default)]
pub(crate) struct LeftOutNames(HashSet<String>);

impl LeftOutNames {
    /// Adds a path in the directory of the tree.
    pub(crate) fn add(&mut self, tree: &Tree, path: &Path) {
        self.0.extend(tree.key_of(path).map(str::to_owned));
    }

    /// Whether a key is one of these names, or lies below one.
    pub(crate) fn has(&self, key: &str) -> bool {
        let ends = key.match_indices('/').map(|(at, _)| at).chain([key.len()]);
        !self.0.is_empty() && ends.into_iter().any(|end| self.0.contains(&key[..end]))
    }
}

/// Whether two objects of one key are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    Different(Difference),
    /// The listings do not tell: see [`Trees::ask`].
    Unknown,
    /// The times say that they are the same, and one is so new that this proves little: see [`Trees::ask`].
    Fresh,
}

/// How two objects of one key differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Size,
    Newer,
    Checksum,
    /// Nothing that can be compared.
    Unproven,
}

impl Difference {
    /// What a check says of it.
    pub(crate) fn finding(self) -> Finding {
        match self {
            Self::Size => Finding::Size,
            Self::Newer => Finding::Newer,
            Self::Checksum => Finding::Checksum,
            Self::Unproven => Finding::Unproven,
        }
    }
}

impl CompareOptions {
    /// Compares what two descriptions say.
    ///
    /// Most stores have times in whole seconds, so times in one second tell nothing of two objects in stores: their tags
    /// or checksums do, or else both are described. A downloaded file has the time of its object, with the fraction of
    /// the listing if it has one. A file that is changed in the second of its upload counts as newer.
    ///
    /// An object that was changed within two seconds before it was listed may have been replaced in the second of its
    /// time. Then the contents are compared as far as that is possible.
    fn compare(self, source: &Object, target: &Object, sides: Sides) -> Verdict {
        let newer = Verdict::Different(Difference::Newer);
        match source.known_size().zip(target.known_size()) {
            None => return Verdict::Unknown,
            Some((ours, theirs)) if ours != theirs => return Verdict::Different(Difference::Size),
            _ if self.by == Comparison::Size => return Verdict::Same,
            _ if self.by == Comparison::Checksum => return Verdict::Unknown,
            _ => {}
        }
        let Some((ours, theirs)) = source.modified.zip(target.modified) else {
            return Verdict::Different(Difference::Unproven);
        };
        if self.plants.has(Planted::SameSecond) && seconds(ours) == seconds(theirs) {
            return Verdict::Same;
        }
        let by_tag = match sides {
            Sides::Stores => checksums::listed(source, target),
            Sides::FromDisk | Sides::ToDisk => None,
        };
        let is_close = seconds(theirs).saturating_sub(seconds(ours)) <= CLOSE;
        let is_fresh = source.is_fresh || target.is_fresh || sides == Sides::ToDisk && is_unsure(theirs);
        match seconds(ours).cmp(&seconds(theirs)) {
            Ordering::Greater => newer,
            Ordering::Less if !is_fresh || !is_close => Verdict::Same,
            _ if by_tag == Some(true) => Verdict::Same,
            _ if by_tag == Some(false) => Verdict::Different(Difference::Checksum),
            Ordering::Less => Verdict::Fresh,
            Ordering::Equal => match sides {
                Sides::FromDisk if ours > theirs => newer,
                Sides::Stores | Sides::ToDisk if has_fraction(ours) && has_fraction(theirs) => {
                    if ours > theirs { newer } else { Verdict::Same }
                }
                Sides::Stores => Verdict::Unknown,
                Sides::FromDisk | Sides::ToDisk if is_fresh => Verdict::Fresh,
                Sides::FromDisk | Sides::ToDisk => Verdict::Same,
            },
        }
    }
}

/// How many seconds apart two times are at most that fresh objects make doubtful.
const CLOSE: i64 = 2;

/// The time of a file that is downloaded from a `listed` object.
///
/// An object that is fresh, in a store that lists whole seconds, may be replaced in the same second. Nothing would tell
/// the next run, so the file gets a nanosecond more: then its content is compared.
pub(crate) fn time_of_file(listed: &Object) -> Option<SystemTime> {
    let time = listed.modified?;
    let is_unsure = listed.is_fresh && !has_fraction(time);
    Some(if is_unsure { time + UNSURE } else { time })
}

const UNSURE: Duration = Duration::from_nanos(1);

fn is_unsure(time: SystemTime) -> bool {
    time.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() == UNSURE.subsec_nanos())
}

/// On which side of a comparison files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    Stores,
    /// From a directory to a store, or to another directory.
    FromDisk,
    /// From a store to a directory.
    ToDisk,
}

fn has_fraction(time: SystemTime) -> bool {
    time.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() != 0)
}

/// The description of an object, which may have more than a listing.
async fn described(tree: &Tree, object: &TreeObject) -> Result<Object> {
    Ok(tree.store.head(&object.object.key).await?)
}

/// Whole seconds since 1970: some stores list times without fractions.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(size: Option<u64>, modified: Option<u64>) -> Object {
        let mut object = Object::default();
        object.size = size.unwrap_or(0);
        object.size_is_unknown = size.is_none();
        object.modified = modified.map(|tenths| UNIX_EPOCH + Duration::from_millis(tenths * 100));
        object
    }

    #[test]
    fn sizes_then_times_decide() {
        let by = |options: CompareOptions, source, target| options.compare(&source, &target, Sides::Stores);
        let default = CompareOptions::default();
        let size_only = CompareOptions { by: Comparison::Size, ..default };
        let checksum = CompareOptions { by: Comparison::Checksum, ..default };
        let (old, new) = (object(Some(3), Some(100)), object(Some(3), Some(110)));
        let (later, unknown) = (object(Some(3), Some(119)), object(None, Some(100)));
        assert_eq!(by(default, old.clone(), new.clone()), Verdict::Same);
        assert_eq!(by(default, new.clone(), old.clone()), Verdict::Different(Difference::Newer));
        assert_eq!(by(default, later.clone(), new.clone()), Verdict::Unknown, "one has whole seconds");
        assert_eq!(default.compare(&later, &new, Sides::FromDisk), Verdict::Different(Difference::Newer));
        assert_eq!(default.compare(&later, &new, Sides::ToDisk), Verdict::Same);
        assert_eq!(by(size_only, new.clone(), old.clone()), Verdict::Same);
        assert_eq!(by(checksum, new.clone(), old.clone()), Verdict::Unknown);
        assert_eq!(by(default, unknown, old.clone()), Verdict::Unknown);
        let (larger, timeless) = (object(Some(4), Some(100)), object(Some(3), None));
        for options in [default, size_only, checksum] {
            assert_eq!(by(options, larger.clone(), new.clone()), Verdict::Different(Difference::Size));
        }
        assert_eq!(by(default, timeless, new), Verdict::Different(Difference::Unproven));
    }

    #[test]
    fn within_one_second_tags_and_fractions_decide() {
        let (same, newer) = (Verdict::Same, Verdict::Different(Difference::Newer));
        let other = Verdict::Different(Difference::Checksum);
        let at = |tenths, tag: &str| {
            let mut object = object(Some(3), Some(tenths));
            object.etag = Some(format!("\"{}\"", tag.repeat(32)));
            object
        };
        let compare = |source: &Object, target: &Object, sides| {
            CompareOptions::default().compare(source, target, sides)
        };
        for (source, target, sides, expected) in [
            (at(119, "a"), at(113, "b"), Sides::Stores, other),
            (at(113, "a"), at(119, "b"), Sides::Stores, other),
            (at(110, "a"), at(110, "b"), Sides::Stores, other),
            (at(119, "a"), at(113, "a"), Sides::Stores, same),
            (at(110, "x"), at(110, "b"), Sides::Stores, Verdict::Unknown),
            (at(119, "x"), at(113, "x"), Sides::Stores, newer),
            (at(113, "x"), at(119, "x"), Sides::Stores, same),
            (at(109, "a"), at(113, "b"), Sides::Stores, same),
            (at(119, "a"), at(113, "x"), Sides::ToDisk, newer),
            (at(113, "a"), at(113, "x"), Sides::ToDisk, same),
            (at(113, "a"), at(110, "x"), Sides::ToDisk, same),
            (at(110, "a"), at(110, "x"), Sides::ToDisk, same),
            (at(113, "a"), at(110, "x"), Sides::FromDisk, newer),
            (at(110, "a"), at(113, "x"), Sides::FromDisk, same),
        ] {
            assert_eq!(compare(&source, &target, sides), expected, "{source:?} {target:?} {sides:?}");
        }
        let mut fresh = at(110, "a");
        fresh.is_fresh = true;
        assert_eq!(compare(&fresh, &at(110, "x"), Sides::ToDisk), Verdict::Fresh);
        for sides in [Sides::FromDisk, Sides::ToDisk, Sides::Stores] {
            assert_eq!(compare(&at(90, "x"), &fresh, sides), Verdict::Fresh);
            assert_eq!(compare(&at(79, "x"), &fresh, sides), same, "long before");
        }
        assert_eq!(compare(&at(90, "b"), &fresh, Sides::Stores), other);
        let mut file = at(110, "x");
        file.modified = time_of_file(&fresh);
        assert_eq!(
            compare(&at(110, "a"), &file, Sides::ToDisk),
            Verdict::Fresh,
            "it was fresh when it was copied"
        );
        file.modified = time_of_file(&at(110, "a"));
        assert_eq!(compare(&at(110, "a"), &file, Sides::ToDisk), same);
    }

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

    #[test]
    fn names_that_were_left_out_cover_what_lies_below() {
        let names = LeftOutNames(HashSet::from(["a/link".to_owned(), "é".to_owned()]));
        for key in ["a/link", "a/link/x", "a/link/x/y", "é/x"] {
            assert!(names.has(key), "{key}");
        }
        for key in ["a", "a/link-x", "a/linked/x", "b/a/link"] {
            assert!(!names.has(key), "{key}");
        }
    }

    #[test]
    fn times_before_1970_are_in_order() {
        let at = |millis: u64| seconds(UNIX_EPOCH - Duration::from_millis(millis));
        assert!(at(2500) < at(900) && at(900) < seconds(UNIX_EPOCH));
    }
}
