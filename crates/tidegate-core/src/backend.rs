//! The interface between the engine and a store: small traits.
//!
//! Every store is a [`Backend`]. A store that also has [`Parts`], [`Append`], [`ServerCopy`], [`Rename`],
//! [`BucketCheck`], [`Directories`], [`BulkDelete`], [`Presign`] or [`Admin`] returns them from its accessors: a trait says
//! what the store's protocol has.
//!
//! A backend knows its protocol, and nothing of strategies, budgets or retries. Every method is one request, or as
//! few as the protocol allows; [`Attempt`] says how to make it. A failure is a [`Fault`] that says what is known.

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;

use crate::memory::payload::Payload;
use crate::types::object::Object;

mod admin;
mod append;
mod attempt;
mod bucket_check;
mod buckets;
mod bulk_delete;
mod copy;
mod directories;
mod facts;
mod if_unchanged;
mod info;
mod listing;
pub mod memory;
mod parts;
mod presign;
mod rename;
mod scheme;
mod types;
mod unfinished;

pub use crate::types::fault::{Fault, FaultKind};
pub use admin::{Admin, Versioning};
pub use append::Append;
pub use attempt::{Attempt, Connection};
pub use bucket_check::BucketCheck;
pub use buckets::{BucketEntry, Buckets};
pub use bulk_delete::BulkDelete;
pub use copy::{Copied, CopySource, ServerCopy, check_range, gone, gone_or_other};
pub use directories::Directories;
pub use facts::{BucketFacts, Facts, Feature, FeatureSet, KnownFacts};
pub use if_unchanged::{
    no_identity, not_removed, not_resumable, replaced, same_or_another, same_or_replaced,
};
pub use info::Info;
pub use listing::{Listing, Pages};
pub use parts::{PartOrigin, PartSource, Parts};
pub use presign::{Presign, PresignedRequest};
pub use rename::Rename;
pub use scheme::Scheme;
pub use types::{
    Appended, Body, Capabilities, Entry, OtherKind, Receipt, Session, StoredPart, WriteOptions,
    shown_session_id,
};
pub use unfinished::{AbortRule, Held, Lifecycle, LifecycleRule, OpenSession};

/// One bucket of a cloud, or one root directory.
///
/// Dropping a method's future cancels the request. The store may still carry it out, as after a lost answer.
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// The store's address, endpoint and limits.
    fn info(&self) -> &Info;

    /// [`Info::location`]
    fn location(&self) -> &str {
        &self.info().location
    }

    /// Whether the location is a directory of this machine, and a key the path of a file below it.
    fn is_local(&self) -> bool {
        false
    }

    /// [`Info::endpoint`]
    fn endpoint(&self) -> &str {
        &self.info().endpoint
    }

    /// [`Info::capabilities`]
    fn capabilities(&self) -> &Capabilities {
        &self.info().capabilities
    }

    /// Refuses a key, or options, that no request can express. `options` is `None` for requests that write nothing.
    /// Sends nothing, so that the error comes before a producer's first byte. If this lets something pass, the
    /// request itself refuses it.
    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        let _ = (key, options);
        Ok(())
    }

    /// Writes an object in one request. The object is visible as a whole when this returns `Ok`, or not at all.
    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault>;

    /// Describes an object. `FaultKind::NotFound` if the key has no object.
    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault>;

    /// Reads an object, or a range of it in bytes. A range that ends past the object's end (`u64::MAX` for an open
    /// one) is cut to the object; `Body` says which bytes follow. A range that begins past the end is refused.
    ///
    /// With `same`, reads only if the key still has that object, by the store's own condition if it has one:
    /// [`FaultKind::Replaced`] if the key has another object, [`FaultKind::Unsupported`] if neither a tag nor a
    /// version can tell. Not every server heeds conditions, so the caller must compare the answer as well
    /// ([`Object::is_same`]).
    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault>;

    /// Removes an object. Succeeds if the key has no object.
    ///
    /// With `same`, removes only that object, by the store's own condition if it has one: [`FaultKind::Replaced`] if
    /// the key has another object. Not every server heeds conditions, so the caller must compare the key's
    /// description ([`Object::is_same`]) before the removal as well.
    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault>;

    /// Lists the objects whose keys begin with `prefix`, in key order if
    /// [`Capabilities::lists_in_key_order`] is set. Unless `recursive`, keys with a further `/`
    /// after `prefix` are listed only as the prefix up to that `/`.
    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry>;

    /// As [`list`](Self::list), for a caller that needs only the entries behind the key `after`: a store that can begin
    /// there is asked to. Entries up to `after` may be listed all the same; the caller leaves them out.
    fn list_after(&self, prefix: &str, recursive: bool, after: &str) -> Listing<Entry> {
        let _ = after;
        self.list(prefix, recursive)
    }

    /// Whether `key` is the same place as the key `from` of the bucket or root at `location`, so that a write or
    /// removal here replaces or removes that object. Sends nothing; a local disk follows links.
    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        location == self.location() && from == key
    }

    /// The store's uploads in parts, if it has any.
    fn parts(&self) -> Option<&dyn Parts> {
        None
    }

    /// The store's sessions that bytes are appended to, if it has any.
    fn appending(&self) -> Option<&dyn Append> {
        None
    }

    /// The store's own copies, if it makes any.
    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        None
    }

    /// The store's own renames, if it has any.
    fn renames(&self) -> Option<&dyn Rename> {
        None
    }

    /// Asks whether the bucket is missing, after [`head`](Self::head) has found no object. `None` where the answer to
    /// `head` tells the one from the other, and where asking would tell nothing new.
    fn bucket_check(&self) -> Option<&dyn BucketCheck> {
        None
    }

    /// The store's directories, if it has any beside its objects.
    fn directories(&self) -> Option<&dyn Directories> {
        None
    }

    /// The store's removals of many objects in one request; `None` if it has none, or if its server turned out to have
    /// none. A backend over another must not pass this on if the other's keys mean something else.
    fn bulk_delete(&self) -> Option<&dyn BulkDelete> {
        None
    }

    /// The store's presigned URLs, if it has any.
    fn presigning(&self) -> Option<&dyn Presign> {
        None
    }

    /// The administration of the bucket, if it has one.
    fn admin(&self) -> Option<&dyn Admin> {
        None
    }
}

/// What the store must have for a request; a fault says that it has not.
impl dyn Backend {
    /// [`parts`](Backend::parts), or [`FaultKind::Unsupported`].
    pub fn need_parts(&self) -> Result<&dyn Parts, Fault> {
        self.parts().ok_or_else(|| lacks("uploads in parts"))
    }

    /// [`appending`](Backend::appending), or [`FaultKind::Unsupported`].
    pub fn need_append(&self) -> Result<&dyn Append, Fault> {
        self.appending().ok_or_else(|| lacks("sessions that bytes are appended to"))
    }

    /// [`server_copy`](Backend::server_copy), or [`FaultKind::Unsupported`].
    pub fn need_server_copy(&self) -> Result<&dyn ServerCopy, Fault> {
        self.server_copy().ok_or_else(|| lacks("copies that it makes itself"))
    }

    /// [`admin`](Backend::admin), or [`FaultKind::Unsupported`].
    pub fn need_admin(&self) -> Result<&dyn Admin, Fault> {
        self.admin().ok_or_else(|| lacks("unfinished uploads, lifecycle rules and tags"))
    }

    /// Aborts a session of either kind.
    pub async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        match self.appending().filter(|append| append.has(session)) {
            Some(append) => append.abort(session, attempt).await,
            None => self.need_parts()?.abort(session, attempt).await,
        }
    }
}

fn lacks(what: &str) -> Fault {
    Fault::new(FaultKind::Unsupported, format!("the store has no {what}"))
}
