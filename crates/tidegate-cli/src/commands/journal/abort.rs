//! `tidegate journal abort`.

use std::io::Write;
use std::path::PathBuf;

use tidegate::{Left, Object, Tidegate};

use super::{all_chosen, store};
use crate::exit::{Failure, Outcome};
use crate::options::Connection;
use crate::stores::Stores;
use crate::{output, text};

/// End uploads that are in a journal directory: their sessions at the store are aborted and their
/// journals removed, with all bytes that are in them.
#[derive(Debug, clap::Args)]
pub(crate) struct Abort {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The upload, as `journal ls` shows it; may be given again.
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,

    /// All of them.
    #[arg(long)]
    all: bool,

    /// Ask nothing of the store, which may be gone: only the journals are removed, also those that are damaged
    /// or of a later version. Sessions that are there yet are left to `tidegate sweep`.
    #[arg(long)]
    forget: bool,

    #[command(flatten)]
    connection: Connection,
}

impl Abort {
    pub(super) async fn run(self) -> Outcome {
        let engine = self.connection.reached(Tidegate::builder()).journal([&self.directory]);
        Stores::with(engine, async |stores| {
            let all = stores.tide().recover().await?;
            let mut out = output::text()?;
            let (mut ended, mut failed) = (0, 0);
            for left in all_chosen(&all, &self.ids, &self.directory)? {
                let (id, url) = (left.id(), left.url().unwrap_or_default());
                match self.end(stores, left).await {
                    Ok(None) => {
                        ended += 1;
                        writeln!(out, "ended  {id}  {url}")?;
                    }
                    Ok(Some(_)) => writeln!(out, "published before, and left as it is  {id}  {url}")?,
                    Err(failure) => {
                        failed += 1;
                        output::say(&format!("error: {}", failure.sentence().unwrap_or_default()));
                    }
                }
            }
            writeln!(out, "ended {}", text::count(ended, "upload"))?;
            out.flush()?;
            match failed {
                0 => Ok(()),
                n => Err(Failure::Failed(format!("{} could not be ended", text::count(n, "upload")))),
            }
        })
        .await
    }

    /// Ends one; the object, where it was published before.
    async fn end(&self, stores: &Stores, left: &Left) -> Outcome<Option<Object>> {
        if self.forget {
            left.forget().await?;
            return Ok(None);
        }
        Ok(left.abort_on(&store(stores, left, &self.connection).await?).await?)
    }
}
