//! Plants client bugs between the engine and the store, to verify that the checks find them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use tidegate::Object;
use tidegate::backend::{
    Attempt, Backend, Body, Entry, Fault, Info, Listing, PartOrigin, PartSource, Parts, Receipt, Session,
    StoredPart, WriteOptions,
};
use tidegate::checksum::Checksum;
use tidegate::payload::Payload;

use crate::store::SimStore;

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Completes with two parts in the wrong order.
    UnsortedParts,
    /// Reports a part as stored without sending it.
    UnsentPart,
    /// Sends different bytes when a part is sent again.
    OtherBytes,
    /// Reports a session as aborted without asking the store.
    ForgottenAbort,
    /// Publishes an empty object when a session is opened.
    PublishOnOpen,
    /// Sends every part twice.
    PartTwice,
    /// Overwrites an object where the write should only create one.
    Overwrite,
    /// Reports a failed completion as a success.
    SwallowedError,
    /// Drops the last byte of an object that is sent in one request.
    ShortPut,
    /// Drops the last byte of a write to the spool.
    LostTail,
    /// Maps two blocks of a spool disk to the same block.
    SharedBlock,
    /// Never reports that a write to the spool is done.
    LostWake,
    /// Ends waits for memory after half of the time.
    Impatience,
    /// Keeps the bytes of parts whose requests have ended.
    KeptBytes,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::UnsortedParts,
        Self::UnsentPart,
        Self::OtherBytes,
        Self::ForgottenAbort,
        Self::PublishOnOpen,
        Self::PartTwice,
        Self::Overwrite,
        Self::SwallowedError,
        Self::ShortPut,
        Self::LostTail,
        Self::SharedBlock,
        Self::LostWake,
        Self::Impatience,
        Self::KeptBytes,
    ];

    /// Whether it shows where memory is short.
    pub fn is_of_memory(self) -> bool {
        matches!(
            self,
            Self::LostTail | Self::SharedBlock | Self::LostWake | Self::Impatience | Self::KeptBytes
        )
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnsortedParts => "unsorted-parts",
            Self::UnsentPart => "unsent-part",
            Self::OtherBytes => "other-bytes",
            Self::ForgottenAbort => "forgotten-abort",
            Self::PublishOnOpen => "publish-on-open",
            Self::PartTwice => "part-twice",
            Self::Overwrite => "overwrite",
            Self::SwallowedError => "swallowed-error",
            Self::ShortPut => "short-put",
            Self::LostTail => "lost-tail",
            Self::SharedBlock => "shared-block",
            Self::LostWake => "lost-wake",
            Self::Impatience => "impatience",
            Self::KeptBytes => "kept-bytes",
        }
    }
}

impl std::str::FromStr for Plant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|plant| plant.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown bug `{name}`: use one of {names}")
        })
    }
}

/// A simulated store behind a planted bug.
#[derive(Debug)]
pub struct Planted {
    store: SimStore,
    plant: Plant,
    /// How often each part was sent.
    sent: Mutex<BTreeMap<(String, u32), u32>>,
    kept: Mutex<Vec<Payload>>,
}

impl Planted {
    /// `store` behind `plant`.
    pub fn new(store: SimStore, plant: Plant) -> Self {
        Self { store, plant, sent: Mutex::default(), kept: Mutex::default() }
    }

    fn is(&self, plant: Plant) -> bool {
        self.plant == plant
    }

    /// How often this part was sent before.
    fn sent_before(&self, session: &Session, number: u32) -> u32 {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let times = sent.entry((session.id.clone(), number)).or_default();
        *times += 1;
        *times - 1
    }

    fn checksum(&self, bytes: &[u8]) -> Checksum {
        Checksum::of(self.store.capabilities().checksum, bytes)
    }

    fn payload(&self, bytes: Bytes) -> Payload {
        let checksum = self.checksum(&bytes);
        Payload::from_memory(vec![bytes], checksum)
    }
}

async fn read(payload: &Payload) -> Result<BytesMut, Fault> {
    let pieces: Result<Vec<Bytes>, _> = payload.stream().try_collect().await;
    let pieces =
        pieces.map_err(|error| Fault::new(tidegate::backend::FaultKind::Source, error.to_string()))?;
    Ok(BytesMut::from(&pieces.concat()[..]))
}

#[async_trait]
impl Backend for Planted {
    fn info(&self) -> &Info {
        self.store.info()
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let mut options = options.clone();
        options.create_only &= !self.is(Plant::Overwrite);
        if !self.is(Plant::ShortPut) || payload.is_empty() {
            return self.store.put(key, payload, &options, attempt).await;
        }
        let mut bytes = read(&payload).await?;
        bytes.truncate(bytes.len() - 1);
        self.store.put(key, self.payload(bytes.freeze()), &options, attempt).await
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
impl Parts for Planted {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        let session = self.store.open(key, options, origin, attempt).await?;
        if self.is(Plant::PublishOnOpen) {
            self.store.put(key, self.payload(Bytes::new()), options, attempt).await?;
        }
        Ok(session)
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        let before = self.sent_before(session, number);
        let PartSource::Bytes(payload) = source else {
            return self.store.part(session, number, offset, source, attempt).await;
        };
        match self.plant {
            Plant::UnsentPart if number.is_multiple_of(3) => {
                let checksum = self.checksum(&read(&payload).await?);
                let (size, etag) = (payload.len(), format!("\"{:016x}-{number}\"", checksum.value()));
                Ok(Receipt { number, size, etag, checksum: Some(checksum) })
            }
            Plant::OtherBytes if before > 0 => {
                let mut bytes = read(&payload).await?;
                if let Some(first) = bytes.first_mut() {
                    *first ^= 1;
                }
                self.store.part(session, number, offset, self.payload(bytes.freeze()).into(), attempt).await
            }
            Plant::KeptBytes => {
                self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(payload.clone());
                self.store.part(session, number, offset, payload.into(), attempt).await
            }
            Plant::PartTwice => {
                self.store.part(session, number, offset, payload.clone().into(), attempt).await?;
                self.store.part(session, number, offset, payload.into(), attempt).await
            }
            _ => self.store.part(session, number, offset, payload.into(), attempt).await,
        }
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
        let (mut parts, mut options) = (parts.to_vec(), options.clone());
        options.create_only &= !self.is(Plant::Overwrite);
        if self.is(Plant::UnsortedParts) && parts.len() > 1 {
            parts.swap(0, 1);
        }
        let completed = self.store.complete(session, &parts, checksum, &options, attempt).await;
        if !self.is(Plant::SwallowedError) || completed.is_ok() {
            return completed;
        }
        let size = parts.iter().map(|part| part.size).sum();
        Ok(Object { key: session.key.clone(), size, ..Object::default() })
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        if self.is(Plant::ForgottenAbort) { Ok(()) } else { self.store.abort(session, attempt).await }
    }
}
