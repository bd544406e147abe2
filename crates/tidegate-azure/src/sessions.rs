//! Lists uploads that were begun and not committed: names with uncommitted blocks and no blob.

use std::collections::{BTreeSet, VecDeque};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};

use super::AzureContainer;
use super::block_list::{ListOf, block_list};
use super::blocks::UploadBlocks;
use super::list::{ListedBlob, ORDER, page};
use tidegate_core::backend::{Attempt, Fault, FaultKind, Listing, OpenSession, Pages, Session};
use tidegate_http::{PagePosition, Watch};

/// The id that stands for the blocks of other programs.
const OTHERS: &str = "blocks-of-another-program";

/// Names that are asked for their blocks at the same time.
const AT_ONCE: usize = 8;

/// What the listing leaves out, for users.
pub(super) const UNLISTED: &str = "Azure Blob Storage lists uncommitted blocks only of blobs that do not exist yet, and \
                                   removes them itself a week after the last of them was sent: those of blobs that \
                                   exist are shown only if the records name them";

/// Unfinished uploads of keys that begin with `prefix`. Uncommitted blocks of a blob that
/// exists are not listed.
pub(super) fn list(container: AzureContainer, prefix: &str) -> Listing<OpenSession> {
    let (position, watch) = (PagePosition::At(None), Watch::new(None, ORDER));
    Listing::Pages(Box::new(SessionPages { container, prefix: prefix.to_owned(), position, watch }))
}

/// Pages of a listing that names all blobs: most pages have no unfinished upload.
struct SessionPages {
    container: AzureContainer,
    prefix: String,
    position: PagePosition<Option<String>>,
    /// Watches the pages of names.
    watch: Watch<Option<String>>,
}

#[async_trait]
impl Pages<OpenSession> for SessionPages {
    async fn next(&mut self, attempt: Attempt) -> Result<Option<Vec<OpenSession>>, Fault> {
        let PagePosition::At(marker) = &self.position else { return Ok(None) };
        let more = &[("include", "metadata,uncommittedblobs")];
        let page = page(&self.container, &self.prefix, marker.as_deref(), more, attempt).await?;
        let blobs = VecDeque::from(page.blobs);
        let names: Vec<_> = blobs.iter().filter(|blob| blob.may_be_uncommitted()).cloned().collect();
        let asked = stream::iter(names).map(|blob| of_blob(&self.container, blob, attempt)).buffered(AT_ONCE);
        let sessions: Vec<Vec<OpenSession>> = asked.try_collect().await?;
        self.position = match page.next.map(Some) {
            Some(next) => {
                self.watch.page(&blobs, &next)?;
                PagePosition::At(next)
            }
            None => PagePosition::End,
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
