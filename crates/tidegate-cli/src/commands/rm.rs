//! `tidegate rm`: removes objects.

use std::path::PathBuf;

use futures::{StreamExt, stream};
use tidegate::backend::Entry;
use tidegate::location::Location;
use tidegate::text::printable;
use tidegate::{ErrorKind, Store};
use tokio::sync::Mutex;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::lines::{ObjectLines, RemoveLine};
use crate::options::ConnectionOptions;
use crate::removal::{self, Removal};
use crate::spread::PrefixedOption;
use crate::stores::{ObjectPlace, Stores};
use crate::{listing, output, text};

/// The most removals in flight.
const IN_FLIGHT: usize = 64;

/// Remove objects. After a failure, prints an error and continues; a missing object is a failure.
///
/// Each object is looked up (HEAD) before it is removed, because stores report success for the removal of a missing
/// object. Patterns are not expanded.
#[derive(Debug, clap::Args)]
pub(crate) struct RmArgs {
    /// Objects to remove. With -r, everything below each URL.
    #[arg(required = true, value_name = "URL")]
    objects: Vec<String>,

    /// Remove everything below URL/.
    #[arg(short, long)]
    recursive: bool,

    /// Print which objects would be removed, one per line, and remove nothing.
    #[arg(long)]
    dry_run: bool,

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
        let locations: Vec<Location> =
            self.objects.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        if !self.recursive {
            locations.iter().try_for_each(refuse_trees)?;
        }
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            self.spread.open(stores, &locations.iter().collect::<Vec<_>>()).await?;
            let lines = if self.dry_run { ObjectLines::of_dry_run } else { ObjectLines::of };
            let lines = Mutex::new(lines(invocation)?);
            let removed = if self.recursive {
                self.remove_trees(stores, &locations, &lines).await
            } else {
                self.remove_each(stores, &locations, &lines).await
            };
            // The lines of objects that were removed before an error are printed all the same.
            lines.into_inner().finish().await?;
            removed
        })
        .await
    }

    /// Removes single objects.
    async fn remove_each(
        &self,
        stores: &Stores,
        locations: &[Location],
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        let mut tally = Tally::default();
        let mut failures = Vec::new();
        let removals = locations.iter().map(|location| self.remove_one(stores, location, lines));
        let mut removals = std::pin::pin!(stream::iter(removals).buffered(IN_FLIGHT));
        while let Some(removal) = removals.next().await {
            match removal {
                Ok(()) => tally.removed += 1,
                Err(failure) => failures.push(failure),
            }
        }
        tally.failed = failures.len() as u64;
        let is_one_cause = failures.windows(2).all(|pair| pair[0].code() == pair[1].code());
        // Nothing was removed, and all failures have one cause: exit with the cause's code.
        let last = if tally.removed == 0 && is_one_cause { failures.pop() } else { None };
        failures.iter().for_each(output::fail);
        last.map_or_else(|| tally.outcome(self.dry_run, ""), Err)
    }

    /// Removes one object; a missing one is a failure.
    async fn remove_one(&self, stores: &Stores, location: &Location, lines: &Mutex<ObjectLines>) -> Outcome {
        let place = stores.object(location).await?;
        refuse_missing(location, &place).await?;
        if !self.dry_run {
            place.store.delete(&place.key).await?;
        }
        lines.lock().await.print(&RemoveLine { url: &place.url(), dry_run: self.dry_run }).await
    }

    /// Removes everything below each of the locations.
    async fn remove_trees(
        &self,
        stores: &Stores,
        locations: &[Location],
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        let mut all = Tally::default();
        let mut last = None;
        for location in locations {
            let mut tally = Tally::default();
            let below = if is_entry(location) { String::new() } else { format!(" below {location}") };
            let ended = self.remove_tree(stores, location, &mut tally, lines).await;
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
        location: &Location,
        tally: &mut Tally,
        lines: &Mutex<ObjectLines>,
    ) -> Outcome {
        if is_entry(location) {
            // A file is removed as by `rm -r`. For a link, only the link is removed: its target is not below it.
            self.remove_one(stores, location, lines).await?;
            tally.removed += 1;
            return Ok(());
        }
        refuse_through_link(location)?;
        let (store, prefix) = stores.tree(location).await?;
        let lines = &mut *lines.lock().await;
        if self.dry_run {
            return show_below(&store, &prefix, location, tally, lines).await;
        }
        remove_below(stores, &store, &prefix, location, tally, lines).await
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
async fn refuse_missing(location: &Location, place: &ObjectPlace) -> Outcome {
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
            location,
            "there is no such object; add -r to remove all that lies below",
        )),
        ErrorKind::NotFound => Err(CommandFailure::nothing_at(location, "there is no such object")),
        ErrorKind::PermissionDenied => Ok(()),
        ErrorKind::InvalidInput if error.attempts() > 0 => Ok(()),
        _ => Err(error.into()),
    }
}

/// The result if nothing lies below a prefix. An empty bucket or directory is fine.
fn refuse_nothing(location: &Location, prefix: &str) -> Outcome {
    if prefix.is_empty() {
        Ok(())
    } else {
        Err(CommandFailure::nothing_at(location, "there is no object below it"))
    }
}

/// Prints the objects below `prefix`.
async fn show_below(
    store: &Store,
    prefix: &str,
    location: &Location,
    tally: &mut Tally,
    lines: &mut ObjectLines,
) -> Outcome {
    let mut entries = std::pin::pin!(listing::ahead(store.list(prefix)));
    let root = store.location();
    let mut failed = None;
    while let Some(entry) = entries.next().await {
        match entry {
            Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => {
                let url = format!("{root}/{}", entry.key());
                lines.print(&RemoveLine { url: &url, dry_run: true }).await?;
                tally.removed += 1;
            }
            Ok(_) => {}
            Err(error) => {
                failed.replace(CommandFailure::from(error)).iter().for_each(output::fail);
            }
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None if tally.removed == 0 => refuse_nothing(location, prefix),
        None => Ok(()),
    }
}

/// Removes the objects below `prefix`. Continues after a failure, unless every other removal would fail for the same
/// cause.
async fn remove_below(
    stores: &Stores,
    store: &Store,
    prefix: &str,
    location: &Location,
    tally: &mut Tally,
    lines: &mut ObjectLines,
) -> Outcome {
    let listed = listing::ahead(store.list(prefix)).filter_map(|entry| async {
        match entry {
            // `Entry::Other` in a local directory: links, which are removed and not followed, devices, pipes and sockets.
            Ok(entry @ (Entry::Object(_) | Entry::Other { .. })) => Some(Ok(entry.key().to_owned())),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    });
    let Removal { removed, failed, stopped } =
        removal::remove(stores.tide(), store, is_local(location), listed, lines).await?;
    tally.removed += removed;
    tally.failed += failed;
    match stopped {
        None if tally.removed + tally.failed == 0 => refuse_nothing(location, prefix),
        None => Ok(()),
        Some(failure) if tally.removed == 0 => {
            // Nothing was removed, so exit with the cause's code.
            tally.failed = 0;
            Err(failure)
        }
        Some(failure) => {
            let (removed, all) = (tally.removed, tally.removed + tally.failed);
            let why = failure.sentence().unwrap_or_default();
            let location = location.to_string();
            let below = printable(&location);
            Err(CommandFailure::Failed(format!(
                "removed {removed} of {all} objects below {below}, then stopped: {why}"
            )))
        }
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
            RmArgs { objects, recursive, dry_run, spread, connection }
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
