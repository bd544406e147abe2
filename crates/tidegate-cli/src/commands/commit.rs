//! `tidegate commit`: publishes pending uploads.

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::jobs;
use crate::options::ConnectionOptions;
use crate::pending_files::{self, PendingAction};

/// Publish uploads that `cp --prepare` or another program has prepared
///
///     tidegate cp table.parquet s3://BUCKET/t/1.parquet --prepare 1.json
///     tidegate commit 1.json
///
/// Any machine with credentials for the bucket can publish them, and the same upload can be
/// published again: the object is there once. If the command is interrupted, run it again.
///
/// With --manifest the files are one set. The command first checks that every one of them can be
/// published, and writes nothing if one cannot. Once the set's intent is in the bucket, this
/// command, with or without the files, brings the set to its end on any machine. The object at the
/// URL comes last and names the others: readers that begin with it see all of them or none. A set
/// that cannot be completed any more is ended by `tidegate abandon --manifest`.
///
///     tidegate commit --manifest s3://BUCKET/t/snapshot-7.json 1.json 2.json
///     tidegate commit --manifest s3://BUCKET/t/snapshot-7.json
///
/// With --job the command completes every job below a directory whose commit was begun: it
/// publishes the other files, writes _SUCCESS, and removes the work path. A job whose commit was
/// not begun may be at work, and is left alone.
///
///     tidegate commit --job s3://BUCKET/warehouse/t
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CommitArgs {
    /// Files of pending uploads, one in each line; - is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["manifest", "job"])]
    files: Vec<std::path::PathBuf>,

    /// Publish all together, with an object at this URL that names them. Without files, complete the set that was begun there.
    #[arg(long, value_name = "URL")]
    manifest: Option<String>,

    /// Complete the jobs of this output directory whose commit was begun.
    #[arg(long, value_name = "URL", conflicts_with_all = ["files", "manifest"])]
    job: Option<String>,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl CommitArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match (&self.job, &self.manifest) {
            (Some(out), _) => jobs::commit(invocation, &self.connection, out).await,
            (None, Some(pointer)) => {
                pending_files::commit_set(invocation, &self.connection, &self.files, pointer).await
            }
            (None, None) => {
                pending_files::end_all(invocation, &self.connection, &self.files, PendingAction::Commit).await
            }
        }
    }
}
