//! A store that notes what each part takes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use futures::stream::BoxStream;
use tidegate::Object;
use tidegate::backend::s3::S3;
use tidegate::backend::{
    Backend, Body, Capabilities, Entry, Fault, OpenSession, Receipt, Session, StoredPart, WriteOptions,
};
use tidegate::checksum::Checksum;
use tidegate::payload::Payload;

/// An S3 store and a watch.
#[derive(Debug)]
pub(super) struct Timed {
    store: S3,
    /// By number: when it was first sent, and after how many seconds it was first answered well.
    parts: Mutex<BTreeMap<u32, (Instant, Option<f64>)>>,
}

impl Timed {
    pub(super) fn new(store: S3) -> Self {
        Self { store, parts: Mutex::default() }
    }

    /// What each part took, by number.
    pub(super) fn parts(&self) -> Vec<f64> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.values().filter_map(|(_, took)| *took).collect()
    }
}

#[async_trait]
impl Backend for Timed {
    fn location(&self) -> &str {
        self.store.location()
    }

    fn endpoint(&self) -> &str {
        self.store.endpoint()
    }

    fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        self.store.put(key, payload, options).await
    }

    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        self.store.open(key, options).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        payload: Payload,
    ) -> Result<Receipt, Fault> {
        {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.entry(number).or_insert_with(|| (Instant::now(), None));
        }
        let receipt = self.store.part(session, number, offset, payload).await?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((sent, took)) = parts.get_mut(&number) {
            took.get_or_insert(sent.elapsed().as_secs_f64());
        }
        Ok(receipt)
    }

    async fn parts(&self, session: &Session) -> Result<Vec<StoredPart>, Fault> {
        self.store.parts(session).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        self.store.complete(session, parts, checksum, options).await
    }

    async fn abort(&self, session: &Session) -> Result<(), Fault> {
        self.store.abort(session).await
    }

    fn sessions(&self, prefix: &str) -> BoxStream<'static, Result<OpenSession, Fault>> {
        self.store.sessions(prefix)
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        self.store.head(key).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<Body, Fault> {
        self.store.get(key, range).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry, Fault>> {
        self.store.list(prefix, recursive)
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.store.delete(key).await
    }
}
