//! Implements the engine's `Backend` trait for the simulated store.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use tidegate::backend::{
    Attempt, Backend, Body, Entry, Fault, FaultKind, Info, Listing, PartOrigin, PartSource, Parts, Receipt,
    Session, StoredPart, WriteOptions,
};
use tidegate::checksum::Checksum;
use tidegate::payload::Payload;
use tidegate::{Object, Operation};

use super::{AskedRequest, SimStore, writer_of};
use crate::model::{StoreAnswer, StoreRequest};

fn odd<T>(answer: Result<StoreAnswer, Fault>) -> Result<T, Fault> {
    let message = |answer| format!("simulated store: {answer:?} answers another question");
    Err(answer.map_or_else(|fault| fault, |answer| Fault::new(FaultKind::Invalid, message(answer))))
}

/// The key in traces. The record of a pending upload has the time of day in its name, which no seed decides.
fn shown(key: &str) -> &str {
    if key.starts_with(".tidegate/") { "a record" } else { key }
}

#[async_trait]
impl Backend for SimStore {
    fn info(&self) -> &Info {
        &self.shared.info
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        _: Attempt,
    ) -> Result<Object, Fault> {
        let writers: Vec<usize> = writer_of(&options.attributes).into_iter().collect();
        let label = format!("put {} by {writers:?}", shown(key));
        let asked = AskedRequest {
            operation: Operation::Put,
            writers,
            label,
            session: None,
            payload: Some(&payload),
            part: None,
        };
        let (key, options) = (key.to_owned(), options.clone());
        match self.exchange(asked, |bytes| StoreRequest::Put { key, bytes, options }).await {
            Ok(StoreAnswer::Object(object)) => Ok(*object),
            other => odd(other),
        }
    }

    async fn head(&self, key: &str, _: Attempt) -> Result<Object, Fault> {
        let writers = self.state().witness.writers_of(key);
        let label = format!("head {}", shown(key));
        let asked = AskedRequest {
            operation: Operation::Head,
            writers,
            label,
            session: None,
            payload: None,
            part: None,
        };
        let key = key.to_owned();
        match self.exchange(asked, |_| StoreRequest::Head { key }).await {
            Ok(StoreAnswer::Object(object)) => Ok(*object),
            other => odd(other),
        }
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        _: Attempt,
    ) -> Result<Body, Fault> {
        let state = self.state();
        let version =
            state.model.current(key).ok_or_else(|| Fault::new(FaultKind::NotFound, "no such object"))?;
        if same.is_some_and(|same| !same.is_same(&version.object)) {
            return Err(Fault::new(FaultKind::Replaced, "the key has another object by now"));
        }
        if range.is_some() {
            return Err(Fault::new(FaultKind::Unsupported, "the simulated store gives whole objects"));
        }
        let pieces: Vec<Bytes> = version.pieces.to_vec();
        let object = version.object.clone();
        let range = 0..object.size;
        let stream = stream::iter(pieces).map(Ok).boxed();
        Ok(Body { object, range, ignored_range: false, stream })
    }

    /// Heeds no condition, as some servers do.
    async fn delete(&self, key: &str, _: Option<&Object>, _: Attempt) -> Result<(), Fault> {
        let writers = Vec::new();
        let label = format!("delete {}", shown(key));
        let asked = AskedRequest {
            operation: Operation::Delete,
            writers,
            label,
            session: None,
            payload: None,
            part: None,
        };
        let key = key.to_owned();
        match self.exchange(asked, |_| StoreRequest::Delete { key }).await {
            Ok(StoreAnswer::Done) => Ok(()),
            other => odd(other),
        }
    }

    fn list(&self, prefix: &str, _recursive: bool) -> Listing<Entry> {
        let state = self.state();
        let keys = state.model.keys().filter(|key| key.starts_with(prefix));
        let objects = keys.filter_map(|key| state.model.current(key)).map(|version| version.object.clone());
        let entries: Vec<Entry> = objects.map(Entry::Object).collect();
        stream::iter(entries).map(Ok).boxed().into()
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }
}

#[async_trait]
impl Parts for SimStore {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        _: PartOrigin,
        _: Attempt,
    ) -> Result<Session, Fault> {
        let writers: Vec<usize> = writer_of(&options.attributes).into_iter().collect();
        let label = format!("open {key} by {writers:?}");
        let asked = AskedRequest {
            operation: Operation::Open,
            writers,
            label,
            session: None,
            payload: None,
            part: None,
        };
        let (key, options) = (key.to_owned(), options.clone());
        match self.exchange(asked, |_| StoreRequest::Open { key, options }).await {
            Ok(StoreAnswer::Session(session)) => Ok(session),
            other => odd(other),
        }
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        _: Attempt,
    ) -> Result<Receipt, Fault> {
        let PartSource::Bytes(payload) = source else {
            return Err(Fault::new(FaultKind::Unsupported, "the simulated store copies no parts"));
        };
        let writers = self.state().witness.writer_of(session);
        let label = format!("part {number} of {} at {offset}", session.id);
        let asked = AskedRequest {
            operation: Operation::Part,
            writers,
            label,
            session: Some(session),
            payload: Some(&payload),
            part: Some((number, offset)),
        };
        let stored = session.clone();
        match self.exchange(asked, |bytes| StoreRequest::Part { session: stored, number, bytes }).await {
            Ok(StoreAnswer::Receipt(receipt)) => Ok(receipt),
            other => odd(other),
        }
    }

    async fn stored_parts(&self, session: &Session, _: Attempt) -> Result<Vec<StoredPart>, Fault> {
        let writers = self.state().witness.writer_of(session);
        let label = format!("list the parts of {}", session.id);
        let asked = AskedRequest {
            operation: Operation::List,
            writers,
            label,
            session: Some(session),
            payload: None,
            part: None,
        };
        let listed = session.clone();
        match self.exchange(asked, |_| StoreRequest::Parts { session: listed }).await {
            Ok(StoreAnswer::Parts(parts)) => Ok(parts),
            other => odd(other),
        }
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        _: Attempt,
    ) -> Result<Object, Fault> {
        let writers = self.state().witness.writer_of(session);
        let label = format!("complete {} of {} parts", session.id, parts.len());
        let asked = AskedRequest {
            operation: Operation::Complete,
            writers,
            label,
            session: Some(session),
            payload: None,
            part: None,
        };
        let Some(checksum) = checksum.copied() else {
            return Err(Fault::new(FaultKind::Invalid, "a completion without a checksum"));
        };
        let command = StoreRequest::Complete {
            session: session.clone(),
            parts: parts.to_vec(),
            checksum,
            create_only: options.create_only,
        };
        match self.exchange(asked, |_| command).await {
            Ok(StoreAnswer::Object(object)) => Ok(*object),
            other => odd(other),
        }
    }

    async fn abort(&self, session: &Session, _: Attempt) -> Result<(), Fault> {
        let writers = self.state().witness.writer_of(session);
        let label = format!("abort {}", session.id);
        let asked = AskedRequest {
            operation: Operation::Abort,
            writers,
            label,
            session: Some(session),
            payload: None,
            part: None,
        };
        if let Some(seen) = self.state().witness.sessions.get_mut(&session.id) {
            seen.aborts += 1;
        }
        let ended = session.clone();
        let answer = self.exchange(asked, |_| StoreRequest::Abort { session: ended }).await;
        if let Some(seen) = self.state().witness.sessions.get_mut(&session.id) {
            seen.abort_denied = answer.as_ref().is_err_and(|fault| fault.kind == FaultKind::Denied);
        }
        match answer {
            Ok(StoreAnswer::Done) => Ok(()),
            other => odd(other),
        }
    }
}
