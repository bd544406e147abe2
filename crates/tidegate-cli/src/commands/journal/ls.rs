//! `tidegate journal ls`: lists journaled uploads.

use std::io::Write;
use std::path::PathBuf;

use super::{DescribedJournal, list};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::Owners;
use crate::output;

/// List the uploads in a journal directory, interrupted ones and those in progress
///
///     tidegate journal ls /mnt/ssd1/journal
///
/// `tidegate journal resume` publishes uploads marked `finished`: their sources were read to
/// the end. An upload marked `cut` is resumed by copying its source again. The files of ended
/// uploads are removed, and after a day those of uploads that never began.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JournalLs {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    owners: Owners,
}

impl JournalLs {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let left = list(&self.directory, &self.owners).await?;
        let mut out = output::text(invocation.format())?;
        for left in &left {
            let described = DescribedJournal::of(left);
            if out.is_json() {
                out.json(&described)?;
            } else {
                writeln!(out, "{}", described.line())?;
            }
        }
        out.finish().await
    }
}
