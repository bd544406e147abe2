//! Sends each request to the place of its object.
//!
//! The keys here are places, that is whole keys of the store, because sessions, journals and sweeps know only those.
//! A place from an earlier record works too: it contains the original key, which gives the current place.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use super::places::{Place, Places};
use crate::backend::{Appended, Backend, Body, Fault, FaultKind, Layer, Receipt, Session, WriteOptions};
use crate::engine::KeyMap as _;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// A backend whose keys are spread over prefixes.
#[derive(Debug)]
pub(super) struct Spread {
    places: Arc<Places>,
}

impl Spread {
    pub(super) fn new(places: Arc<Places>) -> Self {
        Self { places }
    }

    /// The current places of the object that was at `place`, by the record in force.
    async fn place(&self, place: &str) -> Result<Place, Fault> {
        Ok(match self.places.key(place) {
            Some(key) => self.places.by(self.places.fresh().await?, key),
            None => Place { current: place.to_owned(), older: None, emptying: None },
        })
    }

    /// Refuses a conditional write if the object is at its older place, where the store's own condition does not see
    /// it. Clients that know the record in force do not write there, so an older place that is empty stays empty.
    async fn refuse_older(&self, place: &Place, options: &WriteOptions) -> Result<(), Fault> {
        let has_condition = options.create_only || options.replaces.is_some();
        let Some(older) = place.older.as_deref().filter(|_| has_condition) else { return Ok(()) };
        if !self.has(older).await? {
            return Ok(());
        }
        let (kind, message) = if options.create_only {
            (FaultKind::Exists, "the key has an object already, where an older layout has it")
        } else if !self.has(&place.current).await? {
            let message = "the object is yet to be moved from where an older layout has it: run `tidegate prefix \
                           migrate` first";
            (FaultKind::Unsupported, message)
        } else {
            return Ok(());
        };
        Err(Fault::new(kind, message).with_answered(true))
    }

    async fn has(&self, place: &str) -> Result<bool, Fault> {
        let found = self.below().head(place).await;
        if is_missing(&found) { Ok(false) } else { found.map(|_| true) }
    }

    /// The current place of a session's object. Fails unless that is where the session began.
    async fn still(&self, session: &Session) -> Result<Place, Fault> {
        let place = self.place(&session.key).await?;
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
    async fn landed(&self, at: &str, began: Instant) -> Result<(), Fault> {
        let place = self.place(at).await?;
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
impl Layer for Spread {
    fn below(&self) -> &dyn Backend {
        self.places.backend()
    }

    async fn put(&self, key: &str, payload: Payload, options: &WriteOptions) -> Result<Object, Fault> {
        let began = Instant::now();
        let place = self.place(key).await?;
        self.refuse_older(&place, options).await?;
        let object = self.below().put(&place.current, payload, options).await?;
        self.landed(&place.current, began).await?;
        Ok(object)
    }

    async fn open(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        let place = self.place(key).await?;
        self.refuse_older(&place, options).await?;
        self.below().open(&place.current, options).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: &Checksum,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let began = Instant::now();
        let place = self.still(session).await?;
        self.refuse_older(&place, options).await?;
        let object = self.below().complete(session, parts, checksum, options).await?;
        self.landed(&session.key, began).await?;
        Ok(object)
    }

    async fn open_appending(&self, key: &str, options: &WriteOptions) -> Result<Session, Fault> {
        let place = self.place(key).await?;
        self.refuse_older(&place, options).await?;
        self.below().open_appending(&place.current, options).await
    }

    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
    ) -> Result<Appended, Fault> {
        if whole.is_none() {
            return self.below().append(session, offset, payload, whole).await;
        }
        let began = Instant::now();
        self.still(session).await?;
        let appended = self.below().append(session, offset, payload, whole).await?;
        if matches!(appended, Appended::Published(_)) {
            self.landed(&session.key, began).await?;
        }
        Ok(appended)
    }

    async fn head(&self, key: &str) -> Result<Object, Fault> {
        let below = self.below();
        either!(self.place(key).await?, |place: String| async move { below.head(&place).await })
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>, same: Option<&Object>) -> Result<Body, Fault> {
        let below = self.below();
        either!(self.place(key).await?, |place: String| {
            let range = range.clone();
            async move { below.get(&place, range, same).await }
        })
    }

    async fn delete(&self, key: &str) -> Result<(), Fault> {
        let Place { current, older, emptying } = self.place(key).await?;
        // Delete the current place last: otherwise the older object would reappear.
        for place in older.into_iter().chain(emptying) {
            self.below().delete(&place).await?;
        }
        self.below().delete(&current).await
    }
}
