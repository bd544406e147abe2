//! Listings of a store's keys.

use std::fmt;
use std::pin::Pin;
use std::task::{self, Poll};

use futures::future::ready;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::backend::Entry;
use crate::engine::{Context, listing};
use crate::types::error::{Operation, Result};

/// The objects whose keys begin with a prefix, in key order: a [`Stream`] of entries.
///
/// Each page is one request, made when its first entry is asked for; if it still fails after its retries, the listing
/// ends with the error. Settings apply if they are made before the first entry is taken.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use futures::TryStreamExt;
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// for key in ["t/a", "t/b", "t/sub/c"] {
///     store.put(key, "1").await?;
/// }
/// let mut entries = store.list("t/").start_after("t/a").recursive(false);
/// let mut keys = Vec::new();
/// while let Some(entry) = entries.try_next().await? {
///     keys.push(entry.key().to_owned());
/// }
/// assert_eq!(keys, ["t/b", "t/sub/"]);
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is listed before an entry is taken"]
pub struct ListStream {
    context: Context,
    prefix: String,
    recursive: bool,
    start_after: Option<String>,
    /// The entries, once the first is asked for.
    entries: Option<BoxStream<'static, Result<Entry>>>,
}

impl fmt::Debug for ListStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context: _, prefix, recursive, start_after, entries } = self;
        f.debug_struct("ListStream")
            .field("prefix", prefix)
            .field("recursive", recursive)
            .field("start_after", start_after)
            .field("has_begun", &entries.is_some())
            .finish()
    }
}

impl ListStream {
    pub(super) fn new(context: Context, prefix: String) -> Self {
        Self { context, prefix, recursive: true, start_after: None, entries: None }
    }

    /// Whether to list all keys, as by default. If not, keys with a further `/` after the prefix are listed only as
    /// the prefix up to that `/`.
    pub fn recursive(mut self, recursive: bool) -> Self {
        self.recursive = recursive;
        self
    }

    /// Lists only entries after this key. Amazon S3 and Google Cloud Storage begin their listing there; other stores
    /// list the entries up to there too, which are left out here.
    pub fn start_after(mut self, key: impl Into<String>) -> Self {
        self.start_after = Some(key.into());
        self
    }

    fn begin(&self) -> BoxStream<'static, Result<Entry>> {
        let (context, below) = (self.context.clone(), self.context.prefixed(&self.prefix));
        let requests = context.list_requests(&self.prefix);
        let after = self.start_after.as_ref().map(|after| context.prefixed(after));
        let entries = match context.keys() {
            Some(keys) => keys.clone().list(requests.clone(), below, self.recursive, after),
            None => {
                let backend = &**context.backend();
                listing::entries(&requests, backend, &below, self.recursive, after.as_deref())
            }
        };
        let entries = entries
            .map_err(move |failure| failure.into_error(Operation::List, &requests.object))
            .map_ok(move |entry| match entry {
                Entry::Object(mut object) => {
                    object.key = context.relative_key(&object.key);
                    Entry::Object(object)
                }
                Entry::Prefix(prefix) => Entry::Prefix(context.relative_key(&prefix)),
                Entry::Other { key, kind } => Entry::Other { key: context.relative_key(&key), kind },
            });
        match self.start_after.clone() {
            None => entries.boxed(),
            // Not every store begins there, or lists in key order, so each entry is compared.
            Some(after) => entries.try_filter(move |entry| ready(entry.key() > after.as_str())).boxed(),
        }
    }
}

impl Stream for ListStream {
    type Item = Result<Entry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Self::Item>> {
        if self.entries.is_none() {
            self.entries = Some(self.begin());
        }
        match &mut self.entries {
            Some(entries) => entries.poll_next_unpin(cx),
            None => Poll::Ready(None),
        }
    }
}
