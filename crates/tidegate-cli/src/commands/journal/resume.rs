//! `tidegate journal resume`: publishes journaled uploads.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use tidegate::Tidegate;
use tidegate::journal::JournalError;
use tidegate::recover::{LeftUpload, Resumed};
use tidegate::text::printable;

use super::{Undone, all_chosen, claim, left_alone, refuse_missing};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, Owners};
use crate::stores::Stores;
use crate::ui::lines::OutputLine;
use crate::{output, text};
use tidegate_transfer::journaled::FoundUpload;

/// Publish the uploads in a journal directory whose sources were read to the end
///
///     tidegate journal resume /mnt/ssd1/journal
///     tidegate journal resume /mnt/ssd1/journal 5f3a9c
///
/// An upload that was cut earlier needs its source: copy that again, to the same target and
/// with the same --journal. An upload that another process is writing is left alone.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JournalResume {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Publish only the upload with this ID, as `journal ls` shows it. Repeat it for several.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    owners: Owners,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// An upload that was published.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "publish")]
struct PublishedUpload {
    id: String,
    url: String,
    size: u64,
}

impl OutputLine for PublishedUpload {
    fn text(&self) -> String {
        let Self { id, url, size } = self;
        format!("{}  {:>12}  {}", printable(id), text::size(*size), printable(url))
    }
}

impl JournalResume {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        refuse_missing(&self.directory)?;
        let engine =
            self.connection.reached(self.owners.trusted(Tidegate::builder())).journal([&self.directory]);
        Stores::with(invocation, engine, async |stores| {
            let all = stores.tide().recover().await?;
            let mut out = output::text(invocation.format())?;
            let (mut published, mut undone) = (0, Undone::default());
            for left in all_chosen(&all, &self.ids, &self.directory)? {
                if let Some(line) = undone.or_done(self.resume(stores, left).await).flatten() {
                    published += 1;
                    out.print(&line)?;
                    out.flow_soon().await?;
                }
            }
            if !out.is_json() {
                writeln!(out, "published {}", text::count(published, "object"))?;
            }
            out.finish().await?;
            undone.end("published")
        })
        .await
    }

    /// Publishes one upload and returns it. `None` if another process has it, or it needs its source,
    /// and the user did not give its id.
    async fn resume(&self, stores: &Stores, left: &LeftUpload) -> Outcome<Option<PublishedUpload>> {
        let is_asked_for = !self.ids.is_empty();
        if matches!(left.problem(), Some(JournalError::InUse { .. })) && !is_asked_for {
            return Ok(None);
        }
        if left.problem().is_none() && !left.is_finished() {
            let (id, url) = (left.id(), left.url().unwrap_or_default());
            let has = text::size(left.length());
            let sentence = format!("{id}: {url} was cut after {has}: copy its source again to go on");
            if is_asked_for {
                return Err(CommandFailure::Failed(sentence));
            }
            output::say(&sentence);
            return Ok(None);
        }
        let found = claim(stores, left, &self.connection).await?;
        let FoundUpload::Ours(claimed) = left_alone(found, left, is_asked_for)? else { return Ok(None) };
        match claimed.resume().await? {
            Resumed::Object(object) => {
                let (id, url) = (left.id(), left.url().unwrap_or_default());
                Ok(Some(PublishedUpload { id: id.to_owned(), url, size: object.size }))
            }
            Resumed::Writer(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::one_upload;
    use super::*;

    #[tokio::test]
    async fn what_another_process_took_or_ended_since_is_no_failure() {
        let directory = tempfile::tempdir().unwrap();
        let (journals, target, tide) = one_upload(directory.path(), true).await;
        let all = tide.recover().await.unwrap();
        let [left] = &all[..] else { panic!("{all:?}") };
        assert!(left.is_finished(), "{left:?}");
        let command = |ids| JournalResume {
            directory: journals.clone(),
            ids,
            owners: Owners::default(),
            connection: ConnectionOptions::default(),
        };
        let (any, this) = (command(Vec::new()), command(vec![left.id().into()]));

        let claimed = left.claim().await.unwrap();
        Stores::with(&Invocation::default(), Tidegate::builder().journal([&journals]), async |stores| {
            assert_eq!(any.resume(stores, left).await.unwrap(), None);
            let failure = this.resume(stores, left).await.unwrap_err();
            assert!(failure.sentence().unwrap().contains("in use"), "{failure:?}");
            claimed.resume().await.unwrap();
            assert_eq!(any.resume(stores, left).await.unwrap(), None);
            let failure = this.resume(stores, left).await.unwrap_err();
            assert!(failure.sentence().unwrap().contains("meanwhile"), "{failure:?}");
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(std::fs::read(target.join("k")).unwrap(), b"bytes");
    }
}
