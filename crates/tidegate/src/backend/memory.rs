//! A store in memory: for tests, for trying things out, and as the model of what a store does.
//!
//! It keeps S3's rules (parts in any order, the least part size, conditions, ascending completion) and
//! checks what it is told: a receipt that is not what was stored, or a checksum that is not that of the
//! bytes, fails the request. Bytes are copied in, so a caller's buffers are free when a request returns.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::{
    Backend, Body, Capabilities, Entry, Fault, FaultKind, Held, OpenSession, Receipt, Session, StoredPart,
    WriteOptions,
};
use crate::checksum::{Algorithm, Checksum, Hasher};
use crate::object::Object;
use crate::payload::Payload;

#[cfg(test)]
mod tests;

/// Bytes are kept in blocks of about this size.
const BLOCK: usize = 256 << 10;

/// A store in memory; a clone is the same store.
#[derive(Clone)]
pub struct Memory {
    location: String,
    capabilities: Capabilities,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    sessions: BTreeMap<String, Upload>,
    opened: u64,
}

/// A finished object.
struct Stored {
    object: Object,
    blocks: Arc<[Bytes]>,
}

/// An unfinished one.
struct Upload {
    key: String,
    started: SystemTime,
    options: WriteOptions,
    parts: BTreeMap<u32, Part>,
}

struct Part {
    receipt: Receipt,
    blocks: Vec<Bytes>,
}

impl Memory {
    /// An empty store at `memory://name`, with the limits of S3.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self {
            location: format!("memory://{}", name.as_ref()),
            capabilities: Capabilities::default(),
            state: Arc::default(),
        }
    }

    /// The same store with other limits, which it keeps from here on; clones made before keep theirs.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_parts(&self, upload: &Upload, parts: &[Receipt]) -> Result<(), Fault> {
        let limits = &self.capabilities;
        let Some(last) = parts.last() else {
            return Err(invalid("a session is completed with at least one part"));
        };
        let size = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.size));
        if size > limits.max_object {
            let message =
                format!("EntityTooLarge: {size} bytes, of at most {} in one object", limits.max_object);
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        if let Some(pair) = parts.windows(2).find(|pair| pair[0].number >= pair[1].number) {
            let message =
                format!("InvalidPartOrder: part {} comes after part {}", pair[1].number, pair[0].number);
            return Err(invalid(message));
        }
        for part in parts {
            let number = part.number;
            match upload.parts.get(&number) {
                None => return Err(mismatch(format!("InvalidPart: there is no part {number}"))),
                Some(stored) if stored.receipt != *part => {
                    return Err(mismatch(format!(
                        "InvalidPart: part {number} is not the one that was stored"
                    )));
                }
                Some(_) => {}
            }
            if number == last.number {
                continue;
            }
            if part.size < limits.min_part {
                let least = limits.min_part;
                let message =
                    format!("EntityTooSmall: part {number} has {} bytes, of at least {least}", part.size);
                return Err(invalid(message));
            }
            if limits.equal_parts && (part.size != parts[0].size || last.size > part.size) {
                return Err(invalid(
                    "InvalidPart: all parts but the last must have one size, and the last no more",
                ));
            }
        }
        Ok(())
    }

    fn begin_body(&self, key: &str, range: Option<Range<u64>>) -> Result<Body, Fault> {
        let state = self.state();
        let stored = state.objects.get(key).ok_or_else(no_object)?;
        let object = stored.object.clone();
        let range = clamp(range, object.size)?;
        let blocks = cut(&stored.blocks, &range);
        Ok(Body { object, range, stream: stream::iter(blocks).map(Ok).boxed() })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("location", &self.location).finish_non_exhaustive()
    }
}

impl State {
    /// The session, if there is one of this id for this key.
    fn upload(&mut self, session: &Session) -> Result<&mut Upload, Fault> {
        self.sessions.get_mut(&session.id).filter(|upload| upload.key == session.key).ok_or_else(no_session)
    }

    fn publish(
        &mut self,
        key: &str,
        mut object: Object,
        blocks: Vec<Bytes>,
        opened: WriteOptions,
        create_only: bool,
    ) -> Result<Object, Fault> {
        if create_only && self.objects.contains_key(key) {
            return Err(Fault::new(FaultKind::Exists, "the key has an object already"));
        }
        object.key = key.to_owned();
        object.modified = Some(SystemTime::now());
        object.token = opened.token;
        object.attributes = opened.attributes;
        self.objects.insert(key.to_owned(), Stored { object: object.clone(), blocks: blocks.into() });
        Ok(object)
    }
}

#[async_trait]
impl Backend for Memory {
    fn location(&self) -> &str {
        &self.location
    }

    fn endpoint(&self) -> &str {
        &self.location
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        fits(payload.len(), self.capabilities.max_put.min(self.capabilities.max_object), "one request")?;
        let (blocks, checksum) = take_in(&payload).await?;
        let object = describe(&checksum, None);
        self.state().publish(key, object, blocks, options.clone(), options.create_only)
    }

    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        let mut state = self.state();
        state.opened += 1;
        let id = format!("{:016x}", state.opened); // in the order of opening
        let upload = Upload {
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
        payload: Payload,
    ) -> Result<Receipt, Fault> {
        let most = self.capabilities.max_parts;
        if !(1..=most).contains(&number) {
            return Err(invalid(format!("part {number}: parts are numbered from 1 to {most}")));
        }
        fits(payload.len(), self.capabilities.max_part, "one part")?;
        self.state().upload(session)?;
        let (blocks, checksum) = take_in(&payload).await?;
        let receipt = Receipt { number, size: checksum.covers(), etag: etag(&checksum, None), checksum };
        // The session may have ended meanwhile.
        self.state().upload(session)?.parts.insert(number, Part { receipt: receipt.clone(), blocks });
        Ok(receipt)
    }

    async fn parts(&self, session: &Session) -> Result<Vec<StoredPart>, Fault> {
        let mut state = self.state();
        let parts = state.upload(session)?.parts.values().map(|part| {
            let Receipt { number, size, etag, checksum } = &part.receipt;
            let checksum = Some(checksum.base64());
            StoredPart { number: *number, size: *size, etag: etag.clone(), checksum }
        });
        Ok(parts.collect())
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let mut state = self.state();
        let upload = state.upload(session)?;
        self.check_parts(upload, parts)?;
        if joined(parts, checksum.algorithm()).as_ref() != Some(checksum) {
            let message = "BadDigest: the checksum is not that of the parts together";
            return Err(Fault::new(FaultKind::Integrity, message));
        }
        let blocks = parts.iter().filter_map(|part| upload.parts.get(&part.number));
        let blocks = blocks.flat_map(|part| part.blocks.iter().cloned()).collect();
        let opened = upload.options.clone();
        let object = describe(checksum, Some(parts.len()));
        let object = state.publish(&session.key, object, blocks, opened, options.create_only)?;
        state.sessions.remove(&session.id);
        Ok(object)
    }

    async fn abort(&self, session: &Session) -> Result<(), Fault> {
        let mut state = self.state();
        state.upload(session)?;
        state.sessions.remove(&session.id);
        Ok(())
    }

    fn sessions(&self, prefix: &str) -> BoxStream<'static, Result<OpenSession, Fault>> {
        let state = self.state();
        let below = state.sessions.iter().filter(|(_, upload)| upload.key.starts_with(prefix));
        let mut open: Vec<OpenSession> = below
            .map(|(id, upload)| {
                let session = Session { key: upload.key.clone(), id: id.clone() };
                OpenSession::new(session).with_started(Some(upload.started))
            })
            .collect();
        open.sort_by(|a, b| (&a.session.key, &a.session.id).cmp(&(&b.session.key, &b.session.id)));
        stream::iter(open).map(Ok).boxed()
    }

    async fn held(&self, session: &Session) -> Result<Held, Fault> {
        let mut state = self.state();
        let parts = &state.upload(session)?.parts;
        let bytes = parts.values().map(|part| part.receipt.size).sum();
        Ok(Held { parts: Some(parts.len() as u64), bytes, initiator: None })
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        self.state().objects.get(key).map(|stored| stored.object.clone()).ok_or_else(no_object)
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<Body, Fault> {
        self.begin_body(key, range)
    }

    fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry, Fault>> {
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
        stream::iter(entries).map(Ok).boxed()
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        self.state().objects.remove(key);
        Ok(())
    }
}

/// Copies a payload's bytes into blocks, and checks them against its checksum.
async fn take_in(payload: &Payload) -> Result<(Vec<Bytes>, Checksum), Fault> {
    let mut hasher = Hasher::new(payload.algorithm());
    let mut blocks = Vec::new();
    let mut block = BytesMut::new();
    let mut stream = payload.stream();
    while let Some(piece) = stream.next().await {
        let piece =
            piece.map_err(|error| Fault::new(FaultKind::Source, error.to_string()).with_source(error))?;
        hasher.update(&piece);
        block.extend_from_slice(&piece);
        if block.len() >= BLOCK {
            blocks.push(block.split().freeze());
        }
    }
    if !block.is_empty() {
        blocks.push(block.freeze());
    }
    let checksum = hasher.finish();
    if payload.checksum().is_some_and(|claimed| claimed != checksum) {
        return Err(Fault::new(
            FaultKind::Integrity,
            "BadDigest: the bytes are not those that the checksum is of",
        ));
    }
    Ok((blocks, checksum))
}

fn describe(checksum: &Checksum, parts: Option<usize>) -> Object {
    let mut object =
        Object { size: checksum.covers(), etag: Some(etag(checksum, parts)), ..Object::default() };
    match checksum.algorithm() {
        Algorithm::Crc64Nvme => object.crc64nvme = Some(checksum.base64()),
        Algorithm::Crc32c => object.crc32c = Some(checksum.base64()),
    }
    object
}

/// A tag of the content, with its quotes; with the number of parts behind it, as S3 has it.
fn etag(checksum: &Checksum, parts: Option<usize>) -> String {
    let parts = parts.map_or_else(String::new, |parts| format!("-{parts}"));
    format!("\"{:016x}{:016x}{parts}\"", checksum.value(), checksum.covers())
}

/// The checksum of all parts; `None` where one of them is of another algorithm.
fn joined(parts: &[Receipt], algorithm: Algorithm) -> Option<Checksum> {
    parts.iter().try_fold(algorithm.empty(), |sum, part| {
        (part.checksum.algorithm() == algorithm).then(|| sum.then(&part.checksum))
    })
}

/// The range as far as there are bytes. One that begins past the end is refused, as S3 does.
fn clamp(range: Option<Range<u64>>, size: u64) -> Result<Range<u64>, Fault> {
    let Some(range) = range else {
        return Ok(0..size);
    };
    if range.start > range.end {
        return Err(invalid(format!("the range {}..{} ends before it begins", range.start, range.end)));
    }
    if range.start > size || (range.start == size && !range.is_empty()) {
        let message =
            format!("InvalidRange: the range begins at {}, and the object has {size} bytes", range.start);
        return Err(invalid(message));
    }
    Ok(range.start..range.end.min(size))
}

/// The bytes of `blocks` within `range`.
fn cut(blocks: &[Bytes], range: &Range<u64>) -> Vec<Bytes> {
    let mut offset = 0_u64;
    let mut pieces = Vec::new();
    for block in blocks {
        let len = block.len() as u64;
        let from = range.start.saturating_sub(offset).min(len) as usize;
        let to = range.end.saturating_sub(offset).min(len) as usize;
        if from < to {
            pieces.push(block.slice(from..to));
        }
        offset += len;
    }
    pieces
}

fn fits(size: u64, most: u64, whole: &str) -> Result<(), Fault> {
    if size > most {
        return Err(Fault::new(
            FaultKind::TooLarge,
            format!("EntityTooLarge: {size} bytes, of at most {most} in {whole}"),
        ));
    }
    Ok(())
}

fn mismatch(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::PartMismatch, message)
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Invalid, message)
}

fn no_object() -> Fault {
    Fault::new(FaultKind::NotFound, "no such object")
}

fn no_session() -> Fault {
    Fault::new(FaultKind::NoSession, "no such session: it was completed or aborted, or never was")
}
