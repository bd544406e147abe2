//! Everything an upload or a download needs: the shared engine, the store's backend, its endpoint and its keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;

use super::Engine;
use crate::backend::{Backend, BulkDelete, Capabilities, Entry, Facts, FaultKind, Feature, WriteOptions};
use crate::engine::endpoint::Endpoint;
use crate::engine::latency::Best;
use crate::engine::limiter::Lane;
use crate::engine::request::{Failure, Requests};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;

/// One bucket or root, or a prefix of it, as uploads and downloads see it. A clone is the same store.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    engine: Arc<Engine>,
    backend: Arc<dyn Backend>,
    endpoint: Arc<Endpoint>,
    /// The prefix of all keys.
    prefix: String,
    /// Maps keys to objects, where keys are spread over prefixes.
    keys: Option<Arc<dyn KeyMap>>,
    /// Maps keys to the prefixes that limit requests, where keys are those of the whole bucket.
    lanes: Option<Arc<dyn KeyMap>>,
}

/// Maps a key to the place of its object, where keys are spread over prefixes.
pub(crate) trait KeyMap: fmt::Debug + Send + Sync {
    /// The beginning of every key of the root: empty, or ends with a slash.
    fn root(&self) -> &str;
    /// The place that `key` is written to now.
    fn current(&self, key: &str) -> String;
    /// The key of the object at `place`, a key of the bucket; `None` where `place` is outside of every prefix.
    fn key<'a>(&self, place: &'a str) -> Option<&'a str>;
    /// The prefix that requests for `key` are limited by.
    fn lane(&self, key: &str) -> String;
    /// The prefix whose lane limits requests for the object at `place`.
    fn lane_at(&self, place: &str) -> Option<String>;
    /// Lists the keys that begin with `prefix`, in key order; where `after` is set, those up to it may be left out.
    /// Each page is one of `requests`.
    fn list(
        self: Arc<Self>,
        requests: Arc<Requests>,
        prefix: String,
        recursive: bool,
        after: Option<String>,
    ) -> BoxStream<'static, Result<Entry, Failure>>;
}

impl Context {
    pub(crate) fn new(engine: Arc<Engine>, backend: Arc<dyn Backend>) -> Self {
        let endpoint = engine.endpoint(&*backend);
        Self { engine, backend, endpoint, prefix: String::new(), keys: None, lanes: None }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// What the endpoint's server turned out to lack.
    pub(crate) fn facts(&self) -> &Facts {
        &self.endpoint.facts
    }

    /// The store's limits; of parts, as many as a refusal has told since the store was opened.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let limits = self.backend.capabilities();
        let told = self.facts().max_parts().unwrap_or(u32::MAX);
        Capabilities { max_parts: limits.max_parts.min(told), ..limits.clone() }
    }

    pub(crate) fn keys(&self) -> Option<&Arc<dyn KeyMap>> {
        self.keys.as_ref()
    }

    /// The URL of the store, without a slash at the end.
    pub(crate) fn location(&self) -> String {
        self.url("").trim_end_matches('/').to_owned()
    }

    /// The URL of a key.
    pub(crate) fn url(&self, key: &str) -> String {
        let root = self.keys.as_ref().map_or("", |keys| keys.root());
        format!("{}/{root}{}{key}", self.bucket_url(), self.prefix)
    }

    /// The URL of the bucket or root, with the profile that it is reached by, where URLs name it.
    fn bucket_url(&self) -> Cow<'_, str> {
        let location = self.backend.location();
        match (&self.backend.info().profile, location.split_once("://")) {
            (Some(profile), Some((scheme, bucket))) => format!("{scheme}://{profile}@{bucket}").into(),
            _ => location.into(),
        }
    }

    /// The backend's key for `key`. Where keys are spread, this is the place that the object is written to now.
    pub(crate) fn full_key(&self, key: &str) -> String {
        let key = self.prefixed(key);
        match &self.keys {
            Some(keys) => keys.current(&key),
            None => key,
        }
    }

    /// The key below the bucket or the spread root.
    pub(crate) fn prefixed(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Turns a key of the bucket or the spread root into a key of this store.
    pub(crate) fn relative_key(&self, key: &str) -> String {
        key.strip_prefix(&self.prefix).unwrap_or(key).to_owned()
    }

    /// The backend's description of an object, with the key as this store has it.
    pub(crate) fn relative(&self, mut object: Object) -> Object {
        if let Some(key) = self.keys.as_ref().and_then(|keys| keys.key(&object.key)) {
            object.key = key.to_owned();
        }
        object.key = self.relative_key(&object.key);
        object
    }

    /// The part of this store below `prefix`. Adds a slash if `prefix` does not end with one.
    pub(crate) fn within(&self, prefix: &str) -> Self {
        let mut within = self.clone();
        within.prefix.push_str(prefix);
        if !within.prefix.is_empty() && !within.prefix.ends_with('/') {
            within.prefix.push('/');
        }
        within
    }

    /// The whole bucket or root.
    pub(crate) fn root(&self) -> Self {
        Self { prefix: String::new(), keys: None, lanes: None, ..self.clone() }
    }

    /// The whole bucket or root, where the lane of each key's prefix limits requests.
    #[cfg(feature = "prefix")]
    pub(crate) fn root_in_lanes(&self, lanes: Arc<dyn KeyMap>) -> Self {
        Self { lanes: Some(lanes), ..self.root() }
    }

    /// The same root with its keys spread; `backend` finds the objects.
    #[cfg(feature = "prefix")]
    pub(crate) fn spread(&self, keys: Arc<dyn KeyMap>, backend: Arc<dyn Backend>) -> Self {
        Self { backend, prefix: String::new(), keys: Some(keys), ..self.clone() }
    }

    /// Refuses an operation that works on places in the bucket if keys are spread over prefixes.
    pub(crate) fn refuse_spread(&self, operation: Operation, what: &str) -> Result<()> {
        if self.keys.is_none() {
            return Ok(());
        }
        let message =
            format!("{what} are of the store itself, and the keys of this one are spread over prefixes");
        Err(Error::new(ErrorKind::Unsupported, operation, self.location(), message))
    }

    /// Refuses a key or options that the backend can't take, before sending anything; and everything in a process that
    /// has inherited the engine.
    pub(crate) fn check(
        &self,
        operation: Operation,
        key: &str,
        options: Option<&WriteOptions>,
    ) -> Result<()> {
        self.engine.owner.check(operation, || self.url(key))?;
        let attributes = options.map_or(Ok(()), |options| options.attributes.check());
        let checked = attributes.and_then(|()| self.backend.check(&self.full_key(key), options));
        checked.map_err(|fault| Error::from_fault(fault, operation, self.url(key), 0, Duration::ZERO))
    }

    /// The [`Requests`] of one object.
    pub(crate) fn requests(&self, key: &str, progress: Progress) -> Requests {
        Requests {
            object: self.url(key),
            flow: self.endpoint.limiter.flow(),
            lane: self.lane(key),
            endpoint: self.endpoint.clone(),
            retry: self.engine.retry.clone(),
            progress,
            brings: 0,
            is_once: false,
            span: tracing::Span::none(),
        }
    }

    /// Makes the requests of a listing, which spans prefixes and so has no lane.
    pub(crate) fn list_requests(&self, prefix: &str) -> Arc<Requests> {
        Arc::new(Requests { lane: None, ..self.requests(prefix, self.engine.progress.clone()) })
    }

    /// The store's removals of many objects in one request. `None` also where each key has a place of its own, or a
    /// lane that limits its requests.
    pub(crate) fn bulk_delete(&self) -> Option<&dyn BulkDelete> {
        self.backend.bulk_delete().filter(|_| self.keys.is_none() && self.lanes.is_none())
    }

    /// Makes requests for many objects of this store, where keys have no lanes.
    pub(crate) fn bulk_requests(&self) -> Requests {
        Requests { object: self.location(), lane: None, ..self.requests("", self.engine.progress.clone()) }
    }

    fn lane(&self, key: &str) -> Option<Arc<Lane>> {
        let key = self.prefixed(key);
        let lane = match &self.keys {
            Some(keys) => keys.lane(&key),
            None => self.lanes.as_ref()?.lane_at(&key)?,
        };
        Some(self.endpoint.lanes.lane(&format!("{}/{lane}", self.backend.location())))
    }

    /// How many requests the limiter allows in flight to the endpoint now.
    pub(crate) fn in_flight_limit(&self) -> usize {
        self.endpoint.limiter.limit()
    }

    /// The most requests that the limiter will ever allow in flight to the endpoint.
    pub(crate) fn most_requests(&self) -> usize {
        self.endpoint.limiter.most()
    }

    /// The best latency and rate that the endpoint has shown.
    pub(crate) fn best(&self) -> Best {
        self.endpoint.latency.best()
    }

    /// Describes an object.
    pub(crate) async fn head(&self, key: &str) -> Result<Object> {
        self.check(Operation::Head, key, None)?;
        self.described(key, &self.engine.progress).await.map(|object| self.relative(object))
    }

    /// Whether the store has a directory of this name.
    pub(crate) async fn is_directory(&self, key: &str) -> Result<bool> {
        let Some(directories) = self.backend.directories() else { return Ok(false) };
        self.check(Operation::Head, key, None)?;
        let full = self.full_key(key);
        let requests = self.requests(key, self.engine.progress.clone());
        let ask = |attempt| directories.is_directory(&full, attempt);
        let asked = requests.send(Operation::Head, None, None, ask).await;
        asked.map_err(|failure| failure.into_error(Operation::Head, &requests.object))
    }

    /// The backend's description of the object of a key that was checked.
    pub(crate) async fn described(&self, key: &str, progress: &Progress) -> Result<Object> {
        let full = self.full_key(key);
        let requests = self.requests(key, progress.clone());
        let head =
            requests.send(Operation::Head, None, None, |attempt| self.backend.head(&full, attempt)).await;
        let mut failure = match head {
            Ok(object) => return Ok(object),
            Err(failure) => failure,
        };
        if failure.fault.kind == FaultKind::NotFound
            && let Some(check) = self.backend.bucket_check()
        {
            let ask = |attempt| check.is_bucket_missing(attempt);
            // Without an answer (the caller may not be allowed to ask), the object is what is missing.
            if let Ok(true) = requests.once().send(Operation::Head, None, None, ask).await {
                failure.fault.kind = FaultKind::NoBucket;
                failure.fault.message = "there is no such bucket".to_owned();
            }
        }
        Err(failure.into_error(Operation::Head, &requests.object))
    }

    /// The tags of an object, for `operation`; empty where the store has no tags.
    pub(crate) async fn tags(
        &self,
        key: &str,
        operation: Operation,
        progress: &Progress,
    ) -> Result<BTreeMap<String, String>> {
        let full = self.full_key(key);
        let requests = self.requests(key, progress.clone());
        let Some(admin) = self.backend.admin() else { return Ok(BTreeMap::new()) };
        let tags = requests.send(Operation::Head, None, None, |attempt| admin.tags(&full, attempt)).await;
        tags.map_err(|failure| failure.into_error(operation, &requests.object))
    }

    /// Whether `key` and `to_key` of `to` are the same place, so that a write to one replaces the other.
    pub(crate) async fn is_one_place(&self, key: &str, to: &Self, to_key: &str) -> bool {
        if self.backend.endpoint() != to.backend.endpoint() {
            return false;
        }
        match (&self.keys, &to.keys) {
            // Only the layout knows the objects of a spread key.
            (Some(_), Some(_)) => self.url(key) == to.url(to_key),
            (None, None) => {
                let (location, from) = (self.backend.location(), self.full_key(key));
                to.backend.is_one_place(location, &from, &to.full_key(to_key)).await
            }
            _ => false,
        }
    }

    /// Whether the store itself can copy objects from here to `to`.
    pub(crate) fn is_one_with(&self, to: &Self) -> bool {
        let is_spread = self.keys.is_some() || to.keys.is_some();
        let copies = to.backend.server_copy().is_some() || to.backend.capabilities().copy_parts;
        !is_spread && copies && !to.facts().lacks(Feature::ServerCopy) && self.shares_endpoint_with(to)
    }

    /// Whether both stores are at one endpoint.
    pub(crate) fn shares_endpoint_with(&self, to: &Self) -> bool {
        let (from, to) = (&self.backend, &to.backend);
        from.endpoint() == to.endpoint() && scheme(from.location()) == scheme(to.location())
    }
}

fn scheme(location: &str) -> Option<&str> {
    location.split_once("://").map(|(scheme, _)| scheme)
}
