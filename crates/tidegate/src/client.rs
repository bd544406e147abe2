//! `Tidegate`, the engine that everything shares, and `Store`, one bucket or root.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::backend::gcs::{GcsClient, GcsSettings};
use crate::backend::local::Local;
use crate::backend::memory::Memory;
use crate::backend::s3::{S3Client, S3Settings};
use crate::backend::{Backend, Entry, Fault, OpenSession, WriteOptions};
use crate::budget::{Budget, Usage};
use crate::copy::CopyBuilder;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::limiter::{Concurrency, Lane};
use crate::listing::Listing;
use crate::location::Location;
use crate::object::Object;
use crate::prefix::{self, Places};
use crate::progress::Progress;
use crate::read::{BlocksBuilder, DownloadBuilder, ReaderBuilder};
use crate::records::Records;
use crate::request::Requests;
use crate::retry::Retry;
use crate::write::{Aborts, Journaling, Relief, WriterBuilder};

mod builder;

pub use builder::Builder;

/// The engine: one memory budget, one limiter an endpoint, shared by every store, writer and reader
/// that comes from it. A clone is the same engine.
///
/// It has no threads of its own: tasks run on the tokio runtime that calls it.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let tide = tidegate::Tidegate::builder().memory(64 << 20).build()?;
/// let store = tide.open("memory://demo").await?;
/// let mut writer = store.writer("greeting.txt").create_only().start().await?;
/// writer.write("hello, tide".into()).await?;
/// let object = writer.finish().await?; // visible from here on
/// assert_eq!(object.size, 11);
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tidegate {
    engine: Arc<Engine>,
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) budget: Budget,
    pub(crate) relief: Arc<Relief>,
    /// Bytes of the memory that are set aside for sending from the spool.
    reserved: u64,
    pub(crate) idle_limit: Option<Duration>,
    pub(crate) journaling: Journaling,
    pub(crate) retry: Arc<Retry>,
    pub(crate) hedge: bool,
    pub(crate) progress: Progress,
    pub(crate) aborts: Aborts,
    pub(crate) records: Records,
    pub(crate) part_size: Option<u64>,
    pub(crate) parts_in_flight: usize,
    concurrency: Concurrency,
    s3: S3Settings,
    gcs: GcsSettings,
    endpoints: Mutex<BTreeMap<String, Arc<Endpoint>>>,
    s3_clients: tokio::sync::Mutex<Option<S3Client>>,
    gcs_clients: tokio::sync::Mutex<Option<GcsClient>>,
    memory_stores: Mutex<BTreeMap<String, Memory>>,
}

impl Tidegate {
    /// Sets one up.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a store: `s3://bucket/prefix`, `gs://bucket/prefix`, a directory as `file:///path` or a plain path, or
    /// `memory://name` (the same objects for every store of that name from this engine). Keys are
    /// then relative to the prefix. Sends nothing to the store.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where the location or the settings for it are wrong;
    /// [`ErrorKind::Unsupported`] for `dev://`, whose server the command line starts.
    pub async fn open(&self, location: &str) -> Result<Store> {
        let parsed: Location = location.parse().map_err(|error| {
            Error::new(ErrorKind::InvalidInput, Operation::Connect, location, format!("{error}"))
                .with_source(error)
        })?;
        let fault =
            |fault: Fault| Error::from_fault(fault, Operation::Connect, location, 0, Default::default());
        match parsed {
            Location::S3 { bucket, key } => {
                let client = {
                    let mut clients = self.engine.s3_clients.lock().await;
                    match &*clients {
                        Some(client) => client.clone(),
                        None => {
                            clients.insert(S3Client::connect(&self.engine.s3).await.map_err(fault)?).clone()
                        }
                    }
                };
                let bucket = client.bucket(&bucket).map_err(fault)?;
                Ok(self.store(Arc::new(bucket)).within(&key))
            }
            Location::Gcs { bucket, key } => {
                let client = {
                    let mut clients = self.engine.gcs_clients.lock().await;
                    match &*clients {
                        Some(client) => client.clone(),
                        None => {
                            clients.insert(GcsClient::connect(&self.engine.gcs).await.map_err(fault)?).clone()
                        }
                    }
                };
                let bucket = client.bucket(&bucket).map_err(fault)?;
                Ok(self.store(Arc::new(bucket)).within(&key))
            }
            Location::Local { path } => Ok(self.store(Arc::new(Local::new(path)))),
            Location::Memory { name, key } => {
                let mut stores = self.engine.memory_stores.lock().unwrap_or_else(PoisonError::into_inner);
                let memory = stores.entry(name.clone()).or_insert_with(|| Memory::new(name)).clone();
                drop(stores);
                Ok(self.store(Arc::new(memory)).within(&key))
            }
            other => {
                let message = format!("{other} is not a store that a library can open");
                Err(Error::new(ErrorKind::Unsupported, Operation::Connect, location, message))
            }
        }
    }

    /// A store on a backend of the caller's.
    pub fn store(&self, backend: Arc<dyn Backend>) -> Store {
        let endpoint = {
            let mut endpoints = self.engine.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
            let endpoint = endpoints.entry(backend.endpoint().to_owned());
            let engine = &self.engine;
            let journaled = engine.journaling.of_endpoint();
            let new = || Arc::new(Endpoint::new(engine.concurrency, &engine.retry.policy, journaled));
            endpoint.or_insert_with(new).clone()
        };
        Store {
            engine: self.engine.clone(),
            backend,
            endpoint,
            prefix: String::new(),
            places: None,
            lanes: None,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The figures of everything that it does together.
    pub fn progress(&self) -> Progress {
        self.engine.progress.clone()
    }

    /// What the memory budget and the spool hold. What is set aside for sending from a spool counts as held, of
    /// what is set aside for sending from journals only what requests have.
    pub fn usage(&self) -> Usage {
        let mut usage = self.engine.budget.usage();
        let reserved = self.engine.reserved;
        usage.total += reserved;
        usage.held += reserved;
        usage.peak += reserved;
        // Without directories it is the same budget.
        if !self.engine.journaling.directories.is_empty() {
            let sending = self.engine.journaling.memory.usage();
            usage.total += sending.total;
            usage.held += sending.held;
            usage.peak += sending.peak;
            usage.waiting += sending.waiting;
        }
        usage.spooled = self.engine.relief.spooling().map_or(0, |spooling| spooling.spool().used());
        usage
    }

    /// Waits until the sessions of all writers that failed or were dropped so far are aborted. Call it
    /// before the runtime is shut down.
    ///
    /// What it gives are the errors of those that could not be: the store may hold their parts until they
    /// are swept away. Each is told once, and of more than a thousand since the last call the latest.
    pub async fn settled(&self) -> Vec<Error> {
        self.engine.aborts.settled().await
    }
}

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
    /// Where it is, as a URL without a slash at its end.
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

    /// Removes an object; removing what is not there is no error.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let full = self.full_key(key);
        self.check(Operation::Delete, key, None)?;
        let requests = self.requests(key, self.engine.progress.clone());
        let delete = requests.send(Operation::Delete, None, None, || self.backend.delete(&full)).await;
        delete.map_err(|failure| failure.into_error(Operation::Delete, &self.url(key)))
    }

    /// Lists the objects whose keys begin with `prefix`, in key order; what lies below the next `/`
    /// only as prefixes, unless `recursive`. Each page is one request; one that fails for good ends the listing
    /// with an error.
    pub fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry>> {
        let store = self.clone();
        let below = format!("{}{prefix}", self.prefix);
        let entries = match &self.places {
            Some(places) => prefix::list(places.clone(), below, recursive),
            None => self.backend.list(&below, recursive),
        };
        Listing::new(self.list_requests(prefix), entries)
            .map_ok(move |entry| match entry {
                Entry::Object(mut object) => {
                    object.key = store.relative_key(&object.key);
                    Entry::Object(object)
                }
                Entry::Prefix(prefix) => Entry::Prefix(store.relative_key(&prefix)),
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
        Listing::new(self.list_requests(prefix), self.backend.sessions(&self.full_key(prefix)))
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
        let checked = self.backend.check(&self.full_key(key), options);
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
        }
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
