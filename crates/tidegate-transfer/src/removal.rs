//! Removes objects: single ones, trees, patterns, and lists of names.

use std::fmt;
use std::future::{IntoFuture, ready};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt};
use tidegate::location::Location;
use tidegate::store::Deletion;
use tidegate::text::printable;
use tidegate::{ErrorKind, Store};

use crate::common_cause::CommonCause;
use crate::copy::{NameList, is_local};
use crate::error::{Error, Reach, Result};
use crate::event::{Ends, Event, Events, Failure, Report, Step};
use crate::figures::count;
use crate::links::LinkRules;
use crate::place::{Place, Stores};
use crate::run::Run;
use crate::select::{ObjectFilter, Source};

mod batches;
mod tree;

use tree::RemovedTree;

/// The most removals of single objects in flight.
const IN_FLIGHT: usize = 64;

/// What is removed.
enum Removed {
    Named(Vec<Source>),
    /// What a list names: below the source, or, without one, each by its whole URL or path.
    Listed(Option<Box<Source>>, NameList),
}

impl fmt::Debug for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(sources) => f.debug_tuple("Named").field(sources).finish(),
            Self::Listed(below, names) => f.debug_tuple("Listed").field(below).field(&names.from).finish(),
        }
    }
}

/// Removes objects. Configure it, then [`start`](Self::start) it for its events, or await it for its report.
///
/// A missing object is a failure: each object that is named by its URL is looked up (HEAD) before it is removed, because
/// stores report success for the removal of a missing object. The objects of a list are not looked up: S3 removes 1,000
/// of them by one request, and one that is missing counts as removed.
///
/// # Errors
/// As [`Run`].
#[derive(Debug)]
#[must_use = "a removal does nothing unless it is started or awaited"]
pub struct RemoveTrees {
    removed: Removed,
    stores: Stores,
    is_recursive: bool,
    is_dry_run: bool,
    filter: ObjectFilter,
}

impl RemoveTrees {
    /// Removes these objects, and with [`recursive`](Self::recursive) what lies below them.
    pub fn new(stores: impl Into<Stores>, sources: impl IntoIterator<Item = Source>) -> Self {
        Self::of(stores.into(), Removed::Named(sources.into_iter().collect()))
    }

    /// Removes the objects that a list names: below `source`, or, without one, each by its whole URL or path.
    pub fn listed(stores: impl Into<Stores>, source: Option<Source>, names: NameList) -> Self {
        Self::of(stores.into(), Removed::Listed(source.map(Box::new), names))
    }

    fn of(stores: Stores, removed: Removed) -> Self {
        Self { removed, stores, is_recursive: false, is_dry_run: false, filter: ObjectFilter::default() }
    }

    /// Removes everything below each source.
    pub fn recursive(self, is_recursive: bool) -> Self {
        Self { is_recursive, ..self }
    }

    /// Changes nothing: events say what would be removed.
    pub fn dry_run(self, is_dry_run: bool) -> Self {
        Self { is_dry_run, ..self }
    }

    /// Takes some of the objects only: of a tree or pattern by their keys below it; of those that are named one by one, with
    /// [`recursive`](Self::recursive), by the last name of their key.
    pub fn filter(self, filter: ObjectFilter) -> Self {
        Self { filter, ..self }
    }

    /// The operation as a stream of events. Nothing is done before the first event is asked for.
    pub fn start(self) -> Run {
        let events = Events::new(self.stores.tide());
        Run::new(events.clone(), self.work(events))
    }

    async fn work(self, events: Events) -> Result {
        self.check()?;
        let Self { removed, stores, is_recursive, is_dry_run, filter } = self;
        let removing = Removing { stores, events, is_recursive, is_dry_run, filter };
        match removed {
            Removed::Listed(source, names) => removing.remove_listed(source.as_deref(), names).await,
            Removed::Named(sources)
                if is_recursive || sources.iter().any(|source| source.pattern.is_some()) =>
            {
                removing.remove_trees(&sources).await
            }
            Removed::Named(sources) => removing.remove_each(sources).await,
        }
    }

    /// Refuses combinations of arguments that make no sense.
    fn check(&self) -> Result {
        let refused = |message: String| Err(Error::Refused(message));
        match &self.removed {
            Removed::Listed(source, _) => {
                let has_pattern = source.as_ref().is_some_and(|source| source.pattern.is_some());
                if self.is_recursive || has_pattern {
                    return refused(
                        "--files-from: it goes with at most one URL, and without -r and patterns".to_owned(),
                    );
                }
                match self.filter.is_everything() {
                    true => Ok(()),
                    false => {
                        refused("a filter does not go with --files-from, which names the objects".to_owned())
                    }
                }
            }
            Removed::Named(sources) if !self.is_recursive => {
                let mut single = sources.iter().filter(|source| source.pattern.is_none()).peekable();
                let has_single = single.peek().is_some();
                single.try_for_each(|source| refuse_trees(&source.location))?;
                if has_single && !self.filter.is_everything() {
                    return refused(
                        "a filter chooses among many objects: add -r, or use a pattern".to_owned(),
                    );
                }
                Ok(())
            }
            Removed::Named(_) => Ok(()),
        }
    }
}

impl IntoFuture for RemoveTrees {
    type Output = Result<Report>;
    type IntoFuture = BoxFuture<'static, Result<Report>>;

    fn into_future(self) -> Self::IntoFuture {
        IntoFuture::into_future(self.start())
    }
}

/// A removal that runs.
struct Removing {
    stores: Stores,
    events: Events,
    is_recursive: bool,
    is_dry_run: bool,
    filter: ObjectFilter,
}

/// How many objects were removed, and how many failures there were, for one source or for all.
#[derive(Debug, Default)]
struct Tally {
    removed: u64,
    failed: u64,
}

impl Removing {
    fn removed(&self, url: String) {
        self.events.push(match self.is_dry_run {
            true => Event::WouldRemove { url },
            false => Event::Removed { url },
        });
    }

    /// Removes the objects that a list names: below `source`, or, without one, each by its whole URL or path.
    async fn remove_listed(&self, source: Option<&Source>, listed: NameList) -> Result {
        let below = match source {
            Some(source) => Some(self.stores.tree_with(&source.location, LinkRules::default()).await?),
            None => None,
        };
        let below = below.as_ref();
        let removals = batches::batches(listed.names).map(|names| async move {
            let places = stream::iter(names).map(|name| self.place_of(below, name)).buffered(IN_FLIGHT);
            self.remove_batch(places.collect().await).await
        });
        self.tally(removals.buffered(batches::IN_FLIGHT).flat_map(stream::iter)).await
    }

    /// The place of a name of a list: below a tree, or, without one, where the whole URL or path says.
    async fn place_of(&self, below: Option<&(Store, String)>, name: Result<String>) -> Result<Place> {
        let name = name?;
        match below {
            None => self.stores.object(&name.parse()?).await,
            Some((store, prefix)) => {
                let key = format!("{prefix}{}", name.strip_prefix("./").unwrap_or(&name));
                Ok(Place::named(store.clone(), key))
            }
        }
    }

    /// Removes the objects of a batch of names: those of one store together.
    async fn remove_batch(&self, places: Vec<Result<Place>>) -> Vec<Result> {
        let (mut outcomes, mut stores) =
            (Vec::with_capacity(places.len()), Vec::<(Store, Vec<String>)>::new());
        let mut files = Vec::new();
        for place in places {
            match place {
                Ok(place) if place.is_local() => files.push(place),
                Ok(Place { store, key, .. }) => {
                    let same = |(known, _): &&mut (Store, _)| known.location() == store.location();
                    match stores.iter_mut().find(same) {
                        Some((_, keys)) => keys.push(key),
                        None => stores.push((store, vec![key])),
                    }
                }
                Err(failure) => outcomes.push(Err(failure)),
            }
        }
        let files = stream::iter(files).map(|place| async move { self.remove_one(&place).await });
        outcomes.extend(files.buffered(IN_FLIGHT).collect::<Vec<_>>().await);
        for (store, keys) in stores {
            outcomes.extend(self.remove_keys(&store, keys).await);
        }
        outcomes
    }

    /// Removes objects of one store, in as few requests as it takes. A missing object counts as removed.
    async fn remove_keys(&self, store: &Store, keys: Vec<String>) -> Vec<Result> {
        let root = store.location();
        if self.is_dry_run {
            return keys.iter().map(|key| self.removed(format!("{root}/{key}"))).map(Ok).collect();
        }
        let mut outcomes = Vec::with_capacity(keys.len());
        let mut removals = store.delete_many(keys);
        while let Some(removal) = removals.next().await {
            outcomes.push(match removal.result {
                Ok(()) => {
                    self.removed(format!("{root}/{}", removal.key.unwrap_or_default()));
                    Ok(())
                }
                Err(error) => Err(error.into()),
            });
        }
        outcomes
    }

    /// Removes single objects.
    async fn remove_each(&self, sources: Vec<Source>) -> Result {
        let removals = stream::iter(sources).map(|source| async move {
            let place = self.stores.object(&source.location).await?;
            self.remove_one(&place).await
        });
        self.tally(removals.buffered(IN_FLIGHT)).await
    }

    /// Counts removals, and tells each failure. Stops at one that concerns every object.
    async fn tally(&self, removals: impl Stream<Item = Result> + Send) -> Result {
        let mut tally = Tally::default();
        let mut last: Option<Error> = None;
        let mut is_one_cause = true;
        let mut removals = std::pin::pin!(removals);
        while let Some(removal) = removals.next().await {
            let Err(failure) = removal else {
                tally.removed += 1;
                self.events.flow().await;
                continue;
            };
            tally.failed += 1;
            self.events.flow().await;
            // Such a cause concerns every other object: the credentials, the bucket, or the clock.
            if matches!(&failure, Error::Store(error) if error.kind() != ErrorKind::NoBucket)
                && failure.reach() == Reach::All
            {
                if let Some(before) = last {
                    self.events.failed(Step::Remove, before);
                }
                return Err(match tally.removed {
                    0 => failure,
                    removed => {
                        let removed = count(removed, "object");
                        Error::Failed(format!("removed {removed}, then stopped: {failure}"))
                    }
                });
            }
            if let Some(before) = last.replace(failure) {
                is_one_cause &= last.as_ref().is_some_and(|last| before.class() == last.class());
                self.events.failed(Step::Remove, before);
            }
        }
        // Nothing was removed, and all failures have one cause: the cause is the error.
        match last {
            Some(failure) if tally.removed == 0 && is_one_cause => Err(failure),
            Some(failure) => {
                self.events.failed(Step::Remove, failure);
                self.outcome(&tally, "")
            }
            None => self.outcome(&tally, ""),
        }
    }

    /// Removes one object; a missing one is a failure.
    async fn remove_one(&self, place: &Place) -> Result {
        refuse_missing(place).await?;
        if !self.is_dry_run {
            place.store.delete(&place.key).await?;
        }
        self.removed(place.url());
        Ok(())
    }

    /// Removes one object, if the filter takes it.
    async fn remove_taken(&self, place: &Place, tally: &mut Tally) -> Result {
        if self.filter.takes_named(place).await? {
            self.remove_one(place).await?;
            tally.removed += 1;
        }
        Ok(())
    }

    /// Removes everything below each of the sources.
    async fn remove_trees(&self, sources: &[Source]) -> Result {
        let mut all = Tally::default();
        let mut last = None;
        for source in sources {
            let mut tally = Tally::default();
            let is_single = source.pattern.is_none() && (!self.is_recursive || is_entry(&source.location));
            let ended = if is_single {
                // A file is removed like a tree of one. Of a link, only the link is removed: its target is not below it.
                match self.stores.object(&source.location).await {
                    Ok(place) => self.remove_taken(&place, &mut tally).await,
                    Err(failure) => Err(failure),
                }
            } else {
                self.remove_tree(source, &mut tally).await
            };
            let below = match &source.pattern {
                _ if is_single => String::new(),
                None => format!(" below {}", source.location),
                Some(_) => format!(" of {}", source.text()),
            };
            all.removed += tally.removed;
            all.failed += tally.failed;
            if let Err(failure) = ended.and_then(|()| self.outcome(&tally, &below))
                && let Some(before) = last.replace(failure)
            {
                self.events.failed(Step::Remove, before);
            }
        }
        match last {
            None => Ok(()),
            // If nothing was done, the failure's own kind says why. Otherwise this is a partial failure.
            Some(failure) if all.removed + all.failed == 0 => Err(failure),
            Some(failure) => Err(Error::Failed(failure.to_string())),
        }
    }

    async fn remove_tree(&self, source: &Source, tally: &mut Tally) -> Result {
        refuse_through_link(&source.location)?;
        let (store, prefix) = self.stores.tree_with(&source.location, LinkRules::default()).await?;
        let tree = RemovedTree { store, prefix, source, selection: source.selection(&self.filter) };
        match self.is_dry_run {
            true => tree.show(self, tally).await,
            false => tree.remove(self, tally).await,
        }
    }

    /// Says how many objects were removed if all were; fails if some were not.
    fn outcome(&self, tally: &Tally, below: &str) -> Result {
        let Tally { removed, failed } = *tally;
        let done = if self.is_dry_run { "would remove" } else { "removed" };
        if failed == 0 {
            if !below.is_empty() {
                self.events.say(format!("{done} {}{}", count(removed, "object"), printable(below)));
            }
            return Ok(());
        }
        let all = count(removed + failed, "object");
        Err(Error::Failed(format!("{done} {removed} of {all}{}", printable(below))))
    }
}

/// A bucket or a directory is removed as a tree only.
fn refuse_trees(location: &Location) -> Result {
    let is_tree = match location {
        // A link to a directory counts as a link, unless its name ends with a slash: then it means the directory.
        Location::Local { path } => path.symlink_metadata().is_ok_and(|found| found.is_dir()),
        _ => location.in_store().is_some_and(|(_, _, key)| key.is_empty()),
    };
    if is_tree {
        let location = location.to_string();
        let message =
            format!("{}: this is no object: add -r to remove all that lies below", printable(&location));
        return Err(Error::Refused(message));
    }
    Ok(())
}

/// Whether the location is a local file or link, and not a directory.
fn is_entry(location: &Location) -> bool {
    let Location::Local { path } = location else { return false };
    !location.ends_with_slash() && path.symlink_metadata().is_ok_and(|found| !found.is_dir())
}

/// Refuses to empty the directory that a symbolic link leads to. With a slash at the end, the system would follow the
/// link.
fn refuse_through_link(location: &Location) -> Result {
    let Location::Local { path } = location else { return Ok(()) };
    if !path.components().collect::<PathBuf>().is_symlink() {
        return Ok(());
    }
    let location = location.to_string();
    Err(Error::Refused(format!(
        "{}: this is a symbolic link: name the directory that it leads to, or remove the link by its name without a slash",
        printable(&location)
    )))
}

/// Fails if there is no object at `place`.
///
/// If the store does not let the caller describe the object, the removal itself decides: the right to remove does not
/// include the right to read, and objects with a customer's key are described only with that key.
async fn refuse_missing(place: &Place) -> Result {
    if place.is_local() {
        // Check the path, not the object: a link that leads nowhere exists, and is removed.
        let path = place.file()?;
        let found = tokio::fs::symlink_metadata(&path).await;
        let found = found.map_err(|error| Error::of_file(&path, &error))?;
        // The names of a list may be those of directories.
        return match found.is_dir() {
            true => {
                Err(Error::Failed(format!("{}: it is a directory", printable(&path.display().to_string()))))
            }
            false => Ok(()),
        };
    }
    let error = match place.store.head(&place.key).await {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::NotFound if place.key.ends_with('/') => Err(Error::nothing_at(
            &place.url(),
            "there is no such object; add -r to remove all that lies below",
        )),
        ErrorKind::NotFound => Err(Error::nothing_at(&place.url(), "there is no such object")),
        ErrorKind::PermissionDenied => Ok(()),
        ErrorKind::InvalidInput if error.attempts() > 0 => Ok(()),
        _ => Err(error.into()),
    }
}

/// The result of removing many objects.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    pub(crate) removed: u64,
    /// How many failures there were. Each is an event, except the one in `stopped`.
    pub(crate) failed: u64,
    /// Why the rest was not tried: every other removal would have failed for the same cause, or the listing failed.
    pub(crate) stopped: Option<Error>,
}

/// Removes the objects of `store` with these keys. Tells a failure and continues.
///
/// An error among the keys is that of a listing. The listing of a local directory continues after it (`is_local`);
/// that of a store has ended.
pub(crate) async fn remove(
    events: &Events,
    store: &Store,
    is_local: bool,
    keys: impl Stream<Item = tidegate::Result<String>> + Send + 'static,
) -> Removal {
    let root = store.location();
    let cause = CommonCause::of(store.tide(), (!is_local).then_some(store));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stops = is_stopped.clone();
    let mut removals = store.delete_stream(keys.take_while(move |_| ready(!stops.load(Relaxed)))).fuse();
    let mut failures = FuturesUnordered::new();
    let mut ended = Removal::default();
    loop {
        events.flow().await;
        let (failure, is_common) = tokio::select! {
            biased;
            Some((failure, is_common)) = failures.next() => (failure, is_common),
            Some(Deletion { key, result, .. }) = removals.next() => {
                match (key, result) {
                    (key, Ok(())) => {
                        ended.removed += 1;
                        events.push(Event::Removed { url: format!("{root}/{}", key.unwrap_or_default()) });
                    }
                    (Some(_), Err(error)) => {
                        let cause = &cause;
                        failures.push(async move {
                            let failure = Error::from(error);
                            let is_common = cause.is_behind(&failure).await;
                            (failure, is_common)
                        });
                    }
                    (None, Err(error)) if is_local && error.kind() != ErrorKind::NoBucket => {
                        ended.failed += 1;
                        events.failed(Step::List, error.into());
                    }
                    (None, Err(error)) => {
                        cause.no_more();
                        is_stopped.store(true, Relaxed);
                        ended.stopped = Some(error.into());
                    }
                }
                continue;
            }
            else => return ended,
        };
        ended.failed += 1;
        if is_common {
            is_stopped.store(true, Relaxed);
            if ended.stopped.is_none() {
                ended.stopped = Some(failure);
            } else {
                let failure =
                    Failure { step: Step::Remove, side: None, error: failure, ends: Ends::SameCause };
                events.push(Event::Failed(failure));
            }
        } else {
            events.failed(Step::Remove, failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_need_r() {
        for tree in ["s3://bucket", "s3://bucket/", "dev://demo", "memory://m/", "."] {
            let location = tree.parse().unwrap();
            assert!(refuse_trees(&location).is_err(), "{tree}");
        }
        for object in ["s3://bucket/logs", "s3://bucket/logs/", "nowhere"] {
            assert!(refuse_trees(&object.parse().unwrap()).is_ok(), "{object}");
        }
    }

    #[test]
    fn a_link_to_a_directory_is_no_tree_unless_a_slash_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        let link = link.to_str().unwrap();
        let location: Location = link.parse().unwrap();
        assert!(refuse_trees(&location).is_ok() && is_entry(&location));
        let location: Location = format!("{link}/").parse().unwrap();
        assert!(refuse_trees(&location).is_err() && !is_entry(&location));
        assert!(refuse_through_link(&location).is_err());
        assert!(refuse_through_link(&directory.path().to_str().unwrap().parse().unwrap()).is_ok());
    }

    #[tokio::test]
    async fn a_file_is_removed_with_and_without_r() {
        let directory = tempfile::tempdir().unwrap();
        let tide = tidegate::Tidegate::builder().build().unwrap();
        let path = directory.path().join("file");
        for (recursive, dry_run) in [(false, true), (true, true), (true, false)] {
            std::fs::write(&path, "x").unwrap();
            let source = Source::parse(path.as_os_str(), crate::Wildcards::Pattern, recursive).unwrap();
            let removed =
                RemoveTrees::new(&tide, [source]).recursive(recursive).dry_run(dry_run).await.unwrap();
            assert_eq!((path.exists(), removed.removed), (dry_run, 1), "{recursive}");
        }
    }
}
