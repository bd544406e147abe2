//! `tidegate journal verify`: checks the bytes of journaled uploads.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;
use tidegate::journal::JournalError;
use tidegate::recover::LeftUpload;
use tidegate::text::printable;

use super::list;
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::Owners;
use crate::ui::lines::OutputLine;
use crate::{output, text};

/// Read every byte in a journal directory and compare its checksum
///
///     tidegate journal verify /mnt/ssd1/journal
///
/// No upload is changed. As with `tidegate journal ls`, the files of ended uploads are removed,
/// and after a day those of uploads that never began.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JournalVerify {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    owners: Owners,
}

impl JournalVerify {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let mut out = output::text(invocation.format())?;
        let bad = verify(list(&self.directory, &self.owners).await?, |line| out.print(line)).await?;
        out.finish().await?;
        match bad {
            0 => Ok(()),
            n => Err(CommandFailure::Failed(format!("not whole: {}", text::count(n, "journal")))),
        }
    }
}

/// A journal that was checked.
#[derive(Serialize)]
#[serde(tag = "type", rename = "verify")]
struct VerifiedJournal<'a> {
    id: &'a str,
    /// `whole`, or `in_use`: another process writes it, so it was not looked at.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

impl OutputLine for VerifiedJournal<'_> {
    fn text(&self) -> String {
        let id = printable(self.id);
        match (self.bytes, &self.checksum) {
            (Some(bytes), Some(checksum)) => format!("{id}  whole: {bytes} bytes, {checksum}"),
            _ => format!("{id}  in use: not looked at"),
        }
    }
}

/// Checks all journals. Returns how many are bad.
async fn verify(
    all: Vec<LeftUpload>,
    mut print: impl FnMut(&VerifiedJournal<'_>) -> Outcome,
) -> Outcome<u64> {
    let mut bad = 0;
    for left in all {
        let id = left.id();
        match left.verify().await {
            Ok(found) => {
                let (bytes, checksum) = (Some(found.checksum.covers()), Some(found.checksum.to_string()));
                print(&VerifiedJournal { id, state: "whole", bytes, checksum })?;
            }
            Err(JournalError::InUse { .. }) => {
                print(&VerifiedJournal { id, state: "in_use", bytes: None, checksum: None })?;
            }
            // The upload ended after it was listed.
            Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                bad += 1;
                let path = left.path().display().to_string();
                output::fail(&CommandFailure::At(path, CommandFailure::Failed(error.to_string()).into()));
            }
        }
    }
    Ok(bad)
}

#[cfg(test)]
mod tests {
    use tidegate::{Strategy, Tidegate};

    use super::*;

    #[tokio::test]
    async fn an_upload_that_ends_meanwhile_is_not_bad() {
        let directory = tempfile::tempdir().unwrap();
        let tide = Tidegate::builder().journal([directory.path()]).build().unwrap();
        for key in ["ends", "stays"] {
            let store = tide.open("memory://verify").await.unwrap();
            let mut writer = store.writer(key).strategy(Strategy::Journal).await.unwrap();
            writer.write_bytes("bytes".into()).await.unwrap();
        }
        tide.settled().await;
        let all = tide.recover().await.unwrap();
        let ends = all.iter().find(|left| left.url().is_some_and(|url| url.ends_with("ends"))).unwrap();
        ends.forget().await.unwrap();
        let mut lines = Vec::new();
        let bad = verify(all, |line| {
            lines.push(line.text());
            Ok(())
        });
        assert_eq!(bad.await.unwrap(), 0);
        assert!(lines.len() == 1 && lines[0].contains("whole: 5 bytes"), "{lines:?}");
    }
}
