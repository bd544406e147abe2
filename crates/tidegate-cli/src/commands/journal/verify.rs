//! `tidegate journal verify`.

use std::io::Write;
use std::path::PathBuf;

use tidegate::journal::{self, JournalError};

use super::list;
use crate::exit::{Failure, Outcome};
use crate::{output, text};

/// Read every byte that a journal directory has and compare its checksum; nothing is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Verify {
    pub(super) async fn run(self) -> Outcome {
        let mut out = output::text()?;
        let mut bad = 0;
        for left in list(&self.directory).await? {
            let path = left.path().to_owned();
            let verified = tokio::task::spawn_blocking(move || journal::verify(&path)).await;
            let verified = verified.map_err(|ended| Failure::Failed(ended.to_string()))?;
            let id = left.id();
            match verified {
                Ok(found) => {
                    writeln!(out, "{id}  whole: {} bytes, {}", found.checksum.covers(), found.checksum)?
                }
                Err(JournalError::InUse { .. }) => writeln!(out, "{id}  in use: not looked at")?,
                Err(error) => {
                    bad += 1;
                    output::say(&format!("error: {error}"));
                }
            }
        }
        out.flush()?;
        match bad {
            0 => Ok(()),
            n => Err(Failure::Failed(format!("not whole: {}", text::count(n, "journal")))),
        }
    }
}
