//! `tidegate mv`: moves objects and files.

use tidegate::Strategy;
use tidegate::checksum::Algorithm;
use tidegate_transfer::AfterCopy;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::transfer::copy::{CopyArguments, CopyMethod, Piped};
use crate::tree_options::DistinctOption;

/// Move files and objects: copy each, then remove its source
///
///     tidegate mv s3://BUCKET/new.csv s3://BUCKET/done/
///     tidegate mv 's3://BUCKET/new/*.csv' s3://BUCKET/done/
///     tidegate mv -r recordings/ s3://BUCKET/recordings/
///
/// Targets are named as by `tidegate cp`. A source is removed when its copy is complete and the
/// store has confirmed it, and only if the source has not changed since it was listed. If the
/// command is interrupted, every object is at its source, at its target, or at both; run the
/// same command again. Directories that become empty are removed with -r.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MvArgs {
    #[command(flatten)]
    copy: CopyArguments,

    #[command(flatten)]
    distinct: DistinctOption,
}

impl MvArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let engine = self.copy.transfer.engine(Algorithm::default());
        let method = CopyMethod {
            after: AfterCopy::Remove,
            strategy: Strategy::Auto,
            journals: Vec::new(),
            expect_size: None,
            distinct: self.distinct,
            piped: Piped::Nothing,
        };
        self.copy.carry_out(invocation, engine, method).await
    }
}
