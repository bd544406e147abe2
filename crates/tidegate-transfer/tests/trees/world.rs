//! Where the trees of one case are: two servers in memory, and a directory. One server has two addresses. A clock of the
//! case gives all times.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tempfile::TempDir;
use tidegate::backend::memory::Memory;
use tidegate::backend::{
    Attempt, Backend, Body, Copied, CopySource, Entry, Fault, FaultKind, Info, KnownFacts, Listing, Pages,
    Parts, Scheme, ServerCopy, WriteOptions,
};
use tidegate::checksum::{Algorithm, Hasher};
use tidegate::payload::Payload;
use tidegate::{Object, Tidegate};

/// 2026-01-01: earlier than any time that this machine gives a file.
const BASE: Duration = Duration::from_secs(1_767_225_600);

pub(crate) fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + BASE + Duration::from_millis(millis)
}

/// How one server differs from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// Its times are whole seconds, as those of S3's listings.
    pub(crate) whole_seconds: bool,
    /// Its tags are no MD5.
    pub(crate) opaque_tags: bool,
    pub(crate) lists_checksums: bool,
    pub(crate) copies: bool,
    pub(crate) order: ListingOrder,
}

/// The order in which a server lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingOrder {
    ByKey,
    /// It lists what is below `x/` before `x-`, as Azure's hierarchical accounts do, and does not promise another order.
    ByDirectory,
    /// It lists so, and promises the order of keys.
    PromiseBroken,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fails {
    Denied,
    Undone,
    Unreachable,
    /// The store does what it was asked, and its answer is lost.
    AnswerLost,
}

/// Where something is, whatever address led there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Address {
    /// The number of the server, and the key.
    Store(usize, String),
    /// The path below the directory of the case.
    Disk(String),
}

impl Address {
    /// The address of a name below this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        match self {
            Self::Disk(root) => Self::Disk(format!("{root}{name}")),
            Self::Store(server, root) => Self::Store(*server, format!("{root}{name}")),
        }
    }

    /// The name of another address below this one.
    pub(crate) fn name_of<'a>(&self, other: &'a Self) -> Option<&'a str> {
        match (self, other) {
            (Self::Disk(root), Self::Disk(path)) => path.strip_prefix(root.as_str()),
            (Self::Store(server, root), Self::Store(at, key)) if at == server => {
                key.strip_prefix(root.as_str())
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File { bytes: Vec<u8>, modified: SystemTime },
    Link(String),
}

impl Node {
    pub(crate) fn has_bytes_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { bytes, .. }, Self::File { bytes: theirs, .. }) => bytes == theirs,
            (one, other) => one == other,
        }
    }
}

/// Everything but directories.
pub(crate) type Snapshot = BTreeMap<Address, Node>;

/// The source of a move, with its bytes and its target.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) source: Address,
    pub(crate) target: Address,
    pub(crate) node: Node,
}

#[derive(Debug)]
struct Server {
    memory: Memory,
    modified: Mutex<BTreeMap<String, u64>>,
    dialect: Dialect,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    servers: [Server; 2],
    clock: AtomicU64,
    step: u64,
    /// How many requests were made, and which one fails.
    requests: Mutex<(u32, Option<(u32, Fails)>)>,
    failed: Mutex<Vec<&'static str>>,
    /// What a move moves: looked at whenever a store removes an object.
    moving: Mutex<Vec<Moving>>,
    lost: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct World {
    _directory: TempDir,
    shared: Arc<Shared>,
}

impl World {
    pub(crate) fn new(dialects: [Dialect; 2], now: u64, step: u64) -> Self {
        let shared_memory = Path::new("/dev/shm");
        let directory = match shared_memory.is_dir() {
            true => TempDir::new_in(shared_memory),
            false => TempDir::new(),
        };
        let directory = directory.unwrap();
        let servers = dialects.map(|dialect| Server {
            memory: Memory::new("memory"),
            modified: Mutex::default(),
            dialect,
        });
        let shared = Shared {
            root: directory.path().canonicalize().unwrap(),
            servers,
            clock: now.into(),
            step,
            requests: Mutex::default(),
            failed: Mutex::default(),
            moving: Mutex::default(),
            lost: Mutex::default(),
        };
        Self { _directory: directory, shared: Arc::new(shared) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.root
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.clock.load(Relaxed)
    }

    pub(crate) fn wait(&self, millis: u64) {
        self.shared.clock.fetch_add(millis, Relaxed);
    }

    pub(crate) fn dialect(&self, server: usize) -> Dialect {
        self.shared.servers[server].dialect
    }

    /// From here on, requests are counted, and the n-th fails.
    pub(crate) fn fail(&self, fails: Option<(u32, Fails)>) {
        *self.shared.requests.lock().unwrap() = (0, fails);
        self.shared.failed.lock().unwrap().clear();
    }

    /// The requests that have failed.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        self.shared.failed.lock().unwrap().clone()
    }

    /// From here on, no store removes a source before its target has its bytes.
    pub(crate) fn watch(&self, moving: Vec<Moving>) {
        *self.shared.moving.lock().unwrap() = moving;
    }

    /// The sources that a store removed too early.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.shared.lost.lock().unwrap().clone()
    }

    pub(crate) fn put(&self, server: usize, key: &str, bytes: &[u8], modified: u64) {
        let server = &self.shared.servers[server];
        let mut hasher = Hasher::new(Algorithm::Crc64Nvme);
        hasher.update(bytes);
        let payload = Payload::from_memory(vec![Bytes::copy_from_slice(bytes)], hasher.finish());
        let options = WriteOptions::default();
        server.memory.put(key, payload, &options, Attempt::FIRST).now_or_never().unwrap().unwrap();
        server.modified.lock().unwrap().insert(key.to_owned(), modified);
    }

    pub(crate) fn remove(&self, server: usize, key: &str) {
        let server = &self.shared.servers[server];
        server.memory.delete(key, None, Attempt::FIRST).now_or_never().unwrap().unwrap();
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut found = Snapshot::new();
        for number in 0..self.shared.servers.len() {
            for object in self.shared.servers[number].objects("") {
                let address = Address::Store(number, object.key);
                let node = self.shared.read(&address).unwrap();
                found.insert(address, node);
            }
        }
        self.shared.walk(self.path(), &mut found);
        found
    }

    pub(crate) fn engine(&self) -> Tidegate {
        let mut retry = tidegate::settings::RetryPolicy::default();
        retry.attempts = 1;
        let scheme = |name| Addresses { name, shared: self.shared.clone() };
        let builder = Tidegate::builder().memory(8 << 20).slab(64 << 10).retry(retry);
        builder.scheme("wild", scheme("wild")).scheme("tame", scheme("tame")).build().unwrap()
    }
}

impl Server {
    fn objects(&self, prefix: &str) -> Vec<Object> {
        let Listing::Items(items) = self.memory.list(prefix, true) else { panic!("memory has no pages") };
        let entries: Vec<_> = items.collect().now_or_never().unwrap();
        let object = |entry: Result<Entry, Fault>| match entry {
            Ok(Entry::Object(object)) => object,
            other => panic!("{other:?}"),
        };
        entries.into_iter().map(object).collect()
    }

    /// The description as the server gives it.
    fn shown(&self, mut object: Object, listed_at: Option<u64>) -> Object {
        let modified = self.modified.lock().unwrap().get(&object.key).copied().unwrap_or_default();
        object.modified =
            Some(time(if self.dialect.whole_seconds { modified / 1000 * 1000 } else { modified }));
        if self.dialect.opaque_tags {
            object.etag = object.etag.map(|tag| format!("{}-o\"", tag.trim_end_matches('"')));
        }
        if let Some(now) = listed_at {
            object.is_fresh = now < modified + 2000;
            if !self.dialect.lists_checksums {
                object.crc64nvme = None;
            }
            object.token = None;
        }
        object
    }

    /// The description as the memory below has it, whose times are those of a clock.
    fn kept(&self, same: Option<&Object>) -> Option<Object> {
        let mut same = same?.clone();
        same.etag = same.etag.map(|tag| tag.replace("-o\"", "\""));
        same.modified = None;
        Some(same)
    }
}

impl Shared {
    fn read(&self, address: &Address) -> Option<Node> {
        match address {
            Address::Store(number, key) => {
                let server = &self.servers[*number];
                let body = server.memory.get(key, None, None, Attempt::FIRST).now_or_never().unwrap().ok()?;
                let pieces: Vec<_> = body.stream.map(Result::unwrap).collect().now_or_never().unwrap();
                let modified = server.modified.lock().unwrap().get(key).copied().unwrap_or_default();
                Some(Node::File { bytes: pieces.concat(), modified: time(modified) })
            }
            Address::Disk(path) => {
                let path = self.root.join(path);
                match path.symlink_metadata().ok()? {
                    found if found.is_symlink() => {
                        Some(Node::Link(fs::read_link(path).unwrap().to_str().unwrap().to_owned()))
                    }
                    found if found.is_file() => Some(Node::File {
                        bytes: fs::read(path).unwrap(),
                        modified: found.modified().unwrap(),
                    }),
                    _ => None,
                }
            }
        }
    }

    fn walk(&self, directory: &Path, found: &mut Snapshot) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                self.walk(&entry.path(), found);
                continue;
            }
            let name = entry.path().strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned();
            let address = Address::Disk(name);
            let node = self.read(&address).unwrap();
            found.insert(address, node);
        }
    }

    /// Counts a request, and says how it fails.
    fn request(&self, what: &'static str) -> Result<Option<Fault>, Fault> {
        let fails = {
            let (made, fails) = &mut *self.requests.lock().unwrap();
            *made += 1;
            fails.filter(|(number, _)| number == made).map(|(_, fails)| fails)
        };
        let Some(fails) = fails else { return Ok(None) };
        self.failed.lock().unwrap().push(what);
        let message = "the test lets this request fail";
        match fails {
            Fails::Denied => Err(Fault::new(FaultKind::Denied, message).with_answered(true)),
            Fails::Undone => Err(Fault::new(FaultKind::Undone, message)),
            Fails::Unreachable => Err(Fault::new(FaultKind::Unreachable, message).with_no_response()),
            Fails::AnswerLost => Ok(Some(Fault::new(FaultKind::Transient, message))),
        }
    }

    fn published(&self, server: &Server, key: &str, object: Object) -> Object {
        let now = self.clock.fetch_add(self.step, Relaxed);
        server.modified.lock().unwrap().insert(key.to_owned(), now);
        server.shown(object, None)
    }

    fn is_removing(&self, number: usize, key: &str) {
        let address = Address::Store(number, key.to_owned());
        let moving = self.moving.lock().unwrap();
        let targets: Vec<_> = moving.iter().filter(|moving| moving.source == address).collect();
        let has_its_bytes = |moving: &&Moving| {
            moving.target != address
                && self.read(&moving.target).is_some_and(|node| node.has_bytes_of(&moving.node))
        };
        if !targets.is_empty() && !targets.iter().any(has_its_bytes) {
            let lost = format!("{address:?} removed, and none of {targets:?} has its bytes");
            self.lost.lock().unwrap().push(lost);
        }
    }
}

/// The addresses of one scheme: `wild` leads to both servers, and `tame` to the first one too.
#[derive(Debug)]
struct Addresses {
    name: &'static str,
    shared: Arc<Shared>,
}

impl Scheme for Addresses {
    fn open<'a>(
        &'a self,
        bucket: &'a str,
        _: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        let number = usize::from(bucket == "two");
        let mut capabilities = self.shared.servers[number].memory.info().capabilities.clone();
        capabilities.lists_in_key_order =
            self.shared.servers[number].dialect.order != ListingOrder::ByDirectory;
        let location = format!("{}://{bucket}", self.name);
        let info = Info::new(location.clone(), location, capabilities);
        let bucket = Bucket { shared: self.shared.clone(), number, info };
        Box::pin(async move { Ok(Arc::new(bucket) as Arc<dyn Backend>) })
    }
}

#[derive(Clone, Debug)]
struct Bucket {
    shared: Arc<Shared>,
    number: usize,
    info: Info,
}

impl Bucket {
    fn server(&self) -> &Server {
        &self.shared.servers[self.number]
    }

    /// A request begins: it may be cut before anything happens.
    async fn request(&self, what: &'static str) -> Result<Option<Fault>, Fault> {
        tokio::task::yield_now().await;
        self.shared.request(what)
    }
}

/// The answer arrives, unless it is lost.
async fn answer<T>(answer: T, lost: Option<Fault>) -> Result<T, Fault> {
    tokio::task::yield_now().await;
    lost.map_or(Ok(answer), Err)
}

struct Listed {
    bucket: Bucket,
    entries: VecDeque<Entry>,
    is_over: bool,
}

#[async_trait]
impl Pages<Entry> for Listed {
    async fn next(&mut self, _: Attempt) -> Result<Option<Vec<Entry>>, Fault> {
        const PAGE: usize = 3;
        if self.is_over {
            return Ok(None);
        }
        let lost = self.bucket.request("list").await?;
        answer((), lost).await?;
        let page: Vec<_> = self.entries.drain(..PAGE.min(self.entries.len())).collect();
        self.is_over = self.entries.is_empty();
        Ok(Some(page))
    }
}

#[async_trait]
impl Backend for Bucket {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let lost = self.request("put").await?;
        let object = self.server().memory.put(key, payload, options, attempt).await?;
        answer(self.shared.published(self.server(), key, object), lost).await
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        let lost = self.request("head").await?;
        let object =
            self.server().memory.head(key, attempt).await.map_err(|fault| fault.with_answered(true))?;
        answer(self.server().shown(object, None), lost).await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        let lost = self.request("get").await?;
        let same = self.server().kept(same);
        let mut body = self.server().memory.get(key, range, same.as_ref(), attempt).await?;
        body.object = self.server().shown(body.object, None);
        answer(body, lost).await
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        let lost = self.request("delete").await?;
        self.shared.is_removing(self.number, key);
        let same = self.server().kept(same);
        self.server().memory.delete(key, same.as_ref(), attempt).await?;
        answer((), lost).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        let Listing::Items(items) = self.server().memory.list(prefix, recursive) else {
            return Listing::empty();
        };
        let entries: Vec<_> = items.collect().now_or_never().unwrap();
        let now = self.shared.clock.load(Relaxed);
        let shown = |entry: Result<Entry, Fault>| match entry.unwrap() {
            Entry::Object(object) => Entry::Object(self.server().shown(object, Some(now))),
            entry => entry,
        };
        let mut entries: Vec<_> = entries.into_iter().map(shown).collect();
        if self.server().dialect.order != ListingOrder::ByKey {
            entries.sort_by_key(|entry| entry.key().replace('/', "\0"));
        }
        Listing::Pages(Box::new(Listed { bucket: self.clone(), entries: entries.into(), is_over: false }))
    }

    fn parts(&self) -> Option<&dyn Parts> {
        self.server().memory.parts()
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        self.server().dialect.copies.then_some(self)
    }
}

#[async_trait]
impl ServerCopy for Bucket {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        let lost = self.request("copy").await?;
        let memory = &self.server().memory;
        let object = self.server().kept(Some(&from.object)).unwrap_or_default();
        let from = CopySource::new(memory.location(), from.key.clone(), object);
        let copied = memory.server_copy().ok_or_else(|| Fault::new(FaultKind::Unsupported, "no copies"))?;
        let copied = match copied.copy(&from, key, cursor, options, attempt).await? {
            Copied::Whole(object) => Copied::Whole(self.shared.published(self.server(), key, *object).into()),
            going => going,
        };
        answer(copied, lost).await
    }
}
