//! Lists uploads that were begun and not committed: names with uncommitted blocks and no blob.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures::stream;
use futures::{StreamExt, TryStreamExt};

use super::AzureContainer;
use super::block_list::{ListOf, block_list};
use super::blocks::UploadBlocks;
use super::list::{ListedBlob, no_progress, page};
use crate::backend::{Attempt, Fault, FaultKind, Listing, OpenSession, Pages, Session};

/// The id that stands for the blocks of other programs.
const OTHERS: &str = "blocks-of-another-program";

/// Names that are asked for their blocks at the same time.
const AT_ONCE: usize = 8;

/// What the listing leaves out, for users.
pub(super) const UNLISTED: &str = "Azure Blob Storage lists uncommitted blocks only of blobs that do not exist yet, and \
                                   removes them itself a week after the last of them was sent: those of blobs that \
                                   exist are shown only if the records name them";

/// Unfinished uploads of keys that begin with `prefix`. The blob that a key has does not show whether it has uncommitted
/// blocks too.
pub(super) fn list(container: AzureContainer, prefix: &str) -> Listing<OpenSession> {
    let position = SessionPosition::At { marker: None, last: String::new() };
    Listing::Pages(Box::new(SessionPages { container, prefix: prefix.to_owned(), position }))
}

enum SessionPosition {
    /// `last` is the last name that was listed.
    At {
        marker: Option<String>,
        last: String,
    },
    End,
}

/// Pages of a listing that names all blobs: most pages have no unfinished upload.
struct SessionPages {
    container: AzureContainer,
    prefix: String,
    position: SessionPosition,
}

#[async_trait]
impl Pages<OpenSession> for SessionPages {
    async fn next(&mut self, attempt: Attempt) -> Result<Option<Vec<OpenSession>>, Fault> {
        let SessionPosition::At { marker, last } = &self.position else { return Ok(None) };
        let more = Some(("include", "uncommittedblobs"));
        let page = page(&self.container, &self.prefix, marker.as_deref(), more, attempt).await?;
        let furthest = page.blobs.iter().map(|blob| blob.object.key.clone()).max().unwrap_or_default();
        let is_stuck = page.next.is_some() && (page.next == *marker || furthest <= *last);
        if is_stuck {
            return Err(no_progress());
        }
        let names = page.blobs.into_iter().filter(ListedBlob::may_be_uncommitted);
        let asked = stream::iter(names).map(|blob| of_blob(&self.container, blob, attempt)).buffered(AT_ONCE);
        let sessions: Vec<Vec<OpenSession>> = asked.try_collect().await?;
        self.position = match page.next {
            Some(next) => SessionPosition::At { marker: Some(next), last: furthest },
            None => SessionPosition::End,
        };
        Ok(Some(sessions.into_iter().flatten().collect()))
    }
}

/// The uploads that the blocks of a name belong to.
async fn of_blob(
    container: &AzureContainer,
    blob: ListedBlob,
    attempt: Attempt,
) -> Result<Vec<OpenSession>, Fault> {
    let key = blob.object.key;
    let list = match block_list(container, &key, ListOf::Uncommitted, attempt).await {
        Ok(list) => list,
        // Gone since it was listed.
        Err(fault) if fault.kind == FaultKind::NotFound => return Ok(Vec::new()),
        Err(fault) => return Err(fault),
    };
    let ids: BTreeSet<String> = list
        .blocks
        .iter()
        .map(|block| {
            UploadBlocks::that_sent(&block.id).map_or(OTHERS.to_owned(), |upload| upload.session_id())
        })
        .collect();
    let open = |id| OpenSession::new(Session { key: key.clone(), id }).with_started(blob.object.modified);
    Ok(ids.into_iter().map(open).collect())
}
