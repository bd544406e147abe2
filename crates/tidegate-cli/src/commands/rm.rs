//! `tidegate rm`: removes objects.

use std::path::PathBuf;

use futures::{Stream, StreamExt, stream};
use tidegate::location::Location;
use tidegate::text::printable;
use tidegate::{ErrorKind, Store};
use tokio::sync::Mutex;

use crate::exit::{CommandFailure, Outcome, Reach};
use crate::invocation::Invocation;
use crate::lines::{ObjectLines, RemoveLine};
use crate::options::ConnectionOptions;
use crate::select::{FilterOptions, ListedNames, NamesOption, ObjectFilter, PatternOption, SourceArgument};
use crate::spread::PrefixedOption;
use crate::stores::{ObjectPlace, Stores};
use crate::{output, text};

mod listed;
mod tree;

use tree::RemovedTree;

/// The most removals in flight.
const IN_FLIGHT: usize = 64;

/// Remove objects
///
///     tidegate rm s3://BUCKET/KEY
///     tidegate rm -r s3://BUCKET/tmp/ --older-than 7d
///     tidegate rm 's3://BUCKET/logs/2025-*.gz' --dry-run
///
/// After a failure, prints an error and continues. A missing object is a failure: each object
/// that is named by its URL is looked up (HEAD) before it is removed, because stores report
/// success for the removal of a missing object. The objects of a list (--files-from) are not
/// looked up: S3 removes 1,000 of them by one request, and one that is missing counts as removed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RmArgs {
    /// Objects to remove, or patterns of them. With -r, everything below each URL. With --files-from, at most one: the
    /// names are those of objects below it.
    #[arg(value_name = "URL", required_unless_present = "files_from")]
    objects: Vec<String>,

    /// Remove everything below URL/.
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,

    /// Print which objects would be removed, one a line, and remove nothing.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,

    #[command(flatten)]
    names: NamesOption,

    #[command(flatten)]
    pattern: PatternOption,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// How many objects were removed, and how many failures there were, for one URL or for all.
#[derive(Debug, Default)]
struct Tally {
    removed: u64,
    failed: u64,
}

impl RmArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let parse = |text: &String| self.pattern.parse(text.as_ref(), self.recursive);
        let sources: Vec<SourceArgument> = self.objects.iter().map(parse).collect::<Result<_, _>>()?;
        let filter = self.filter.clone().filter()?;
        self.check(&sources)?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let locations: Vec<_> = sources.iter().map(|source| &source.location).collect();
            self.spread.open(stores, &locations).await?;
            let lines = if self.dry_run { ObjectLines::of_dry_run } else { ObjectLines::of };
            let lines = Mutex::new(lines(invocation)?);
            let removed = if let Some(listed) = self.names.open().await? {
                self.remove_listed(stores, sources.first(), listed, &lines).await
            } else if self.recursive || sources.iter().any(|source| source.pattern.is_some()) {
                self.remove_trees(stores, &sources, &filter, &lines).await
            } else {
                let locations = stream::iter(locations.into_iter().cloned().map(Ok));
                self.remove_each(stores, locations, &lines).await
            };
            // The lines of objects that were removed before an error are printed all the same.
            lines.into_inner().finish().await?;
            removed
        })
        .await
    }

    /// Refuses combinations of arguments that make no sense.
    fn check(&self, sources: &[SourceArgument]) -> Outcome {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        if self.names.is_given() {
            if sources.len() > 1 || self.recursive || sources.iter().any(|source| source.pattern.is_some()) {
                return usage(
                    "--files-from: it goes with at most one URL, and without -r and patterns".to_owned(),
                );
            }
        } else if !self.recursive {
            let single = || sources.iter().filter(|source| source.pattern.is_none());
            single().try_for_each(|source| refuse_trees(&source.location))?;
            if let (Some(option), Some(_)) = (self.filter.given(), single().next()) {
                return usage(format!("{option}: it chooses among many objects: add -r, or use a pattern"));
            }
        }
        match self.filter.given() {
            Some(option) if self.names.is_given() => {
                usage(format!("{option}: it does not go with --files-from, which names the objects"))
            }
            _ => Ok(()),
        }
    }

    /// Removes the objects that a list names: below `source`, or, without one, each by its whole URL or path.
    async fn remove_listed(
        &self,
        stores: &Stores,
        source: Option<&SourceArgument>,
        listed: ListedNames,
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        let below = match source {
            Some(source) => Some(stores.tree(&source.location).await?),
            None => None,
        };
        let below = below.as_ref();
        let removals = listed::batches(listed.names).map(|names| async move {
            let places = stream::iter(names).map(|name| place_of(stores, below, name)).buffered(IN_FLIGHT);
            self.remove_batch(places.collect().await, lines).await
        });
        self.tally(removals.buffered(listed::IN_FLIGHT).flat_map(stream::iter)).await
    }

    /// Removes the objects of a batch of names: those of one store together.
    async fn remove_batch(
        &self,
        places: Vec<Outcome<ObjectPlace>>,
        lines: &Mutex<ObjectLines>,
    ) -> Vec<Outcome> {
        let (mut outcomes, mut stores) =
            (Vec::with_capacity(places.len()), Vec::<(Store, Vec<String>)>::new());
        let mut files = Vec::new();
        for place in places {
            match place {
                Ok(place) if place.is_local() => files.push(place),
                Ok(ObjectPlace { store, key, .. }) => {
                    let same = |(known, _): &&mut (Store, _)| known.location() == store.location();
                    match stores.iter_mut().find(same) {
                        Some((_, keys)) => keys.push(key),
                        None => stores.push((store, vec![key])),
                    }
                }
                Err(failure) => outcomes.push(Err(failure)),
            }
        }
        let files = stream::iter(files).map(|place| async move { self.remove_one(&place, lines).await });
        outcomes.extend(files.buffered(IN_FLIGHT).collect::<Vec<_>>().await);
        for (store, keys) in stores {
            outcomes.extend(self.remove_keys(&store, keys, lines).await);
        }
        outcomes
    }

    /// Removes objects of one store, in as few requests as it takes. A missing object counts as removed.
    async fn remove_keys(
        &self,
        store: &Store,
        keys: Vec<String>,
        lines: &Mutex<ObjectLines>,
    ) -> Vec<Outcome> {
        let root = store.location();
        let print = async |key: &str| {
            let url = format!("{root}/{key}");
            lines.lock().await.print(&RemoveLine { url: &url, dry_run: self.dry_run }).await
        };
        let mut outcomes = Vec::with_capacity(keys.len());
        if self.dry_run {
            for key in &keys {
                outcomes.push(print(key).await);
            }
            return outcomes;
        }
        let mut removals = store.delete_many(keys);
        while let Some(removal) = removals.next().await {
            outcomes.push(match removal.result {
                Ok(()) => print(removal.key.as_deref().unwrap_or_default()).await,
                Err(error) => Err(error.into()),
            });
        }
        outcomes
    }

    /// Removes single objects.
    async fn remove_each(
        &self,
        stores: &Stores,
        locations: impl Stream<Item = Outcome<Location>>,
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        let removals = locations
            .map(|location| async { self.remove_one(&stores.object(&location?).await?, lines).await });
        self.tally(removals.buffered(IN_FLIGHT)).await
    }

    /// Counts removals, and prints each failure. Stops at one that concerns every object.
    async fn tally(&self, removals: impl Stream<Item = Outcome>) -> Outcome {
        let mut tally = Tally::default();
        let mut last: Option<CommandFailure> = None;
        let mut is_one_cause = true;
        let mut removals = std::pin::pin!(removals);
        while let Some(removal) = removals.next().await {
            let Err(failure) = removal else {
                tally.removed += 1;
                continue;
            };
            if matches!(failure, CommandFailure::NobodyReads | CommandFailure::Interrupted(_)) {
                return Err(failure);
            }
            tally.failed += 1;
            // Such a cause concerns every other object: the credentials, the bucket, or the clock.
            if matches!(&failure, CommandFailure::Store(error) if error.kind() != ErrorKind::NoBucket)
                && failure.reach() == Reach::All
            {
                let removed = tally.removed;
                return Err(match (removed, failure.sentence()) {
                    (1.., Some(why)) => {
                        let removed = text::count(removed, "object");
                        CommandFailure::Failed(format!("removed {removed}, then stopped: {why}"))
                    }
                    _ => failure,
                });
            }
            if let Some(before) = last.replace(failure) {
                is_one_cause &= Some(before.code()) == last.as_ref().map(CommandFailure::code);
                output::fail(&before);
            }
        }
        // Nothing was removed, and all failures have one cause: exit with the cause's code.
        match last {
            Some(failure) if tally.removed == 0 && is_one_cause => Err(failure),
            Some(failure) => {
                output::fail(&failure);
                tally.outcome(self.dry_run, "")
            }
            None => tally.outcome(self.dry_run, ""),
        }
    }

    /// Removes one object; a missing one is a failure.
    async fn remove_one(&self, place: &ObjectPlace, lines: &Mutex<ObjectLines>) -> Outcome {
        refuse_missing(place).await?;
        if !self.dry_run {
            place.store.delete(&place.key).await?;
        }
        lines.lock().await.print(&RemoveLine { url: &place.url(), dry_run: self.dry_run }).await
    }

    /// Removes everything below each of the locations.
    async fn remove_trees(
        &self,
        stores: &Stores,
        sources: &[SourceArgument],
        filter: &ObjectFilter,
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        let mut all = Tally::default();
        let mut last = None;
        for source in sources {
            let mut tally = Tally::default();
            let is_single = source.pattern.is_none() && (!self.recursive || is_entry(&source.location));
            let ended = if is_single {
                // A file is removed as by `rm -r`. For a link, only the link is removed: its target is not below it.
                let place = stores.object(&source.location).await;
                async { self.remove_one(&place?, lines).await }.await.map(|()| tally.removed += 1)
            } else {
                self.remove_tree(stores, source, filter, &mut tally, lines).await
            };
            let below = match &source.pattern {
                _ if is_single => String::new(),
                None => format!(" below {}", source.location),
                Some(_) => format!(" of {}", source.text()),
            };
            all.removed += tally.removed;
            all.failed += tally.failed;
            let ended = ended.and_then(|()| tally.outcome(self.dry_run, &below));
            match ended {
                Ok(()) => {}
                Err(failure @ (CommandFailure::NobodyReads | CommandFailure::Interrupted(_))) => {
                    return Err(failure);
                }
                Err(failure) => {
                    last.replace(failure).iter().for_each(output::fail);
                }
            }
        }
        match last {
            None => Ok(()),
            // If nothing was done, the failure's own exit code says why. Otherwise the code is that of a partial
            // failure.
            Some(failure) if all.removed + all.failed == 0 => Err(failure),
            Some(failure) => Err(CommandFailure::Failed(failure.sentence().unwrap_or_default())),
        }
    }

    async fn remove_tree(
        &self,
        stores: &Stores,
        source: &SourceArgument,
        filter: &ObjectFilter,
        tally: &mut Tally,
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        refuse_through_link(&source.location)?;
        let (store, prefix) = stores.tree(&source.location).await?;
        let tree = RemovedTree { store, prefix, source, selection: source.selection(filter) };
        let lines = &mut *lines.lock().await;
        if self.dry_run { tree.show(tally, lines).await } else { tree.remove(stores, tally, lines).await }
    }
}

impl Tally {
    /// Prints how many objects were removed if all were; fails if some were not.
    fn outcome(&self, dry_run: bool, below: &str) -> Outcome {
        let Self { removed, failed } = *self;
        let done = if dry_run { "would remove" } else { "removed" };
        if failed == 0 {
            if !below.is_empty() {
                output::say(&format!("{done} {}{}", text::count(removed, "object"), printable(below)));
            }
            return Ok(());
        }
        let all = text::count(removed + failed, "object");
        Err(CommandFailure::Failed(format!("{done} {removed} of {all}{}", printable(below))))
    }
}

/// The place of a name of a list: below a tree, or, without one, where the whole URL or path says.
async fn place_of(
    stores: &Stores,
    below: Option<&(Store, String)>,
    name: Outcome<String>,
) -> Outcome<ObjectPlace> {
    let name = name?;
    match below {
        None => stores.object(&name.parse()?).await,
        Some((store, prefix)) => {
            let key = format!("{prefix}{}", name.strip_prefix("./").unwrap_or(&name));
            Ok(ObjectPlace::named(store.clone(), key))
        }
    }
}

/// A bucket or a directory is removed with -r only.
fn refuse_trees(location: &Location) -> Outcome {
    let is_tree = match location {
        // A link to a directory counts as a link, unless its name ends with a slash: then it means the directory.
        Location::Local { path } => path.symlink_metadata().is_ok_and(|found| found.is_dir()),
        _ => location.in_store().is_some_and(|(_, _, key)| key.is_empty()),
    };
    if is_tree {
        let location = location.to_string();
        let message =
            format!("{}: this is no object: add -r to remove all that lies below", printable(&location));
        return Err(CommandFailure::Usage(message));
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
fn refuse_through_link(location: &Location) -> Outcome {
    let Location::Local { path } = location else { return Ok(()) };
    if !path.components().collect::<PathBuf>().is_symlink() {
        return Ok(());
    }
    let location = location.to_string();
    Err(CommandFailure::Usage(format!(
        "{}: this is a symbolic link: name the directory that it leads to, or remove the link by its name without a slash",
        printable(&location)
    )))
}

/// Fails if there is no object at `place`.
///
/// If the store does not let the caller describe the object, the removal itself decides: the right to remove does not
/// include the right to read, and objects with a customer's key are described only with that key.
async fn refuse_missing(place: &ObjectPlace) -> Outcome {
    if place.is_local() {
        // Check the path, not the object: a link that leads nowhere exists, and is removed.
        let path = place.file()?;
        let found = tokio::fs::symlink_metadata(&path).await;
        return found.map(drop).map_err(|error| CommandFailure::of_file(&path, &error));
    }
    let error = match place.store.head(&place.key).await {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::NotFound if place.key.ends_with('/') => Err(CommandFailure::nothing_at(
            &place.url(),
            "there is no such object; add -r to remove all that lies below",
        )),
        ErrorKind::NotFound => Err(CommandFailure::nothing_at(&place.url(), "there is no such object")),
        ErrorKind::PermissionDenied => Ok(()),
        ErrorKind::InvalidInput if error.attempts() > 0 => Ok(()),
        _ => Err(error.into()),
    }
}

fn is_local(location: &Location) -> bool {
    matches!(location, Location::Local { .. })
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
        let path = directory.path().join("file");
        for (recursive, dry_run) in [(false, true), (true, true), (true, false)] {
            std::fs::write(&path, "x").unwrap();
            let objects = vec![path.to_str().unwrap().to_owned()];
            let (spread, connection) = (PrefixedOption::default(), ConnectionOptions::default());
            RmArgs {
                objects,
                recursive,
                dry_run,
                names: NamesOption::default(),
                pattern: PatternOption::default(),
                filter: FilterOptions::default(),
                spread,
                connection,
            }
            .run(&Invocation::default())
            .await
            .unwrap();
            assert_eq!(path.exists(), dry_run, "{recursive}");
        }
    }

    #[test]
    fn a_part_that_failed_is_told_with_the_whole() {
        let tally = Tally { removed: 900, failed: 1 };
        let failure = tally.outcome(false, " below s3://b/x/").unwrap_err();
        assert_eq!(failure.sentence().unwrap(), "removed 900 of 901 objects below s3://b/x/");
        assert!(Tally { removed: 2, failed: 0 }.outcome(false, " below x").is_ok());
    }
}
