//! `tidegate journal resume`.

use std::io::Write;
use std::path::PathBuf;

use tidegate::journal::JournalError;
use tidegate::{Left, Resumed, Tidegate};

use super::{all_chosen, store};
use crate::exit::{Failure, Outcome};
use crate::options::Connection;
use crate::stores::Stores;
use crate::{output, text};

/// Publish the uploads of a journal directory whose sources were read to their ends.
///
/// Those that were cut before need their source: copy it again, to the same place and with the same
/// --journal. What another process is writing is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Only this upload, as `journal ls` shows it; may be given again.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    connection: Connection,
}

impl Resume {
    pub(super) async fn run(self) -> Outcome {
        let engine = self.connection.reached(Tidegate::builder()).journal([&self.directory]);
        Stores::with(engine, async |stores| {
            let all = stores.tide().recover().await?;
            let mut out = output::text()?;
            let (mut published, mut failed) = (0, 0);
            for left in all_chosen(&all, &self.ids, &self.directory)? {
                match self.resume(stores, left).await {
                    Ok(Some(line)) => {
                        published += 1;
                        writeln!(out, "{line}")?;
                    }
                    Ok(None) => {}
                    Err(failure) => {
                        failed += 1;
                        output::say(&format!("error: {}", failure.sentence().unwrap_or_default()));
                    }
                }
            }
            writeln!(out, "published {}", text::count(published, "object"))?;
            out.flush()?;
            match failed {
                0 => Ok(()),
                n => Err(Failure::Failed(format!("{} could not be published", text::count(n, "upload")))),
            }
        })
        .await
    }

    /// What is said of it; nothing where it is another's, or needs its source, and was not asked for.
    async fn resume(&self, stores: &Stores, left: &Left) -> Outcome<Option<String>> {
        let is_asked_for = !self.ids.is_empty();
        if matches!(left.problem(), Some(JournalError::InUse { .. })) && !is_asked_for {
            return Ok(None);
        }
        if left.problem().is_none() && !left.is_finished() {
            let (id, url) = (left.id(), left.url().unwrap_or_default());
            let has = text::size(left.length());
            let sentence = format!("{id}: {url} was cut after {has}: copy its source again to go on");
            if is_asked_for {
                return Err(Failure::Failed(sentence));
            }
            output::say(&sentence);
            return Ok(None);
        }
        let store = store(stores, left, &self.connection).await?;
        match left.resume_on(&store).await? {
            Resumed::Object(object) => {
                let (id, url) = (left.id(), left.url().unwrap_or_default());
                Ok(Some(format!("{id}  {:>12}  {url}", text::size(object.size))))
            }
            Resumed::Writer(_) => Ok(None),
        }
    }
}
