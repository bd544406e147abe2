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
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AbandonArgs {
    /// Files of pending uploads, one in each line; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<std::path::PathBuf>,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl AbandonArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        pending_files::end_all(invocation, &self.connection, &self.files, PendingAction::Abandon).await
    }
}
