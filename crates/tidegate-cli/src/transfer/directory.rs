//! Copies everything below a directory or prefix, many objects at once.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tidegate::Store;
use tidegate::backend::Entry;
use tidegate::location::Location;
use tidegate::text::printable;

use super::job::CopyJob;
use super::report::CompletedCopy;
use super::{download, naming, upload};
use crate::common_cause::CommonCause;
use crate::compare::resolved;
use crate::dev;
use crate::exit::{CommandFailure, Outcome};
use crate::listing;
use crate::runtime::open_files;
use crate::stores::ObjectPlace;
use crate::walk::{self, Missed};

/// How many objects are in flight at least; with a journal also at most, because each journal needs open files.
const IN_FLIGHT: usize = 64;
const MOST_IN_FLIGHT: usize = 1024;

/// The store and prefix that the objects are copied to.
struct CopyTarget {
    store: Store,
    prefix: String,
}

impl CopyTarget {
    async fn new(job: &CopyJob<'_>, source: &Location, target: &Location) -> Outcome<Self> {
        let target = naming::of_tree(source, target)?;
        let (store, prefix) = job.stores.tree(&target).await?;
        job.report.tree(source.to_string(), format!("{}/{prefix}", store.location()));
        Ok(Self { store, prefix })
    }

    /// The store; `None` if it is a directory on this machine, which is always reachable.
    fn if_remote(&self) -> Option<&Store> {
        (!self.place("").is_local()).then_some(&self.store)
    }

    fn place(&self, key: &str) -> ObjectPlace {
        ObjectPlace { store: self.store.clone(), key: format!("{}{key}", self.prefix) }
    }
}

/// Uploads the files below a local directory.
pub(crate) async fn upload(job: &CopyJob<'_>, source: &Location, target: &Location) -> Outcome {
    let Location::Local { path } = source else { return Ok(()) };
    refuse_itself(path, target)?;
    let target = CopyTarget::new(job, source, target).await?;
    // Skip the embedded server's own files: they change while it receives them.
    let except = dev::directory().canonicalize().ok();
    let (store, _) = job.stores.tree(source).await?;
    let found = job.report.found();
    let files = walk::files(&store, path.to_owned(), except, job.journals).inspect(move |_| {
        found.fetch_add(1, Relaxed);
    });
    let files = listing::ahead(files);
    let target = &target;
    let copies = files.map(|file| async move {
        match file {
            Ok(file) => {
                job.report.expect(Some(file.object.size));
                let source = file.path.display().to_string();
                upload::file(job, &file.path, source, &target.place(&file.object.key)).await.into()
            }
            // The walk ends with this error.
            Err(Missed::Failed(failure @ CommandFailure::Usage(_))) => CopyOutcome::Stopped(failure),
            Err(Missed::Failed(failure)) => CopyOutcome::Failed(failure),
            Err(Missed::LeftOut(path, kind)) => {
                let path = path.display().to_string();
                job.report.say(&format!("left out: {} is {kind}", printable(&path)));
                CopyOutcome::LeftOut
            }
        }
    });
    if all(job, &Vec::from_iter(target.if_remote()), copies).await? == 0 {
        job.report.say(&format!("nothing copied: there is no file below {source}"));
    }
    Ok(())
}

/// Copies the objects below a prefix of a store.
pub(crate) async fn copy(job: &CopyJob<'_>, source: &Location, target: &Location) -> Outcome {
    let (from, prefix) = job.stores.source().tree(source).await?;
    let target = CopyTarget::new(job, source, target).await?;
    let (from, prefix, target) = (&from, prefix.as_str(), &target);
    let found = job.report.found();
    let entries = from.list(prefix).inspect(move |_| {
        found.fetch_add(1, Relaxed);
    });
    let copies = listing::ahead(entries).map(move |entry| async move {
        let object = match entry {
            Ok(Entry::Object(object)) => object,
            Ok(_) => return CopyOutcome::LeftOut,
            // The listing ends with this error.
            Err(error) => return CopyOutcome::Stopped(error.into()),
        };
        let size = object.known_size();
        let key = object.key.strip_prefix(prefix).unwrap_or(&object.key);
        let (from, to) = (ObjectPlace { store: from.clone(), key: object.key.clone() }, target.place(key));
        if let Some(why) = nameless(&to) {
            let left_out = format!("{}: {why}", printable(&from.url()));
            // Some tools leave an empty object in place of a directory: nothing is lost without it.
            if size != Some(0) {
                return CopyOutcome::Failed(CommandFailure::Failed(left_out));
            }
            job.report.say(&format!("left out: {left_out}"));
            return CopyOutcome::LeftOut;
        }
        job.report.expect(size);
        download::object(job, &from.url(), &from, size, &to).await.into()
    });
    let stores: Vec<_> = std::iter::once(from).chain(target.if_remote()).collect();
    if all(job, &stores, copies).await? > 0 {
        return Ok(());
    }
    if !prefix.is_empty() {
        return Err(CommandFailure::nothing_at(source, "there is no object below it"));
    }
    job.report.say(&format!("nothing copied: {source} is empty"));
    Ok(())
}

/// Why the target cannot hold an object of this name; `None` if it can.
fn nameless(to: &ObjectPlace) -> Option<&'static str> {
    if to.key.is_empty() {
        Some("an object needs a name")
    } else if to.is_local() && to.key.ends_with('/') {
        Some("a file's name can't end with a slash")
    } else {
        None
    }
}

/// How the copy of one object ended.
pub(crate) enum CopyOutcome {
    Copied(CompletedCopy),
    /// There was nothing to copy, or the target has no name for it.
    LeftOut,
    Failed(CommandFailure),
    /// It failed, and every other object would fail for the same cause.
    Shared(CommandFailure),
    /// The listing failed, so no more objects come.
    Stopped(CommandFailure),
}

impl From<Outcome<CompletedCopy>> for CopyOutcome {
    fn from(outcome: Outcome<CompletedCopy>) -> Self {
        match outcome {
            Ok(done) => Self::Copied(done),
            Err(failure) => Self::Failed(failure),
        }
    }
}

/// Runs all copies between these stores, as many at once as allowed; returns how many there were. A copy that fails is
/// reported and does not stop the others. If every other copy would fail for the same cause, no more are started,
/// those in flight are waited for and counted, and the cause is the error.
pub(crate) async fn all<F>(
    job: &CopyJob<'_>,
    stores: &[&Store],
    copies: impl Stream<Item = F>,
) -> Outcome<u64>
where
    F: Future<Output = CopyOutcome>,
{
    let cause = &CommonCause::of(job.stores.tide(), stores.iter().copied());
    let mut copies = std::pin::pin!(copies.fuse());
    let mut on_their_way = FuturesUnordered::new();
    let mut begun = 0;
    let mut stopped: Option<CommandFailure> = None;
    loop {
        let requests = stores.iter().map(|store| store.in_flight_limit()).sum();
        let most = at_once(requests, job.writing.is_journaled(), open_files());
        let ended = tokio::select! {
            biased;
            Some(copy) = copies.next(), if stopped.is_none() && on_their_way.len() < most => {
                begun += 1;
                // Unlike an async block, `then` needs no room for the copy and the question at once.
                on_their_way.push(copy.then(move |ended| async move {
                    match ended {
                        CopyOutcome::Failed(failure) if cause.is_behind(&failure).await => CopyOutcome::Shared(failure),
                        ended => ended,
                    }
                }));
                continue;
            }
            Some(ended) = on_their_way.next() => ended,
            else => break,
        };
        match ended {
            CopyOutcome::LeftOut => {}
            CopyOutcome::Copied(done) => job.report.done(done).await?,
            CopyOutcome::Failed(failure) => job.report.failed(&failure),
            CopyOutcome::Shared(failure) if stopped.is_some() => job.report.failed_too(&failure),
            CopyOutcome::Shared(failure) => {
                job.report.failed_first();
                stopped = Some(failure);
            }
            CopyOutcome::Stopped(failure) => {
                cause.no_more();
                stopped.get_or_insert(failure);
            }
        }
    }
    stopped.map_or(Ok(begun), Err)
}

/// How many objects are in flight at once while the stores together allow this many requests: a quarter more, so that an
/// object that opens its file or publishes it leaves no request unused.
fn at_once(requests: usize, is_journaled: bool, open_files: usize) -> usize {
    let most = if is_journaled { IN_FLIGHT } else { MOST_IN_FLIGHT };
    let objects = requests.saturating_add(requests / 4).clamp(IN_FLIGHT, most);
    // Each object needs a file and a connection.
    objects.min(open_files / 3).max(1)
}

/// Refuses a journal directory below the source: the journals would be journaled while they are written, and leaving
/// them out would make the copy incomplete. The walk refuses journals behind links.
pub(crate) fn refuse_journals(source: &Path, journals: &[PathBuf]) -> Outcome {
    let Ok(source) = source.canonicalize() else { return Ok(()) };
    let is_below = |journal: &Path| journal.canonicalize().is_ok_and(|journal| journal.starts_with(&source));
    let Some(journal) = journals.iter().find(|journal| is_below(journal)) else { return Ok(()) };
    let (journal, source) = (journal.display(), source.display());
    Err(CommandFailure::Usage(format!(
        "--journal {journal}: this is in {source}, which is to be copied: choose another"
    )))
}

/// Refuses a target below the source: the copy would never end.
fn refuse_itself(source: &Path, target: &Location) -> Outcome {
    let Location::Local { path } = target else { return Ok(()) };
    let Ok(source) = source.canonicalize() else { return Ok(()) };
    if resolved(path).starts_with(&source) {
        let (path, source) = (path.display(), source.display());
        return Err(CommandFailure::Usage(format!("{path}: this is in {source}, which is to be copied")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_in_flight_follow_the_requests_within_bounds() {
        let many = 1 << 20;
        for (requests, is_journaled, open_files, expected) in [
            (0, false, many, 64),
            (3, false, many, 64),
            (64, false, many, 80),
            (256, false, many, 320),
            (usize::MAX, false, many, 1024),
            (512, true, many, 64),
            (512, false, 300, 100),
            (16, false, 2, 1),
        ] {
            let objects = at_once(requests, is_journaled, open_files);
            assert_eq!(objects, expected, "{requests}, {is_journaled}, {open_files}");
        }
    }
}
