//! Compares two trees, as `sync` and `check` do: both are listed in parallel, and their objects paired by key, page by
//! page.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::stream::{self, LocalBoxStream};
use futures::{Stream, StreamExt, future};
use tidegate::backend::Entry;
use tidegate::location::Location;
use tidegate::text::printable;
use tidegate::{ErrorKind, Object, Store};
use tokio::sync::Semaphore;

use crate::exit::{CommandFailure, Outcome};
use crate::select::{ObjectFilter, Selection};
use crate::stores::{ObjectPlace, Stores};
use crate::walk::{self, Missed};
use crate::{dev, listing};

mod checksums;
mod merge;

pub(crate) use merge::Step;
use merge::merge;

/// How many objects are compared at once, where a listing does not tell.
const AT_ONCE: usize = 64;
/// How many files are read at once for their checksums.
const READERS: usize = 4;

/// The two trees of a command, as the user names them.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArguments {
    /// Source: a directory or a prefix. A prefix is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or dev://BUCKET/PREFIX.
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Target: a directory or a prefix. A prefix is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or dev://BUCKET/PREFIX.
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

    /// Compare checksums instead of times. They are those that the stores keep, and those of local files, which are read
    /// for it. Takes one request for each object of a store whose listing has no checksums (S3). Objects without a checksum to
    /// compare count as different.
    #[arg(long)]
    checksum: bool,
}

/// Two trees that are compared.
pub(crate) struct Trees {
    pub(crate) source: Tree,
    pub(crate) target: Tree,
    options: CompareOptions,
    filter: ObjectFilter,
    /// Permits to read files for their checksums: each reader holds a thread and a buffer.
    readers: Semaphore,
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
        let (from, to) = (Tree::open(stores, source).await?, Tree::open(stores, target).await?);
        let trees = Self { source: from, target: to, options, filter, readers: Semaphore::new(READERS) };
        if trees.source.overlaps(&trees.target) {
            return Err(CommandFailure::Usage(format!("{source} and {target} overlap: one is in the other")));
        }
        Ok(trees)
    }

    /// The keys of both trees in order, without those that the filter leaves out. Of a key in both trees, the object of
    /// the source decides; one that is only in the target is left alone if it would not be taken from the source.
    pub(crate) fn steps(&self) -> impl Stream<Item = Step> + use<> {
        let as_files = self.source.is_local() || self.target.is_local();
        let names = Selection::new(None, self.filter.of_names());
        let steps = merge(self.source.list(&names, as_files), self.target.list_target(&names, as_files));
        let filter = self.filter.clone();
        steps.filter(move |step| {
            future::ready(match step {
                Step::Both { source: object, .. } | Step::SourceOnly(object) | Step::TargetOnly(object) => {
                    filter.takes(&object.key, &object.object)
                }
                Step::SourceMissed(_) | Step::TargetMissed(_) | Step::Disorder { .. } => true,
            })
        })
    }

    /// Compares two objects of one key as far as the listings describe them.
    pub(crate) fn compare(&self, source: &Object, target: &Object) -> Verdict {
        self.options.compare(source, target, self.source.is_local())
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
                Step::TargetOnly(object) => !left_out.has(&object.key),
                Step::TargetMissed(missed) => !missed.is_harmless(),
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

    /// Compares two objects of one key that the listings do not tell apart: describes them, and reads files for their
    /// checksums. `None` if they are the same.
    pub(crate) async fn ask(&self, source: &TreeObject, target: &Object) -> Outcome<Option<Difference>> {
        let theirs = TreeObject { key: source.key.clone(), object: target.clone() };
        let verdict = if self.options.checksum {
            checksums::compare(&self.readers, (&self.source, source), (&self.target, &theirs)).await?
        } else {
            let described = future::join(described(&self.source, source), described(&self.target, &theirs));
            let (ours, theirs) = described.await;
            self.compare(&ours?, &theirs?)
        };
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
        "{}: a listing is not in the order of its keys, so the trees can't be compared",
        printable(key)
    ))
}

/// One of the two trees: everything below a prefix of a store, or below a local directory.
pub(crate) struct Tree {
    pub(crate) store: Store,
    prefix: String,
    /// The directory, if the tree is on this machine.
    directory: Option<PathBuf>,
    /// Whether the first write makes the bucket, as in the embedded server.
    makes_bucket: bool,
}

/// An object of a tree.
#[derive(Clone, Debug)]
pub(crate) struct TreeObject {
    /// The key below the tree's root.
    pub(crate) key: String,
    pub(crate) object: Object,
}

/// The objects of a tree in key order, and what could not be listed.
pub(crate) type TreeListing = LocalBoxStream<'static, Result<TreeObject, Missed>>;

impl Tree {
    pub(crate) async fn open(stores: &Stores, location: &Location) -> Outcome<Self> {
        let (store, prefix) = stores.tree(location).await?;
        let directory = match location {
            Location::Local { path } => Some(path.clone()),
            _ => None,
        };
        Ok(Self { store, prefix, directory, makes_bucket: matches!(location, Location::Dev { .. }) })
    }

    pub(crate) fn is_local(&self) -> bool {
        self.directory.is_some()
    }

    /// Where the object of a key below the root is.
    pub(crate) fn place(&self, key: &str) -> ObjectPlace {
        ObjectPlace { store: self.store.clone(), key: format!("{}{key}", self.prefix) }
    }

    /// The path of the file of a key below the root; `None` in a store.
    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(key))
    }

    /// The URL of the tree, or the path of the directory.
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.store.location(), self.prefix)
    }

    /// Whether one of the trees lies in the other, or both are the same.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (&self.directory, &other.directory) {
            (Some(ours), Some(theirs)) => {
                let (ours, theirs) = (resolved(ours), resolved(theirs));
                ours.starts_with(&theirs) || theirs.starts_with(&ours)
            }
            (None, None) => {
                let (ours, theirs) = (self.url(), other.url());
                ours.starts_with(&theirs) || theirs.starts_with(&ours)
            }
            _ => false,
        }
    }

    /// Lists what `names` takes of the tree, ahead of the consumer. The embedded server's own files are left out.
    ///
    /// With `as_files`, an object whose key ends with a slash is left out: no file can have its name. Some tools leave
    /// such an object, without content, in place of a directory.
    pub(crate) fn list(&self, names: &Selection, as_files: bool) -> TreeListing {
        if let Some(directory) = &self.directory {
            let except = dev::directory().canonicalize().ok();
            let files = walk::files(names.list(&self.store, ""), directory.clone(), except, &[]);
            let object =
                |file: walk::FoundFile| TreeObject { key: file.object.key.clone(), object: file.object };
            return files.map(move |file| file.map(object)).boxed_local();
        }
        let (prefix, root) = (self.prefix.clone(), self.store.location());
        let entries = listing::ahead(names.list(&self.store, &self.prefix));
        let found = entries.filter_map(move |entry| {
            future::ready(match entry {
                Ok(Entry::Object(object)) => {
                    let key = object.key.strip_prefix(&prefix).unwrap_or(&object.key).to_owned();
                    match key.is_empty() || as_files && key.ends_with('/') {
                        true if object.known_size() == Some(0) => None,
                        true => Some(Err(nameless(&root, &object.key))),
                        false => Some(Ok(TreeObject { key, object })),
                    }
                }
                Ok(_) => None,
                Err(error) => Some(Err(Missed::Failed(error.into()))),
            })
        });
        found.boxed_local()
    }

    /// As [`list`](Self::list), for a target: a directory, or a bucket of the embedded server, that does not exist yet is
    /// empty.
    pub(crate) fn list_target(&self, names: &Selection, as_files: bool) -> TreeListing {
        match &self.directory {
            Some(directory) if directory.symlink_metadata().is_err_and(|error| is_missing(&error)) => {
                stream::empty().boxed_local()
            }
            None if self.makes_bucket => {
                let listed = self.list(names, as_files).filter(|entry| future::ready(!is_no_bucket(entry)));
                listed.boxed_local()
            }
            _ => self.list(names, as_files),
        }
    }
}

/// The absolute path, with symbolic links and `..` resolved as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match existing {
        Some((ancestor, canonical)) => canonical.join(path.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => path,
    }
}

/// Names in the source that are not objects, such as links to directories. `sync --delete` keeps what the target has at
/// or below such a name, because the source may have it there too.
#[derive(Debug, Default)]
pub(crate) struct LeftOutNames(HashSet<String>);

impl LeftOutNames {
    /// Adds a path in the directory of the tree.
    pub(crate) fn add(&mut self, tree: &Tree, path: &Path) {
        let key = tree.directory.as_ref().and_then(|directory| path.strip_prefix(directory).ok());
        self.0.extend(key.and_then(Path::to_str).map(str::to_owned));
    }

    /// Whether a key is one of these names, or lies below one.
    pub(crate) fn has(&self, key: &str) -> bool {
        let ends = key.match_indices('/').map(|(at, _)| at).chain([key.len()]);
        !self.0.is_empty() && ends.into_iter().any(|end| self.0.contains(&key[..end]))
    }
}

fn is_no_bucket(entry: &Result<TreeObject, Missed>) -> bool {
    matches!(entry, Err(Missed::Failed(CommandFailure::Store(error))) if error.kind() == ErrorKind::NoBucket)
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn nameless(root: &str, key: &str) -> Missed {
    let message = format!("{root}/{key}: its name ends with a slash, so it can't be a file");
    Missed::Failed(CommandFailure::Failed(message))
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
    /// The time of a file has fractions of a second, and most stores list whole seconds. So a file that is changed in the
    /// second of its upload counts as newer; two objects of stores are compared by whole seconds.
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
    fn a_path_is_resolved_before_it_exists() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        assert_eq!(resolved(&root.join("link/z/copy")), root.join("real/z/copy"));
        assert_eq!(resolved(&root.join("real/../link/z")), root.join("real/z"));
    }

    #[test]
    fn times_before_1970_are_in_order() {
        let at = |millis: u64| seconds(UNIX_EPOCH - Duration::from_millis(millis));
        assert!(at(2500) < at(900) && at(900) < seconds(UNIX_EPOCH));
    }
}
