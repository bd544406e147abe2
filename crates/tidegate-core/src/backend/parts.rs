//! Uploads in parts: a session, its parts in any order, and one request that publishes the object.

use std::fmt::Debug;
use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;

use super::{Attempt, CopySource, Fault, Receipt, Session, StoredPart, WriteOptions};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// A store's uploads in parts ("multipart uploads").
#[async_trait]
pub trait Parts: Debug + Send + Sync {
    /// Opens an upload session for parts of one origin.
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault>;

    /// Stores part `number` (from 1), whose first byte is at `offset` of the object. Idempotent: the same number may
    /// be sent again with the same bytes. A copied part fails with [`Replaced`](super::FaultKind::Replaced) if its
    /// source is no longer the object that [`CopySource`] describes.
    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault>;

    /// Lists the parts of a session, ordered by number; all copies of a part where the store keeps several.
    /// [`Unsupported`](super::FaultKind::Unsupported) if the store cannot list parts.
    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault>;

    /// Publishes the object from its parts, which must be in ascending order and make up the whole object. `checksum`
    /// is that of the whole object, which is known if the bytes were sent from here; the store is asked to compare
    /// it. Of copied parts it is the source's, if the store has one.
    ///
    /// Size and checksum in the answer are the store's own; only if the store cannot be asked for the size, the
    /// answer has the size of the parts.
    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault>;

    /// Has all parts of a session outlast a loss of power, and marks the session as one that is kept until then for a
    /// later completion. Does nothing where parts outlast it anyway; such a store is not asked.
    async fn keep(&self, session: &Session, until: SystemTime, attempt: Attempt) -> Result<(), Fault> {
        let _ = (session, until, attempt);
        Ok(())
    }

    /// Aborts a session and frees its parts. [`NoSession`](super::FaultKind::NoSession) if there is no such session;
    /// [`Unsupported`](super::FaultKind::Unsupported), with nothing sent, unless
    /// [`Capabilities::aborts`](super::Capabilities::aborts) is set.
    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault>;
}

/// Where the parts of a session come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartOrigin {
    /// Sent from here, with checksums.
    Sent,
    /// Copied by the store from one of its objects, if [`Capabilities::copy_parts`](super::Capabilities::copy_parts)
    /// is set.
    Copied,
}

/// The bytes of a part.
#[derive(Clone, Debug)]
pub enum PartSource<'a> {
    /// Bytes to send.
    Bytes(Payload),
    /// A range of an object of the same store, which the store copies itself. The part's offset in the new object is
    /// the start of the range.
    CopyOf(&'a CopySource, Range<u64>),
}

impl From<Payload> for PartSource<'_> {
    fn from(payload: Payload) -> Self {
        Self::Bytes(payload)
    }
}
