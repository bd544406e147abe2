//! `tidegate cp`: copies into, out of and between stores.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::Strategy;
use tidegate::checksum::Algorithm;
use tidegate_transfer::AfterCopy;
use tidegate_transfer::command::ExternalCommand;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::transfer::choices::DurabilityChoice;
use crate::transfer::copy::{CopyArguments, CopyMethod, Piped, Preparation};
use crate::tree_options::DistinctOption;
use crate::values;

/// The heading of options in the help.
const TRANSFER: &str = "How objects are transferred";

/// Copy files, standard input, objects, or everything below a directory or prefix
///
///     tidegate cp big.tar s3://BUCKET/big.tar
///     tidegate cp --from-command s3://BUCKET/dump.sql -- pg_dump mydb
///     tidegate cp -r photos/ gs://BUCKET/photos/
///     tidegate cp 's3://BUCKET/logs/2026-*.gz' .
///
/// If DST ends with a slash or is a directory, the copy keeps the source's name. If a source
/// directory ends with a slash, its contents are copied without its own name. An object that
/// matches a pattern keeps its path from the first name with a `*` on.
///
/// An interrupted download, or an interrupted upload with a journal, is resumed when the same
/// command is run again.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    copy: CopyArguments,

    /// Publish nothing unless the source has exactly this size. The source is a file or a pipe: without this option, a
    /// producer in a pipe that dies looks like the end of its output.
    #[arg(long, value_parser = values::size, value_name = "BYTES", help_heading = TRANSFER)]
    expect_size: Option<u64>,

    /// Choose how the bytes travel: auto, put, chunked, parallel, spool or journal. put sends one request; chunked,
    /// one part after another; parallel, parts in flight together; spool writes all bytes to a spool directory first;
    /// journal writes them to a journal directory, and from there to the store at the same time, so that an
    /// interrupted copy can be resumed. auto chooses among them.
    #[arg(long, default_value = "auto", value_name = "HOW", help_heading = TRANSFER)]
    strategy: Strategy,

    /// Spill what does not fit into memory to this directory. Large parts of a stream may not. Repeat it for several
    /// directories. Nothing stays there after the copy.
    #[arg(long, value_name = "DIR", help_heading = TRANSFER)]
    spool: Vec<PathBuf>,

    /// Keep the journal of the upload in this directory. This implies --strategy journal. Repeat it for several
    /// directories.
    ///
    /// The journal of an interrupted upload stays there. When cp runs again with the same target, it reads the source
    /// from its beginning, compares it with the journal, and resumes after the bytes that match. If they differ,
    /// nothing is sent. See `tidegate journal`.
    #[arg(long, value_name = "DIR", help_heading = TRANSFER)]
    journal: Vec<PathBuf>,

    /// Choose when the journal is forced to disk. It survives the end of the process in any case; this option is about
    /// a loss of power.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", help_heading = TRANSFER)]
    durability: DurabilityChoice,

    /// Publish nothing: write the pending upload of the one source to this new file. `tidegate commit FILE` publishes it,
    /// on any machine, and `tidegate abandon FILE` gives it up. Until then sweeps leave it alone. Conditions such as
    /// --create-only hold at the commit.
    #[arg(long, conflicts_with_all = ["from_command", "to_command"], value_name = "FILE", help_heading = TRANSFER)]
    prepare: Option<PathBuf>,

    /// How long a pending upload waits for its commit. Stores may end it earlier, which is warned of. Default: 6d.
    #[arg(long, requires = "prepare", value_parser = values::age, value_name = "AGE", help_heading = TRANSFER)]
    lifetime: Option<Duration>,

    /// Compute and send this checksum: crc64nvme or crc32c. Some stores support only crc32c.
    #[arg(long, default_value = "crc64nvme", value_name = "NAME", help_heading = TRANSFER)]
    checksum: Algorithm,

    /// Upload what a command writes to its standard output, in place of a SRC. The command follows after `--`.
    ///
    /// The object is published only if the command exits with 0 and nobody holds its output open any more. Otherwise
    /// nothing is, and the exit code is the command's own: 128 and the number of the signal that ended it, 127 if there
    /// is no such command, 126 if it cannot be started, 124 if its time was up. Of `command | tidegate cp -`, a part that
    /// looks whole would be published. If cp is interrupted, the command is sent SIGTERM.
    #[arg(long, conflicts_with = "to_command", help_heading = TRANSFER)]
    from_command: bool,

    /// Hand the object to a command as its standard input, in place of a DST. The command follows after `--`. If it
    /// fails, the exit code is its own.
    #[arg(long, help_heading = TRANSFER)]
    to_command: bool,

    /// End the command if it runs for longer than this. It is sent SIGTERM, and its bytes do not count.
    #[arg(long, value_parser = values::duration, value_name = "TIME", help_heading = TRANSFER)]
    command_timeout: Option<Duration>,

    /// The command of --from-command or --to-command. It is run without a shell.
    #[arg(last = true, value_name = "COMMAND", help_heading = TRANSFER)]
    program: Vec<OsString>,

    #[command(flatten)]
    distinct: DistinctOption,
}

impl CpArgs {
    pub(crate) async fn run(mut self, invocation: &Invocation) -> Outcome {
        self.check_journal()?;
        let piped = self.piped()?;
        let method = CopyMethod {
            after: AfterCopy::Keep,
            strategy: self.strategy(),
            journals: self.journal.clone(),
            expect_size: self.expect_size,
            distinct: self.distinct,
            piped,
        };
        let engine = self
            .copy
            .transfer
            .engine(self.checksum)
            .spool(self.spool)
            .journal(self.journal)
            .durability(self.durability.setting());
        match self.prepare {
            Some(file) => {
                let to = Preparation { file, lifetime: self.lifetime };
                Box::pin(self.copy.prepare(invocation, engine, method, to)).await
            }
            None => self.copy.carry_out(invocation, engine, method).await,
        }
    }

    /// The command that produces or takes the bytes. Without one, the words after `--` are sources and a target.
    fn piped(&mut self) -> Outcome<Piped> {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        let option = match (self.from_command, self.to_command) {
            (false, false) if self.command_timeout.is_some() => {
                return usage("--command-timeout: it goes with --from-command or --to-command".to_owned());
            }
            (false, false) => {
                self.copy.add_paths(std::mem::take(&mut self.program));
                return Ok(Piped::Nothing);
            }
            (true, _) => "--from-command s3://BUCKET/KEY",
            (false, true) => "--to-command s3://BUCKET/KEY",
        };
        let Some((program, arguments)) = self.program.split_first() else {
            return usage(format!("the command is missing: `tidegate cp {option} -- COMMAND`"));
        };
        let command = ExternalCommand::new(program, arguments).timeout(self.command_timeout);
        Ok(if self.from_command { Piped::From(command) } else { Piped::To(command) })
    }

    fn check_journal(&self) -> Outcome {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        if !self.journal.is_empty() && self.strategy() != Strategy::Journal {
            let strategy = self.strategy.name();
            return usage(format!("--journal: the strategy {strategy} keeps none: leave one of them out"));
        }
        if self.journal.is_empty() && self.strategy == Strategy::Journal {
            return usage("--strategy journal: it needs a directory: add --journal DIR".to_owned());
        }
        Ok(())
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
