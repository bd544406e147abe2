//! `Store`: one bucket or root, or a prefix of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::Engine;
use crate::backend::{Backend, Entry, FaultKind, OpenSession, WriteOptions};
use crate::copy::{self, CopyBuilder};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::limiter::Lane;
use crate::listing::{self, Listing};
use crate::object::Object;
use crate::pace::Best;
use crate::prefix::{self, Places};
use crate::progress::Progress;
use crate::read::{BlocksBuilder, DownloadBuilder, ReaderBuilder};
use crate::request::{Failure, Requests};
use crate::write::WriterBuilder;

/// One bucket or root, or a prefix of it. A clone is the same store.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Arc<Engine>,
    backend: Arc<dyn Backend>,
    endpoint: Arc<Endpoint>,
    prefix: String,
    /// Where keys are, if they are spread over prefixes.
    places: Option<Arc<Places>>,
    /// The prefixes that requests are limited by, where keys are those of the whole bucket.
    lanes: Option<Arc<Places>>,
}

impl Store {
    pub(super) fn new(engine: Arc<Engine>, backend: Arc<dyn Backend>, endpoint: Arc<Endpoint>) -> Self {
        Self { engine, backend, endpoint, prefix: String::new(), places: None, lanes: None }
    }

    /// Where it is, as a URL without a slash at its end; for a local directory its path, which is empty for `/`.
    pub fn location(&self) -> String {
        self.url("").trim_end_matches('/').to_owned()
    }

    /// Writes `key`.
    pub fn writer(&self, key: impl Into<String>) -> WriterBuilder {
        WriterBuilder::new(self.clone(), key.into())
    }

    /// Reads `key`.
    pub fn reader(&self, key: impl Into<String>) -> ReaderBuilder {
        ReaderBuilder::new(self.clone(), key.into())
    }

    /// Downloads `key` to the file at `path`.
    pub fn download(&self, key: impl Into<String>, path: impl Into<PathBuf>) -> DownloadBuilder {
        DownloadBuilder::new(self.clone(), key.into(), path.into())
    }

    /// Reads the blocks of `key` that `index` names: where each lies, in ascending order.
    pub fn blocks(
        &self,
        key: impl Into<String>,
        index: impl IntoIterator<Item = Range<u64>>,
    ) -> BlocksBuilder {
        BlocksBuilder::new(self.clone(), key.into(), index)
    }

    /// Sends the file at `path` as `key`; [`WriterBuilder::upload`] with every default.
    pub async fn upload(&self, path: impl AsRef<Path>, key: impl Into<String>) -> Result<Object> {
        self.writer(key).upload(path).await
    }

    /// Copies `key` to `to_key` of `to`, without its bytes coming this way; both are to be of one store, see
    /// [`is_one_with`](Self::is_one_with).
    pub fn copy(&self, key: impl Into<String>, to: &Self, to_key: impl Into<String>) -> CopyBuilder {
        CopyBuilder::new(self.clone(), key.into(), to.clone(), to_key.into())
    }

    /// Describes an object.
    pub async fn head(&self, key: &str) -> Result<Object> {
        let full = self.full_key(key);
        self.check(Operation::Head, key, None)?;
        let requests = self.requests(key, self.engine.progress.clone());
        let head = requests.send(Operation::Head, None, None, || self.backend.head(&full)).await;
        head.map(|object| self.relative(object))
            .map_err(|failure| failure.into_error(Operation::Head, &self.url(key)))
    }

    /// The tags of an object; none where the store knows no tags.
    pub async fn tags(&self, key: &str) -> Result<BTreeMap<String, String>> {
        self.check(Operation::Head, key, None)?;
        copy::tags(self, key, &self.engine.progress).await
    }

    /// Removes an object; removing what is not there is no error.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let full = self.full_key(key);
        self.check(Operation::Delete, key, None)?;
        let requests = self.requests(key, self.engine.progress.clone());
        let delete = requests.send(Operation::Delete, None, None, || self.backend.delete(&full)).await;
        let Err(failure) = delete else { return Ok(()) };
        if failure.fault.kind == FaultKind::NotAStore {
            // The answer proves nothing: only the store's own word that there is no such object does.
            let head = requests.send(Operation::Head, None, None, || self.backend.head(&full)).await;
            let is_gone = |asked: &Failure| asked.fault.kind == FaultKind::NotFound && asked.fault.answered;
            if head.as_ref().is_err_and(is_gone) {
                return Ok(());
            }
        }
        Err(failure.into_error(Operation::Delete, &self.url(key)))
    }

    /// Lists the objects whose keys begin with `prefix`, in key order; what lies below the next `/`
    /// only as prefixes, unless `recursive`. Each page is one request; one that fails for good ends the listing
    /// with an error.
    pub fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry>> {
        let store = self.clone();
        let below = format!("{}{prefix}", self.prefix);
        let entries = match &self.places {
            Some(places) => prefix::list(places.clone(), below, recursive),
            None => listing::entries(&*self.backend, &below, recursive),
        };
        Listing::new(self.list_requests(prefix), entries)
            .map_ok(move |entry| match entry {
                Entry::Object(mut object) => {
                    object.key = store.relative_key(&object.key);
                    Entry::Object(object)
                }
                Entry::Prefix(prefix) => Entry::Prefix(store.relative_key(&prefix)),
                Entry::Other { key, kind } => Entry::Other { key: store.relative_key(&key), kind },
            })
            .boxed()
    }

    fn list_requests(&self, prefix: &str) -> Requests {
        // A listing of many prefixes is of none of them.
        Requests { lane: None, ..self.requests(prefix, self.engine.progress.clone()) }
    }

    /// Lists the unfinished uploads of keys that begin with `prefix`, as far as the store tells. A failed
    /// request ends the listing with an error. See [`unfinished`](Self::unfinished) for what they hold.
    pub fn sessions(&self, prefix: &str) -> BoxStream<'static, Result<OpenSession>> {
        if let Err(error) = self.refuse_spread(Operation::List, "unfinished uploads") {
            return futures::stream::iter([Err(error)]).boxed();
        }
        let store = self.clone();
        Listing::new(self.list_requests(prefix), listing::sessions(&*self.backend, &self.full_key(prefix)))
            .map_ok(move |mut open| {
                open.session.key = store.relative_key(&open.session.key);
                open
            })
            .boxed()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Refuses what could not be sent, before anything is.
    pub(crate) fn check(
        &self,
        operation: Operation,
        key: &str,
        options: Option<&WriteOptions>,
    ) -> Result<()> {
        let attributes = options.map_or(Ok(()), |options| options.attributes.check());
        let checked = attributes.and_then(|()| self.backend.check(&self.full_key(key), options));
        checked.map_err(|fault| Error::from_fault(fault, operation, self.url(key), 0, Default::default()))
    }

    pub(crate) fn requests(&self, key: &str, progress: Progress) -> Requests {
        Requests {
            object: self.url(key),
            flow: self.endpoint.limiter.flow(),
            lane: self.lane(key),
            endpoint: self.endpoint.clone(),
            retry: self.engine.retry.clone(),
            progress,
            brings: 0,
        }
    }

    /// Most requests that may fly to its endpoint, however quick that is.
    pub(crate) fn most_requests(&self) -> usize {
        self.endpoint.limiter.most()
    }

    /// How quick its endpoint has been.
    pub(crate) fn best(&self) -> Best {
        self.endpoint.pace.best()
    }

    fn lane(&self, key: &str) -> Option<Arc<Lane>> {
        let key = format!("{}{key}", self.prefix);
        let lane = match &self.places {
            Some(places) => places.lane(&key),
            None => self.lanes.as_ref()?.lane_at(&key)?,
        };
        Some(self.endpoint.lanes.lane(&format!("{}/{lane}", self.backend.location())))
    }

    pub(crate) fn url(&self, key: &str) -> String {
        let root = self.places.as_ref().map_or("", |places| places.root());
        format!("{}/{root}{}{key}", self.backend.location(), self.prefix)
    }

    /// The key as the backend has it. Where keys are spread it is where the object is written now.
    pub(crate) fn full_key(&self, key: &str) -> String {
        let key = format!("{}{key}", self.prefix);
        match &self.places {
            Some(places) => places.current(&key),
            None => key,
        }
    }

    /// The same root, its keys spread; `backend` is what finds them.
    pub(crate) fn spread(&self, places: Arc<Places>, backend: Arc<dyn Backend>) -> Self {
        Self { backend, prefix: String::new(), places: Some(places), ..self.clone() }
    }

    pub(crate) fn places(&self) -> Option<&Arc<Places>> {
        self.places.as_ref()
    }

    /// Refuses what is about places in the store and not about keys.
    pub(crate) fn refuse_spread(&self, operation: Operation, what: &str) -> Result<()> {
        if self.places.is_none() {
            return Ok(());
        }
        let message =
            format!("{what} are of the store itself, and the keys of this one are spread over prefixes");
        Err(Error::new(ErrorKind::Unsupported, operation, self.location(), message))
    }

    /// The same store from `prefix` on: keys are then relative to that. A slash is added to a prefix that
    /// does not end with one.
    #[must_use]
    pub fn within(&self, prefix: &str) -> Self {
        let mut store = self.clone();
        store.prefix.push_str(prefix);
        if !store.prefix.is_empty() && !store.prefix.ends_with('/') {
            store.prefix.push('/');
        }
        store
    }

    /// The whole bucket or root.
    pub(crate) fn root(&self) -> Self {
        Self { prefix: String::new(), places: None, lanes: None, ..self.clone() }
    }

    /// The same, each request in the lane of the prefix that its key is below.
    pub(crate) fn root_in_lanes(&self, lanes: Arc<Places>) -> Self {
        Self { lanes: Some(lanes), ..self.root() }
    }

    pub(crate) fn relative(&self, mut object: Object) -> Object {
        if let Some(key) = self.places.as_ref().and_then(|places| places.key(&object.key)) {
            object.key = key.to_owned();
        }
        object.key = self.relative_key(&object.key);
        object
    }

    pub(crate) fn relative_key(&self, key: &str) -> String {
        key.strip_prefix(&self.prefix).unwrap_or(key).to_owned()
    }
}
