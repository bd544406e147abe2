//! What a store must do for the engine: one trait, one module a cloud.
//!
//! A backend knows its protocol and nothing of strategies, budgets or retries: every method is one
//! request (or as few as the protocol allows), and a failure is a [`Fault`] that says what is known.

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

/// One bucket or root of a store.
///
/// Every method is cancelled by dropping its future; whether the store then carried it out is unknown,
/// as with a lost answer.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// Where this is, as users write it, without a trailing slash: `s3://bucket`.
    fn location(&self) -> &str;

    /// What requests are limited together by: scheme and endpoint.
    fn endpoint(&self) -> &str;

    /// What it can take.
    fn capabilities(&self) -> &Capabilities;

    /// Refuses what no request could say: a key, or what is to be written with it. Sends nothing, so that
    /// it is known before a producer's first byte; where it lets something pass, the request refuses.
    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        let _ = (key, options);
        Ok(())
    }

    /// Writes an object in one request. Visible when this returns, or not at all.
    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault>;

    /// Opens a session of parts.
    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault>;

    /// Stores part `number` (from 1), whose first byte is at `offset` of the object. Idempotent: the
    /// same number with the same bytes may be sent again.
    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        payload: Payload,
    ) -> Result<Receipt, Fault>;

    /// Lists the parts that a session has, by number. Not all stores do: [`FaultKind::Unsupported`].
    async fn parts(&self, session: &Session) -> Result<Vec<StoredPart>, Fault> {
        let message = format!("the store does not list the parts of session {}", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Publishes the object from its parts, which are whole, in ascending order and of total checksum
    /// `checksum`; the store is asked to check it. The answer's size and checksum are the store's own.
    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault>;

    /// Opens a session that bytes are appended to, where [`Capabilities::append`] says so.
    async fn open_appending(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        let _ = options;
        let message = format!("the store has no sessions that bytes are appended to, as for {key}");
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Appends bytes at `offset`, where the session stands. With `whole`, the checksum of all bytes of the
    /// object, these are its last, and it is published with them; the store is asked to compare it.
    ///
    /// The answer may be of fewer bytes than were sent: the rest is to be sent again from there. After a
    /// fault it is not known where the session stands.
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

    /// Appends bytes from `offset` on, where the session stands, as they come: a request that is held open
    /// and never publishes the object, for `bytes` never end. It ends by its future being dropped, by a
    /// fault, or where the store takes no more of it; [`appended`](Self::appended) then says how far it came.
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

    /// Where a session stands that bytes are appended to; also while some are being appended, of which it
    /// then counts those that are there for good. What it says never goes back.
    async fn appended(&self, session: &Session) -> Result<Appended, Fault> {
        let message = format!("nothing is appended to session {} of this store", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    /// Ends a session and frees its parts. [`FaultKind::NoSession`] where there is none.
    async fn abort(&self, session: &Session) -> Result<(), Fault>;

    /// Lists the sessions of keys that begin with `prefix`, as far as the store does.
    fn sessions(&self, prefix: &str) -> Listing<OpenSession>;

    /// What a listing of sessions leaves out on this store, in one sentence; known once it has answered.
    fn unlisted_sessions(&self) -> Option<&'static str> {
        None
    }

    /// Looks for a session that no listing shows: `None` where there is none, or none of that sort.
    async fn unlisted(&self, session: &Session) -> Result<Option<OpenSession>, Fault> {
        let _ = session;
        Ok(None)
    }

    /// Adds up what a session holds. [`FaultKind::NoSession`] where there is none.
    async fn held(&self, session: &Session) -> Result<Held, Fault> {
        let _ = session;
        Err(Fault::new(FaultKind::Unsupported, "this store does not tell what a session holds"))
    }

    /// The bucket's lifecycle rules; none where it has none. [`FaultKind::Unsupported`] where the store
    /// knows no such rules.
    async fn lifecycle(&self) -> Result<Lifecycle, Fault> {
        Err(Fault::new(FaultKind::Unsupported, "this store has no lifecycle rules"))
    }

    /// Puts the rules of `to` and one more in the place of the bucket's rules. What it says of the others
    /// stays as it was, known or not. [`FaultKind::Unsupported`] where the store does not take such a rule.
    async fn add_abort_rule(&self, to: &Lifecycle, rule: &AbortRule) -> Result<(), Fault> {
        let _ = (to, rule);
        Err(Fault::new(FaultKind::Unsupported, "this store has no lifecycle rules"))
    }

    /// Describes an object.
    async fn head(&self, key: &str) -> Result<Object, Fault>;

    /// Reads an object, or a range of it; an end past the object's (`u64::MAX` for an open one) is the
    /// object's, and the answer says which bytes it has. A range that begins past the end is refused.
    ///
    /// With `same`, the object that was described so before, by the store's own condition where it has one:
    /// [`FaultKind::Replaced`] where the key has another by now, [`FaultKind::Unsupported`] where neither a tag nor a
    /// version tells. Not every server heeds conditions, so the answer is to be compared ([`Object::is_same`]) all the
    /// same.
    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault>;

    /// Lists objects whose keys begin with `prefix`, in key order; below the next `/` only as prefixes
    /// unless `recursive`.
    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry>;

    /// Removes an object; removing what is not there is no error.
    async fn delete(&self, key: &str) -> Result<(), Fault>;

    /// Whether `key` is the very place of the key `from` of the bucket or root at `location`: what is written there
    /// replaces that object, and what is removed there is gone here. Sends nothing; a local disk looks where links
    /// lead.
    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        location == self.location() && from == key
    }

    /// Copies an object of the same store (one endpoint, maybe another bucket) to `key`, in one request, within
    /// [`Capabilities::max_copy`]. The copy carries the attributes and the token of `options`, and where these
    /// have no tags those of the source. With `cursor`, what an earlier request for the same has answered.
    ///
    /// [`FaultKind::Replaced`] where there is another object by now than `from` describes.
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

    /// Opens a session whose parts are copied, where [`Capabilities::copy_parts`] says so.
    async fn open_copy(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        self.open(key, options).await
    }

    /// Copies a range of an object of the same store to part `number` (from 1) of a session, whose first byte
    /// is then at the range's start, where [`Capabilities::copy_parts`] says so. Idempotent, as
    /// [`part`](Self::part) is; [`FaultKind::Replaced`] as for [`copy`](Self::copy).
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

    /// Publishes the object from parts that were copied, which are whole and in ascending order; `checksum` is
    /// that of the source, where the store has told it. The answer's size and checksum are the store's own.
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

    /// The tags of an object; none where the store has no tags.
    async fn tags(&self, key: &str) -> Result<BTreeMap<String, String>, Fault> {
        let _ = key;
        Ok(BTreeMap::new())
    }
}
