//! Copies or moves objects: single ones, trees, patterns, lists of names, and streams.

use std::fmt;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tidegate::location::Location;
use tidegate::{Attributes, Strategy};
use tokio::io::AsyncRead;

use crate::command::{ExternalCommand, Producer, Whole};
use crate::error::{Error, Result};
use crate::event::{Event, Events, Failure, Report};
use crate::links::{FileOptions, Links};
use crate::place::Stores;
use crate::planted::{Planted, Plants};
use crate::run::Run;
use crate::select::{ObjectFilter, Source};
use crate::two_addresses::Distinct;

mod carried;
mod check;
pub(crate) mod copies;
mod distinct;
mod download;
pub(crate) mod emptied;
pub(crate) mod item;
pub(crate) mod job;
pub mod journaled;
pub(crate) mod link;
pub mod naming;
mod opened;
mod sources;
mod taken_paths;
mod upload;
mod verify;

use copies::CopyOutcome;
use distinct::DistinctTargets;
use emptied::EmptiedDirectories;
use item::{CopyItem, ItemSource};
pub use job::{AfterCopy, IfExists};
use job::{CopyJob, CopyWriteSettings, Sides};
use link::DeferredLinks;
#[doc(hidden)]
pub(crate) use opened::OpenedFile;
use sources::CopyTarget;
use taken_paths::{Paths, TakenPaths};

/// What is copied.
enum CopySources {
    /// Objects, trees, patterns.
    Named(Vec<Source>),
    /// What a list names: below the source, or, without one, each by its whole URL or path.
    Listed(Option<Source>, NameList),
    /// All bytes of a stream.
    Input(String, Box<dyn Producer>),
    /// What a program writes.
    Command(ExternalCommand),
    /// A file, by the name that people call it.
    File(String, PathBuf),
}

impl fmt::Debug for CopySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(sources) => f.debug_tuple("Named").field(sources).finish(),
            Self::Listed(below, names) => f.debug_tuple("Listed").field(below).field(&names.from).finish(),
            Self::Input(name, _) => f.debug_tuple("Input").field(name).finish(),
            Self::Command(command) => f.debug_tuple("Command").field(command).finish(),
            Self::File(name, path) => f.debug_tuple("File").field(name).field(path).finish(),
        }
    }
}

/// Names of objects, and where they come from. A name that cannot be read is one failure.
pub struct NameList {
    /// What people call the list, such as its file.
    pub from: String,
    /// The names.
    pub names: BoxStream<'static, Result<String>>,
}

impl fmt::Debug for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameList").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Copies or moves objects. Configure it, then [`start`](Self::start) it for its events, or await it for its report.
///
/// The names of the copies follow from those of the sources: below a target that is a directory or ends with a slash, an
/// object keeps its name, and a tree its own, unless the tree is written with a slash at its end.
///
/// A source of a move is removed when its copy is complete and the store has confirmed it, and only if the source has
/// not changed since it was listed. However a move ends, every object is at its source, at its target, or at both.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate_transfer::{CopyTrees, Source};
/// # let tide = tidegate::Tidegate::builder().build()?;
/// # tide.open("memory://bucket").await?.put("a/x", "1").await?;
/// let source = Source::parse("memory://bucket/a/".as_ref(), Default::default(), true)?;
/// let report = CopyTrees::new(&tide, [source], "memory://bucket/b/".parse()?).recursive(true).await?;
/// assert_eq!(report.copied, 1);
/// # Ok::<(), tidegate_transfer::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Run`]. If there is a single source that is no tree, its own failure is the error.
#[derive(Debug)]
#[must_use = "a copy does nothing unless it is started or awaited"]
pub struct CopyTrees {
    sources: CopySources,
    target: Location,
    stores: Sides,
    is_recursive: bool,
    after: AfterCopy,
    if_exists: IfExists,
    is_dry_run: bool,
    fsync: bool,
    filter: ObjectFilter,
    files: FileOptions,
    attributes: Attributes,
    strategy: Strategy,
    journals: Vec<PathBuf>,
    expect_size: Option<u64>,
    distinct: Distinct,
    except: Vec<PathBuf>,
    verifies: bool,
    asks_size: bool,
    open_files: usize,
    plants: Plants,
}

impl CopyTrees {
    /// Copies these sources to `target`.
    pub fn new(
        stores: impl Into<Stores>,
        sources: impl IntoIterator<Item = Source>,
        target: Location,
    ) -> Self {
        Self::of(stores.into(), CopySources::Named(sources.into_iter().collect()), target)
    }

    /// Copies the objects that a list names: below `source`, or, without one, each by its whole URL or path.
    pub fn listed(
        stores: impl Into<Stores>,
        source: Option<Source>,
        names: NameList,
        target: Location,
    ) -> Self {
        Self::of(stores.into(), CopySources::Listed(source, names), target)
    }

    /// Uploads all bytes of a stream, which people call `name`, to the object `target`.
    pub fn input(
        stores: impl Into<Stores>,
        name: impl Into<String>,
        input: impl AsyncRead + Send + Unpin + 'static,
        target: Location,
    ) -> Self {
        Self::produced(stores, name, Whole(input), target)
    }

    /// Runs a program, and uploads what it writes to its standard output; see [`ExternalCommand::produce`]. The object is
    /// published only if the program succeeds; otherwise the error is [`Error::Command`].
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use tidegate_transfer::CopyTrees;
    /// use tidegate_transfer::command::ExternalCommand;
    /// # let tide = tidegate::Tidegate::builder().build()?;
    /// let dump = ExternalCommand::new("sh", ["-c", "echo half of it; exit 1"]);
    /// assert!(CopyTrees::command(&tide, dump, "memory://b/dump.sql".parse()?).await.is_err());
    /// assert!(!tide.open("memory://b").await?.exists("dump.sql").await?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn command(stores: impl Into<Stores>, command: ExternalCommand, target: Location) -> Self {
        Self::of(stores.into(), CopySources::Command(command), target)
    }

    /// Uploads all bytes of a source that knows whether they are whole. It is published only if they are.
    pub fn produced(
        stores: impl Into<Stores>,
        name: impl Into<String>,
        source: impl Producer + 'static,
        target: Location,
    ) -> Self {
        Self::of(stores.into(), CopySources::Input(name.into(), Box::new(source)), target)
    }

    /// Uploads one file, which people call `name`: standard input, where that is a file.
    pub fn named_file(
        stores: impl Into<Stores>,
        name: impl Into<String>,
        file: impl Into<PathBuf>,
        target: Location,
    ) -> Self {
        Self::of(stores.into(), CopySources::File(name.into(), file.into()), target)
    }

    fn of(stores: Stores, sources: CopySources, target: Location) -> Self {
        Self {
            sources,
            target,
            stores: Sides { source: stores.clone(), target: stores, are_apart: false },
            is_recursive: false,
            after: AfterCopy::Keep,
            if_exists: IfExists::Replace,
            is_dry_run: false,
            fsync: false,
            filter: ObjectFilter::default(),
            files: FileOptions::default(),
            attributes: Attributes::default(),
            strategy: Strategy::Auto,
            journals: Vec::new(),
            expect_size: None,
            distinct: Distinct::Proven,
            except: Vec::new(),
            verifies: false,
            asks_size: false,
            open_files: open_files(),
            plants: Plants::default(),
        }
    }

    /// Opens the sources by stores of their own: another account.
    pub fn source_stores(mut self, stores: impl Into<Stores>) -> Self {
        self.stores.source = stores.into();
        self.stores.are_apart = true;
        self
    }

    /// Takes everything below a directory or prefix, and below the matches of a pattern.
    pub fn recursive(self, is_recursive: bool) -> Self {
        Self { is_recursive, ..self }
    }

    /// What becomes of each source when its copy is complete. Default: it is kept.
    pub fn after(self, after: AfterCopy) -> Self {
        Self { after, ..self }
    }

    /// What is done if the target exists. Default: it is replaced.
    pub fn if_exists(self, if_exists: IfExists) -> Self {
        Self { if_exists, ..self }
    }

    /// Changes nothing: events say what would be done.
    pub fn dry_run(self, is_dry_run: bool) -> Self {
        Self { is_dry_run, ..self }
    }

    /// Forces downloaded files, and their names, to disk. A move always does.
    pub fn fsync(self, fsync: bool) -> Self {
        Self { fsync, ..self }
    }

    /// Takes some of the objects only: of a tree or pattern by their keys below it, of those that are named one by one by
    /// the last name of their key.
    pub fn filter(self, filter: ObjectFilter) -> Self {
        Self { filter, ..self }
    }

    /// What is kept of files, and what becomes of links.
    pub fn files(self, files: FileOptions) -> Self {
        Self { files, ..self }
    }

    /// The attributes of the copies; those of a source object that are not set here are carried over.
    pub fn attributes(self, attributes: Attributes) -> Self {
        Self { attributes, ..self }
    }

    /// How bytes travel. Default: [`Strategy::Auto`].
    pub fn strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// The journal directories of the engine, which are not copied.
    pub fn journals(self, journals: Vec<PathBuf>) -> Self {
        Self { journals, ..self }
    }

    /// Publishes nothing unless the one source has exactly this many bytes.
    pub fn expect_size(self, bytes: Option<u64>) -> Self {
        Self { expect_size: bytes, ..self }
    }

    /// Whether a bucket of the same name behind another address is taken for another place without a proof.
    pub fn distinct(self, distinct: Distinct) -> Self {
        Self { distinct, ..self }
    }

    /// Never reads what lies below a directory, by whatever path.
    pub fn without(mut self, directory: &Path) -> Self {
        self.except.extend(directory.canonicalize());
        self
    }

    /// Reads each object back after it was written, and compares it.
    pub fn verify(self, verifies: bool) -> Self {
        Self { verifies, ..self }
    }

    /// Asks for the size of a single object first, so that [`Event::Started`] has it. Takes one request more.
    pub fn ask_size(self, asks_size: bool) -> Self {
        Self { asks_size, ..self }
    }

    /// How many files the operation may have open. Default: the process's limit.
    pub fn open_files(self, most: usize) -> Self {
        Self { open_files: most, ..self }
    }

    /// Plants a bug, which a test then finds.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    pub fn planted(self, bug: Option<Planted>) -> Self {
        Self { plants: Plants::of(bug), ..self }
    }

    /// The operation as a stream of events. Nothing is done before the first event is asked for.
    pub fn start(self) -> Run {
        let events = Events::new(self.stores.target.tide());
        Run::new(events.clone(), self.work(events))
    }

    async fn work(self, events: Events) -> Result {
        self.check()?;
        // A move to disk removes the source, so the file must survive a loss of power first.
        let fsync = self.fsync || self.after == AfterCopy::Remove;
        let writing =
            CopyWriteSettings::new(self.strategy, self.if_exists, fsync, self.expect_size, self.attributes)
                .with_files(self.files)
                .then(self.after);
        let job = CopyJob {
            stores: self.stores,
            writing,
            events,
            journals: self.journals,
            except: self.except,
            open_files: self.open_files,
            verifies: self.verifies,
            is_dry_run: self.is_dry_run,
            links: DeferredLinks::default(),
            emptied: EmptiedDirectories::default(),
            distinct: self.distinct,
            plants: self.plants,
        };
        let copied = match self.sources {
            CopySources::Input(source, _) | CopySources::File(source, _) if job.is_dry_run => {
                let target = self.target.to_string();
                job.events.push(Event::WouldCopy { source, target, bytes: None });
                Ok(())
            }
            CopySources::Command(command) if job.is_dry_run => {
                let (source, target) = (command.name(), self.target.to_string());
                job.events.push(Event::WouldCopy { source, target, bytes: None });
                Ok(())
            }
            CopySources::Command(command) => {
                upload::input(&job, &command.name(), &mut command.produce()?, &self.target).await
            }
            CopySources::Input(name, mut input) => {
                upload::input(&job, &name, &mut *input, &self.target).await
            }
            CopySources::File(name, path) => {
                let to = job.stores.target.object(&self.target).await?;
                to.refuse_directory().await?;
                upload::path(&job, name, &path, &to).await
            }
            CopySources::Named(sources) => match &sources[..] {
                [source]
                    if is_single(source, self.is_recursive)
                        && self.filter.is_everything()
                        && !names_link(&source.location, self.files.links) =>
                {
                    copy_one(&job, &source.location, &self.target, self.asks_size).await
                }
                _ => copy_many(&job, &sources, None, &self.target, self.is_recursive, &self.filter).await,
            },
            CopySources::Listed(source, names) => {
                let sources: Vec<Source> = source.into_iter().collect();
                copy_many(&job, &sources, Some(names), &self.target, false, &self.filter).await
            }
        };
        job.report_left_out();
        copied
    }
}

impl IntoFuture for CopyTrees {
    type Output = Result<Report>;
    type IntoFuture = BoxFuture<'static, Result<Report>>;

    fn into_future(self) -> Self::IntoFuture {
        IntoFuture::into_future(self.start())
    }
}

/// How many files this process may have open.
pub(crate) fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX)
}

/// Whether a source is one object, and no listing is needed to find it.
pub fn is_single(source: &Source, is_recursive: bool) -> bool {
    let is_tree = is_directory(&source.location) || is_recursive && !is_local(&source.location);
    source.pattern.is_none() && !is_tree
}

/// Whether the location is that of a symbolic link that is copied as one.
fn names_link(location: &Location, links: Links) -> bool {
    // A name that a file has, too, is refused later.
    matches!(location, Location::Local { path } if links == Links::Preserve && !matches!(link::named(path), Ok(None)))
}

async fn copy_many(
    job: &CopyJob,
    places: &[Source],
    listed: Option<NameList>,
    target: &Location,
    is_recursive: bool,
    filter: &ObjectFilter,
) -> Result {
    let source_label = match (places, &listed) {
        ([source], _) => source.text().to_owned(),
        ([], Some(listed)) => listed.from.clone(),
        (sources, _) => format!("{} sources", sources.len()),
    };
    let is_listed = listed.is_some();
    let found = match listed {
        Some(listed) => sources::find_listed(job, places.first(), listed, target).await?,
        None => sources::find(job, places, target, is_recursive, filter).await?,
    };
    job.events.push(Event::Trees { source: source_label, target: found.target });
    // Of one source, no two objects have the same target, unless one is a link or links are followed.
    let makes_links = job.writing.links() == Links::Preserve && is_local(target);
    // Two names of a target with links may be one file.
    let follows = job.writing.links() == Links::Follow && is_local(target);
    let is_one_tree = places.len() == 1 && !is_listed && !makes_links && !follows
        || job.plants.has(Planted::ReplacedSource);
    let mut distinct =
        (!is_one_tree).then(|| DistinctTargets::new(found.named, found.trees, job.writing.links()));
    // Below one directory of this machine, no name is both.
    let is_directory = !is_listed && matches!(places, [source] if is_local(&source.location));
    let is_in_order = places.len() == 1
        && !is_listed
        && !makes_links
        && found.stores.iter().all(tidegate::Store::lists_in_key_order);
    let paths = match is_in_order {
        _ if is_directory => Paths::OfDirectory,
        true => Paths::InOrder(Vec::new()),
        false => Paths::any(),
    };
    let mut paths = is_local(target).then(|| TakenPaths::new(paths, job.writing.links(), !job.is_dry_run));
    let items = found.items.map(|found| match &mut distinct {
        Some(distinct) => distinct.checked(found),
        None => found,
    });
    let items = items.map(|found| match &mut paths {
        Some(paths) => paths.checked(found),
        None => found,
    });
    let items = items.map(|found| {
        Box::pin(async move {
            match found {
                Ok(item) => item::copy(job, item).await,
                Err(outcome) => outcome,
            }
        })
    });
    copies::all(job, &Vec::from_iter(&found.stores), items).await?;
    link::copy_deferred(job, |link| paths.as_mut().map_or(Ok(()), |paths| paths.take(link))).await?;
    if is_recursive {
        for source in places {
            job.emptied.remove(&source.location, source.pattern.is_some()).await?;
        }
        job.emptied.remove_named().await?;
    }
    Ok(())
}

/// Copies or moves one file, pipe, device or object.
async fn copy_one(job: &CopyJob, source: &Location, target: &Location, asks_size: bool) -> Result {
    if let Location::Local { path } = target
        && is_stream(path)
    {
        let message = format!("{target}: this is a pipe or device, which can't be replaced by a copy");
        return Err(Error::Refused(message));
    }
    let from = job.stores.source.object(source).await?;
    let to = CopyTarget::of_one(job, source, target).await?;
    link::refuse_file_as_link(job.writing.links(), &from, &to)?;
    let source = match source {
        Location::Local { path } if job.is_plain() => {
            return upload::path(job, source.to_string(), path, &to).await;
        }
        Location::Local { path } if is_stream(path) => {
            let message = format!(
                "{source}: a pipe or device can't be moved, and --dry-run and --if-absent don't apply: use plain `tidegate cp`"
            );
            return Err(Error::Refused(message));
        }
        Location::Local { path } => {
            path.metadata().map_err(|error| Error::of_file(path, &error))?;
            ItemSource::file(path.clone(), from)
        }
        _ if asks_size => {
            let object = from.store.head(&from.key).await?;
            ItemSource::object(from).described(job, object)
        }
        _ => ItemSource::object(from),
    };
    match item::copy_now(job, CopyItem { source, to }).await {
        CopyOutcome::Copied(done) => {
            job.events.push(Event::Copied(done));
            Ok(())
        }
        CopyOutcome::Failed(failure)
        | CopyOutcome::Shared(failure)
        | CopyOutcome::Stopped(failure)
        | CopyOutcome::Unlisted(Failure { error: failure, .. }) => Err(failure),
        CopyOutcome::Planned | CopyOutcome::LeftOut | CopyOutcome::Moved => Ok(()),
    }
}

pub(crate) fn is_local(location: &Location) -> bool {
    matches!(location, Location::Local { .. })
}

fn is_directory(location: &Location) -> bool {
    matches!(location, Location::Local { path } if path.is_dir())
}

/// Whether there is a pipe or device at the path, which is written to and not replaced.
pub fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}
