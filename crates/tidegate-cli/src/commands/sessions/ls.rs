//! `tidegate sessions ls`: lists unfinished uploads.

use std::io::Write;

use futures::TryStreamExt;
use tidegate::location::Location;

use super::DescribedSession;
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output;
use crate::stores::{Stores, refuse_missing};

/// List the unfinished uploads whose keys begin with a URL
///
///     tidegate sessions ls s3://BUCKET/
///     tidegate sessions ls s3://BUCKET/tables/ --json
///
/// Lines have age, bytes, id, key and, if known, the process or the account that began it.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SessionsLs {
    /// A bucket, a prefix or a key.
    #[arg(value_name = "URL")]
    prefix: String,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl SessionsLs {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.prefix.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let (store, prefix) = stores.bucket(&location).await?;
            let root = store.location();
            let mut unfinished = store.unfinished(&prefix);
            let mut out = output::text(invocation.format())?;
            let mut is_found = false;
            let listed = async {
                while let Some(found) = unfinished.try_next().await? {
                    is_found = true;
                    let line = DescribedSession::of(&root, &found);
                    if out.is_json() {
                        out.json(&line)?;
                    } else {
                        let initiator =
                            line.initiator.map_or_else(String::new, |name| format!("  by {name}"));
                        writeln!(out, "{}{initiator}", line.line())?;
                    }
                    out.flow().await?;
                }
                Ok(())
            };
            let listed: Outcome = listed.await;
            out.finish().await?;
            if !is_found && listed.is_ok() {
                refuse_missing(&location)?;
            }
            if let (Ok(()), Some(left_out)) = (&listed, store.unlisted_sessions()) {
                output::warn(left_out);
            }
            listed
        })
        .await
    }
}
