//! Compares two trees, as `sync` and `check` do: both are listed in parallel, and their objects paired by key, page by
//! page.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::{Stream, StreamExt, future};
use tidegate::Object;
use tidegate::backend::OtherKind;
use tidegate::location::Location;
use tidegate::object::FileAttributes;
use tidegate::text::printable;
use tokio::sync::Semaphore;

use crate::exit::{CommandFailure, Outcome};
use crate::file_options::{FileOptions, skipped_links};
use crate::resolved::resolved;
use crate::select::ObjectFilter;
use crate::stores::Stores;
use crate::text;
use crate::walk::Missed;

mod checksums;
mod merge;
mod tree;

pub(crate) use merge::Step;
use merge::merge;
pub(crate) use tree::{Tree, TreeListing, TreeObject};

/// How many objects are compared at once, where a listing does not tell.
const AT_ONCE: usize = 64;
/// How many files are read at once for their checksums.
const READERS: usize = 4;

/// The two trees of a command, as the user names them.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArguments {
    /// Source: a directory or a prefix. A prefix is s3://BUCKET/PREFIX, gs://…, az://… or dev://….
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Target: a directory or a prefix. A prefix is s3://BUCKET/PREFIX, gs://…, az://… or dev://….
    #[arg(value_name = "DST")]
    target: OsString,
}

impl TreeArguments {
    /// The locations of source and target. Refuses standard input and output.
    pub(crate) fn locations(&self) -> Outcome<(Location, Location)> {
        let tree = |text: &OsStr| match text == "-" {
            true => Err(CommandFailure::Usage("-: this is no tree: name a directory or a prefix".to_owned())),
            false => Ok(Location::try_from(text)?),
        };
        Ok((tree(&self.source)?, tree(&self.target)?))
    }
}

/// How two objects of one key are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "How objects are compared")]
pub(crate) struct CompareOptions {
    /// Compare sizes only, not times.
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,

    /// Compare checksums instead of times. Stores keep checksums; local files are read to compute theirs. Takes one
    /// request for each object of a store whose listing has no checksums (S3). Objects without a checksum to compare
    /// count as different.
    #[arg(long)]
    checksum: bool,

    #[command(flatten)]
    pub(crate) files: FileOptions,
}

/// Two trees that are compared.
pub(crate) struct Trees {
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    options: CompareOptions,
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
    /// The source has something that is no object; the message says what.
    LeftOut(String),
}

impl Trees {
    /// Opens both trees. Refuses a source that is no tree, and trees that overlap.
    pub(crate) async fn open(
        stores: &Stores,
        source: &Location,
        target: &Location,
        options: CompareOptions,
        filter: ObjectFilter,
    ) -> Outcome<Self> {
        if let Location::Local { path } = source {
            let found = path.metadata().map_err(|error| CommandFailure::of_file(path, &error))?;
            if !found.is_dir() {
                let message = format!("{source}: this is no directory: use `tidegate cp` for a single file");
                return Err(CommandFailure::Usage(message));
            }
        }
        if let Location::Local { path } = target
            && path.metadata().is_ok_and(|found| !found.is_dir())
        {
            return Err(CommandFailure::Usage(format!("{target}: this is no directory")));
        }
        let links = options.files.links;
        let to = Tree::open(stores, target, links, links.of_target()).await?;
        let mut from = Tree::open(stores.source(), source, links, links.of_source()).await?;
        from.except.extend(to.directory.as_deref().map(resolved));
        let readers = Semaphore::new(READERS);
        let (skipped_links, incomparable) = (AtomicU64::new(0), AtomicU64::new(0));
        let trees = Self { source: from, target: to, options, filter, readers, skipped_links, incomparable };
        if trees.source.overlaps(&trees.target) {
            return Err(CommandFailure::Usage(format!("{source} and {target} overlap: one is in the other")));
        }
        Ok(trees)
    }

    /// The keys of both trees in order, without those that the filter leaves out. Of a key in both trees, the object of
    /// the source decides; one that is only in the target is left alone if it would not be taken from the source.
    pub(crate) fn steps(&self) -> impl Stream<Item = Step> + use<> {
        let as_files = self.source.is_local() || self.target.is_local();
        let (names, filter) = (self.filter.of_names(), self.filter.clone());
        let steps = merge(self.source.list(&names, as_files), self.target.list_target(&names, as_files));
        steps.filter(move |step| {
            future::ready(match step {
                Step::Both { source: object, .. } | Step::SourceOnly(object) | Step::TargetOnly(object) => {
                    filter.takes(&object.key, &object.object)
                }
                Step::SourceMissed(_) | Step::TargetMissed(_) | Step::Disorder { .. } => true,
            })
        })
    }

    /// Whether the filter takes a path below the source.
    pub(crate) fn takes_path(&self, path: &Path) -> bool {
        self.source.key_of(path).is_none_or(|key| self.filter.takes_name(key))
    }

    /// Compares two objects of one key as far as the listings describe them.
    pub(crate) fn compare(&self, source: &Object, target: &Object) -> Verdict {
        let verdict = self.options.compare(source, target, self.source.is_local());
        match verdict {
            Verdict::Different(Difference::Newer) if self.has_preserved_times() => Verdict::Unknown,
            verdict => verdict,
        }
    }

    /// Whether the files of one tree may have their times in the metadata of the other's objects.
    fn has_preserved_times(&self) -> bool {
        self.options.files.preserve && self.source.is_local() != self.target.is_local()
    }

    /// Compares two objects by all that their stores say of them. A file that has the time in the metadata of its
    /// object is the same, whatever the object's own time.
    fn compare_described(&self, source: &Object, target: &Object) -> Verdict {
        let verdict = self.options.compare(source, target, self.source.is_local());
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
    pub(crate) fn changes(&self) -> impl Stream<Item = Outcome<Change>> + '_ {
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
                    Verdict::Unknown => match self.ask(&source, &target).await? {
                        Some(how) => Change::Replace(source, how),
                        None => Change::None,
                    },
                },
                Step::SourceOnly(object) => Change::Add(object),
                Step::TargetOnly(object) => Change::Remove(object),
                Step::SourceMissed(missed) | Step::TargetMissed(missed) => match missed {
                    Missed::Failed(failure) => return Err(failure),
                    Missed::LeftOut(path, kind) => Change::LeftOut(format!("{} is {kind}", path.display())),
                },
                Step::Disorder { key } => return Err(disorder(&key)),
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
            text::count(objects, "object")
        ))
    }

    /// Compares two objects of one key that the listings do not tell apart: describes them, and reads files for their
    /// checksums. `None` if they are the same.
    pub(crate) async fn ask(&self, source: &TreeObject, target: &Object) -> Outcome<Option<Difference>> {
        let theirs = TreeObject { key: source.key.clone(), object: target.clone() };
        let verdict = if self.options.checksum {
            checksums::compare(&self.readers, (&self.source, source), (&self.target, &theirs)).await?
        } else {
            let described = future::join(described(&self.source, source), described(&self.target, &theirs));
            let (ours, theirs) = described.await;
            self.compare_described(&ours?, &theirs?)
        };
        if self.options.checksum && verdict == Verdict::Different(Difference::Unproven) {
            self.incomparable.fetch_add(1, Relaxed);
        }
        Ok(match verdict {
            Verdict::Same => None,
            Verdict::Different(how) => Some(how),
            Verdict::Unknown => Some(Difference::Unproven),
        })
    }
}

/// The failure for a listing that is not in key order.
pub(crate) fn disorder(key: &str) -> CommandFailure {
    CommandFailure::Failed(format!(
        "{}: a listing is not in the order of its keys, so the trees can't be compared: accounts of Azure with a \
         hierarchical namespace and S3's directory buckets list so; use `cp -r`",
        printable(key)
    ))
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
    /// The word for `check`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Newer => "newer",
            Self::Checksum => "checksum",
            Self::Unproven => "unproven",
        }
    }
}

impl CompareOptions {
    /// The time of a file has fractions of a second, and most stores list whole seconds. So a file that is changed in
    /// the second of its upload counts as newer; two objects of stores are compared by whole seconds.
    fn compare(self, source: &Object, target: &Object, source_is_local: bool) -> Verdict {
        match source.known_size().zip(target.known_size()) {
            None => Verdict::Unknown,
            Some((ours, theirs)) if ours != theirs => Verdict::Different(Difference::Size),
            _ if self.size_only => Verdict::Same,
            _ if self.checksum => Verdict::Unknown,
            _ => match source.modified.zip(target.modified) {
                Some((source, target)) if source_is_local && source > target => {
                    Verdict::Different(Difference::Newer)
                }
                Some((source, target)) if seconds(source) > seconds(target) => {
                    Verdict::Different(Difference::Newer)
                }
                Some(_) => Verdict::Same,
                None => Verdict::Different(Difference::Unproven),
            },
        }
    }
}

/// The description of an object, which may have more than a listing.
async fn described(tree: &Tree, object: &TreeObject) -> Outcome<Object> {
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
    use std::time::Duration;

    use tidegate::Store;

    use super::*;
    use crate::file_options::LinkChoice;

    fn object(size: Option<u64>, modified: Option<u64>) -> Object {
        let mut object = Object::default();
        object.size = size.unwrap_or(0);
        object.size_is_unknown = size.is_none();
        object.modified = modified.map(|tenths| UNIX_EPOCH + Duration::from_millis(tenths * 100));
        object
    }

    #[test]
    fn sizes_then_times_decide() {
        let by = |options: CompareOptions, source, target| options.compare(&source, &target, false);
        let default = CompareOptions::default();
        let size_only = CompareOptions { size_only: true, ..default };
        let checksum = CompareOptions { checksum: true, ..default };
        let (old, new) = (object(Some(3), Some(100)), object(Some(3), Some(110)));
        let (later, unknown) = (object(Some(3), Some(119)), object(None, Some(100)));
        assert_eq!(by(default, old.clone(), new.clone()), Verdict::Same);
        assert_eq!(by(default, new.clone(), old.clone()), Verdict::Different(Difference::Newer));
        assert_eq!(by(default, later.clone(), new.clone()), Verdict::Same, "fractions don't count in stores");
        assert_eq!(default.compare(&later, &new, true), Verdict::Different(Difference::Newer));
        assert_eq!(by(size_only, new.clone(), old.clone()), Verdict::Same);
        assert_eq!(by(checksum, new.clone(), old.clone()), Verdict::Unknown);
        assert_eq!(by(default, unknown, old.clone()), Verdict::Unknown);
        let (larger, timeless) = (object(Some(4), Some(100)), object(Some(3), None));
        for options in [default, size_only, checksum] {
            assert_eq!(by(options, larger.clone(), new.clone()), Verdict::Different(Difference::Size));
        }
        assert_eq!(by(default, timeless, new), Verdict::Different(Difference::Unproven));
    }

    #[tokio::test]
    async fn a_file_with_the_time_in_the_metadata_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let tide = tidegate::Tidegate::builder().build().unwrap();
        let here = tide.store(std::sync::Arc::new(tidegate::backend::local::Local::new(directory.path())));
        let tree = |store: Store, directory| Tree {
            store,
            prefix: String::new(),
            directory,
            makes_bucket: false,
            links: LinkChoice::default(),
            except: Vec::new(),
        };
        let files = FileOptions { preserve: true, ..FileOptions::default() };
        let mut trees = Trees {
            source: tree(tide.open("memory://b").await.unwrap(), None),
            target: tree(here, Some(directory.path().to_owned())),
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
