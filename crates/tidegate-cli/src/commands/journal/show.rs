//! `tidegate journal show`: shows one journaled upload.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use tidegate::journal::{JournalState, Recovered, SessionKind};
use tidegate::text::printable;

use super::{DescribedJournal, chosen, list};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::Owners;
use crate::{output, text};

/// Show the details of one upload in a journal directory
///
///     tidegate journal show /mnt/ssd1/journal 5f3a9c
///     tidegate journal show /mnt/ssd1/journal 5f3a9c --json
///
/// As with `tidegate journal ls`, the files of ended uploads are removed, and after a day those
/// of uploads that never began.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JournalShow {
    /// The journal directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// ID of the upload, as `journal ls` shows it.
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    owners: Owners,
}

/// All details as a JSON object.
#[derive(Serialize)]
struct JournalDetails<'a> {
    #[serde(flatten)]
    described: &'a DescribedJournal,
    first_byte_kept: u64,
    torn_bytes: u64,
    state_record: &'a JournalState,
}

impl JournalShow {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let all = list(&self.directory, &self.owners).await?;
        let left = chosen(&all, &self.id, &self.directory)?;
        let described = DescribedJournal::of(left);
        let Some(found) = left.recovered() else {
            return Err(CommandFailure::Failed(described.problem.unwrap_or_default()));
        };
        let mut out = output::text(invocation.format())?;
        if out.is_json() {
            let Recovered { state, first, cut, .. } = found;
            let whole = JournalDetails {
                described: &described,
                first_byte_kept: *first,
                torn_bytes: *cut,
                state_record: state,
            };
            out.json(&whole)?;
            return out.finish().await;
        }
        let dash = || "-".to_owned();
        writeln!(out, "upload        {}", described.id)?;
        writeln!(out, "object        {}", printable(&described.url.clone().unwrap_or_else(dash)))?;
        writeln!(out, "state         {}", described.state)?;
        writeln!(out, "begun         {}", described.created.clone().unwrap_or_else(dash))?;
        writeln!(out, "length        {} bytes, {}", described.bytes, found.checksum)?;
        let acknowledged = text::size(described.acknowledged_bytes);
        match &found.state.session {
            Some(session) if session.kind == SessionKind::Append => {
                writeln!(out, "acknowledged  {acknowledged} from the first byte on")?;
            }
            _ => {
                writeln!(
                    out,
                    "acknowledged  {acknowledged} in {}",
                    text::count(described.parts as u64, "part")
                )?;
            }
        }
        writeln!(out, "session       {}", printable(&described.session.clone().unwrap_or_else(dash)))?;
        if found.first > 0 {
            writeln!(out, "given back    {} that the store has", text::size(found.first))?;
        }
        if found.cut > 0 {
            writeln!(out, "torn tail     {}, never synced and no part of it", text::size(found.cut))?;
        }
        writeln!(out, "file          {}", printable(&described.file.display().to_string()))?;
        out.finish().await
    }
}
