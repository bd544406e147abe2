//! A store that measures the time of each part.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tidegate::Object;
use tidegate::backend::s3::S3;
use tidegate::backend::{
    Attempt, Backend, Body, Entry, Fault, Info, Listing, PartOrigin, PartSource, Parts, Receipt, Session,
    StoredPart, WriteOptions,
};
use tidegate::checksum::Checksum;
use tidegate::payload::Payload;

/// An S3 store with a stopwatch.
#[derive(Debug)]
pub(super) struct Timed {
    store: S3,
    /// By number: when the part was first sent, and the seconds until its first good answer.
    parts: Mutex<BTreeMap<u32, (Instant, Option<f64>)>>,
}

impl Timed {
    pub(super) fn new(store: S3) -> Self {
        Self { store, parts: Mutex::default() }
    }

    /// The seconds of each part, by number.
    pub(super) fn seconds(&self) -> Vec<f64> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.values().filter_map(|(_, took)| *took).collect()
    }
}

#[async_trait]
impl Backend for Timed {
    fn info(&self) -> &Info {
        self.store.info()
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        self.store.check(key, options)
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.store.put(key, payload, options, attempt).await
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        self.store.head(key, attempt).await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        self.store.get(key, range, same, attempt).await
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        self.store.delete(key, same, attempt).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.store.list(prefix, recursive)
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }
}

#[async_trait]
impl Parts for Timed {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.store.open(key, options, origin, attempt).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.entry(number).or_insert_with(|| (Instant::now(), None));
        }
        let receipt = self.store.part(session, number, offset, source, attempt).await?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((sent, took)) = parts.get_mut(&number) {
            took.get_or_insert(sent.elapsed().as_secs_f64());
        }
        Ok(receipt)
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        self.store.stored_parts(session, attempt).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.store.complete(session, parts, checksum, options, attempt).await
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.store.abort(session, attempt).await
    }
}
