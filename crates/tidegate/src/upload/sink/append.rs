//! Uploads to a session that is appended to: parts are sent one after the other, each from where the session
//! ends, and the last part publishes the object.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::backend::{Appended, Fault, FaultKind, Receipt, Session};
use crate::engine::limiter::Permit;
use crate::engine::request::{Doubt, Failure};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::session::{Persistence, Upload};

#[cfg(test)]
mod tests;

/// The error of a session that somebody else has finished.
pub(in crate::upload) const FINISHED: &str =
    "the session was finished by somebody else, with fewer bytes than the object has";

impl Upload {
    /// Appends one part, with retries.
    pub(in crate::upload) async fn append(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        permit: Option<Permit>,
    ) -> Result<Receipt> {
        let session = self.session().await?;
        let failed = |failure| self.failed(failure, Operation::Part).at_part(number, range.clone());
        let pushed = self.push(&session, &range, &payload, None, permit).await.map_err(failed)?;
        if pushed.is_some() {
            let error = self.error(ErrorKind::SessionLost, Operation::Part, FINISHED);
            return Err(error.at_part(number, range));
        }
        let checksum = self.checksum_of(&payload).await?;
        self.requests.progress.acknowledged(payload.len());
        self.requests.progress.parts_stored(1);
        Ok(Receipt { number, size: payload.len(), etag: String::new(), checksum: Some(checksum) })
    }

    /// Appends the last part, which publishes the object. `before` is the checksum of all parts before it.
    pub(in crate::upload) async fn append_last(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        before: Checksum,
    ) -> Result<Object> {
        let whole = before.then(&self.checksum_of(&payload).await?);
        self.append_rest(number, range, payload, whole).await?
    }

    /// Appends all missing bytes, which publishes the object; `whole` is the checksum of all its bytes. The
    /// inner error means that an object is published that is not what was sent.
    pub(in crate::upload) async fn append_rest(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        whole: Checksum,
    ) -> Result<Result<Object>> {
        let session = self.session().await?;
        let (began, attempts) = (Instant::now(), AtomicU32::new(0));
        let pushed = self.push(&session, &range, &payload, Some((&whole, &attempts)), None).await;
        let object = match pushed {
            Ok(Some(object)) => *object,
            Ok(None) => {
                let message = "the store has all bytes and does not publish the object";
                return Err(self.error(ErrorKind::Unavailable, Operation::Complete, message));
            }
            // The session is open, so it has published nothing, and it is aborted before it is given up.
            Err(failure)
                if self.persistence() != Persistence::Process
                    && failure.fault.kind == FaultKind::Diverged =>
            {
                return Err(self.failed(failure, Operation::Complete).at_part(number, range));
            }
            Err(failure)
                if failure.doubt > Doubt::None
                    || failure.fault.kind == FaultKind::NoSession
                    || self.persistence().may_be_published() =>
            {
                Box::pin(self.settle(failure, Operation::Complete, whole.covers(), Some(whole))).await?
            }
            Err(failure) => {
                return Err(self.failed(failure, Operation::Complete).at_part(number, range));
            }
        };
        self.session_ended().await;
        let verified = self.verify(object, whole.covers(), Some(whole), Operation::Complete);
        if verified.is_ok() {
            self.requests.progress.acknowledged(payload.len());
            self.requests.progress.parts_stored(u64::from(!payload.is_empty()));
        }
        Ok(verified.map_err(|error| error.after(attempts.into_inner(), began.elapsed())))
    }

    /// Sends the bytes of `range` that the store does not have yet, with retries; returns the object where it
    /// is published. `last` is set for the last part, which publishes the object: the checksum of the whole
    /// object, and a counter of the attempts. After a lost answer the store is asked where the session ends:
    /// bytes that it has are not sent again, and an object that is already published is found.
    async fn push(
        &self,
        session: &Session,
        range: &Range<u64>,
        payload: &Payload,
        last: Option<(&Checksum, &AtomicU32)>,
        permit: Option<Permit>,
    ) -> Result<Option<Box<Object>>, Failure> {
        let whole = last.map(|(whole, _)| whole);
        let start = range.start.max(self.points.appended());
        let (known, refused_at) = (Mutex::new(Some(start)), Mutex::new(None));
        let was_low = AtomicBool::new(false);
        let (known, refused_at, was_low) = (&known, &refused_at, &was_low);
        let push = |attempt| async move {
            let store = self.backend.need_append()?;
            if let Some((_, attempts)) = last {
                attempts.fetch_add(1, Relaxed);
            }
            let known = known.lock().unwrap_or_else(PoisonError::into_inner).take();
            let refused = refused_at.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut stands = match known {
                Some(at) => Appended::Open(at),
                None => match (store.position(session, attempt).await, refused) {
                    // The store may not tell the position. After a refusal, the session still ends where it did.
                    (Err(fault), Some(at)) if fault.kind == FaultKind::NoSession => Appended::Open(at),
                    (position, _) => position?,
                },
            };
            loop {
                let at = match stands {
                    Appended::Published(object) => return Ok(Some(object)),
                    // An earlier process went on behind the point that this one has resumed from. The store compares the
                    // checksum of all bytes when the last of them come.
                    Appended::Open(at) if at > range.end && whole.is_none() && self.points.is_resumed() => {
                        self.points.has_appended(at);
                        return Ok(None);
                    }
                    Appended::Open(at) if at < range.start || at > range.end => {
                        let message = format!(
                            "the store has {at} bytes of the session, where it had {} and was sent {}",
                            range.start, range.end
                        );
                        // The server that answered may not be up to date: a low answer is believed the second
                        // time.
                        if at < range.start && !was_low.swap(true, Relaxed) {
                            return Err(Fault::new(FaultKind::Transient, message).with_answered(true));
                        }
                        return Err(Fault::new(FaultKind::Diverged, message).with_answered(true));
                    }
                    Appended::Open(at) => at,
                };
                if at == range.end && whole.is_none() {
                    return Ok(None);
                }
                let rest = payload.behind(at - range.start);
                let append = store.append(session, at, rest, whole, attempt);
                let appended = match whole {
                    Some(_) => self.publishing.watch(append).await,
                    None => append.await,
                };
                stands = match appended {
                    Ok(stands) => stands,
                    // Late bytes of an earlier request may have arrived, so that the session ends elsewhere;
                    // or the answer is not from the store, and says nothing of where the session ends.
                    Err(fault) if matches!(fault.kind, FaultKind::Invalid | FaultKind::NotAStore) => {
                        match store.position(session, attempt).await {
                            Ok(Appended::Open(now)) if now <= at => return Err(fault),
                            Ok(stands) => stands,
                            Err(_) => return Err(fault),
                        }
                    }
                    Err(fault) => {
                        if fault.has_no_effect() {
                            *refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
                        }
                        return Err(fault);
                    }
                };
                if stands == Appended::Open(at) {
                    let message = "the store took none of the bytes that it was sent";
                    return Err(Fault::new(FaultKind::Transient, message).with_answered(true));
                }
            }
        };
        self.requests.send(Operation::Part, Some(payload), permit, push).await
    }

    async fn checksum_of(&self, payload: &Payload) -> Result<Checksum> {
        payload.read_checksum().await.map_err(|error| {
            self.error(ErrorKind::Source, Operation::Part, error.to_string()).with_source(error)
        })
    }
}
