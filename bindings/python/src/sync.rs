//! Makes one tree like another: copies what the target lacks, what has another size, and what is newer at the source.
//! The command line's `sync` compares in more ways; this is what the library's own calls do together.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::{Stream, StreamExt};
use pyo3::prelude::*;
use tidegate::location::Location;
use tidegate::{Entry, ErrorKind, Object, Store};
use tidegate_transfer::copy_through;
use tidegate_transfer::listing::{Disorder, MissedEntry, OrderedListing, TreeObject};
use tidegate_transfer::merge::{Step, merge};
use tokio::task::JoinSet;

use crate::errors;

/// How many objects are copied or removed at once: the limiter decides how many of their requests are in flight.
const AT_ONCE: usize = 64;

/// What the caller has chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncOptions {
    /// Removes what only the target has.
    pub(crate) delete: bool,
    /// Also if the source has nothing.
    pub(crate) delete_all: bool,
    /// Changes nothing.
    pub(crate) dry_run: bool,
}

/// What was done, or would be.
#[derive(Debug, Default)]
pub(crate) struct SyncReport {
    copied: u64,
    unchanged: u64,
    removed: u64,
    /// Names of local directories that are neither files nor directories.
    left_out: u64,
    /// In the order of the keys.
    failed: Vec<(String, tidegate::Error)>,
    /// Of a dry run: what would be done, and to which key.
    planned: Vec<(&'static str, String)>,
    refusal: Option<Refusal>,
    /// Names that are no objects at the source. The target keeps what it has there and below.
    others: HashSet<String>,
}

/// Why something was not done.
#[derive(Clone, Debug)]
enum Refusal {
    /// Nothing was removed, because the source has nothing.
    EmptySource,
    /// Nothing was done, because one tree is in the other: copies would be copied again, and what is removed at the
    /// target could be of the source.
    Overlap,
    /// Nothing was removed, and what follows the key was not compared.
    Disorder(Disorder),
}

impl Refusal {
    /// A word, and what it is about.
    fn value(self) -> (&'static str, Option<String>) {
        match self {
            Self::EmptySource => ("empty source", None),
            Self::Overlap => ("overlap", None),
            Self::Disorder(disorder) => ("disorder", Some(disorder.to_string())),
        }
    }
}

impl SyncReport {
    pub(crate) fn value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let failed = self.failed.iter().map(|(key, error)| Ok((key, errors::exception(py, error)?)));
        let failed = failed.collect::<PyResult<Vec<_>>>()?;
        let Self { copied, unchanged, removed, left_out, planned, refusal, .. } = self;
        let fields = (copied, unchanged, removed, left_out, failed, planned, refusal.map(Refusal::value));
        Ok(fields.into_pyobject(py)?.into_any().unbind())
    }
}

/// What a listing has instead of an object.
enum Missed {
    /// The listing has failed.
    Failed(tidegate::Error),
    /// A name in a directory that is no object.
    Other(String),
}

impl MissedEntry for Missed {
    fn is_harmless(&self) -> bool {
        matches!(self, Self::Other(_))
    }
}

/// The objects of a tree.
fn listing(
    store: &Store,
) -> OrderedListing<impl Stream<Item = Result<TreeObject, Missed>> + Unpin + Send + use<>> {
    OrderedListing::new(store.list("").map(|entry| match entry {
        Ok(Entry::Object(object)) => Ok(TreeObject { key: object.key.clone(), object }),
        Ok(other) => Err(Missed::Other(other.key().trim_end_matches('/').to_owned())),
        Err(error) => Err(Missed::Failed(error)),
    }))
}

/// Makes `target` like `source`.
///
/// # Errors
/// If a tree cannot be listed. Objects that cannot be copied are in the report, and then nothing is removed. Trees that
/// overlap are refused in the report.
pub(crate) async fn sync(source: Store, target: Store, options: SyncOptions) -> tidegate::Result<SyncReport> {
    if overlap(&source, &target) {
        return Ok(SyncReport { refusal: Some(Refusal::Overlap), ..SyncReport::default() });
    }
    let mut report = SyncReport::default();
    let mut extra = Vec::new();
    let mut copies = JoinSet::new();
    let mut steps = std::pin::pin!(merge(listing(&source), listing(&target)));
    let mut is_empty = true;
    let source_is_local = is_local(&source);
    while let Some(step) = steps.next().await {
        let (from, to) = match step {
            Step::Both { source, target } => (source.object, Some(target)),
            Step::SourceOnly(source) => (source.object, None),
            Step::TargetOnly(extra_object) => {
                if options.delete {
                    extra.push(extra_object.object);
                }
                continue;
            }
            Step::SourceMissed(Missed::Other(name)) => {
                report.left_out += 1;
                report.others.insert(name);
                continue;
            }
            Step::TargetMissed(Missed::Other(_)) => continue,
            Step::SourceMissed(Missed::Failed(error)) | Step::TargetMissed(Missed::Failed(error)) => {
                return Err(error);
            }
            Step::Disorder(disorder) => {
                report.refusal = Some(Refusal::Disorder(disorder));
                continue;
            }
        };
        is_empty = false;
        if to.is_some_and(|to| is_same(&from, &to, source_is_local)) {
            report.unchanged += 1;
        } else if options.dry_run {
            report.planned.push(("copy", from.key));
        } else {
            room(&mut copies, &mut report).await;
            copies.spawn(copy(source.clone(), target.clone(), from));
        }
    }
    while let Some(ended) = copies.join_next().await {
        count(ended, &mut report);
    }
    // Copies end in any order.
    report.failed.sort_by(|(a, _), (b, _)| a.cmp(b));
    extra.retain(|object: &Object| !is_at_or_below(&object.key, &report.others));
    if !report.failed.is_empty() || report.refusal.is_some() || extra.is_empty() {
        return Ok(report);
    }
    if is_empty && !options.delete_all {
        report.refusal = Some(Refusal::EmptySource);
    } else if options.dry_run {
        report.planned.extend(extra.into_iter().map(|object| ("remove", object.key)));
    } else {
        remove(&target, extra, &mut report).await;
    }
    Ok(report)
}

/// Whether the key is one of these names, or is below one.
fn is_at_or_below(key: &str, names: &HashSet<String>) -> bool {
    !names.is_empty()
        && (names.contains(key) || key.match_indices('/').any(|(at, _)| names.contains(&key[..at])))
}

/// Whether one tree is in the other, or both are the same.
fn overlap(source: &Store, target: &Store) -> bool {
    match (is_local(source), is_local(target)) {
        (true, true) => {
            let (source, target) = (resolved(&source.location()), resolved(&target.location()));
            source.starts_with(&target) || target.starts_with(&source)
        }
        (false, false) => {
            let (source_root, target_root) = (address(source), address(target));
            source.shares_endpoint_with(target)
                && (source_root.starts_with(&target_root) || target_root.starts_with(&source_root))
        }
        _ => false,
    }
}

/// The URL of a tree, with a slash at its end, and without the profile that it is reached by.
fn address(store: &Store) -> String {
    let location = store.location();
    let address = location.parse().map_or(location, |parsed: Location| parsed.without_profile().to_string());
    format!("{}/", address.trim_end_matches('/'))
}

/// The absolute path, without symbolic links and `..` as far as it exists.
fn resolved(path: &str) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let existing = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match existing {
        Some((ancestor, canonical)) => canonical.join(path.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => path,
    }
}

/// Whether the target need not be written: it has the size, and is not older. The time of a file has fractions of a
/// second, and most stores list whole seconds: a file that is changed in the second of its upload counts as newer, and
/// objects of stores are compared by whole seconds.
fn is_same(source: &Object, target: &Object, source_is_local: bool) -> bool {
    let has_size = source.known_size().is_some() && source.known_size() == target.known_size();
    let is_newer = |(source, target): (SystemTime, SystemTime)| match source_is_local {
        true => source > target,
        false => seconds(source) > seconds(target),
    };
    has_size && source.modified.zip(target.modified).is_some_and(|times| !is_newer(times))
}

/// Whole seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX) - 1,
    }
}

type Copied = (String, tidegate::Result<Object>);

/// Waits until another copy may begin.
async fn room(copies: &mut JoinSet<Copied>, report: &mut SyncReport) {
    if copies.len() >= AT_ONCE
        && let Some(ended) = copies.join_next().await
    {
        count(ended, report);
    }
}

fn count(ended: Result<Copied, tokio::task::JoinError>, report: &mut SyncReport) {
    match ended {
        Ok((_, Ok(_))) => report.copied += 1,
        Ok((key, Err(error))) => report.failed.push((key, error)),
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        // A copy is cancelled only with all of this.
        Err(_) => {}
    }
}

async fn copy(source: Store, target: Store, object: Object) -> Copied {
    let key = object.key.clone();
    let copied = match (file(&source, &key), file(&target, &key)) {
        (Some(path), None) => target.upload(path, &key).await,
        (None, Some(path)) => {
            let download = source.download(&key, path).keep_modified(true).size_hint(object.size);
            download.refuse_links_below(target.location()).await
        }
        _ if source.is_one_with(&target) => source.copy(&key, &target, &key).await,
        _ => {
            copy_through::copy(&source, &key, &target, |carried| target.writer(&key).attributes(carried))
                .await
        }
    };
    (key, copied)
}

/// The local file of a key, if the store is a local directory and the key is a path in it. Other keys are left to the
/// store, which refuses them.
fn file(store: &Store, key: &str) -> Option<PathBuf> {
    let is_name = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    (is_local(store) && key.split('/').all(is_name)).then(|| Path::new(&store.location()).join(key))
}

/// Whether the store is a local directory, whose location is a path.
fn is_local(store: &Store) -> bool {
    !store.location().contains("://")
}

/// Removes objects that are still as they were listed.
async fn remove(target: &Store, extra: Vec<Object>, report: &mut SyncReport) {
    let removals = extra.into_iter().map(|object| async move {
        let removed = target.delete_if_unchanged(&object.key, &object).await;
        (object.key, removed)
    });
    let mut removals = futures::stream::iter(removals).buffer_unordered(AT_ONCE);
    while let Some((key, removed)) = removals.next().await {
        match removed {
            Ok(()) => report.removed += 1,
            // Somebody has written it since.
            Err(error) if error.kind() == ErrorKind::Replaced => {}
            Err(error) => report.failed.push((key, error)),
        }
    }
    report.failed.sort_by(|(a, _), (b, _)| a.cmp(b));
}
