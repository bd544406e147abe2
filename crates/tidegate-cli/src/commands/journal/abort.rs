//! `tidegate journal abort`: aborts journaled uploads.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use tidegate::journal::JournalError;
use tidegate::recover::LeftUpload;
use tidegate::text::printable;
use tidegate::{ErrorKind, Tidegate};

use super::{Undone, all_chosen, claim, left_alone, refuse_missing};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, Owners};
use crate::stores::Stores;
use crate::ui::lines::OutputLine;
use crate::{output, text};
use tidegate_transfer::journaled::{self, FoundUpload};

/// Abort uploads in a journal directory and delete their journals
///
///     tidegate journal abort /mnt/ssd1/journal 5f3a9c
///     tidegate journal abort /mnt/ssd1/journal --all
///
/// Their sessions at the store are aborted, and the journals are removed with all bytes in
/// them. An upload that another process is writing is left alone; if its ID was given, that is
/// an error.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JournalAbort {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// ID of the upload, as `journal ls` shows it. Repeat it for several.
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,

    /// Abort all uploads in the directory.
    #[arg(long)]
    all: bool,

    /// Remove the journals only, without requests to the store, which may be gone. Also removes journals that are
    /// damaged or of a later version. Sessions that remain at the store are left to `tidegate sweep`.
    #[arg(long)]
    forget: bool,

    #[command(flatten)]
    owners: Owners,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// The result for one upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum AbortOutcome {
    Ended,
    /// The object had already been published, and stays.
    Published,
    /// Another process is writing it.
    InUse,
    /// It ended after it was listed.
    Gone,
}

/// An upload that was to be aborted, and the result.
#[derive(Serialize)]
#[serde(tag = "type", rename = "abort")]
struct EndedUpload<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    fate: AbortOutcome,
}

impl OutputLine for EndedUpload<'_> {
    fn text(&self) -> String {
        let (id, url) = (printable(self.id), printable(self.url.as_deref().unwrap_or_default()));
        let fate = match self.fate {
            AbortOutcome::Ended => "ended",
            AbortOutcome::Published => "published before, and left as it is",
            AbortOutcome::InUse => "in use, and left alone",
            AbortOutcome::Gone => "gone",
        };
        format!("{fate}  {id}  {url}")
    }
}

impl JournalAbort {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        refuse_missing(&self.directory)?;
        let engine =
            self.connection.reached(self.owners.trusted(Tidegate::builder())).journal([&self.directory]);
        Stores::with(invocation, engine, async |stores| {
            let all = stores.tide().recover().await?;
            let mut out = output::text(invocation.format())?;
            let (mut ended, mut undone) = (0, Undone::default());
            for left in all_chosen(&all, &self.ids, &self.directory)? {
                let fate = undone.or_done(self.end(stores, left).await);
                let Some(fate) = fate.filter(|fate| *fate != AbortOutcome::Gone) else { continue };
                ended += u64::from(fate == AbortOutcome::Ended);
                out.print(&EndedUpload { id: left.id(), url: left.url(), fate })?;
            }
            if !out.is_json() {
                writeln!(out, "ended {}", text::count(ended, "upload"))?;
            }
            out.finish().await?;
            undone.end("ended")
        })
        .await
    }

    /// Ends one upload.
    async fn end(&self, stores: &Stores, left: &LeftUpload) -> Outcome<AbortOutcome> {
        let is_asked_for = !self.ids.is_empty();
        if matches!(left.problem(), Some(JournalError::InUse { .. })) && !is_asked_for {
            return Ok(AbortOutcome::InUse);
        }
        let found = match self.forget {
            true => match left.forget().await {
                Ok(()) => return Ok(AbortOutcome::Ended),
                Err(error) if error.kind() == ErrorKind::NotFound => FoundUpload::Ended,
                Err(error) if journaled::is_in_use(&error) => FoundUpload::InUse(error.to_string()),
                Err(error) => return Err(error.into()),
            },
            false => claim(stores, left, &self.connection).await?,
        };
        match left_alone(found, left, is_asked_for)? {
            FoundUpload::Ours(claimed) => Ok(match claimed.abort().await? {
                Some(_) => AbortOutcome::Published,
                None => AbortOutcome::Ended,
            }),
            FoundUpload::InUse(_) => Ok(AbortOutcome::InUse),
            FoundUpload::Ended => Ok(AbortOutcome::Gone),
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
        let (journals, _target, tide) = one_upload(directory.path(), false).await;
        let all = tide.recover().await.unwrap();
        let [left] = &all[..] else { panic!("{all:?}") };
        let command = |ids, forget| JournalAbort {
            directory: journals.clone(),
            ids,
            all: false,
            forget,
            owners: Owners::default(),
            connection: ConnectionOptions::default(),
        };
        let (any, this) =
            (|forget| command(Vec::new(), forget), |forget| command(vec![left.id().into()], forget));

        let claimed = left.claim().await.unwrap();
        Stores::with(&Invocation::default(), Tidegate::builder().journal([&journals]), async |stores| {
            for forget in [false, true] {
                assert_eq!(any(forget).end(stores, left).await.unwrap(), AbortOutcome::InUse);
                let failure = this(forget).end(stores, left).await.unwrap_err();
                assert!(failure.sentence().unwrap().contains("in use"), "{failure:?}");
            }
            claimed.abort().await.unwrap();
            for forget in [false, true] {
                assert_eq!(any(forget).end(stores, left).await.unwrap(), AbortOutcome::Gone);
                let failure = this(forget).end(stores, left).await.unwrap_err();
                assert!(failure.sentence().unwrap().contains("meanwhile"), "{failure:?}");
            }
            Ok(())
        })
        .await
        .unwrap();
    }
}
