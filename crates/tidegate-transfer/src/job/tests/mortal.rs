//! Processes that share a bucket, and die at any of their requests: when it is sent, or when its answer comes.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures::TryStreamExt;
use tidegate::backend::memory::Memory;
use tidegate::backend::{
    Admin, Attempt, Backend, Body, BulkDelete, Entry, Fault, FaultKind, Held, Info, Listing, OpenSession,
    PartOrigin, PartSource, Parts, Receipt, ServerCopy, Session, StoredPart, WriteOptions,
};
use tidegate::checksum::Checksum;
use tidegate::payload::Payload;
use tidegate::{Object, Store, Tidegate, TidegateBuilder};
use tokio::sync::watch;
use tokio::task::yield_now;

/// The steps after which no process dies by itself.
const IMMORTAL: u64 = u64::MAX - 1;

/// A bucket in memory, which outlives the processes that use it.
#[derive(Debug)]
pub(super) struct Bucket(Arc<Memory>);

impl Bucket {
    pub(super) fn new() -> Self {
        Self(Arc::new(Memory::new("test")))
    }

    /// A process that dies when it has made so many steps: requests that it sent, and answers that came.
    pub(super) fn process(&self, dies_after: u64) -> Process {
        self.process_of(dies_after, true, |engine| engine)
    }

    /// A process that lives on, and has the store's sessions recorded in this directory.
    pub(super) fn recording_in(&self, directory: &Path) -> Process {
        self.process_of(IMMORTAL, true, |engine| engine.records(directory))
    }

    /// A process that lives on, and to which the store names neither the tag nor the version of an object.
    pub(super) fn without_versions(&self) -> Process {
        self.process_of(IMMORTAL, false, |engine| engine)
    }

    fn process_of(
        &self,
        dies_after: u64,
        has_versions: bool,
        options: impl FnOnce(TidegateBuilder) -> TidegateBuilder,
    ) -> Process {
        let reach = Arc::new_cyclic(|own| Reach {
            own: own.clone(),
            has_versions,
            bucket: self.0.clone(),
            steps: watch::Sender::new(0),
            dies_after: dies_after.into(),
            fails_at: u64::MAX.into(),
            stalls_at: watch::Sender::new(u64::MAX),
            holds_records: watch::Sender::new(false),
            held_records: watch::Sender::new(0),
        });
        let tide = options(Tidegate::builder().memory(32 << 20)).build().expect("an engine");
        let out = tide.store(reach.clone()).within("out");
        Process { reach, out }
    }

    /// A process that lives on.
    pub(super) fn immortal(&self) -> Process {
        self.process(IMMORTAL)
    }

    pub(super) fn root(&self) -> Store {
        Tidegate::builder().build().expect("an engine").store(self.0.clone())
    }

    /// The keys that a reader sees, and all others.
    pub(super) async fn keys(&self) -> (Vec<String>, Vec<String>) {
        let listed: Vec<Entry> = self.root().list("").try_collect().await.expect("a listing");
        let keys = listed.into_iter().map(|entry| entry.key().to_owned());
        keys.partition(|key| !key.starts_with(".tidegate/") && !key.contains("__tidegate_"))
    }

    pub(super) async fn sessions(&self) -> Vec<String> {
        let open: Vec<OpenSession> = self.root().sessions("").try_collect().await.expect("a listing");
        open.into_iter().map(|open| open.session.key).collect()
    }

    pub(super) async fn content(&self, key: &str) -> Vec<u8> {
        self.root().get(key).await.expect("an object").to_vec()
    }
}

/// A process that uses the bucket.
#[derive(Debug)]
pub(super) struct Process {
    reach: Arc<Reach>,
    pub(super) out: Store,
}

impl Process {
    /// Does `work` until it is done or the process is dead. `None` if it is dead.
    pub(super) async fn live<T>(&self, work: impl AsyncFnOnce(Store) -> T) -> Option<T> {
        let mut steps = self.reach.steps.subscribe();
        let dies_after = self.reach.dies_after.load(SeqCst);
        let done = tokio::select! {
            biased;
            _ = steps.wait_for(|steps| *steps > dies_after) => None,
            done = work(self.out.clone()) => Some(done),
        };
        // The engine's requests are not part of `work`.
        done.filter(|_| !self.reach.is_dead())
    }

    /// Has the process die after so many steps more.
    pub(super) fn die_in(&self, steps: u64) {
        self.reach.dies_after.store(*self.reach.steps.borrow() + steps, SeqCst);
    }

    /// Has one step fail, after so many steps more: a request that is not sent, or whose answer is an error.
    pub(super) fn fail_in(&self, steps: u64) {
        self.reach.fails_at.store(*self.reach.steps.borrow() + steps + 1, SeqCst);
    }

    /// Whether the step of [`fail_in`](Self::fail_in) has come.
    pub(super) fn has_failed(&self) -> bool {
        *self.reach.steps.borrow() >= self.reach.fails_at.load(SeqCst)
    }

    /// Has the process stall before its next step, after so many steps more, until it [goes on](Self::go_on).
    pub(super) fn stall_in(&self, steps: u64) {
        self.reach.stalls_at.send_replace(*self.reach.steps.borrow() + steps);
    }

    pub(super) fn go_on(&self) {
        self.reach.stalls_at.send_replace(u64::MAX);
    }

    /// Holds the writes of uploads' records in flight, until they are [released](Self::release_records).
    pub(super) fn hold_records(&self) {
        self.reach.holds_records.send_replace(true);
    }

    pub(super) fn release_records(&self) {
        self.reach.holds_records.send_replace(false);
    }

    /// Waits until the write of a record is held.
    pub(super) async fn record_is_held(&self) {
        self.reach.held_records.subscribe().wait_for(|held| *held > 0).await.expect("a process");
    }

    /// Kills the process: none of its requests has an effect any more.
    pub(super) fn kill(&self) {
        self.reach.steps.send_replace(u64::MAX);
    }

    pub(super) fn steps_made(&self) -> u64 {
        *self.reach.steps.borrow()
    }

    /// Waits until the process has made so many steps, or is dead.
    pub(super) async fn steps(&self, count: u64) {
        let mut steps = self.reach.steps.subscribe();
        steps.wait_for(|steps| *steps >= count).await.expect("a process");
    }
}

/// The way of one process to the bucket.
#[derive(Debug)]
struct Reach {
    own: Weak<Reach>,
    bucket: Arc<Memory>,
    has_versions: bool,
    steps: watch::Sender<u64>,
    dies_after: AtomicU64,
    fails_at: AtomicU64,
    stalls_at: watch::Sender<u64>,
    holds_records: watch::Sender<bool>,
    held_records: watch::Sender<u64>,
}

impl Reach {
    fn is_dead(&self) -> bool {
        *self.steps.borrow() > self.dies_after.load(SeqCst)
    }

    async fn step(&self) -> Result<(), Fault> {
        yield_now().await;
        self.wait_while_stalled().await;
        let mut fails = false;
        self.steps.send_modify(|steps| {
            *steps = steps.saturating_add(1);
            fails = *steps == self.fails_at.load(SeqCst);
        });
        match (self.is_dead(), fails) {
            (false, false) => Ok(()),
            (false, true) => Err(Fault::new(FaultKind::Denied, "the store fails once")),
            (true, _) => Err(Fault::new(FaultKind::Denied, "the process is dead")),
        }
    }

    async fn wait_while_stalled(&self) {
        let made = *self.steps.borrow();
        let mut stalls_at = self.stalls_at.subscribe();
        let _ = stalls_at.wait_for(|at| *at == u64::MAX || made < *at).await.expect("a process");
    }

    async fn hold_record(&self) {
        if *self.holds_records.borrow() {
            self.held_records.send_modify(|held| *held += 1);
            self.holds_records.subscribe().wait_for(|holds| !holds).await.expect("a process");
        }
    }

    /// Sends a request, and waits for its answer.
    async fn send<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.step().await?;
        let answer = request.await;
        self.step().await?;
        answer
    }

    fn seen(&self, object: Object) -> Object {
        match self.has_versions {
            true => object,
            false => Object { etag: None, version: None, ..object },
        }
    }

    fn parts_of_bucket(&self) -> &dyn Parts {
        self.bucket.parts().expect("a store with parts")
    }
}

#[async_trait]
impl Backend for Reach {
    fn info(&self) -> &Info {
        self.bucket.info()
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        // A request that is under way arrives, whether or not the process waits for the answer.
        let (own, key, options) = (self.own.upgrade().expect("a process"), key.to_owned(), options.clone());
        let put = async move {
            if key.contains("/attempts/") {
                own.hold_record().await;
            }
            own.send(own.bucket.put(&key, payload, &options, attempt)).await
        };
        Ok(self.seen(tokio::spawn(put).await.expect("a task that goes on")?))
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        Ok(self.seen(self.send(self.bucket.head(key, attempt)).await?))
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        self.send(self.bucket.get(key, range, same, attempt)).await
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        self.send(self.bucket.delete(key, same, attempt)).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.bucket.list(prefix, recursive)
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        self.bucket.server_copy()
    }

    fn bulk_delete(&self) -> Option<&dyn BulkDelete> {
        None
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Parts for Reach {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.send(self.parts_of_bucket().open(key, options, origin, attempt)).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        self.send(self.parts_of_bucket().part(session, number, offset, source, attempt)).await
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        self.send(self.parts_of_bucket().stored_parts(session, attempt)).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.send(self.parts_of_bucket().complete(session, parts, checksum, options, attempt)).await
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.send(self.parts_of_bucket().abort(session, attempt)).await
    }
}

#[async_trait]
impl Admin for Reach {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        self.bucket.admin().expect("a store with listings").sessions(prefix)
    }

    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        self.send(self.bucket.admin().expect("a store with listings").held(session, attempt)).await
    }
}
