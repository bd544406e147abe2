//! The interface between the engine and a store: one trait, and one module for each cloud.
//!
//! A backend knows its protocol, and nothing of strategies, budgets or retries. Every method is one request, or as
//! few as the protocol allows. A failure is a [`Fault`] that says what is known.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;

use crate::memory::payload::{Payload, Unending};
use crate::types::checksum::Checksum;
use crate::types::object::Object;

mod confirm;
mod connection;
mod copy;
mod environment;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
pub mod gcs;
mod http;
mod layer;
mod listing;
pub mod local;
pub mod memory;
pub mod s3;
mod same;
#[cfg(test)]
pub(crate) mod samples;
mod terms;
mod time;
mod unfinished;

pub use unfinished::{AbortRule, Held, Lifecycle, LifecycleRule, OpenSession};

pub use crate::types::fault::{Fault, FaultKind};
pub(crate) use connection::connected;
pub use connection::wants_new_connection;
pub use copy::{Copied, CopySource};
pub use layer::Layer;
pub use listing::{Listing, Pages};
pub(crate) use same::{no_identity, not_resumable, same_or_replaced};
pub use terms::{Appended, Body, Capabilities, Entry, OtherKind, Receipt, Session, StoredPart, WriteOptions};

/// One bucket of a cloud, or one root directory.
///
/// Dropping a method's future cancels the request. The store may still carry it out, as after a lost answer.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// The address of the bucket or root, as users write it, without a trailing slash: `s3://bucket`.
    fn location(&self) -> &str;

    /// Scheme and endpoint. Stores with the same endpoint share one limiter.
    fn endpoint(&self) -> &str;

    /// The store's limits and features.
    fn capabilities(&self) -> &Capabilities;

    /// Refuses a key, or options, that no request can express. `options` is `None` for requests that write nothing.
    /// Sends nothing, so that the error comes before a producer's first byte. If this lets something pass, the
    /// request itself refuses it.
    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        let _ = (key, options);
        Ok(())
    }

    /// Writes an object in one request. The object is visible as a whole when this returns `Ok`, or not at all.
    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault>;

    /// Opens an upload session for parts.
    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault>;

    /// Stores part `number` (from 1), whose first byte is at `offset` of the object. Idempotent: the same number may
    /// be sent again with the same bytes.
    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        payload: Payload,
    ) -> Result<Receipt, Fault>;

    /// Lists the parts of a session, ordered by number. [`FaultKind::Unsupported`] if the store cannot list parts.
    async fn parts(&self, session: &Session) -> Result<Vec<StoredPart>, Fault> {
        let message = format!("the store does not list the parts of session {}", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Publishes the object from its parts, which must be in ascending order and make up the whole object. `checksum`
    /// is that of the whole object; the store is asked to compare it. Size and checksum in the answer are the store's
    /// own; only if the store cannot be asked for the size, the answer has the size of the parts.
    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault>;

    /// Opens a session that takes appended bytes, if [`Capabilities::append`] is set.
    async fn open_appending(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        let _ = options;
        let message = format!("the store has no sessions that bytes are appended to, as for {key}");
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Appends bytes at `offset`, which must be the session's position. With `whole`, the checksum of all bytes of
    /// the object, these are the last bytes: the object is published with them, and the store is asked to compare the
    /// checksum.
    ///
    /// The store may accept fewer bytes than were sent; the caller sends the rest again from the position in the
    /// answer. After a fault the session's position is unknown.
    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
    ) -> Result<Appended, Fault> {
        let _ = (offset, payload, whole);
        let message = format!("nothing is appended to session {} of this store", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Streams bytes to the session from `offset` on, which must be the session's position. The request stays open
    /// and never publishes the object, because `bytes` never end. It ends when its future is dropped, with a fault,
    /// or when the store takes no more bytes; then [`appended`](Self::appended) gives the session's position.
    async fn append_stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
    ) -> Result<Appended, Fault> {
        let _ = (offset, bytes);
        let message = format!("nothing is streamed to session {} of this store", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// The position of a session that takes appended bytes. May be called while an append is in flight; then it
    /// counts only the bytes that the store has committed. The position never goes back.
    async fn appended(&self, session: &Session) -> Result<Appended, Fault> {
        let message = format!("nothing is appended to session {} of this store", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Aborts a session and frees its parts. [`FaultKind::NoSession`] if there is no such session.
    async fn abort(&self, session: &Session) -> Result<(), Fault>;

    /// Lists the open sessions of keys that begin with `prefix`, as far as the store lists them.
    fn sessions(&self, prefix: &str) -> Listing<OpenSession>;

    /// One sentence that says which sessions this store's listing leaves out, for users. Known only after the store
    /// has answered a request.
    fn unlisted_sessions(&self) -> Option<&'static str> {
        None
    }

    /// Looks for a session of a kind that the store does not list. `None` if the session does not exist, or is of a
    /// kind that the store lists.
    async fn unlisted(&self, session: &Session) -> Result<Option<OpenSession>, Fault> {
        let _ = session;
        Ok(None)
    }

    /// Adds up the parts and bytes that a session holds. [`FaultKind::NoSession`] if there is no such session.
    async fn held(&self, session: &Session) -> Result<Held, Fault> {
        let _ = session;
        Err(Fault::new(FaultKind::Unsupported, "this store does not tell what a session holds"))
    }

    /// The bucket's lifecycle rules; empty if the bucket has none. [`FaultKind::Unsupported`] if the store has no
    /// such rules.
    async fn lifecycle(&self) -> Result<Lifecycle, Fault> {
        Err(Fault::new(FaultKind::Unsupported, "this store has no lifecycle rules"))
    }

    /// Replaces the bucket's lifecycle rules by those of `to` and `rule`. The rules of `to` stay exactly as they
    /// were, also those that Tidegate does not understand. [`FaultKind::Unsupported`] if the store does not accept
    /// such a rule.
    async fn add_abort_rule(&self, to: &Lifecycle, rule: &AbortRule) -> Result<(), Fault> {
        let _ = (to, rule);
        Err(Fault::new(FaultKind::Unsupported, "this store has no lifecycle rules"))
    }

    /// Describes an object. `FaultKind::NotFound` if the key has no object.
    async fn head(&self, key: &str) -> Result<Object, Fault>;

    /// Whether the bucket is missing, asked after [`head`](Self::head) has found no object. Only for a store whose
    /// answer to `head` does not tell the one from the other.
    async fn is_bucket_missing(&self) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Reads an object, or a range of it in bytes. A range that ends past the object's end (`u64::MAX` for an open
    /// one) is cut to the object; `Body` says which bytes follow. A range that begins past the end is refused.
    ///
    /// With `same`, reads only if the key still has that object, by the store's own condition if it has one:
    /// [`FaultKind::Replaced`] if the key has another object, [`FaultKind::Unsupported`] if neither a tag nor a
    /// version can tell. Not every server heeds conditions, so the caller must compare the answer as well
    /// ([`Object::is_same`]).
    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault>;

    /// Lists the objects whose keys begin with `prefix`, in key order. Unless `recursive`, keys with a further `/`
    /// after `prefix` are listed only as the prefix up to that `/`.
    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry>;

    /// Removes an object. Succeeds if the key has no object.
    async fn delete(&self, key: &str) -> Result<(), Fault>;

    /// Whether `key` is the same place as the key `from` of the bucket or root at `location`, so that a write or
    /// removal here replaces or removes that object. Sends nothing; a local disk follows links.
    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        location == self.location() && from == key
    }

    /// Gives an object another key in one step, at every moment of which it has one of the two. With `create_only`,
    /// fails with [`FaultKind::Exists`] if `to` has an object. [`FaultKind::Unsupported`], with nothing changed, if the
    /// store has no such operation, or not for this object.
    async fn rename(&self, from: &str, to: &str, create_only: bool) -> Result<Object, Fault> {
        let _ = (from, to, create_only);
        Err(Fault::new(FaultKind::Unsupported, "this store renames nothing itself"))
    }

    /// Copies an object of the same store (same endpoint, maybe another bucket) to `key` in one request. The object
    /// may have at most [`Capabilities::max_copy`] bytes. The copy carries the attributes and the token of `options`,
    /// and the source's tags if `options` has none. `cursor` continues an earlier request for the same copy that
    /// returned `Copied::Going`.
    ///
    /// [`FaultKind::Replaced`] if the source key no longer has the object that `from` describes.
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
    ) -> Result<Copied, Fault> {
        let _ = (from, key, cursor, options);
        Err(copy::unsupported())
    }

    /// Opens a session for copied parts, if [`Capabilities::copy_parts`] is set.
    async fn open_copy(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        self.open(key, options).await
    }

    /// Copies a range of an object of the same store to part `number` (from 1) of a session, if
    /// [`Capabilities::copy_parts`] is set. The part's offset in the new object is the start of the range.
    /// Idempotent, like [`part`](Self::part); [`FaultKind::Replaced`] as for [`copy`](Self::copy).
    async fn copy_part(
        &self,
        session: &Session,
        number: u32,
        from: &CopySource,
        range: Range<u64>,
    ) -> Result<StoredPart, Fault> {
        let _ = (session, number, from, range);
        Err(copy::unsupported())
    }

    /// Publishes the object from its copied parts, which must be in ascending order and make up the whole object.
    /// `checksum` is that of the source, if the store has one. Size and checksum in the answer are the store's own,
    /// as for `complete`.
    async fn complete_copy(
        &self,
        session: &Session,
        parts: &[StoredPart],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let _ = (session, parts, checksum, options);
        Err(copy::unsupported())
    }

    /// The tags of an object; empty if the store has no tags.
    async fn tags(&self, key: &str) -> Result<BTreeMap<String, String>, Fault> {
        let _ = key;
        Ok(BTreeMap::new())
    }
}
