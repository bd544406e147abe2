//! The record in force, read again when it is too old, and the places that it gives to keys.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::TryStreamExt;
use futures::stream::BoxStream;
use tokio::time::Instant;

use super::layout::Layout;
use super::list;
use super::record::{self, DIRECTORY, LARGEST, LayoutRecord};
use crate::api::Store;
use crate::backend::{Attempt, Backend, Body, Entry, Fault, FaultKind};
use crate::engine::KeyMap;
use crate::engine::listing;
use crate::engine::request::{Failure, Requests};
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// The layout of one root, as this process knows it.
#[derive(Debug)]
pub(crate) struct Places {
    /// The root's own store, without spread keys.
    store: Store,
    /// The beginning of all keys below the root.
    root: String,
    /// Longest age of `known`.
    refresh: Duration,
    known: RwLock<Known>,
    reading: tokio::sync::Mutex<()>,
}

/// A record that was in force at the time `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) number: u64,
    pub(super) record: LayoutRecord,
    at: Instant,
}

impl Known {
    /// Whether a listing that began under this record may continue under `now`. With another layout, objects may have
    /// moved to places that the listing has passed. Records that only empty the old places move no current object.
    pub(super) fn lists_as(&self, now: &Self) -> bool {
        let looks_at = |known: &Self| (known.record.current, known.record.older);
        let no_older = self.record.older.is_none() && looks_at(self) == looks_at(now);
        // Changing to another layout and back takes more than two records.
        now.number == self.number || (no_older && now.number <= self.number + 2)
    }
}

/// The places of one object, as whole keys of the store.
#[derive(Debug)]
pub(super) struct ObjectPlaces {
    /// The place that it is written to.
    pub(super) current: String,
    /// The place of the older layout, where it may still be.
    pub(super) older: Option<String>,
    /// The place where an unused copy of it may be left.
    pub(super) emptying: Option<String>,
}

impl Places {
    /// Reads the record in force; `None` if there is none.
    pub(super) async fn open(store: &Store, refresh: Duration) -> Result<Option<Self>> {
        let places = |(number, record)| Self {
            store: store.clone(),
            root: store.context().full_key(""),
            refresh,
            known: RwLock::new(Known { number, record, at: Instant::now() }),
            reading: tokio::sync::Mutex::default(),
        };
        let requests = store.context().requests(DIRECTORY, store.context().engine().progress.clone());
        let (backend, root) = (&**store.context().backend(), store.context().full_key(""));
        let root = &root;
        let read_latest = |attempt| async move {
            match latest_number(backend, root, attempt).await? {
                Some(number) => {
                    read(backend, root, number, attempt).await.map(|record| Some((number, record)))
                }
                None => Ok(None),
            }
        };
        let read = requests.send(Operation::Layout, None, None, read_latest).await;
        let read = read.map_err(|failure| failure.into_error(Operation::Layout, &store.location()))?;
        Ok(read.map(places))
    }

    /// The root's own store, without spread keys.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The whole bucket that contains the root. Its requests are limited in the lanes of the root's prefixes.
    pub(super) fn whole(self: &Arc<Self>) -> Store {
        let whole = self.store.context().root_in_lanes(self.clone());
        self.store.with(whole)
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &**self.store.context().backend()
    }

    /// Longest age of the client's copy of the record.
    pub(super) fn refresh(&self) -> Duration {
        self.refresh
    }

    /// The record as last read.
    pub(super) fn record(&self) -> LayoutRecord {
        self.known().record
    }

    /// The place of `key` in `layout`.
    pub(super) fn of(&self, layout: Layout, key: &str) -> String {
        format!("{}{}/{key}", self.root, layout.name(key))
    }

    /// The places of `key` by `record`. Places equal to the current one are left out.
    pub(super) fn by(&self, record: LayoutRecord, key: &str) -> ObjectPlaces {
        let current = self.of(record.current, key);
        let other = |layout: Option<Layout>| {
            layout.map(|layout| self.of(layout, key)).filter(|place| *place != current)
        };
        ObjectPlaces { older: other(record.older), emptying: other(record.emptying), current }
    }

    /// The record in force; read again if the copy is older than `refresh`.
    pub(super) async fn fresh(&self, attempt: Attempt) -> Result<LayoutRecord, Fault> {
        Ok(self.known_within(self.refresh, attempt).await?.record)
    }

    /// The record in force; read again if the copy is older than `age`. Retries failed requests, for callers whose
    /// own requests are not retried.
    pub(super) async fn look(&self, age: Duration) -> Result<Known, Failure> {
        if let Some(known) = self.young(age) {
            return Ok(known);
        }
        let requests =
            self.store.context().requests(DIRECTORY, self.store.context().engine().progress.clone());
        requests.send(Operation::Layout, None, None, |attempt| self.known_within(age, attempt)).await
    }

    /// The record in force; read again if the copy is older than `age` or `refresh`. Concurrent callers share one
    /// read.
    pub(super) async fn known_within(&self, age: Duration, attempt: Attempt) -> Result<Known, Fault> {
        if let Some(known) = self.young(age) {
            return Ok(known);
        }
        let _reading = self.reading.lock().await;
        if let Some(known) = self.young(age) {
            return Ok(known);
        }
        let at = Instant::now();
        let known = self.known();
        let Some(number) = latest_number(self.backend(), &self.root, attempt).await? else {
            let message = format!("the record of its prefixes is gone from {DIRECTORY}");
            return Err(Fault::new(FaultKind::Invalid, message));
        };
        let record = match number == known.number {
            true => known.record,
            false => read(self.backend(), &self.root, number, attempt).await?,
        };
        let read = Known { number, record, at };
        self.take_in(read);
        Ok(read)
    }

    /// The record in force, read now.
    pub(super) async fn latest(&self) -> Result<Known> {
        let now = self.look(Duration::ZERO).await;
        now.map_err(|failure| failure.into_error(Operation::Layout, &self.store.location()))
    }

    /// Puts `record` in force as number `number`; `false` if that number is taken.
    pub(super) async fn succeed(&self, number: u64, record: LayoutRecord) -> Result<bool> {
        let at = Instant::now();
        let is_ours = create(&self.store, number, record).await?;
        if is_ours {
            self.take_in(Known { number, record, at });
        }
        Ok(is_ours)
    }

    fn young(&self, age: Duration) -> Option<Known> {
        let known = self.known();
        (known.at.elapsed() < age.min(self.refresh)).then_some(known)
    }

    fn known(&self) -> Known {
        *self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, new: Known) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // An earlier request may be answered later.
        if new.number >= known.number {
            *known = new;
        }
    }
}

impl KeyMap for Places {
    fn root(&self) -> &str {
        &self.root
    }

    fn current(&self, key: &str) -> String {
        self.of(self.record().current, key)
    }

    fn lane(&self, key: &str) -> String {
        format!("{}{}", self.root, self.record().current.name(key))
    }

    fn lane_at(&self, place: &str) -> Option<String> {
        let key = self.key(place)?;
        Some(place[..place.len() - key.len() - 1].to_owned())
    }

    fn key<'a>(&self, place: &'a str) -> Option<&'a str> {
        let (name, key) = place.strip_prefix(&self.root)?.split_once('/')?;
        (!name.is_empty() && name.bytes().all(|letter| letter.is_ascii_digit())).then_some(key)
    }

    fn list(
        self: Arc<Self>,
        requests: Arc<Requests>,
        prefix: String,
        recursive: bool,
        after: Option<String>,
    ) -> BoxStream<'static, std::result::Result<Entry, Failure>> {
        list::list(self, requests, prefix, recursive, after)
    }
}

/// Creates record `number` below the root `store`; `false` if it exists.
pub(super) async fn create(store: &Store, number: u64, record: LayoutRecord) -> Result<bool> {
    let written = record.write().map_err(|error| {
        let message = format!("its layout can't be written down: {error}");
        Error::new(ErrorKind::InvalidInput, Operation::Layout, store.location(), message).with_source(error)
    })?;
    let key = format!("{DIRECTORY}{}", record::name(number));
    let writer = store.writer(key).size_hint(written.len() as u64).create_only();
    let mut writer = writer.content_type("application/json").start().await?;
    writer.write_bytes(written.into()).await?;
    match writer.finish().await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error for a root without a record.
pub(super) fn no_record(store: &Store) -> Error {
    let message = "its keys are not spread over prefixes: run `tidegate prefix init` first";
    Error::new(ErrorKind::NotFound, Operation::Layout, store.location(), message)
}

async fn latest_number(backend: &dyn Backend, root: &str, attempt: Attempt) -> Result<Option<u64>, Fault> {
    let directory = format!("{root}{DIRECTORY}");
    // The caller's request covers this whole listing.
    let mut records = listing::entries_once(backend, &directory, attempt);
    let mut latest = None;
    loop {
        match records.try_next().await {
            Ok(Some(Entry::Object(object))) => {
                latest = latest.max(object.key.strip_prefix(&directory).and_then(record::number));
            }
            Ok(Some(Entry::Prefix(_) | Entry::Other { .. })) => {}
            Ok(None) => return Ok(latest),
            // A local directory that is not created yet has no record.
            Err(fault) if fault.kind == FaultKind::NoBucket && backend.endpoint() == "file://" => {
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        }
    }
}

async fn read(
    backend: &dyn Backend,
    root: &str,
    number: u64,
    attempt: Attempt,
) -> Result<LayoutRecord, Fault> {
    let key = format!("{root}{DIRECTORY}{}", record::name(number));
    let Body { object, stream, .. } = backend.get(&key, None, None, attempt).await?;
    if object.size > LARGEST {
        let message = format!("the record of its prefixes has {} bytes: it is no record", object.size);
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    let pieces: Vec<bytes::Bytes> = stream.try_collect().await?;
    LayoutRecord::read(&pieces.concat())
}
