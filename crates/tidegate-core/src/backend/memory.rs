//! A store in memory: for tests, for experiments, and as the model of how a store behaves.
//!
//! It follows S3's rules (parts in any order, smallest part size, conditions, ascending completion) and checks its
//! input: a receipt that does not match the stored part, or a checksum that does not match the bytes, fails the
//! request. Bytes are copied in, so a caller's buffers are free when a request returns.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};

use super::if_unchanged::{same_or_another, same_or_replaced};
use super::{
    Admin, Attempt, Backend, Body, Capabilities, Copied, CopySource, Entry, Fault, FaultKind, Held, Info,
    Listing, OpenSession, PartOrigin, PartSource, Parts, Receipt, ServerCopy, Session, StoredPart,
    WriteOptions,
};
use crate::memory::payload::Payload;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::Object;

mod content;
mod copy;
mod rules;
mod scheme;
#[cfg(test)]
mod tests;

pub use scheme::MemoryScheme;

use content::{cut, describe, joined, sent, take_in};
use rules::{check_parts, clamp, fits, invalid, no_object, no_session};

/// A store in memory; a clone is the same store.
#[derive(Clone)]
pub struct Memory {
    info: Info,
    state: Arc<Mutex<StoreContents>>,
}

#[derive(Default)]
struct StoreContents {
    objects: BTreeMap<String, MemoryObject>,
    sessions: BTreeMap<String, MemoryUpload>,
    opened: u64,
}

/// A published object.
struct MemoryObject {
    object: Object,
    blocks: Arc<[Bytes]>,
}

/// An unfinished upload.
struct MemoryUpload {
    key: String,
    started: SystemTime,
    options: WriteOptions,
    parts: BTreeMap<u32, MemoryPart>,
}

struct MemoryPart {
    receipt: Receipt,
    /// The checksum of its bytes, wherever they came from.
    checksum: Checksum,
    blocks: Vec<Bytes>,
}

impl Memory {
    /// An empty store at `memory://name`, with the limits of S3.
    pub fn new(name: impl AsRef<str>) -> Self {
        let location = format!("memory://{}", name.as_ref());
        let capabilities = Capabilities {
            keeps_empty_names: true,
            replaces: true,
            max_copy: 5 << 30,
            create_only_copy: true,
            copy_parts: true,
            ..Capabilities::default()
        };
        Self { info: Info::new(location.clone(), location, capabilities), state: Arc::default() }
    }

    /// The same store with other limits, for this clone and clones made of it; earlier clones keep theirs.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.info.capabilities = capabilities;
        self
    }

    fn state(&self) -> MutexGuard<'_, StoreContents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_body(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        let state = self.state();
        let stored = state.objects.get(key).ok_or_else(no_object)?;
        let object = same_or_replaced(stored.object.clone(), same)?;
        let range = clamp(range, object.size)?;
        let blocks = cut(&stored.blocks, &range);
        let stream = stream::iter(blocks).map(Ok).boxed();
        Ok(Body { object, range, ignored_range: false, stream })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("location", &self.info.location).finish_non_exhaustive()
    }
}

impl StoreContents {
    /// The upload of a session, if there is one with this id and key.
    fn upload(&mut self, session: &Session) -> Result<&mut MemoryUpload, Fault> {
        self.sessions.get_mut(&session.id).filter(|upload| upload.key == session.key).ok_or_else(no_session)
    }

    fn publish(
        &mut self,
        key: &str,
        mut object: Object,
        blocks: Vec<Bytes>,
        opened: WriteOptions,
        condition: &WriteOptions,
    ) -> Result<Object, Fault> {
        let there = self.objects.get(key).map(|stored| &stored.object);
        if condition.create_only && there.is_some() {
            return Err(Fault::new(FaultKind::Exists, "the key has an object already"));
        }
        if let Some(replaced) = &condition.replaces
            && there.is_none_or(|there| there.etag != replaced.etag)
        {
            return Err(Fault::new(FaultKind::Exists, "the key has not the object that was to be replaced"));
        }
        object.key = key.to_owned();
        object.modified = Some(SystemTime::now());
        object.token = opened.token;
        object.attributes = opened.attributes;
        self.objects.insert(key.to_owned(), MemoryObject { object: object.clone(), blocks: blocks.into() });
        Ok(object)
    }
}

#[async_trait]
impl Backend for Memory {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self, _: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        match options.and_then(|options| options.replaces.as_ref()) {
            Some(replaced) if replaced.etag.is_none() => Err(invalid(
                "the object that is to be replaced has no ETag, by which the store could know it",
            )),
            _ => Ok(()),
        }
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        _attempt: Attempt,
    ) -> Result<Object, Fault> {
        fits(
            payload.len(),
            self.info.capabilities.max_put.min(self.info.capabilities.max_object),
            "one request",
        )?;
        let (blocks, checksum) = take_in(&payload).await?;
        let object = describe(&checksum, None);
        self.state().publish(key, object, blocks, options.clone(), options)
    }

    async fn head(&self, key: &str, _attempt: Attempt) -> Result<Object, Fault> {
        self.state().objects.get(key).map(|stored| stored.object.clone()).ok_or_else(no_object)
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        _attempt: Attempt,
    ) -> Result<Body, Fault> {
        self.begin_body(key, range, same)
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        let state = self.state();
        let mut entries: Vec<Entry> = Vec::new();
        let from = state.objects.range(prefix.to_owned()..);
        for (key, stored) in from.take_while(|(key, _)| key.starts_with(prefix)) {
            match key[prefix.len()..].find('/') {
                Some(slash) if !recursive => {
                    let below = Entry::Prefix(key[..=prefix.len() + slash].to_owned());
                    if entries.last() != Some(&below) {
                        entries.push(below);
                    }
                }
                _ => entries.push(Entry::Object(stored.object.clone())),
            }
        }
        stream::iter(entries).map(Ok).boxed().into()
    }

    async fn delete(&self, key: &str, same: Option<&Object>, _attempt: Attempt) -> Result<(), Fault> {
        let mut state = self.state();
        if let (Some(found), Some(same)) = (state.objects.get(key), same) {
            same_or_another(&found.object, same)?;
        }
        state.objects.remove(key);
        Ok(())
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Parts for Memory {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        _origin: PartOrigin,
        _attempt: Attempt,
    ) -> Result<Session, Fault> {
        let mut state = self.state();
        state.opened += 1;
        let id = format!("{:016x}", state.opened); // in the order of opening
        let upload = MemoryUpload {
            key: key.to_owned(),
            started: SystemTime::now(),
            options: options.clone(),
            parts: BTreeMap::new(),
        };
        state.sessions.insert(id.clone(), upload);
        Ok(Session { key: key.to_owned(), id })
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        _offset: u64,
        source: PartSource<'_>,
        _attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        let payload = match source {
            PartSource::Bytes(payload) => payload,
            PartSource::CopyOf(from, range) => return self.copy_range(session, number, from, range),
        };
        let most = self.info.capabilities.max_parts;
        if !(1..=most).contains(&number) {
            return Err(invalid(format!("part {number}: parts are numbered from 1 to {most}")));
        }
        fits(payload.len(), self.info.capabilities.max_part, "one part")?;
        self.state().upload(session)?;
        let (blocks, checksum) = take_in(&payload).await?;
        let receipt = sent(number, checksum);
        // The session may have ended since the check above.
        self.state()
            .upload(session)?
            .parts
            .insert(number, MemoryPart { receipt: receipt.clone(), checksum, blocks });
        Ok(receipt)
    }

    async fn stored_parts(&self, session: &Session, _attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        let mut state = self.state();
        Ok(state.upload(session)?.parts.values().map(MemoryPart::stored).collect())
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        _attempt: Attempt,
    ) -> Result<Object, Fault> {
        let mut state = self.state();
        let upload = state.upload(session)?;
        check_parts(&self.info.capabilities, &upload.parts, parts)?;
        let held: Vec<&MemoryPart> = parts.iter().filter_map(|part| upload.parts.get(&part.number)).collect();
        let algorithm = held.first().map_or_else(Algorithm::default, |part| part.checksum.algorithm());
        // The source of copied parts may have a checksum of another kind.
        let is_sent = parts.iter().all(|part| part.checksum.is_some());
        let expected = checksum.filter(|checksum| is_sent || checksum.algorithm() == algorithm);
        let whole = joined(&held, expected.map_or(algorithm, Checksum::algorithm));
        if expected.is_some_and(|expected| whole != Some(*expected)) {
            let message = "BadDigest: the checksum is not that of the parts together";
            return Err(Fault::new(FaultKind::Integrity, message));
        }
        let whole = whole.ok_or_else(|| invalid("the parts' checksums are of two kinds"))?;
        let blocks = held.iter().flat_map(|part| part.blocks.iter().cloned()).collect();
        let opened = upload.options.clone();
        let object = describe(&whole, Some(parts.len()));
        let object = state.publish(&session.key, object, blocks, opened, options)?;
        state.sessions.remove(&session.id);
        Ok(object)
    }

    async fn abort(&self, session: &Session, _attempt: Attempt) -> Result<(), Fault> {
        let mut state = self.state();
        state.upload(session)?;
        state.sessions.remove(&session.id);
        Ok(())
    }
}

#[async_trait]
impl ServerCopy for Memory {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        _cursor: Option<&str>,
        options: &WriteOptions,
        _attempt: Attempt,
    ) -> Result<Copied, Fault> {
        self.copy_whole(from, key, options).map(|object| Copied::Whole(Box::new(object)))
    }
}

#[async_trait]
impl Admin for Memory {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        let state = self.state();
        let below = state.sessions.iter().filter(|(_, upload)| upload.key.starts_with(prefix));
        let mut open: Vec<OpenSession> = below
            .map(|(id, upload)| {
                let session = Session { key: upload.key.clone(), id: id.clone() };
                OpenSession::new(session).with_started(Some(upload.started))
            })
            .collect();
        open.sort_by(|a, b| (&a.session.key, &a.session.id).cmp(&(&b.session.key, &b.session.id)));
        stream::iter(open).map(Ok).boxed().into()
    }

    async fn held(&self, session: &Session, _attempt: Attempt) -> Result<Held, Fault> {
        let mut state = self.state();
        let parts = &state.upload(session)?.parts;
        let bytes = parts.values().map(|part| part.receipt.size).sum();
        Ok(Held { parts: Some(parts.len() as u64), bytes, initiator: None })
    }

    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        self.head(key, attempt).await.map(|object| object.attributes.tags)
    }
}
