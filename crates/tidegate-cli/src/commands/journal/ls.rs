//! `tidegate journal ls`.

use std::io::Write;
use std::path::PathBuf;

use super::{Described, list};
use crate::exit::Outcome;
use crate::options::Owners;
use crate::output;

/// List the uploads that are in a journal directory: those that were left, and those that go on.
///
/// `finished` ones need their producer no more: `journal resume` publishes them. Those that were `cut`
/// go on when they are copied again. Files of uploads that have ended are removed, and after a day those of
/// uploads that never began.
#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    owners: Owners,
}

impl Ls {
    pub(super) async fn run(self) -> Outcome {
        let left = list(&self.directory, &self.owners).await?;
        let mut out = output::text()?;
        for left in &left {
            let described = Described::of(left);
            if self.json {
                out.json(&described)?;
            } else {
                writeln!(out, "{}", described.line())?;
            }
        }
        out.finish().await
    }
}
