//! Stores bytes for Google's APIs: whole objects, and appends to sessions.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use md5::Md5;

use super::hash::{ObjectHasher, finish_md5, join};
use super::refusal::GcsRefusal;
use crate::catalog::session::{Expected, GRAIN, ResumableSession};
use crate::catalog::{CatalogAttributes, CatalogObject, Condition, Generations, Moment, ObjectVersion};
use crate::s3::ServerStore;
use crate::storage::{self, PieceWriter, StoredPiece};
use std::sync::Arc;

/// A session's bytes are persisted each time this many have arrived; a multiple of the grain.
const PIECE: u64 = 8 * 1024 * 1024;

impl ServerStore {
    /// Whether the server computes the MD5 of an object.
    fn wants_md5(&self, expected: &Expected) -> bool {
        self.vault.keeps_bytes() || self.has_md5_etags || expected.md5.is_some()
    }

    pub(super) fn start_md5(&self, expected: &Expected) -> Option<Md5> {
        self.wants_md5(expected).then(Md5::default)
    }
}

/// A complete object before it is published.
#[derive(Debug)]
struct CompleteObject {
    key: String,
    attributes: CatalogAttributes,
    pieces: Vec<StoredPiece>,
    size: u64,
    crc32c: u32,
    md5: Option<[u8; 16]>,
}

impl CompleteObject {
    fn into_object(self, store: &ServerStore) -> CatalogObject {
        let etag = store.google_etag(self.md5.as_ref(), self.crc32c);
        CatalogObject {
            key: self.key,
            size: self.size,
            etag,
            modified: Moment::now(),
            checksum: None,
            part_sizes: Vec::new(),
            attributes: self.attributes,
            // Publishing assigns the version.
            version: ObjectVersion::default(),
            crc32c: Some(self.crc32c),
            md5: self.md5,
            pieces: self.pieces,
        }
    }
}

/// Uploads a whole object in one request; if dropped before `publish`, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Single {
    writer: PieceWriter,
    hasher: ObjectHasher,
    size: u64,
}

impl Single {
    pub(super) fn new(store: &ServerStore, expected: &Expected) -> Self {
        Self { writer: store.vault.writer(), hasher: ObjectHasher::new(store.start_md5(expected)), size: 0 }
    }

    pub(super) async fn push(&mut self, bytes: Bytes) -> Result<(), GcsRefusal> {
        self.hasher.update(&bytes);
        self.size += bytes.len() as u64;
        Ok(self.writer.push(bytes).await?)
    }

    /// Publishes the object, if it matches the client's statements and its conditions hold.
    pub(super) async fn publish(
        self,
        store: &ServerStore,
        bucket: &str,
        target: WriteTarget,
        expected: &Expected,
    ) -> Result<Arc<CatalogObject>, GcsRefusal> {
        let crc32c = self.hasher.crc32c();
        let md5 = self.hasher.md5.map(finish_md5);
        expected.check(self.size, crc32c, md5.as_ref())?;
        let pieces = vec![self.writer.finish().await?];
        let WriteTarget { key, attributes, generations } = target;
        let whole = CompleteObject { key, attributes, pieces, size: self.size, crc32c, md5 };
        store.commit_delay().await;
        let condition = Condition::generations(generations);
        Ok(store.lock().put_object(bucket, whole.into_object(store), &condition)?)
    }
}

/// The key, attributes and conditions of an object to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteTarget {
    pub(super) key: String,
    pub(super) attributes: CatalogAttributes,
    pub(super) generations: Generations,
}

/// Appends to a session. Bytes that do not fill a grain wait in memory for more, and are lost with the request
/// unless they are the object's end.
#[derive(Debug)]
pub(super) struct SessionAppender<'a> {
    store: &'a ServerStore,
    id: &'a str,
    /// The claim on the session: see [`ResumableSession::writer`].
    claim: u64,
    skip: u64,
    persisted: u64,
    /// The piece being filled, a multiple of the grain.
    writer: Option<PieceWriter>,
    filled: u64,
    hasher: ObjectHasher,
    held: VecDeque<Bytes>,
    held_length: u64,
}

impl<'a> SessionAppender<'a> {
    /// Resumes a session that was just claimed; the first `skip` bytes pushed are already persisted.
    pub(super) fn new(store: &'a ServerStore, id: &'a str, session: &ResumableSession, skip: u64) -> Self {
        let persisted = session.persisted();
        let md5 = match persisted {
            0 => store.start_md5(&session.expected),
            _ => session.md5.clone(),
        };
        Self {
            store,
            id,
            claim: session.writer,
            skip,
            persisted,
            writer: None,
            filled: 0,
            hasher: ObjectHasher::new(md5),
            held: VecDeque::new(),
            held_length: 0,
        }
    }

    /// How many bytes are persisted, even if the request fails later.
    pub(super) fn persisted(&self) -> u64 {
        self.persisted
    }

    pub(super) async fn push(&mut self, mut bytes: Bytes) -> Result<(), GcsRefusal> {
        let known = self.skip.min(bytes.len() as u64);
        self.skip -= known;
        // At most the bytes' own length.
        bytes.advance(known as usize);
        if bytes.is_empty() {
            return Ok(());
        }
        self.held_length += bytes.len() as u64;
        self.held.push_back(bytes);
        self.fill(self.held_length - self.held_length % GRAIN).await?;
        if self.filled >= PIECE {
            self.persist().await?;
        }
        Ok(())
    }

    /// Moves this many of the waiting bytes into the piece.
    async fn fill(&mut self, mut length: u64) -> Result<(), GcsRefusal> {
        while length > 0 {
            let Some(mut bytes) = self.held.pop_front() else {
                break;
            };
            if bytes.len() as u64 > length {
                self.held.push_front(bytes.split_off(length as usize));
            }
            length -= bytes.len() as u64;
            self.held_length -= bytes.len() as u64;
            self.filled += bytes.len() as u64;
            self.hasher.update(&bytes);
            self.writer.get_or_insert_with(|| self.store.vault.writer()).push(bytes).await?;
        }
        Ok(())
    }

    async fn take_piece(&mut self) -> Result<Option<(StoredPiece, u32)>, GcsRefusal> {
        let Some(writer) = self.writer.take() else {
            return Ok(None);
        };
        let crc32c = self.hasher.crc32c();
        self.hasher = ObjectHasher::new(self.hasher.md5.take());
        self.filled = 0;
        Ok(Some((writer.finish().await?, crc32c)))
    }

    /// Persists all bytes received, except those that do not fill a grain.
    pub(super) async fn persist(&mut self) -> Result<(), GcsRefusal> {
        if let Some((piece, crc32c)) = self.take_piece().await? {
            let length = piece.length();
            let md5 = self.hasher.md5.clone();
            self.store.lock().append_to_session(self.id, self.claim, piece, crc32c, md5)?;
            self.persisted += length;
        }
        Ok(())
    }

    /// Ends the object: publishes it, if it matches the client's statements and its conditions hold. If not,
    /// the session keeps the bytes that fill its grains, and the client may send the end again.
    pub(super) async fn publish(
        mut self,
        expected: &Expected,
        metadata: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Arc<CatalogObject>, GcsRefusal> {
        self.persist().await?;
        self.fill(self.held_length).await?;
        let tail = self.take_piece().await?;
        let session = self.store.lock().session(self.id)?.clone();
        let mut crc32c = 0;
        let mut pieces = Vec::with_capacity(session.pieces.len() + 1);
        let all = session.pieces.into_iter().map(|piece| (piece.piece, piece.crc32c)).chain(tail);
        for (piece, crc) in all {
            crc32c = join(crc32c, crc, piece.length());
            pieces.push(piece);
        }
        let size = pieces.iter().map(StoredPiece::length).sum();
        let md5 = match self.hasher.md5.take() {
            Some(md5) => Some(finish_md5(md5)),
            // The MD5 so far was lost with an earlier process.
            None if self.store.vault.keeps_bytes() && self.store.wants_md5(expected) => {
                Some(read_md5(&pieces, size).await?)
            }
            None => None,
        };
        expected.check(size, crc32c, md5.as_ref())?;
        self.store.commit_delay().await;
        let mut attributes = session.attributes;
        let mut metadata = metadata.into_iter().peekable();
        if metadata.peek().is_some() {
            attributes.metadata.get_or_insert_default().extend(metadata);
        }
        let whole = CompleteObject { key: session.key, attributes, pieces, size, crc32c, md5 };
        let object = whole.into_object(self.store);
        Ok(self.store.lock().finish_session(self.id, self.claim, object)?)
    }
}

async fn read_md5(pieces: &[StoredPiece], size: u64) -> Result<[u8; 16], GcsRefusal> {
    let mut hasher = ObjectHasher::new(Some(Md5::default()));
    let mut bytes = storage::read(pieces, 0..size);
    while let Some(bytes) = bytes.try_next().await? {
        hasher.update(&bytes);
    }
    hasher.md5.map(finish_md5).ok_or_else(|| GcsRefusal::internal("the MD5 was not taken"))
}
