//! The engine of a command, and the stores that its locations name.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tidegate::backend::{BucketEntry, Session};
use tidegate::location::Location;
use tidegate::upload::Unsettled;
use tidegate::{Error, Store, Tidegate, TidegateBuilder};
use tidegate_transfer::{LinkRules, OpenStore, Place, Tree};

use crate::dev::{self, Dev, DevScheme};
use crate::exit::{CommandFailure, Outcome};
use crate::interrupt::Signals;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::spread::PrefixedRoot;
use crate::{output, text};

mod accounts;
mod shared;

pub(crate) use shared::SharedEngine;

/// How long aborting sessions may take after a signal: the process must end within two seconds.
const ABORTING: Duration = Duration::from_millis(1200);
/// How long the embedded server may take to end after that.
const STOPPING: Duration = Duration::from_millis(200);
/// The most uploads that are named one by one in the last message.
const NAMED: usize = 20;

/// The engine of a command, and its stores.
#[derive(Debug)]
pub(crate) struct Stores {
    opener: Opener,
    unfinished: UnfinishedUploads,
    /// The stores of the source, if they have settings of their own.
    source: OnceLock<Box<Stores>>,
    /// Whether other commands use the same engine at the same time.
    is_shared: bool,
}

/// Opens stores by all the ways that a command knows: profiles, the embedded server, roots with spread keys.
#[derive(Clone, Debug)]
struct Opener {
    tide: Tidegate,
    /// The settings that `tide` reaches stores by.
    settings: TidegateBuilder,
    dev: DevScheme,
    /// The root whose keys are spread over prefixes, if any.
    root: Arc<OnceLock<PrefixedRoot>>,
}

impl Opener {
    /// The store of `location`, which is no local path, and its key exactly as written.
    async fn bucket(&self, location: &Location) -> Outcome<(Store, String)> {
        if let Some(found) = self.root.get().and_then(|root| root.find(location)) {
            return Ok(found);
        }
        let Some((scheme, bucket, key)) = location.in_store() else {
            return Err(CommandFailure::Usage(format!("{location}: this is no URL of a store")));
        };
        self.start_dev(scheme).await?;
        let tide = self.reached_by(location.profile());
        Ok((tide.open(format!("{scheme}://{bucket}")).await?, key.to_owned()))
    }

    /// Starts the embedded server if `scheme` is its scheme, unless it was started before.
    async fn start_dev(&self, scheme: &str) -> Outcome {
        if scheme == "dev" { self.dev.start().await } else { Ok(()) }
    }
}

impl OpenStore for Opener {
    fn open<'a>(
        &'a self,
        location: &'a Location,
    ) -> BoxFuture<'a, tidegate_transfer::Result<(Store, String)>> {
        Box::pin(async move { Ok(self.bucket(location).await?) })
    }
}

/// How many uploads are unfinished. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnfinishedUploads {
    /// Uploads that are aborted when their writer is dropped.
    bound: Arc<AtomicUsize>,
    /// Uploads that stay in a journal.
    journaled: Arc<AtomicUsize>,
}

impl UnfinishedUploads {
    /// Counts one more unfinished upload, until the guard is dropped.
    pub(crate) fn begin(&self, is_journaled: bool) -> Begun {
        let count = if is_journaled { &self.journaled } else { &self.bound };
        count.fetch_add(1, Relaxed);
        Begun(count.clone())
    }

    /// The message after an interruption; `in_journals` is how many bytes the journals hold. Downloads can be counted
    /// only when they have ended, so [`kept`] reports those.
    fn interrupted(&self, in_journals: u64) -> String {
        let count = |count: &AtomicUsize| count.load(Relaxed) as u64;
        match (count(&self.bound), count(&self.journaled)) {
            (0, journaled) if journaled > 0 && in_journals > 0 => {
                let uploads = text::count(journaled, "unfinished upload");
                format!("interrupted: {uploads} in the journal; run the same command again to resume")
            }
            // An upload that has taken no byte leaves no journal, and nothing to abort.
            (0, _) => "interrupted".to_owned(),
            (bound, _) => format!("interrupted: aborting {}", text::count(bound, "unfinished upload")),
        }
    }
}

/// Counts an unfinished upload until it is dropped.
#[derive(Debug)]
pub(crate) struct Begun(Arc<AtomicUsize>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Stores {
    /// Does `work` with an engine of default settings and this connection.
    pub(crate) async fn with_defaults(
        invocation: &Invocation,
        connection: &ConnectionOptions,
        work: impl AsyncFnOnce(&Self) -> Outcome,
    ) -> Outcome {
        Self::with(invocation, connection.reached(Tidegate::builder()), work).await
    }

    /// Does `work` with an engine; with that of `tidegate run`, if the command is one of its lines. However `work`
    /// ends, this waits until the unfinished uploads are aborted. After a signal it waits at most `ABORTING`; a signal
    /// during the wait ends it. Uploads that may be left are named.
    pub(crate) async fn with(
        invocation: &Invocation,
        engine: TidegateBuilder,
        work: impl AsyncFnOnce(&Self) -> Outcome,
    ) -> Outcome {
        if let Some(shared) = invocation.engine() {
            return work(&shared.stores(engine)).await;
        }
        let mut signals = Signals::new();
        let engine = match records() {
            Some(directory) => engine.records(directory),
            None => engine,
        };
        let dev = DevScheme::default();
        let engine = engine.scheme("dev", dev.clone());
        let stores = Self {
            opener: Opener { tide: engine.clone().build()?, settings: engine, dev, root: Arc::default() },
            unfinished: UnfinishedUploads::default(),
            source: OnceLock::new(),
            is_shared: false,
        };
        let tide = stores.tide().clone();
        signals.last_words(Some(Arc::new(move || say_left_behind(&tide.unsettled()))));
        let outcome = {
            let mut work = std::pin::pin!(work(&stores));
            tokio::select! {
                outcome = &mut work => Ok(outcome),
                signal = signals.next() => {
                    let in_journals = stores.tide().progress().snapshot().journaled;
                    Err((signal, stores.unfinished.interrupted(in_journals)))
                }
            }
        }; // dropping the work drops every writer, which begins the aborts
        let outcome = match outcome {
            Ok(outcome) => tokio::select! {
                failed = stores.tide().settled() => {
                    let left: Vec<&str> = failed.iter().map(Error::object).collect();
                    if !left.is_empty() {
                        output::warn(&unaborted(&left));
                    }
                    outcome
                }
                signal = signals.next() => {
                    stores.say_what_is_left(&signals);
                    Err(CommandFailure::Interrupted(signal))
                }
            },
            Err((signal, said)) => {
                let progress = stores.tide().progress().snapshot();
                output::interrupted(signal, &(said + &kept(progress.kept, progress.kept_of)));
                // Whether the aborts finished or the time limit passed, the command ends and names what is left.
                let _ = tokio::time::timeout(ABORTING, stores.tide().settled()).await;
                stores.say_what_is_left(&signals);
                Err(CommandFailure::Interrupted(signal))
            }
        };
        if let Some(dev) = stores.opener.dev.started() {
            let stopped = dev.stop();
            match outcome {
                Err(CommandFailure::Interrupted(_)) => drop(tokio::time::timeout(STOPPING, stopped).await),
                _ => stopped.await,
            }
        }
        outcome
    }

    /// Prints the uploads whose end is uncertain, and makes sure that the signal thread does not print them again.
    fn say_what_is_left(&self, signals: &Signals) {
        signals.last_words(None);
        say_left_behind(&self.tide().unsettled());
    }

    pub(crate) fn tide(&self) -> &Tidegate {
        &self.opener.tide
    }

    /// From here on, finds keys below `root` where the layout of `root` puts them. Only the first call has an effect.
    pub(crate) fn spread(&self, root: PrefixedRoot) {
        self.opener.root.get_or_init(|| root);
    }

    pub(crate) fn unfinished(&self) -> &UnfinishedUploads {
        &self.unfinished
    }

    /// The stores of one side of an operation on trees.
    pub(crate) fn side(&self) -> tidegate_transfer::Stores {
        tidegate_transfer::Stores::new(self.tide(), Arc::new(self.opener.clone()))
    }

    /// The object that `location` names.
    pub(crate) async fn object(&self, location: &Location) -> Outcome<Place> {
        Ok(self.side().object_with(location, LinkRules::default()).await?)
    }

    /// The store and the key prefix of the tree that `location` names: a bucket, all keys below a key, or a
    /// directory. The prefix is empty or ends with a slash.
    pub(crate) async fn tree(&self, location: &Location) -> Outcome<(Store, String)> {
        Ok(self.side().tree_with(location, LinkRules::default()).await?)
    }

    /// The store whose root is `location`: a bucket, or all keys below a key.
    pub(crate) async fn root(&self, location: &Location) -> Outcome<Store> {
        let (store, prefix) = self.tree(location).await?;
        Ok(store.within(&prefix))
    }

    /// The store of `location`, and its key exactly as written.
    pub(crate) async fn bucket(&self, location: &Location) -> Outcome<(Store, String)> {
        match location {
            Location::Local { path } if path.is_dir() => Ok((self.directory(path), String::new())),
            Location::Local { .. } => {
                let place = self.object(location).await?;
                Ok((place.store, place.key))
            }
            _ => self.opener.bucket(location).await,
        }
    }

    /// Lists the buckets of a scheme: `s3`, `gs` or `dev`.
    pub(crate) async fn buckets(
        &self,
        scheme: &str,
    ) -> Outcome<BoxStream<'static, tidegate::Result<BucketEntry>>> {
        self.opener.start_dev(scheme).await?;
        Ok(self.tide().buckets(scheme))
    }

    /// Creates the bucket that `location` names.
    pub(crate) async fn create_bucket(&self, location: &Location) -> Outcome {
        self.opener.start_dev(location.in_store().map_or("", |(scheme, ..)| scheme)).await?;
        let tide = self.opener.reached_by(location.profile());
        Ok(tide.create_bucket(location.clone().without_profile().to_string()).await?)
    }

    /// Removes the empty bucket that `location` names.
    pub(crate) async fn remove_bucket(&self, location: &Location) -> Outcome {
        self.opener.start_dev(location.in_store().map_or("", |(scheme, ..)| scheme)).await?;
        let tide = self.opener.reached_by(location.profile());
        Ok(tide.remove_bucket(location.clone().without_profile().to_string()).await?)
    }

    /// Whether the embedded server was started, by another process, so that it may outlive this command.
    pub(crate) fn dev_outlives_us(&self) -> bool {
        self.opener.dev.started().is_some_and(Dev::is_of_another_process)
    }

    fn directory(&self, path: &Path) -> Store {
        self.side().files(path, LinkRules::default())
    }

    /// The tree that `location` names, to be read or written as a whole.
    pub(crate) async fn whole_tree(&self, location: &Location) -> Outcome<Tree> {
        let (store, prefix) = self.tree(location).await?;
        let tree = match location {
            Location::Local { path } => Tree::directory(self.tide(), path),
            _ => Tree::new(&store, prefix),
        };
        let tree = tree.called(location.to_string()).without(&dev::directory());
        Ok(if matches!(location, Location::Dev { .. }) { tree.makes_bucket() } else { tree })
    }
}

/// The directory where processes of this user record their open sessions: `tidegate` in `XDG_STATE_HOME`, or in
/// `~/.local/state`.
fn records() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("tidegate"))
}

/// The message about interrupted downloads.
fn kept(bytes: u64, of: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(
            ": {} of {} kept; run the same command again to resume",
            text::size(bytes),
            text::size(of)
        ),
    }
}

/// The message about uploads that could not be aborted, and where to look for them.
fn unaborted(objects: &[&str]) -> String {
    let count = text::count(objects.len() as u64, "upload");
    let place = text::quoted(common(objects));
    format!("{count} could not be aborted and may hold parts: see `tidegate sessions ls {place}`")
}

/// Prints the uploads whose end is uncertain when the process must end.
fn say_left_behind(uploads: &[Unsettled]) {
    uploads.iter().take(NAMED).for_each(|upload| output::warn(&left(upload)));
    if uploads.len() > NAMED {
        output::warn(&format!("and {} more", uploads.len() - NAMED));
    }
    if uploads.iter().any(|upload| upload.session.is_some()) {
        let objects: Vec<&str> = uploads.iter().map(|upload| &*upload.object).collect();
        output::say(&format!("`tidegate sweep {}` ends what is left", text::quoted(common(&objects))));
    }
}

fn left(upload: &Unsettled) -> String {
    let Unsettled { object, session, may_be_there, .. } = upload;
    let session = session.clone().map(|id| Session { key: String::new(), id });
    let session = session.as_ref().map(Session::public_id);
    let published = "the request that publishes it was in flight, so the object may be there";
    match (session, may_be_there) {
        (Some(id), true) => format!("uncertain: {object}: {published} (upload id {id})"),
        (None, true) => format!("uncertain: {object}: {published}"),
        (Some(id), false) => format!("not aborted: {object} (upload id {id})"),
        (None, false) => format!("not aborted: {object}"),
    }
}

/// The one object, if all are the same; otherwise the longest common prefix that ends with a slash.
fn common<'a>(objects: &[&'a str]) -> &'a str {
    let [first, rest @ ..] = objects else { return "" };
    if rest.iter().all(|object| object == first) {
        return first;
    }
    let mut slashes = first.rmatch_indices('/').map(|(at, _)| &first[..=at]);
    slashes.find(|beginning| rest.iter().all(|object| object.starts_with(*beginning))).unwrap_or_default()
}

/// Fails if `location` is a local path and there is nothing at it. Commands that list by name prefix would find
/// nothing there, and could not distinguish a missing file from one that has nothing to show.
pub(crate) fn refuse_missing(location: &Location) -> Outcome {
    match location {
        Location::Local { path } if path.symlink_metadata().is_err() => {
            Err(CommandFailure::nothing_at(location, "no such file or directory"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_journal_is_not_said_to_be_aborted() {
        let unfinished = UnfinishedUploads::default();
        assert_eq!(unfinished.interrupted(0), "interrupted");
        let journaled = unfinished.begin(true);
        assert_eq!(unfinished.interrupted(0), "interrupted", "it has taken no byte");
        assert!(unfinished.interrupted(1).contains("1 unfinished upload in the journal"));
        drop(journaled);
        let _bound = unfinished.begin(false);
        assert_eq!(unfinished.interrupted(0), "interrupted: aborting 1 unfinished upload");
    }

    #[test]
    fn nothing_at_a_local_path_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let location = |name: &str| Location::Local { path: directory.path().join(name) };
        assert!(refuse_missing(&location("")).is_ok());
        assert_eq!(refuse_missing(&location("nowhere")).unwrap_err().code(), 3);
    }

    #[test]
    fn bytes_that_are_kept_are_said_to_be() {
        assert_eq!(kept(0, 0), "");
        let said = kept(60 << 20, 200 << 20);
        assert_eq!(said, ": 60.0 MiB of 200.0 MiB kept; run the same command again to resume");
    }

    #[test]
    fn what_could_not_be_aborted_is_named_as_far_as_it_is_one_place() {
        assert_eq!(common(&["s3://b/a/k"]), "s3://b/a/k");
        assert_eq!(common(&["s3://b/a/k", "s3://b/a/k"]), "s3://b/a/k");
        assert_eq!(common(&["s3://b/a/one", "s3://b/a/other"]), "s3://b/a/");
        assert_eq!(common(&["s3://b/é/1", "s3://b/ê/2", "s3://b/x"]), "s3://b/");
        let said = unaborted(&["s3://b/1", "s3://b/2"]);
        assert!(said.starts_with("2 uploads could not") && said.ends_with("ls s3://b/`"), "{said}");
    }
}
