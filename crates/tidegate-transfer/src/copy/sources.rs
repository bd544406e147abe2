//! The objects that the sources of a copy or move name, each with its target.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, future};
use tidegate::Store;
use tidegate::backend::local::LINK_SUFFIX;
use tidegate::backend::{Entry, OtherKind};
use tidegate::location::{Location, local_root};
use tidegate::text::printable;

use super::copies::CopyOutcome;
use super::distinct::SourceTree;
use super::item::{CopyItem, ItemSource};
use super::job::CopyJob;
use super::link::NamedLink;
use super::{NameList, link};
use crate::ahead::ahead;
use crate::error::{Error, Result};
use crate::links::{LinkRules, Links};
use crate::place::{Place, why_nameless};
use crate::planted::Planted;
use crate::resolved::resolved;
use crate::select::{ListingNotes, ObjectFilter, Selection, Source};
use crate::walk::{self, Excepted, LinkIntoExcepted, Missed, OtherTree};

mod target;

pub(super) use target::CopyTarget;

/// An object to copy; or the outcome for something that cannot be copied.
pub(crate) type FoundItem = Result<CopyItem, CopyOutcome>;

/// The objects that sources name, and the stores that they are in.
pub(crate) struct FoundItems<'a> {
    pub(crate) items: BoxStream<'a, FoundItem>,
    pub(crate) stores: Vec<Store>,
    /// The objects that the command names one by one.
    pub(crate) named: Vec<Place>,
    /// The trees, if there are several sources, or if links are followed.
    pub(crate) trees: Vec<SourceTree>,
    /// Where everything is copied to.
    pub(crate) target: String,
}

/// The objects of several sources, all to be copied to `target`.
pub(crate) async fn find<'a>(
    job: &'a CopyJob,
    sources: &'a [Source],
    target: &Location,
    is_recursive: bool,
    filter: &ObjectFilter,
) -> Result<FoundItems<'a>> {
    let (mut parts, mut named, mut trees, mut target_url) = (Vec::new(), Vec::new(), Vec::new(), None);
    let mut stores: Vec<Store> = Vec::new();
    let mut add = |store: &Store| {
        if !store.is_local() && !stores.iter().any(|known| known.location() == store.location()) {
            stores.push(store.clone());
        }
    };
    for source in sources {
        let is_only = sources.len() == 1;
        let is_tree = source.pattern.is_some() || is_recursive && !is_file(&source.location);
        if is_tree {
            let links = job.writing.links().of_source();
            let (store, prefix) = job.stores.source.tree_with(&source.location, links).await?;
            let directory = Place::named(store.clone(), prefix.trim_end_matches('/'));
            if job.moves()
                && source.pattern.is_none()
                && !store.is_local()
                && !directory.key.is_empty()
                && directory.is_directory().await?
            {
                job.emptied.add_named(directory);
            }
            let mut target = CopyTarget::of_tree(job, source, target).await?;
            target.refuse_overlap(job, source, &store, &prefix, is_recursive).await?;
            if is_only {
                target_url = Some(target.url());
            }
            // A link of the target may lead to another object of a single source, too.
            if !is_only || job.writing.links() == Links::Follow {
                let root = Place::named(store.clone(), &*prefix);
                trees.push(SourceTree { root, selection: source.selection(filter) });
            }
            add(&store);
            parts.push(tree(job, source, store, prefix, target, filter, is_only));
        } else {
            let place = job.stores.source.object_with(&source.location, rules_of_named(job)).await?;
            if !filter.takes_named(&place).await? {
                continue;
            }
            add(&place.store);
            named.push(place.clone());
            let to = CopyTarget::of_one(job, &source.location, target).await?;
            parts.push(stream::once(future::ready(one(job, &source.location, place, to))).boxed());
        }
    }
    // The target comes last: a copy within one store needs requests for its two ends.
    let target = CopyTarget::of_contents(job, target).await?;
    if !target.store.is_local() {
        stores.push(target.store.clone());
    }
    let target = target_url.unwrap_or_else(|| target.url());
    Ok(FoundItems { items: stream::iter(parts).flatten().boxed(), stores, named, trees, target })
}

/// The objects that a list names: below `source`, or, without one, each by its whole URL or path.
pub(crate) async fn find_listed<'a>(
    job: &'a CopyJob,
    source: Option<&'a Source>,
    listed: NameList,
    target: &'a Location,
) -> Result<FoundItems<'a>> {
    let NameList { names, from } = listed;
    let counted = Arc::new(AtomicU64::new(0));
    let count = counted.clone();
    let names = names.inspect(move |_| {
        count.fetch_add(1, Relaxed);
    });
    let to = CopyTarget::of_contents(job, target).await?;
    let (target_url, mut named) = (to.url(), Vec::new());
    let mut stores = Vec::from_iter((!to.store.is_local()).then(|| to.store.clone()));
    let items = if let Some(source) = source {
        let links = job.writing.links().of_source();
        let (store, prefix) = job.stores.source.tree_with(&source.location, links).await?;
        if !store.is_local() {
            stores.push(store.clone());
        }
        let is_local = matches!(source.location, Location::Local { .. });
        let (names, overlap) = match to.overlap(&store, &prefix, job.writing.links()) {
            None => (names.boxed(), None),
            Some(overlap) => overlap.with_names(names).await,
        };
        names
            .map(move |name| {
                let name = name.map_err(CopyOutcome::Failed)?;
                let name = name.strip_prefix("./").unwrap_or(&name);
                if let Some(other) =
                    overlap.as_ref().and_then(|overlap| overlap.replaced_by(name, &to.place(name)))
                    && !job.plants.has(Planted::ReplacedSource)
                {
                    let (done, verb) = if job.moves() { ("moved", "move") } else { ("copied", "copy") };
                    let message = format!(
                        "{name}: not {done}: it would replace {other}, which this command is to {verb} too"
                    );
                    return Err(CopyOutcome::Failed(Error::Failed(message)));
                }
                let place = Place::named(store.clone(), format!("{prefix}{name}"));
                match is_local {
                    true => listed_file(job, place, to.place(name), Some(&store.location())),
                    false => Ok(CopyItem { source: ItemSource::object(place), to: to.place(name) }),
                }
            })
            .boxed()
    } else {
        let found = move |name: Result<String>| async move {
            let location = Location::try_from(OsStr::new(&name.map_err(CopyOutcome::Failed)?));
            let item = async {
                let location = location?;
                let links = job.writing.links().of_source();
                let place = job.stores.source.object_with(&location, links).await?;
                Ok((location.clone(), place, CopyTarget::of_one(job, &location, target).await?))
            };
            let (location, place, to) = item.await.map_err(CopyOutcome::Failed)?;
            match location {
                Location::Local { .. } => listed_file(job, place, to, None),
                _ => Ok(CopyItem { source: ItemSource::object(place), to }),
            }
        };
        // A target could be another source, so all sources must be known first.
        let items: Vec<FoundItem> = names.then(found).collect().await;
        named.extend(items.iter().flatten().map(|item| item.source.place().clone()));
        stream::iter(items).boxed()
    };
    let end = move |count| {
        (count == 0).then(|| {
            let message = format!("nothing copied: {from} names nothing");
            job.events.say(&*message);
            CopyOutcome::LeftOut
        })
    };
    Ok(FoundItems {
        items: with_end(items, counted, end).boxed(),
        stores,
        named,
        trees: Vec::new(),
        target: target_url,
    })
}

/// The rules for links of an object that is named alone: a link is followed, unless links are copied as objects.
fn rules_of_named(job: &CopyJob) -> LinkRules {
    match job.writing.links() {
        Links::Preserve => Links::Preserve.of_source(),
        Links::Files | Links::Skip | Links::Follow => LinkRules::default(),
    }
}

/// Whether the location is a local path that is no directory, so that -r makes no difference.
fn is_file(location: &Location) -> bool {
    matches!(location, Location::Local { path } if !path.is_dir())
}

/// The item for a file at `place` that a list names. Links become what they become in the walk of a directory; a
/// directory is left out, because `find` prints it too. `tree` is the location of the directory that the list is about.
fn listed_file(job: &CopyJob, place: Place, to: Place, tree: Option<&str>) -> FoundItem {
    let path = place.file().map_err(CopyOutcome::Failed)?;
    let is_link = path.is_symlink();
    let is_kept = is_link && job.writing.links() == Links::Preserve;
    match job.writing.links() {
        Links::Skip if is_link => return Err(left_out(job, &path, OtherKind::Link)),
        Links::Files if is_link && path.is_dir() => {
            return Err(left_out(job, &path, OtherKind::LinkToDirectory));
        }
        _ => {}
    }
    if path.is_dir() && !is_kept {
        job.events.warn(format!("left out: {} is a directory", printable(&path.display().to_string())));
        return Err(CopyOutcome::LeftOut);
    }
    if let Some(tree) = tree.filter(|_| !is_kept) {
        refuse_link_within(job, &path, tree)?;
    }
    one(job, &Location::Local { path }, place, to)
}

fn left_out(job: &CopyJob, path: &Path, kind: OtherKind) -> CopyOutcome {
    job.leave_out(path, kind);
    CopyOutcome::LeftOut
}

/// The item for a single object.
fn one(job: &CopyJob, source: &Location, mut place: Place, mut to: Place) -> FoundItem {
    let link = match source {
        Location::Local { path } if job.writing.links() == Links::Preserve => {
            link::named(path).map_err(CopyOutcome::Failed)?
        }
        _ => None,
    };
    if link == Some(NamedLink::ByPath) {
        place.key.push_str(LINK_SUFFIX);
        to.key.push_str(LINK_SUFFIX);
    }
    let source = match source {
        Location::Local { path } if link.is_some() => ItemSource::file(path.clone(), place),
        Location::Local { path } => {
            let found = path.metadata().map_err(|error| CopyOutcome::Failed(Error::of_file(path, &error)))?;
            if !found.is_file() {
                let remedy = match found.is_dir() {
                    true => "a directory: add -r",
                    false => "a pipe or device: copy it in a command of its own",
                };
                let message = format!("{source}: this is {remedy}");
                return Err(CopyOutcome::Failed(Error::Failed(message)));
            }
            ItemSource::file(path.clone(), place)
        }
        _ => ItemSource::object(place),
    };
    Ok(CopyItem { source, to })
}

/// The objects below a directory or prefix, or those that match a pattern there.
fn tree<'a>(
    job: &'a CopyJob,
    source: &'a Source,
    store: Store,
    prefix: String,
    target: CopyTarget,
    filter: &ObjectFilter,
    is_only: bool,
) -> BoxStream<'a, FoundItem> {
    let selection = source.selection(filter);
    let noted = Arc::new(ListingNotes::default());
    let entries = selection.list_noting(&store, &prefix, &noted);
    let found = job.events.found();
    let counted = Arc::new(AtomicU64::new(0));
    let count = counted.clone();
    let end = move |count| {
        noted.lines(source).for_each(|line| job.events.warn(line));
        (count == 0).then(|| nothing_found(job, source, &selection, &noted, is_only))
    };
    let items = match &source.location {
        Location::Local { path } => {
            // Skip what the caller leaves out: files of a server change while it receives them.
            let except = job.except.iter().cloned().chain(target.directory()).collect();
            let except = Excepted { directories: except, links: LinkIntoExcepted::Fails };
            let files = walk::files(entries, path.to_owned(), except, &job.journals, job.writing.links());
            let other = target.directory().and_then(|directory| OtherTree::at(&directory));
            let files = walk::without(files, path.to_owned(), other.map(OtherTree::written));
            let files = files.inspect(move |_| {
                found.fetch_add(1, Relaxed);
            });
            // A mount below the target may lead into the source.
            let source = target.directory().and_then(|_| OtherTree::at(path));
            let (directory, mut last) = (target.directory().unwrap_or_default(), String::new());
            let below = job.writing.links().files_of_source(path);
            let item = move |file: Result<walk::FoundFile, Missed>| {
                let mut item = file_item(job, &store, &target, file)?;
                item.source = item.source.of_tree(below.clone());
                match source.as_ref().and_then(|it| walk::leads_to(it, &directory, &mut last, &item.to.key)) {
                    Some(failure) => Err(CopyOutcome::Failed(failure)),
                    None => Ok(item),
                }
            };
            ahead(files).map(item).boxed()
        }
        _ => {
            let entries = entries.inspect(move |_| {
                found.fetch_add(1, Relaxed);
            });
            let item = move |entry| object_item(job, &store, &prefix, &target, entry);
            ahead(entries).filter_map(move |entry| future::ready(item(entry))).boxed()
        }
    };
    with_end(
        items.inspect(move |_| {
            count.fetch_add(1, Relaxed);
        }),
        counted,
        end,
    )
    .boxed()
}

/// Adds the outcome, if any, that `end` has for the number of items.
fn with_end<'a>(
    items: impl Stream<Item = FoundItem> + 'a,
    counted: Arc<AtomicU64>,
    end: impl FnOnce(u64) -> Option<CopyOutcome> + 'a,
) -> impl Stream<Item = FoundItem> + 'a {
    let end = stream::once(async move { end(counted.load(Relaxed)).map(Err) });
    items.chain(end.filter_map(future::ready))
}

/// The outcome if there was nothing to copy. An empty bucket or directory is fine, and so is a filter that takes
/// nothing; a prefix with nothing below it is more often mistyped than meant.
fn nothing_found(
    job: &CopyJob,
    source: &Source,
    selection: &Selection,
    noted: &ListingNotes,
    is_only: bool,
) -> CopyOutcome {
    let location = &source.location;
    let has_key = location.in_store().is_some_and(|(_, _, key)| !key.is_empty());
    let failure = if selection.is_filtered() && noted.has_matches() {
        let name = source.name();
        job.events.say(format!("nothing copied: the filters leave out everything of {name}"));
        return CopyOutcome::LeftOut;
    } else if source.pattern.is_some() {
        source.no_match()
    } else if has_key {
        Error::nothing_at(location, "there is no object below it")
    } else {
        let message = match location {
            Location::Local { .. } => format!("nothing copied: there is no file below {location}"),
            _ => format!("nothing copied: {location} is empty"),
        };
        job.events.say(&*message);
        return CopyOutcome::LeftOut;
    };
    // Alone, it ends the command with its own exit code.
    if is_only { CopyOutcome::Stopped(failure) } else { CopyOutcome::Failed(failure) }
}

fn file_item(
    job: &CopyJob,
    store: &Store,
    target: &CopyTarget,
    file: Result<walk::FoundFile, Missed>,
) -> FoundItem {
    match file {
        Ok(file) => {
            refuse_link_within(job, &file.path, &store.location())?;
            target.refuse_within_source(&file.object.key)?;
            let to = target.place(&file.object.key);
            let place = Place::named(store.clone(), &*file.object.key);
            Ok(CopyItem { source: ItemSource::file(file.path, place).described(job, file.object), to })
        }
        // The walk ends with this error.
        Err(Missed::Failed(failure @ Error::Refused(_))) => Err(CopyOutcome::Stopped(failure)),
        Err(Missed::Failed(failure)) => Err(CopyOutcome::Failed(failure)),
        Err(Missed::LeftOut(path, kind)) => Err(left_out(job, &path, kind)),
        // No file's name ends with a slash.
        Err(Missed::Marker(url)) => {
            job.events.warn(format!("left out: {}", printable(&url)));
            Err(CopyOutcome::LeftOut)
        }
    }
}

/// Refuses to move a link to a file of the tree at `root`: that file may be moved before the link is read.
fn refuse_link_within(job: &CopyJob, path: &Path, root: &str) -> Result<(), CopyOutcome> {
    if !job.moves() || !leads_into(path, root) {
        return Ok(());
    }
    Err(CopyOutcome::Failed(Error::Failed(format!(
        "{}: not moved: this is a link to a file of the same tree: add --links preserve, or --links skip",
        printable(&path.display().to_string())
    ))))
}

/// Whether a path is a symbolic link to a file in the tree at `root`.
fn leads_into(path: &Path, root: &str) -> bool {
    path.is_symlink() && path.canonicalize().is_ok_and(|file| file.starts_with(resolved(&local_root(root))))
}

/// The item for an entry of a store's listing; `None` if the entry is no object.
fn object_item(
    job: &CopyJob,
    store: &Store,
    prefix: &str,
    target: &CopyTarget,
    entry: tidegate::Result<Entry>,
) -> Option<FoundItem> {
    let object = match entry {
        Ok(Entry::Object(object)) => object,
        Ok(Entry::Other { key, kind: OtherKind::Directory }) => {
            if job.moves() {
                job.emptied.add_named(Place::named(store.clone(), key));
            }
            return None;
        }
        Ok(_) => return None,
        // The listing ends with this error.
        Err(error) => return Some(Err(CopyOutcome::Stopped(error.into()))),
    };
    let key = object.key.strip_prefix(prefix).unwrap_or(&object.key);
    if let Err(refused) = target.refuse_within_source(key) {
        return Some(Err(refused));
    }
    let to = target.place(key);
    let place = Place::named(store.clone(), &*object.key);
    if let Some(why) = why_nameless(&to.key, to.is_local()) {
        let left_out = format!("{}: {why}", printable(&place.url()));
        // Some tools leave an empty object in place of a directory: nothing is lost without it.
        if object.known_size() != Some(0) {
            return Some(Err(CopyOutcome::Failed(Error::Failed(left_out))));
        }
        job.events.warn(format!("left out: {left_out}"));
        return Some(Err(CopyOutcome::LeftOut));
    }
    Some(Ok(CopyItem { source: ItemSource::object(place).described(job, object), to }))
}

/// Refuses a journal directory below the source: the journals would be journaled while they are written, and leaving
/// them out would make the copy incomplete. The walk refuses journals behind links.
pub(crate) fn refuse_journals(source: &Path, journals: &[PathBuf]) -> Result {
    let Ok(source) = source.canonicalize() else { return Ok(()) };
    let is_below = |journal: &Path| journal.canonicalize().is_ok_and(|journal| journal.starts_with(&source));
    let Some(journal) = journals.iter().find(|journal| is_below(journal)) else { return Ok(()) };
    let (journal, source) = (journal.display(), source.display());
    Err(Error::Refused(format!(
        "--journal {journal}: this is in {source}, which is to be copied: choose another"
    )))
}
