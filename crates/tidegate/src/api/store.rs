//! `Store`: one bucket or root, or a prefix of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::Tidegate;
use crate::backend::{Entry, FaultKind, OpenSession};
use crate::download::{BlocksBuilder, DownloadBuilder, ReaderBuilder};
use crate::engine::Context;
use crate::engine::listing;
use crate::engine::request::Failure;
use crate::types::error::{Operation, Result};
use crate::types::object::Object;
use crate::upload::CopyBuilder;
use crate::upload::WriterBuilder;

/// One bucket or root, or a prefix of it. A clone is the same store.
#[derive(Clone, Debug)]
pub struct Store {
    tide: Tidegate,
    context: Context,
}

impl Store {
    pub(super) fn new(tide: Tidegate, context: Context) -> Self {
        Self { tide, context }
    }

    /// The engine that opened this store.
    pub(crate) fn tide(&self) -> &Tidegate {
        &self.tide
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The same engine with another context.
    pub(crate) fn with(&self, context: Context) -> Self {
        Self { context, ..self.clone() }
    }

    /// The store's URL without a trailing slash; for a local directory its path, which is empty for `/`.
    pub fn location(&self) -> String {
        self.context.location()
    }

    /// Sets up an upload to `key`.
    pub fn writer(&self, key: impl Into<String>) -> WriterBuilder {
        WriterBuilder::new(self.context.clone(), key.into())
    }

    /// Sets up a read of `key`.
    pub fn reader(&self, key: impl Into<String>) -> ReaderBuilder {
        ReaderBuilder::new(self.context.clone(), key.into())
    }

    /// Sets up a download of `key` to the file at `path`.
    pub fn download(&self, key: impl Into<String>, path: impl Into<PathBuf>) -> DownloadBuilder {
        DownloadBuilder::new(self.context.clone(), key.into(), path.into())
    }

    /// Sets up a read of several blocks of `key`. `index` gives the byte range of each block, in ascending order.
    pub fn blocks(
        &self,
        key: impl Into<String>,
        index: impl IntoIterator<Item = Range<u64>>,
    ) -> BlocksBuilder {
        BlocksBuilder::new(self.context.clone(), key.into(), index)
    }

    /// Uploads the file at `path` as `key`: [`WriterBuilder::upload`] with all defaults.
    pub async fn upload(&self, path: impl AsRef<Path>, key: impl Into<String>) -> Result<Object> {
        self.writer(key).upload(path).await
    }

    /// Sets up a copy of `key` to `to_key` of `to` that the store makes itself: the bytes do not pass through this
    /// machine. Both must be in one store, see [`is_one_with`](Self::is_one_with).
    pub fn copy(&self, key: impl Into<String>, to: &Self, to_key: impl Into<String>) -> CopyBuilder {
        CopyBuilder::new(self.context.clone(), key.into(), to.context.clone(), to_key.into())
    }

    /// Describes an object. `ErrorKind::NotFound` if the key has no object.
    pub async fn head(&self, key: &str) -> Result<Object> {
        self.context.head(key).await
    }

    /// The tags of an object; empty if the store has no tags.
    pub async fn tags(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.context.check(Operation::Head, key, None)?;
        self.context.tags(key, &self.context.engine().progress).await
    }

    /// Removes an object. Succeeds if the key has no object. After the future is dropped, the object may or may not
    /// be there.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let (context, full) = (&self.context, self.context.full_key(key));
        context.check(Operation::Delete, key, None)?;
        let requests = context.requests(key, context.engine().progress.clone());
        let delete = |attempt| context.backend().delete(&full, attempt);
        let delete = requests.send(Operation::Delete, None, None, delete).await;
        let Err(failure) = delete else { return Ok(()) };
        if failure.fault.kind == FaultKind::NotAStore {
            // The answer proves nothing. Only the store's own word that the object is missing counts, so ask for it.
            let head = |attempt| context.backend().head(&full, attempt);
            let head = requests.send(Operation::Head, None, None, head).await;
            let is_gone = |asked: &Failure| asked.fault.kind == FaultKind::NotFound && asked.fault.answered;
            if head.as_ref().is_err_and(is_gone) {
                return Ok(());
            }
        }
        Err(failure.into_error(Operation::Delete, &context.url(key)))
    }

    /// Lists the objects whose keys begin with `prefix`, in key order. Unless `recursive`, keys with a further `/`
    /// after `prefix` are listed only as the prefix up to that `/`. Each page is one request; if it still fails after
    /// its retries, the listing ends with the error.
    pub fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry>> {
        let (context, below) = (self.context.clone(), self.context.prefixed(prefix));
        let requests = context.list_requests(prefix);
        let entries = match context.keys() {
            Some(keys) => keys.clone().list(requests.clone(), below, recursive),
            None => listing::entries(&requests, &**context.backend(), &below, recursive),
        };
        entries
            .map_err(move |failure| failure.into_error(Operation::List, &requests.object))
            .map_ok(move |entry| match entry {
                Entry::Object(mut object) => {
                    object.key = context.relative_key(&object.key);
                    Entry::Object(object)
                }
                Entry::Prefix(prefix) => Entry::Prefix(context.relative_key(&prefix)),
                Entry::Other { key, kind } => Entry::Other { key: context.relative_key(&key), kind },
            })
            .boxed()
    }

    /// Lists the unfinished uploads of keys that begin with `prefix`, as far as the store lists them. A request that
    /// still fails after its retries ends the listing with the error. [`unfinished`](Self::unfinished) also says how
    /// much each holds.
    pub fn sessions(&self, prefix: &str) -> BoxStream<'static, Result<OpenSession>> {
        if let Err(error) = self.context.refuse_spread(Operation::List, "unfinished uploads") {
            return futures::stream::iter([Err(error)]).boxed();
        }
        let context = self.context.clone();
        let requests = context.list_requests(prefix);
        listing::sessions(&requests, &**context.backend(), &context.full_key(prefix))
            .map_err(move |failure| failure.into_error(Operation::List, &requests.object))
            .map_ok(move |mut open| {
                open.session.key = context.relative_key(&open.session.key);
                open
            })
            .boxed()
    }

    /// The part of this store below `prefix`: keys are then relative to `prefix`. Adds a slash to a prefix that does
    /// not end with one.
    #[must_use]
    pub fn within(&self, prefix: &str) -> Self {
        self.with(self.context.within(prefix))
    }

    /// Whether the store itself can copy objects from here to `to`: both have the same endpoint, which supports
    /// copies, and neither spreads its keys over prefixes (then only the layout knows the places). The copy uses the
    /// credentials of `to`.
    pub fn is_one_with(&self, to: &Self) -> bool {
        self.context.is_one_with(&to.context)
    }
}
