//! Copies or moves what a command line names, as `cp` and `mv` do.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use futures::StreamExt;
use tidegate::location::Location;
use tidegate::{Strategy, TidegateBuilder};

use super::choices::Carried;
use super::copies::{self, CopyOutcome};
use super::distinct::DistinctTargets;
use super::emptied::EmptiedDirectories;
use super::item::{self, CopyItem, ItemSource};
use super::job::{AfterCopy, CopyJob, CopyWriteSettings, IfExists};
use super::links::{self, DeferredLinks};
use super::options::TransferOptions;
use super::report::{CopyDisplay, CopyReport};
use super::sources::CopyTarget;
use super::{download, sources, upload, verify};
use crate::exit::{CommandFailure, Outcome};
use crate::file_options::{FileOptions, LinkChoice};
use crate::invocation::Invocation;
use crate::lines::ObjectLines;
use crate::select::{FilterOptions, NamesOption, ObjectFilter, PatternOption, SourceArgument};
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::two_addresses::DistinctOption;
use crate::{bar, standard};

mod check;

/// What to copy or move, where to, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct CopyArguments {
    /// Sources and target: paths, or URLs of s3://, gs://, az:// or dev://. `cp` also takes - for standard
    /// input and output. In a source, `*` stands for any characters but `/`, and `**` for any characters.
    #[arg(value_name = "SRC... DST", required = true)]
    paths: Vec<OsString>,

    /// Take everything below a directory or prefix.
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,

    /// Fail if the target object exists, and leave it unchanged.
    #[arg(long)]
    create_only: bool,

    /// Skip objects whose target exists. Takes one request for each; `tidegate sync` compares listings instead.
    #[arg(long, conflicts_with = "create_only")]
    if_absent: bool,

    /// Print what would be done, and change nothing.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,

    /// Force downloaded files to disk before the command ends. They, and their names, then survive a loss of power.
    #[arg(long)]
    fsync: bool,

    #[command(flatten)]
    names: NamesOption,

    #[command(flatten)]
    pattern: PatternOption,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    files: FileOptions,

    #[command(flatten)]
    carried: Carried,

    #[command(flatten)]
    pub(crate) transfer: TransferOptions,
}

/// How `cp` or `mv` transfers objects.
pub(crate) struct CopyMethod {
    pub(crate) after: AfterCopy,
    pub(crate) strategy: Strategy,
    pub(crate) journals: Vec<PathBuf>,
    /// The size that the one source must have.
    pub(crate) expect_size: Option<u64>,
    /// Whether a move proves that its source and its target are different places.
    pub(crate) distinct: DistinctOption,
}

/// The parsed sources and target.
struct CopyEnds {
    sources: Vec<CopySource>,
    target: CopyEnd,
}

enum CopySource {
    Standard,
    Place(SourceArgument),
}

/// The target of a copy.
enum CopyEnd {
    Standard,
    Place(Location),
}

impl CopySource {
    fn place(&self) -> Option<&SourceArgument> {
        match self {
            Self::Standard => None,
            Self::Place(source) => Some(source),
        }
    }
}

impl CopyEnd {
    /// Whether an object that is copied here goes to standard output.
    fn is_standard_output(&self) -> bool {
        match self {
            Self::Standard => true,
            Self::Place(Location::Local { path }) => standard::is_output(path),
            Self::Place(_) => false,
        }
    }

    fn place(&self) -> Option<&Location> {
        match self {
            Self::Standard => None,
            Self::Place(location) => Some(location),
        }
    }
}

impl CopyArguments {
    /// Copies or moves everything with an engine of these settings.
    pub(crate) async fn carry_out(
        self,
        invocation: &Invocation,
        engine: TidegateBuilder,
        method: CopyMethod,
    ) -> Outcome {
        let ends = self.ends()?;
        self.check(&ends, &method)?;
        let attributes = self.carried.clone().attributes()?;
        let filter = self.filter.clone().filter()?;
        let to_terminal = matches!(ends.target, CopyEnd::Standard) && bar::is_terminal(std::io::stdout());
        let is_output = ends.target.is_standard_output() && self.is_single(&ends);
        if is_output && !self.dry_run {
            invocation.refuse_json("the object itself")?;
        }
        let show = match self.dry_run {
            true => CopyDisplay::Nothing,
            false => self.transfer.display(invocation, to_terminal),
        };
        let if_exists = match (self.create_only, self.if_absent) {
            (true, _) => IfExists::Fail,
            (false, true) => IfExists::Skip,
            (false, false) => IfExists::Replace,
        };
        let CopyMethod { after, strategy, journals, expect_size, distinct } = method;
        // A move to disk removes the source, so the file must survive a loss of power first.
        let fsync = self.fsync || after == AfterCopy::Remove;
        let writing = CopyWriteSettings::new(strategy, if_exists, fsync, expect_size, attributes)
            .with_files(self.files)
            .then(after);
        Stores::with(invocation, engine, async |stores| {
            let sources = ends.sources.iter().filter_map(|source| Some(&source.place()?.location));
            let sources: Vec<_> = sources.collect();
            let reads_input = ends.sources.iter().any(|source| matches!(source, CopySource::Standard));
            self.transfer.reach_source(stores, &sources, reads_input)?;
            let named: Vec<_> = sources.into_iter().chain(ends.target.place()).collect();
            self.spread.open(stores, &named).await?;
            let is_dry_run = self.dry_run;
            let lines = match (is_dry_run, is_output) {
                (true, _) => ObjectLines::of_dry_run(invocation)?,
                (false, true) => ObjectLines::none(),
                (false, false) => ObjectLines::of(invocation)?,
            };
            let report = CopyReport::new(show, lines, stores, writing.is_journaled());
            let job = CopyJob {
                stores,
                writing,
                report,
                journals: &journals,
                is_dry_run,
                links: DeferredLinks::default(),
                emptied: EmptiedDirectories::default(),
                distinct,
            };
            let copied = {
                let mut copy = std::pin::pin!(self.copy(&job, &ends, &filter));
                tokio::select! {
                    copied = &mut copy => copied,
                    never = job.report.watch() => match never {},
                }
            };
            job.report_left_out();
            let closed = job.report.close(copied).await?;
            match closed.target {
                Some(target) if closed.verified > 0 && !invocation.is_json() && !invocation.is_quiet() => {
                    verify::say_where(&target, self.spread.given(), closed.verified).await
                }
                _ => Ok(()),
            }
        })
        .await
    }

    fn ends(&self) -> Outcome<CopyEnds> {
        let (target, sources) = match self.paths.split_last() {
            Some((target, sources)) if !sources.is_empty() || self.names.is_given() => (target, sources),
            _ => {
                let given = self.paths.first().map(|path| path.to_string_lossy()).unwrap_or_default();
                return Err(CommandFailure::Usage(format!(
                    "{given}: this is the only argument: name a source and a target"
                )));
            }
        };
        let source = |text: &OsString| {
            Ok(match text == "-" {
                true => CopySource::Standard,
                false => CopySource::Place(self.pattern.parse(text, self.recursive)?),
            })
        };
        let target = match target == "-" {
            true => CopyEnd::Standard,
            false => CopyEnd::Place(Location::try_from(OsStr::new(target))?),
        };
        Ok(CopyEnds { sources: sources.iter().map(source).collect::<Outcome<_>>()?, target })
    }

    /// Whether the command takes one object, and no listing is needed to find it.
    fn is_single(&self, ends: &CopyEnds) -> bool {
        let is_one = match &ends.sources[..] {
            [CopySource::Standard] => true,
            [CopySource::Place(source)] => {
                let is_tree = is_directory(&source.location) || self.recursive && !is_local(&source.location);
                source.pattern.is_none() && !is_tree
            }
            _ => false,
        };
        is_one && !self.names.is_given()
    }

    async fn copy(&self, job: &CopyJob<'_>, ends: &CopyEnds, filter: &ObjectFilter) -> Outcome {
        let target = match (&ends.sources[..], &ends.target) {
            ([CopySource::Standard], CopyEnd::Place(target)) if job.is_dry_run => {
                return job.report.would_copy("-", &target.to_string(), None).await;
            }
            ([CopySource::Standard], CopyEnd::Place(target)) => {
                return upload::standard_input(job, target).await;
            }
            ([CopySource::Place(source)], CopyEnd::Standard) => {
                return to_standard_output(job, &source.location).await;
            }
            // `check` has refused the other copies to standard output.
            (_, CopyEnd::Standard) => return Ok(()),
            (_, CopyEnd::Place(target)) => target,
        };
        let places: Vec<SourceArgument> =
            ends.sources.iter().filter_map(CopySource::place).cloned().collect();
        if let ([source], true) = (&places[..], self.is_single(ends)) {
            return copy_one(job, &source.location, target).await;
        }
        let listed = self.names.open().await?;
        let source_label = match (&places[..], &listed) {
            ([source], _) => source.text().to_owned(),
            ([], Some(listed)) => listed.from.clone(),
            (sources, _) => format!("{} sources", sources.len()),
        };
        let found = match listed {
            Some(listed) => sources::find_listed(job, places.first(), listed, target).await?,
            None => sources::find(job, &places, target, self.recursive, filter).await?,
        };
        job.report.tree(source_label, found.target);
        // Of one source, no two objects have the same target, unless one is a link.
        let makes_links = job.writing.links() == LinkChoice::Preserve && is_local(target);
        let is_one_tree = places.len() == 1 && !self.names.is_given() && !makes_links;
        let mut distinct =
            (!is_one_tree).then(|| DistinctTargets::new(found.named, found.trees, job.writing.links()));
        let items = found.items.map(|found| match &mut distinct {
            Some(distinct) => distinct.checked(found),
            None => found,
        });
        let items = items.map(|found| async move {
            match found {
                Ok(item) => item::copy(job, item).await,
                Err(outcome) => outcome,
            }
        });
        copies::all(job, &Vec::from_iter(&found.stores), items).await?;
        links::copy_deferred(job).await?;
        if self.recursive {
            for source in &places {
                job.emptied.remove(&source.location, source.pattern.is_some()).await?;
            }
        }
        Ok(())
    }
}

/// Copies or moves one file, pipe, device or object.
async fn copy_one(job: &CopyJob<'_>, source: &Location, target: &Location) -> Outcome {
    if let Location::Local { path } = target {
        if standard::is_output(path) && !job.moves() {
            return to_standard_output(job, source).await;
        }
        // Something that is written to and not replaced: a device, a named pipe.
        if is_stream(path) {
            if job.moves() {
                let message =
                    format!("{target}: an object can't be moved to a pipe or device: use `tidegate cp`");
                return Err(CommandFailure::Usage(message));
            }
            if job.is_dry_run {
                return job.report.would_copy(&source.to_string(), &target.to_string(), None).await;
            }
            let from = job.stores.source().object(source).await?;
            return download::to_device(job, source, &from, path).await;
        }
    }
    let from = job.stores.source().object(source).await?;
    let to = CopyTarget::of_one(job, source, target).await?;
    let source = match source {
        Location::Local { path } if job.is_plain() => return upload::path(job, source, &to).await,
        Location::Local { path } if is_stream(path) => {
            let message = format!(
                "{source}: a pipe or device can't be moved, and --dry-run and --if-absent don't apply: use plain `tidegate cp`"
            );
            return Err(CommandFailure::Usage(message));
        }
        Location::Local { path } => {
            path.metadata().map_err(|error| CommandFailure::of_file(path, &error))?;
            ItemSource::file(path.clone(), from)
        }
        // One request more, worth it only if a progress bar needs the size.
        _ if job.report.wants_total() => {
            let object = from.store.head(&from.key).await?;
            ItemSource::object(from).described(job, object)
        }
        _ => ItemSource::object(from),
    };
    match item::copy_now(job, CopyItem { source, to }).await {
        CopyOutcome::Copied(done) => job.report.done(done).await,
        CopyOutcome::Failed(failure) | CopyOutcome::Shared(failure) | CopyOutcome::Stopped(failure) => {
            Err(failure)
        }
        CopyOutcome::Planned | CopyOutcome::LeftOut | CopyOutcome::Moved => Ok(()),
    }
}

async fn to_standard_output(job: &CopyJob<'_>, source: &Location) -> Outcome {
    let from = job.stores.source().object(source).await?;
    if job.is_dry_run {
        let size = from.store.head(&from.key).await?.known_size();
        return job.report.would_copy(&source.to_string(), "-", size).await;
    }
    download::to_standard_output(job, source, &from).await
}

fn is_local(location: &Location) -> bool {
    matches!(location, Location::Local { .. })
}

fn is_directory(location: &Location) -> bool {
    matches!(location, Location::Local { path } if path.is_dir())
}

fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}
