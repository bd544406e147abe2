//! `tidegate journal verify`: checks the bytes of journaled uploads.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use tidegate::journal::JournalError;
use tidegate::recover::LeftUpload;
use tidegate::text::printable;

use super::list;
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::Owners;
use crate::{output, text};

/// Read every byte in a journal directory and compare its checksum.
///
/// No upload is changed. As with `journal ls`, the files of ended uploads are removed, and after a day those of
/// uploads that never began.
#[derive(Debug, clap::Args)]
pub(crate) struct JournalVerify {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    owners: Owners,
}

impl JournalVerify {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let mut out = output::text()?;
        let bad = verify(list(&self.directory, &self.owners).await?, &mut out).await?;
        out.finish().await?;
        match bad {
            0 => Ok(()),
            n => Err(CommandFailure::Failed(format!("not whole: {}", text::count(n, "journal")))),
        }
    }
}

/// Checks all journals. Returns how many are bad.
async fn verify(all: Vec<LeftUpload>, out: &mut impl Write) -> Outcome<u64> {
    let mut bad = 0;
    for left in all {
        let id = printable(left.id());
        match left.verify().await {
            Ok(found) => writeln!(out, "{id}  whole: {} bytes, {}", found.checksum.covers(), found.checksum)?,
            Err(JournalError::InUse { .. }) => writeln!(out, "{id}  in use: not looked at")?,
            // The upload ended after it was listed.
            Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                bad += 1;
                output::say(&format!("error: {error}"));
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
        let mut out = Vec::new();
        assert_eq!(verify(all, &mut out).await.unwrap(), 0);
        let out = String::from_utf8(out).unwrap();
        assert!(out.lines().count() == 1 && out.contains("whole: 5 bytes"), "{out}");
    }
}
