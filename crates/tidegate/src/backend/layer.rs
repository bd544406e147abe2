//! A backend on top of another one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;

use super::{
    AbortRule, Admin, Append, Appended, Attempt, Backend, Body, Copied, CopySource, Entry, Fault, Held, Info,
    Lifecycle, Listing, OpenSession, PartOrigin, PartSource, Parts, Receipt, ServerCopy, Session, StoredPart,
    WriteOptions,
};
use crate::memory::payload::{Payload, Unending};
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// A backend on top of another one: methods that it does not override are passed on unchanged. For counting,
/// delaying or failing requests.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tidegate::backend::{Attempt, Backend, Fault, Layer};
///
/// /// Counts what is removed.
/// #[derive(Debug)]
/// struct Counting<B> {
///     below: B,
///     removed: AtomicU64,
/// }
///
/// #[async_trait::async_trait]
/// impl<B: Backend> Layer for Counting<B> {
///     fn below(&self) -> &dyn Backend {
///         &self.below
///     }
///
///     async fn delete(&self, key: &str, attempt: Attempt) -> Result<(), Fault> {
///         self.removed.fetch_add(1, Ordering::Relaxed);
///         self.below.delete(key, attempt).await
///     }
/// }
/// ```
#[async_trait]
pub trait Layer: Debug + Send + Sync + 'static {
    /// The backend below.
    fn below(&self) -> &dyn Backend;

    /// [`Backend::info`]
    fn info(&self) -> &Info {
        self.below().info()
    }

    /// [`Backend::check`]
    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        self.below().check(key, options)
    }

    /// [`Backend::put`]
    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.below().put(key, payload, options, attempt).await
    }

    /// [`Backend::head`]
    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        self.below().head(key, attempt).await
    }

    /// [`Backend::is_bucket_missing`]
    async fn is_bucket_missing(&self, attempt: Attempt) -> Result<bool, Fault> {
        self.below().is_bucket_missing(attempt).await
    }

    /// [`Backend::rename`]
    async fn rename(
        &self,
        from: &str,
        to: &str,
        create_only: bool,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.below().rename(from, to, create_only, attempt).await
    }

    /// [`Backend::get`]
    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        self.below().get(key, range, same, attempt).await
    }

    /// [`Backend::delete`]
    async fn delete(&self, key: &str, attempt: Attempt) -> Result<(), Fault> {
        self.below().delete(key, attempt).await
    }

    /// [`Backend::list`]
    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.below().list(prefix, recursive)
    }

    /// [`Backend::is_one_place`]
    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        self.below().is_one_place(location, from, key).await
    }

    /// [`Parts::open`]
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.below().need_parts()?.open(key, options, origin, attempt).await
    }

    /// [`Parts::part`]
    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        self.below().need_parts()?.part(session, number, offset, source, attempt).await
    }

    /// [`Parts::stored_parts`]
    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        self.below().need_parts()?.stored_parts(session, attempt).await
    }

    /// [`Parts::complete`]
    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.below().need_parts()?.complete(session, parts, checksum, options, attempt).await
    }

    /// [`Parts::abort`] and [`Append::abort`]
    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.below().abort(session, attempt).await
    }

    /// [`Append::open`]
    async fn open_append(
        &self,
        key: &str,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.below().need_append()?.open(key, options, attempt).await
    }

    /// [`Append::append`]
    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        self.below().need_append()?.append(session, offset, payload, whole, attempt).await
    }

    /// [`Append::stream`]
    async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        self.below().need_append()?.stream(session, offset, bytes, attempt).await
    }

    /// [`Append::position`]
    async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        self.below().need_append()?.position(session, attempt).await
    }

    /// [`ServerCopy::copy`]
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        self.below().need_server_copy()?.copy(from, key, cursor, options, attempt).await
    }

    /// [`Admin::sessions`]
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        self.below().admin().map_or_else(Listing::empty, |admin| admin.sessions(prefix))
    }

    /// [`Admin::tags`]
    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        self.below().need_admin()?.tags(key, attempt).await
    }

    /// [`Admin::held`]
    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        self.below().need_admin()?.held(session, attempt).await
    }
}

#[async_trait]
impl<L: Layer> Backend for L {
    fn info(&self) -> &Info {
        Layer::info(self)
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        Layer::check(self, key, options)
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        Layer::put(self, key, payload, options, attempt).await
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        Layer::head(self, key, attempt).await
    }

    async fn is_bucket_missing(&self, attempt: Attempt) -> Result<bool, Fault> {
        Layer::is_bucket_missing(self, attempt).await
    }

    async fn rename(
        &self,
        from: &str,
        to: &str,
        create_only: bool,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        Layer::rename(self, from, to, create_only, attempt).await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        Layer::get(self, key, range, same, attempt).await
    }

    async fn delete(&self, key: &str, attempt: Attempt) -> Result<(), Fault> {
        Layer::delete(self, key, attempt).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        Layer::list(self, prefix, recursive)
    }

    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        Layer::is_one_place(self, location, from, key).await
    }

    fn parts(&self) -> Option<&dyn Parts> {
        self.below().parts().map(|_| self as &dyn Parts)
    }

    fn appending(&self) -> Option<&dyn Append> {
        self.below().appending().map(|_| self as &dyn Append)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        self.below().server_copy().map(|_| self as &dyn ServerCopy)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.below().admin().map(|_| self as &dyn Admin)
    }
}

#[async_trait]
impl<L: Layer> Parts for L {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        Layer::open(self, key, options, origin, attempt).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        Layer::part(self, session, number, offset, source, attempt).await
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        Layer::stored_parts(self, session, attempt).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        Layer::complete(self, session, parts, checksum, options, attempt).await
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        Layer::abort(self, session, attempt).await
    }
}

#[async_trait]
impl<L: Layer> Append for L {
    async fn open(&self, key: &str, options: &WriteOptions, attempt: Attempt) -> Result<Session, Fault> {
        Layer::open_append(self, key, options, attempt).await
    }

    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        Layer::append(self, session, offset, payload, whole, attempt).await
    }

    async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        Layer::stream(self, session, offset, bytes, attempt).await
    }

    async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        Layer::position(self, session, attempt).await
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        Layer::abort(self, session, attempt).await
    }

    fn has(&self, session: &Session) -> bool {
        self.below().appending().is_some_and(|append| append.has(session))
    }
}

#[async_trait]
impl<L: Layer> ServerCopy for L {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        Layer::copy(self, from, key, cursor, options, attempt).await
    }
}

#[async_trait]
impl<L: Layer> Admin for L {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        Layer::sessions(self, prefix)
    }

    fn unlisted_sessions(&self) -> Option<&'static str> {
        self.below().admin()?.unlisted_sessions()
    }

    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        Layer::held(self, session, attempt).await
    }

    async fn lifecycle(&self, attempt: Attempt) -> Result<Lifecycle, Fault> {
        self.below().need_admin()?.lifecycle(attempt).await
    }

    async fn add_abort_rule(&self, to: &Lifecycle, rule: &AbortRule, attempt: Attempt) -> Result<(), Fault> {
        self.below().need_admin()?.add_abort_rule(to, rule, attempt).await
    }

    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        Layer::tags(self, key, attempt).await
    }
}
