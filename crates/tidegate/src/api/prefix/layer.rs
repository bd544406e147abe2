//! Sends each request to the place of its object.
//!
//! The keys here are places, that is whole keys of the store, because sessions, journals and sweeps know only those.
//! A place from an earlier record works too: it contains the original key, which gives the current place.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use super::places::{ObjectPlaces, Places};
use crate::backend::{
    Admin, Append, Appended, Attempt, Backend, Body, BucketCheck, Entry, Fault, FaultKind, Info, Listing,
    PartOrigin, PartSource, Parts, Receipt, ServerCopy, Session, StoredPart, WriteOptions, same_or_another,
};
use crate::engine::KeyMap as _;
use crate::memory::payload::{Payload, Unending};
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// A backend whose keys are spread over prefixes. Each removal has to find its object's places, so it has no removals
/// of many objects in one request; and no presigned URLs, because an object's place may change before they are used.
#[derive(Debug)]
pub(super) struct Spread {
    places: Arc<Places>,
}

impl Spread {
    pub(super) fn new(places: Arc<Places>) -> Self {
        Self { places }
    }

    fn below(&self) -> &dyn Backend {
        self.places.backend()
    }

    /// The current places of the object that was at `place`, by the record in force.
    async fn place(&self, place: &str, attempt: Attempt) -> Result<ObjectPlaces, Fault> {
        Ok(match self.places.key(place) {
            Some(key) => self.places.by(self.places.fresh(attempt).await?, key),
            None => ObjectPlaces { current: place.to_owned(), older: None, emptying: None },
        })
    }

    /// Refuses a conditional write if the object is at its older place, where the store's own condition does not see
    /// it. Clients that know the record in force do not write there, so an older place that is empty stays empty.
    async fn refuse_older(
        &self,
        place: &ObjectPlaces,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<(), Fault> {
        let has_condition = options.create_only || options.replaces.is_some();
        let Some(older) = place.older.as_deref().filter(|_| has_condition) else { return Ok(()) };
        if !self.is_there(older, attempt).await? {
            return Ok(());
        }
        let (kind, message) = if options.create_only {
            (FaultKind::Exists, "the key has an object already, where an older layout has it")
        } else if !self.is_there(&place.current, attempt).await? {
            let message = "the object is yet to be moved from where an older layout has it: run `tidegate prefix \
                           migrate` first";
            (FaultKind::Unsupported, message)
        } else {
            return Ok(());
        };
        Err(Fault::new(kind, message).with_answered(true))
    }

    async fn is_there(&self, place: &str, attempt: Attempt) -> Result<bool, Fault> {
        let found = self.below().head(place, attempt).await;
        if is_missing(&found) { Ok(false) } else { found.map(|_| true) }
    }

    /// The current place of a session's object. Fails unless that is where the session began.
    async fn still(&self, session: &Session, attempt: Attempt) -> Result<ObjectPlaces, Fault> {
        let place = self.place(&session.key, attempt).await?;
        if place.current == session.key {
            return Ok(place);
        }
        let (at, current) = (&session.key, &place.current);
        let message = format!(
            "its prefixes were laid out anew while it was uploaded: it belongs to {current} now, and not to {at}"
        );
        Err(Fault::new(FaultKind::NoSession, message).with_answered(true))
    }

    /// Checks the record again after an object was published at `at`, by a request that began at `began`. If
    /// publishing took longer than a client may use its copy of the record, the object may have arrived after a
    /// migration had passed that place.
    async fn landed(&self, at: &str, began: Instant, attempt: Attempt) -> Result<(), Fault> {
        let place = self.place(at, attempt).await?;
        let in_time = || place.older.as_deref() == Some(at) && began.elapsed() < self.places.refresh();
        if place.current == at || in_time() {
            return Ok(());
        }
        let message = format!(
            "it was published at {at}, and since its prefixes were laid out anew meanwhile it belongs to {}: write \
             it again",
            place.current
        );
        Err(Fault::new(FaultKind::Unsynced, message).with_answered(true))
    }
}

fn is_missing<T>(result: &Result<T, Fault>) -> bool {
    matches!(result, Err(fault) if fault.kind == FaultKind::NotFound)
}

/// Asks with `$ask` for an object: at its current place, then at the older one, and if it is at neither, at the
/// current one once more, because a migration may have moved it meanwhile.
macro_rules! either {
    ($place:expr, $ask:expr) => {{
        let (place, ask) = ($place, $ask);
        let found = ask(place.current.clone()).await;
        match place.older.filter(|_| is_missing(&found)) {
            None => found,
            Some(older) => match ask(older).await {
                missing if is_missing(&missing) => ask(place.current).await,
                found => found,
            },
        }
    }};
}

#[async_trait]
impl Backend for Spread {
    fn info(&self) -> &Info {
        self.below().info()
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        self.below().check(key, options)
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let began = Instant::now();
        let place = self.place(key, attempt).await?;
        self.refuse_older(&place, options, attempt).await?;
        let object = self.below().put(&place.current, payload, options, attempt).await?;
        self.landed(&place.current, began, attempt).await?;
        Ok(object)
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        let below = self.below();
        let head = |place: String| async move { below.head(&place, attempt).await };
        either!(self.place(key, attempt).await?, head)
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        let below = self.below();
        either!(self.place(key, attempt).await?, |place: String| {
            let range = range.clone();
            async move { below.get(&place, range, same, attempt).await }
        })
    }

    /// Places as the store below lists them; `Places::list` lists keys.
    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        self.below().list(prefix, recursive)
    }

    fn list_after(&self, prefix: &str, recursive: bool, after: &str) -> Listing<Entry> {
        self.below().list_after(prefix, recursive, after)
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        if let Some(same) = same {
            match self.head(key, attempt).await {
                Err(fault) if fault.kind == FaultKind::NotFound => return Ok(()),
                found => same_or_another(&found?, same)?,
            }
        }
        let ObjectPlaces { current, older, emptying } = self.place(key, attempt).await?;
        // Delete the current place last: otherwise the older object would reappear.
        for place in older.into_iter().chain(emptying) {
            self.below().delete(&place, None, attempt).await?;
        }
        self.below().delete(&current, same, attempt).await
    }

    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        self.below().is_one_place(location, from, key).await
    }

    fn parts(&self) -> Option<&dyn Parts> {
        self.below().parts().map(|_| self as &dyn Parts)
    }

    fn appending(&self) -> Option<&dyn Append> {
        self.below().appending().map(|_| self as &dyn Append)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        self.below().server_copy()
    }

    fn bucket_check(&self) -> Option<&dyn BucketCheck> {
        self.below().bucket_check()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.below().admin()
    }
}

#[async_trait]
impl Parts for Spread {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        let place = self.place(key, attempt).await?;
        self.refuse_older(&place, options, attempt).await?;
        self.below().need_parts()?.open(&place.current, options, origin, attempt).await
    }

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

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        self.below().need_parts()?.stored_parts(session, attempt).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let began = Instant::now();
        let place = self.still(session, attempt).await?;
        self.refuse_older(&place, options, attempt).await?;
        let below = self.below().need_parts()?;
        let object = below.complete(session, parts, checksum, options, attempt).await?;
        self.landed(&session.key, began, attempt).await?;
        Ok(object)
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.below().need_parts()?.abort(session, attempt).await
    }
}

#[async_trait]
impl Append for Spread {
    async fn open(&self, key: &str, options: &WriteOptions, attempt: Attempt) -> Result<Session, Fault> {
        let place = self.place(key, attempt).await?;
        self.refuse_older(&place, options, attempt).await?;
        self.below().need_append()?.open(&place.current, options, attempt).await
    }

    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        let below = self.below().need_append()?;
        if whole.is_none() {
            return below.append(session, offset, payload, whole, attempt).await;
        }
        let began = Instant::now();
        self.still(session, attempt).await?;
        let appended = below.append(session, offset, payload, whole, attempt).await?;
        if matches!(appended, Appended::Published(_)) {
            self.landed(&session.key, began, attempt).await?;
        }
        Ok(appended)
    }

    async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        self.below().need_append()?.stream(session, offset, bytes, attempt).await
    }

    async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        self.below().need_append()?.position(session, attempt).await
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        self.below().need_append()?.abort(session, attempt).await
    }

    fn tells_position(&self, session: &Session) -> bool {
        self.below().appending().is_none_or(|append| append.tells_position(session))
    }

    fn has(&self, session: &Session) -> bool {
        self.below().appending().is_some_and(|append| append.has(session))
    }
}
