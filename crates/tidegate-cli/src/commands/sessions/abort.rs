//! `tidegate sessions abort`: aborts the unfinished uploads of a key.

use std::io::Write;

use futures::TryStreamExt;
use tidegate::location::Location;
use tidegate::sweep::{Process, Unfinished};

use super::{DescribedSession, SessionFate, SessionTotals};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::{output, text};

/// Abort the unfinished uploads of a key, and free the bytes that they hold
///
///     tidegate sessions abort s3://BUCKET/KEY
///     tidegate sessions abort -r s3://BUCKET/tmp/
///
/// Uploads of live processes on this machine are refused. To abort old uploads, use
/// `tidegate sweep`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SessionsAbort {
    /// Key, or with -r a prefix of keys.
    #[arg(value_name = "URL")]
    object: String,

    /// Abort only the upload with this id, as `sessions ls` shows it. Repeat it for several.
    #[arg(long, value_name = "ID")]
    id: Vec<String>,

    /// Abort all uploads whose keys begin with URL.
    #[arg(short, long)]
    recursive: bool,

    /// Abort uploads of live processes, too; they will fail.
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl SessionsAbort {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.object.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let (store, prefix) = stores.bucket(&location).await?;
            if !self.recursive && (prefix.is_empty() || prefix.ends_with('/')) {
                let message = format!("{location}: this is no key: add -r to end all that begin so");
                return Err(CommandFailure::Usage(message));
            }
            let root = store.location();
            let all: Vec<Unfinished> = store.unfinished(&prefix).try_collect().await?;
            let meant: Vec<&Unfinished> = all.iter().filter(|found| self.means(&prefix, found)).collect();
            if meant.is_empty() {
                return Err(CommandFailure::nothing_at(&location, "there is no such unfinished upload"));
            }
            let mut out = output::text(invocation.format())?;
            let (mut ended, mut bytes, mut live, mut failed) = (0, 0, 0, 0);
            for found in meant {
                let line = DescribedSession::of(&root, found);
                if matches!(found.process, Process::Live(_)) && !self.force {
                    let message =
                        format!("{}: a live process is writing it (--force ends it all the same)", line.url);
                    output::fail(&CommandFailure::At(line.url, CommandFailure::Failed(message).into()));
                    live += 1;
                    continue;
                }
                match store.abort_session(&found.open.session).await {
                    Ok(()) => {
                        ended += 1;
                        let held = found.held.as_ref().map_or(0, |held| held.bytes);
                        bytes = u64::saturating_add(bytes, held);
                        if out.is_json() {
                            out.json(&SessionFate { described: line, fate: "ended", dry_run: false })?;
                        } else {
                            writeln!(out, "ended  {}", line.line())?;
                        }
                    }
                    Err(error) => {
                        failed += 1;
                        output::fail(&error.into());
                    }
                }
            }
            if out.is_json() {
                out.json(&SessionTotals { ended, bytes, live, failed, ..SessionTotals::default() })?;
            } else {
                let uploads = text::count(ended, "unfinished upload");
                writeln!(out, "ended {uploads}, freed {}", text::size(bytes))?;
            }
            out.finish().await?;
            match live + failed {
                0 => Ok(()),
                failed => {
                    let uploads = text::count(failed, "unfinished upload");
                    Err(CommandFailure::Failed(format!("{uploads} of {location} could not be ended")))
                }
            }
        })
        .await
    }

    fn means(&self, key: &str, found: &Unfinished) -> bool {
        let session = &found.open.session;
        (self.recursive || session.key == key)
            && (self.id.is_empty()
                || self.id.iter().any(|id| *id == session.id || *id == session.public_id()))
    }
}
