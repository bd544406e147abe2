//! `tidegate cp`: copies into, out of and between stores.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tidegate::Strategy;
use tidegate::checksum::Algorithm;
use tidegate::location::Location;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::transfer::choices::{Carried, DurabilityChoice};
use crate::transfer::job::{CopyJob, CopyWriteSettings};
use crate::transfer::options::TransferOptions;
use crate::transfer::report::{CopyDisplay, CopyReport};
use crate::transfer::{directory, download, naming, upload, verify};
use crate::{bar, standard, values};

/// Copy a file, standard input, an object, or everything below a directory or prefix.
///
/// If DST ends with a slash or is a directory, the copy keeps the source's name. If a source directory ends with a
/// slash, its contents are copied without its own name. An interrupted download, or an interrupted upload with a
/// journal, is resumed when the same command is run again.
#[derive(Debug, clap::Args)]
pub(crate) struct CpArgs {
    /// Source: a path, s3://BUCKET/KEY, gs://BUCKET/KEY, dev://BUCKET/KEY, or - for standard input.
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Target: a path, s3://BUCKET/KEY, gs://BUCKET/KEY, dev://BUCKET/KEY, or - for standard output.
    #[arg(value_name = "DST")]
    target: OsString,

    /// Copy everything below a directory or prefix.
    #[arg(short, long)]
    recursive: bool,

    /// Fail if the target object exists, and leave it unchanged.
    #[arg(long)]
    create_only: bool,

    /// Force downloaded files and their names to disk before cp ends, so that they survive a loss of power.
    #[arg(long)]
    fsync: bool,

    /// Publish nothing unless the uploaded file or pipe has exactly this size. Without it, a producer in a pipe that
    /// dies looks like the end of its output.
    #[arg(long, value_parser = values::size, value_name = "BYTES")]
    expect_size: Option<u64>,

    /// Choose how the bytes travel: auto, put (one request), chunked (one part after another), parallel (parts in
    /// flight together), spool (all bytes to a spool directory first), or journal (to a journal directory, and from
    /// there to the store at the same time; an interrupted copy can be resumed).
    #[arg(long, default_value = "auto", value_name = "HOW")]
    strategy: Strategy,

    /// Spill bytes that do not fit into memory to this directory, such as large parts of a stream. Repeat it for
    /// several directories. Nothing stays there after the copy.
    #[arg(long, value_name = "DIR")]
    spool: Vec<PathBuf>,

    /// Keep the journals of --strategy journal, which this option implies, in this directory. Repeat it for several
    /// directories.
    ///
    /// The journal of an interrupted upload stays there. When cp runs again with the same target, it reads the source
    /// from its beginning, compares it with the journal, and resumes after the bytes that match. If they differ,
    /// nothing is sent. See `tidegate journal`.
    #[arg(long, value_name = "DIR")]
    journal: Vec<PathBuf>,

    /// Force the journal to disk at every write, in groups (8MiB or one second), or at the end. The journal survives
    /// the end of the process in any case; this option is about a loss of power.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    durability: DurabilityChoice,

    /// Compute and send this checksum: crc64nvme, or crc32c for stores that support only that.
    #[arg(long, default_value = "crc64nvme", value_name = "NAME")]
    checksum: Algorithm,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    carried: Carried,

    #[command(flatten)]
    transfer: TransferOptions,
}

/// One end of a copy.
enum CopyEnd {
    /// Standard input or output.
    Standard,
    Place(Location),
}

impl CopyEnd {
    fn place(&self) -> Option<&Location> {
        match self {
            Self::Standard => None,
            Self::Place(location) => Some(location),
        }
    }

    fn parse(text: &OsStr) -> Outcome<Self> {
        if text == "-" {
            return Ok(Self::Standard);
        }
        Ok(Self::Place(Location::try_from(text)?))
    }
}

impl CpArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let source = CopyEnd::parse(&self.source)?;
        let target = CopyEnd::parse(&self.target)?;
        self.check(&source, &target)?;
        let attributes = self.carried.clone().attributes()?;
        let engine = self
            .transfer
            .engine(self.checksum)
            .spool(self.spool.clone())
            .journal(self.journal.clone())
            .durability(self.durability.setting());
        let to_terminal = matches!(target, CopyEnd::Standard) && bar::is_terminal(std::io::stdout());
        let show = self.transfer.display(to_terminal);
        let writing = CopyWriteSettings::new(
            self.strategy(),
            self.create_only,
            self.fsync,
            self.expect_size,
            attributes,
        );
        Stores::with(invocation, engine, async |stores| {
            let sources: Vec<_> = source.place().into_iter().collect();
            self.transfer.reach_source(stores, self.checksum, &sources, target.place())?;
            let named: Vec<_> = [&source, &target].into_iter().filter_map(CopyEnd::place).collect();
            self.spread.open(stores, &named).await?;
            let report = CopyReport::new(show, stores, writing.is_journaled())?;
            let job = CopyJob { stores, writing, report, journals: &self.journal };
            let copied = {
                let mut copy = std::pin::pin!(copy(&job, source, target, self.recursive));
                tokio::select! {
                    copied = &mut copy => copied,
                    never = job.report.watch() => match never {},
                }
            };
            if let Some(line) = job.writing.left_out.line() {
                job.report.say(&line);
            }
            let closed = job.report.close(copied).await?;
            match closed.target {
                Some(target) if closed.verified > 0 && show != CopyDisplay::Json => {
                    verify::say_where(&target, self.spread.given(), closed.verified).await
                }
                _ => Ok(()),
            }
        })
        .await
    }

    /// Refuses combinations of arguments that make no sense, before any request is sent.
    fn check(&self, source: &CopyEnd, target: &CopyEnd) -> Outcome {
        if let CopyEnd::Place(Location::Local { path }) = source {
            directory::refuse_journals(path, &self.journal)?;
        }
        let usage = |message: String| Err(CommandFailure::Usage(message));
        let (from, to) = (self.source.display(), self.target.display());
        match (source, target) {
            _ if !self.journal.is_empty() && self.strategy() != Strategy::Journal => {
                let strategy = self.strategy.name();
                usage(format!("--journal: the strategy {strategy} keeps none: leave one of them out"))
            }
            _ if self.journal.is_empty() && self.strategy == Strategy::Journal => {
                usage("--strategy journal: it needs a directory: add --journal DIR".to_owned())
            }
            (CopyEnd::Place(place), _) if !self.journal.is_empty() && !is_local(place) => usage(
                "--journal: it is for files and standard input, an object is in a store already".to_owned(),
            ),
            (CopyEnd::Place(place), _)
                if self.expect_size.is_some() && (self.recursive || !is_local(place)) =>
            {
                usage(
                    "--expect-size: it is the size of one file or pipe that is sent: leave it out".to_owned(),
                )
            }
            (CopyEnd::Standard, CopyEnd::Standard) => {
                usage("-: standard input to standard output needs no tidegate".to_owned())
            }
            (CopyEnd::Standard, _) if self.recursive => {
                usage("-: standard input is no directory: leave out -r".to_owned())
            }
            (CopyEnd::Standard, CopyEnd::Place(place)) if naming::is_container(place) => usage(format!(
                "{to}: this is a directory, and standard input has no name to keep in it: add one"
            )),
            (_, CopyEnd::Standard) if self.recursive => {
                usage("-: standard output takes one object: leave out -r".to_owned())
            }
            (_, CopyEnd::Standard) if self.transfer.is_json() => {
                usage("-: standard output can't take the object and --json both".to_owned())
            }
            (CopyEnd::Place(place), _) if !self.recursive && naming::is_container(place) => {
                usage(format!("{from}: this is a directory: add -r to copy all that is below it"))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the journals of `--strategy journal` in these directories, which are those of `tidegate run`.
    pub(crate) fn keep_journals(&mut self, directories: &[PathBuf]) {
        if self.strategy == Strategy::Journal {
            self.journal.extend_from_slice(directories);
        }
    }

    /// The strategy. `--journal` implies the strategy journal.
    fn strategy(&self) -> Strategy {
        match self.strategy {
            Strategy::Auto if !self.journal.is_empty() => Strategy::Journal,
            asked => asked,
        }
    }
}

async fn copy(job: &CopyJob<'_>, source: CopyEnd, target: CopyEnd, recursive: bool) -> Outcome {
    match (source, target) {
        (CopyEnd::Standard, CopyEnd::Place(target)) => upload::standard_input(job, &target).await,
        (CopyEnd::Place(source), CopyEnd::Standard) => {
            let from = job.stores.source().object(&source).await?;
            download::to_standard_output(job, &source, &from).await
        }
        (CopyEnd::Place(source), CopyEnd::Place(Location::Local { path }))
            if !recursive && standard::is_output(&path) =>
        {
            let from = job.stores.source().object(&source).await?;
            download::to_standard_output(job, &source, &from).await
        }
        (CopyEnd::Place(source @ Location::Local { .. }), CopyEnd::Place(Location::Local { path }))
            if !recursive && is_stream(&path) =>
        {
            let from = job.stores.source().object(&source).await?;
            download::to_device(job, &source, &from, &path).await
        }
        (CopyEnd::Place(source), CopyEnd::Place(target)) if is_directory(&source) => {
            directory::upload(job, &source, &target).await
        }
        (CopyEnd::Place(source @ Location::Local { .. }), CopyEnd::Place(target)) => {
            let to = job.stores.object(&naming::of_one(&source, &target)?).await?;
            upload::path(job, &source, &to).await
        }
        (CopyEnd::Place(source), CopyEnd::Place(target)) if recursive => {
            directory::copy(job, &source, &target).await
        }
        (CopyEnd::Place(source), CopyEnd::Place(target)) => {
            let from = job.stores.source().object(&source).await?;
            let target = naming::of_one(&source, &target)?;
            match &target {
                Location::Local { path } if is_stream(path) => {
                    download::to_device(job, &source, &from, path).await
                }
                _ => {
                    let to = job.stores.object(&target).await?;
                    // One request more, worth it only if a progress bar needs the size.
                    let size = match job.report.wants_total() {
                        true => Some(from.store.head(&from.key).await?.size),
                        false => None,
                    };
                    job.report.expect(size);
                    let done = download::object(job, &source.to_string(), &from, size, &to).await?;
                    job.report.done(done).await
                }
            }
        }
        (CopyEnd::Standard, CopyEnd::Standard) => Ok(()),
    }
}

fn is_local(location: &Location) -> bool {
    matches!(location, Location::Local { .. })
}

fn is_directory(location: &Location) -> bool {
    matches!(location, Location::Local { path } if path.is_dir())
}

/// Whether `path` is something that is written to and not replaced: a device, a named pipe.
fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}
