//! `tidegate abandon`: gives up pending uploads.

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::jobs;
use crate::options::ConnectionOptions;
use crate::pending_files::{self, PendingAction};

/// Give up uploads that `cp --prepare` or another program has prepared
///
///     tidegate abandon 1.json
///
/// Nothing of them is published, now or later, and the store frees their bytes. An object that was
/// published already stays, which is an error.
///
/// With --manifest the files are one set, which nobody can begin to publish from then on. Without
/// files, the command ends a set that was begun and cannot be completed, because one of its uploads
/// is gone or its condition fails: it gives up every upload that is not published, and says which
/// objects are visible and stay. Another set may use the URL then.
///
///     tidegate abandon --manifest s3://BUCKET/t/snapshot-7.json 1.json 2.json
///     tidegate abandon --manifest s3://BUCKET/t/snapshot-7.json
///
/// With --job the command gives up distributed jobs below a directory that nobody will commit, with
/// all that their tasks uploaded; with --id, one of them. A job that is at work is given up too:
/// its tasks and its driver fail. A job whose commit was begun is not given up: `tidegate commit
/// --job` completes it.
///
///     tidegate abandon --job s3://BUCKET/warehouse/t --id 20261130-7f3a
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AbandonArgs {
    /// Files of pending uploads, one in each line; - is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["manifest", "job"])]
    files: Vec<std::path::PathBuf>,

    /// Give up the set with this URL as a whole. Without files, end the set that was begun there and cannot be completed.
    #[arg(long, value_name = "URL")]
    manifest: Option<String>,

    /// Give up the jobs of this output directory whose commit was not begun.
    #[arg(long, value_name = "URL", conflicts_with_all = ["files", "manifest"])]
    job: Option<String>,

    /// Only the job with this id.
    #[arg(long, value_name = "ID", requires = "job")]
    id: Option<String>,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl AbandonArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match (&self.job, &self.manifest) {
            (Some(out), _) => jobs::abandon(invocation, &self.connection, out, self.id.as_deref()).await,
            (None, Some(pointer)) => {
                pending_files::abandon_set(invocation, &self.connection, &self.files, pointer).await
            }
            (None, None) => {
                pending_files::end_all(invocation, &self.connection, &self.files, PendingAction::Abandon)
                    .await
            }
        }
    }
}
