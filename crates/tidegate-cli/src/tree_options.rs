//! The options of commands about two trees.

use std::ffi::{OsStr, OsString};

use tidegate::location::Location;
use tidegate_transfer::{Comparison, Distinct};

use crate::exit::{CommandFailure, Outcome};
use crate::file_options::FileOptions;

/// The two trees of a command, as the user names them.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArguments {
    /// Source: a directory or a prefix. A prefix is s3://BUCKET/PREFIX, gs://…, az://… or dev://….
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Target: a directory or a prefix. A prefix is s3://BUCKET/PREFIX, gs://…, az://… or dev://….
    #[arg(value_name = "DST")]
    target: OsString,
}

impl TreeArguments {
    /// The locations of source and target. Refuses standard input and output.
    pub(crate) fn locations(&self) -> Outcome<(Location, Location)> {
        let tree = |text: &OsStr| match text == "-" {
            true => Err(CommandFailure::Usage("-: this is no tree: name a directory or a prefix".to_owned())),
            false => Ok(Location::try_from(text)?),
        };
        Ok((tree(&self.source)?, tree(&self.target)?))
    }
}

/// How two objects of one key are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "How objects are compared")]
pub(crate) struct CompareOptions {
    /// Compare sizes only, not times.
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,

    /// Compare checksums instead of times. Stores keep checksums; local files are read to compute theirs. Takes one
    /// request for each object of a store whose listing has no checksums (S3). Objects without a checksum to compare
    /// count as different.
    #[arg(long)]
    checksum: bool,

    #[command(flatten)]
    pub(crate) files: FileOptions,
}

impl From<CompareOptions> for Comparison {
    fn from(options: CompareOptions) -> Self {
        match (options.size_only, options.checksum) {
            (true, _) => Self::Size,
            (false, true) => Self::Checksum,
            (false, false) => Self::Time,
        }
    }
}

/// The option that takes places for different without a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct DistinctOption {
    /// Take source and target for different places, although both have one bucket name. Without this, a bucket at two
    /// endpoints or by two protocols is one place, until the answers of both show that it is not.
    #[arg(long, help_heading = "Connection")]
    assume_distinct: bool,
}

impl From<DistinctOption> for Distinct {
    fn from(option: DistinctOption) -> Self {
        if option.assume_distinct { Self::Assumed } else { Self::Proven }
    }
}
