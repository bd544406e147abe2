//! `tidegate abandon`: gives up pending uploads.

use crate::exit::Outcome;
use crate::invocation::Invocation;
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
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AbandonArgs {
    /// Files of pending uploads, one in each line; - is standard input.
    #[arg(value_name = "FILE", required_unless_present = "manifest")]
    files: Vec<std::path::PathBuf>,

    /// Give up the set with this URL as a whole. Without files, end the set that was begun there and cannot be completed.
    #[arg(long, value_name = "URL")]
    manifest: Option<String>,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl AbandonArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match &self.manifest {
            Some(pointer) => {
                pending_files::abandon_set(invocation, &self.connection, &self.files, pointer).await
            }
            None => {
                pending_files::end_all(invocation, &self.connection, &self.files, PendingAction::Abandon)
                    .await
            }
        }
    }
}
