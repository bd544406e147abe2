//! Copies or moves what a command line names, as `cp` and `mv` do.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use tidegate::location::Location;
use tidegate::{Strategy, TidegateBuilder};
use tidegate_transfer::command::ExternalCommand;
use tidegate_transfer::{AfterCopy, CopyTrees, IfExists, Source, is_single, is_stream};

use super::choices::Carried;
use super::object_output::{ObjectOutput, StreamTarget};
use super::options::TransferOptions;
use super::stdin::{Stdin, StdinWait};
use super::verified;
use crate::exit::{CommandFailure, Outcome};
use crate::file_options::FileOptions;
use crate::invocation::Invocation;
use crate::runtime::open_files;
use crate::select::{FilterOptions, NamesOption, PatternOption};
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::tree_options::DistinctOption;
use crate::ui::bar;
use crate::ui::lines::ObjectLines;
use crate::ui::report::{CopyDisplay, CopyReport};
use crate::{dev, standard};

mod check;
mod prepare;

pub(crate) use prepare::Preparation;

/// What to copy or move, where to, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct CopyArguments {
    /// Sources and target: paths, or URLs of s3://, gs://, az:// or dev://. `cp` also takes - for standard
    /// input and output. In a source, `*` stands for any characters but `/`, and `**` for any characters.
    #[arg(value_name = "SRC... DST")]
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
    pub(crate) piped: Piped,
}

/// The command that takes the place of the source or of the target.
pub(crate) enum Piped {
    Nothing,
    From(ExternalCommand),
    To(ExternalCommand),
}

/// The parsed sources and target.
struct CopyEnds {
    sources: Vec<CopySource>,
    target: CopyEnd,
}

enum CopySource {
    Standard,
    Command(ExternalCommand),
    Place(Source),
}

/// The target of a copy.
enum CopyEnd {
    Standard,
    Command(ExternalCommand),
    Place(Location),
}

impl CopySource {
    fn place(&self) -> Option<&Source> {
        match self {
            Self::Standard | Self::Command(_) => None,
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
            Self::Command(_) | Self::Place(_) => false,
        }
    }

    fn place(&self) -> Option<&Location> {
        match self {
            Self::Standard | Self::Command(_) => None,
            Self::Place(location) => Some(location),
        }
    }
}

impl CopyArguments {
    /// Adds sources, or sources and a target, after those that are there.
    pub(crate) fn add_paths(&mut self, paths: Vec<OsString>) {
        self.paths.extend(paths);
    }

    /// Copies or moves everything with an engine of these settings.
    pub(crate) async fn carry_out(
        self,
        invocation: &Invocation,
        engine: TidegateBuilder,
        method: CopyMethod,
    ) -> Outcome {
        let ends = self.ends(&method.piped)?;
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
        Stores::with(invocation, engine, async |stores| {
            let sources = ends.sources.iter().filter_map(|source| Some(&source.place()?.location));
            let sources: Vec<_> = sources.collect();
            let reads_input = ends.sources.iter().any(|source| matches!(source, CopySource::Standard));
            self.transfer.reach_source(stores, &sources, reads_input)?;
            let named: Vec<_> = sources.into_iter().chain(ends.target.place()).collect();
            self.spread.open(stores, &named).await?;
            let lines = match (self.dry_run, is_output) {
                (true, _) => ObjectLines::of_dry_run(invocation)?,
                (false, true) => ObjectLines::none(),
                (false, false) => ObjectLines::of(invocation)?,
            };
            let moves = method.after == AfterCopy::Remove;
            let mut report = CopyReport::new(show, lines, stores).moving(moves);
            let copied = if let Some(output) = self.output(&ends, method.after) {
                output.copy(stores, &mut report, self.dry_run).await
            } else {
                let copy = self.library_copy(&ends, stores, &method, report.wants_total()).await?;
                let copy = copy.filter(filter.clone()).attributes(attributes.clone());
                let mut run = copy.start().without_task();
                report.show(&mut run).await?;
                report.ended(run)
            };
            let closed = report.close(copied).await?;
            match closed.target {
                Some(target) if closed.verified > 0 && !invocation.is_json() && !invocation.is_quiet() => {
                    verified::say_where(&target, self.spread.given(), closed.verified).await
                }
                _ => Ok(()),
            }
        })
        .await
    }

    /// The copy, as the library makes it.
    async fn library_copy(
        &self,
        ends: &CopyEnds,
        stores: &Stores,
        method: &CopyMethod,
        asks_size: bool,
    ) -> Outcome<CopyTrees> {
        // `check` has refused the other copies to standard output.
        let CopyEnd::Place(target) = &ends.target else {
            return Err(CommandFailure::Usage("-: standard output takes one object".to_owned()));
        };
        let (side, target) = (stores.side(), target.clone());
        let places: Vec<Source> = ends.sources.iter().filter_map(CopySource::place).cloned().collect();
        let copy = match (&ends.sources[..], self.names.open().await?) {
            ([CopySource::Command(command)], _) => CopyTrees::command(side, command.clone(), target),
            ([CopySource::Standard], _) if let Some(path) = standard::input_file()? => {
                CopyTrees::named_file(side, "-", path, target)
            }
            ([CopySource::Standard], _) => {
                // With a journal, another task takes the bytes from the journal's buffer, so do not block the thread.
                let is_journaled = method.strategy == Strategy::Journal;
                let wait = if is_journaled { StdinWait::Elsewhere } else { StdinWait::Here };
                CopyTrees::input(side, "-", Stdin::open(wait)?, target)
            }
            (_, Some(names)) => CopyTrees::listed(side, places.into_iter().next(), names, target),
            (_, None) => {
                places.iter().try_for_each(|place| match &place.location {
                    Location::Local { path } => standard::refuse_closed_input(path),
                    _ => Ok(()),
                })?;
                CopyTrees::new(side, places, target)
            }
        };
        let copy = match stores.has_source() {
            true => copy.source_stores(stores.source().side()),
            false => copy,
        };
        let if_exists = match (self.create_only, self.if_absent) {
            (true, _) => IfExists::Fail,
            (false, true) => IfExists::Skip,
            (false, false) => IfExists::Replace,
        };
        let verifies = matches!(ends.target.place(), Some(Location::Dev { .. }));
        Ok(copy
            .recursive(self.recursive)
            .after(method.after)
            .if_exists(if_exists)
            .dry_run(self.dry_run)
            .fsync(self.fsync)
            .files(self.files.into())
            .strategy(method.strategy)
            .journals(method.journals.clone())
            .expect_size(method.expect_size)
            .distinct(method.distinct.into())
            .without(&dev::directory())
            .verify(verifies)
            .ask_size(asks_size)
            .open_files(open_files()))
    }

    /// Where the one object goes if it is written to a stream: standard output, a named pipe or a device.
    fn output<'a>(&self, ends: &'a CopyEnds, after: AfterCopy) -> Option<ObjectOutput<'a>> {
        let [CopySource::Place(source)] = &ends.sources[..] else { return None };
        let to = match &ends.target {
            CopyEnd::Standard => StreamTarget::Output,
            CopyEnd::Command(command) => StreamTarget::Command(command),
            CopyEnd::Place(Location::Local { path }) if self.is_single(ends) && after == AfterCopy::Keep => {
                match path {
                    path if standard::is_output(path) => StreamTarget::Output,
                    path if is_stream(path) => StreamTarget::Device(path),
                    _ => return None,
                }
            }
            CopyEnd::Place(_) => return None,
        };
        Some(ObjectOutput { source: &source.location, to })
    }

    fn ends(&self, piped: &Piped) -> Outcome<CopyEnds> {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        let source = |text: &OsString| {
            Ok(match text == "-" {
                true => CopySource::Standard,
                false => CopySource::Place(self.pattern.parse(text, self.recursive)?),
            })
        };
        let target = |text: &OsString| -> Outcome<CopyEnd> {
            Ok(match text == "-" {
                true => CopyEnd::Standard,
                false => CopyEnd::Place(Location::try_from(OsStr::new(text))?),
            })
        };
        match (piped, &self.paths[..]) {
            (Piped::Nothing, []) => usage("name a source and a target".to_owned()),
            (Piped::Nothing, [only]) if !self.names.is_given() => {
                let given = only.to_string_lossy();
                usage(format!("{given}: this is the only argument: name a source and a target"))
            }
            (Piped::Nothing, [sources @ .., to]) => Ok(CopyEnds {
                sources: sources.iter().map(source).collect::<Outcome<_>>()?,
                target: target(to)?,
            }),
            (Piped::From(command), [to]) if to != "-" => {
                Ok(CopyEnds { sources: vec![CopySource::Command(command.clone())], target: target(to)? })
            }
            (Piped::To(command), [from]) if from != "-" => {
                Ok(CopyEnds { sources: vec![source(from)?], target: CopyEnd::Command(command.clone()) })
            }
            (Piped::From(_), _) => {
                usage("--from-command: name one target, and the command after `--`".to_owned())
            }
            (Piped::To(_), _) => {
                usage("--to-command: name one source, and the command after `--`".to_owned())
            }
        }
    }

    /// Whether the command takes one object, and no listing is needed to find it.
    fn is_single(&self, ends: &CopyEnds) -> bool {
        let is_one = match &ends.sources[..] {
            [CopySource::Standard | CopySource::Command(_)] => true,
            [CopySource::Place(source)] => is_single(source, self.recursive),
            _ => false,
        };
        is_one && !self.names.is_given()
    }
}

fn is_local(location: &Location) -> bool {
    matches!(location, Location::Local { .. })
}
