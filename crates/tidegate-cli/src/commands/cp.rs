//! `tidegate cp`: copies into, out of and between stores.

use std::path::PathBuf;

use tidegate::Strategy;
use tidegate::checksum::Algorithm;
use tidegate_transfer::AfterCopy;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::transfer::choices::DurabilityChoice;
use crate::transfer::copy::{CopyArguments, CopyMethod};
use crate::tree_options::DistinctOption;
use crate::values;

/// The heading of options in the help.
const TRANSFER: &str = "How objects are transferred";

/// Copy files, standard input, objects, or everything below a directory or prefix
///
///     tidegate cp big.tar s3://BUCKET/big.tar
///     pg_dump … | tidegate cp - s3://BUCKET/dump.sql
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

    /// Compute and send this checksum: crc64nvme or crc32c. Some stores support only crc32c.
    #[arg(long, default_value = "crc64nvme", value_name = "NAME", help_heading = TRANSFER)]
    checksum: Algorithm,

    #[command(flatten)]
    distinct: DistinctOption,
}

impl CpArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        self.check_journal()?;
        let method = CopyMethod {
            after: AfterCopy::Keep,
            strategy: self.strategy(),
            journals: self.journal.clone(),
            expect_size: self.expect_size,
            distinct: self.distinct,
        };
        let engine = self
            .copy
            .transfer
            .engine(self.checksum)
            .spool(self.spool)
            .journal(self.journal)
            .durability(self.durability.setting());
        self.copy.carry_out(invocation, engine, method).await
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
