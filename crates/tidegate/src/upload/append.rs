//! Uploads to a session that is appended to: parts are sent one after the other, each from where the session
//! ends, and the last part publishes the object.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::plan::Cut;
use super::settle::Written;
use super::state::Upload;
use crate::backend::{Appended, Fault, FaultKind, Receipt, Session};
use crate::engine::limiter::Permit;
use crate::engine::request::Failure;
use crate::memory::payload::Payload;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

#[cfg(test)]
mod tests;

/// The error of a session that somebody else has finished.
pub(super) const FINISHED: &str =
    "the session was finished by somebody else, with fewer bytes than the object has";

/// The order in which the parts are sent.
#[derive(Debug)]
pub(super) struct Order {
    next: watch::Sender<Next>,
    /// The error of the part that failed, after which no part is sent.
    failed: Mutex<Option<Error>>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    /// The number of the next part; `None` once a part has failed.
    number: Option<u32>,
    /// The checksum of all parts before it.
    before: Checksum,
}

/// One part's turn to be sent. The next part's turn comes when this part is stored; if the turn is dropped
/// before that, no part follows.
#[derive(Debug)]
struct Turn<'a> {
    order: &'a Order,
    number: u32,
    before: Checksum,
    stored: bool,
}

impl Order {
    /// The order of a session that nothing was appended to yet.
    fn new(algorithm: Algorithm) -> Self {
        Self {
            next: watch::Sender::new(Next { number: Some(1), before: algorithm.empty() }),
            failed: Mutex::default(),
        }
    }

    /// The order for this cut; `None` where parts are not appended to each other.
    pub(super) fn of(cut: Cut, algorithm: Algorithm) -> Option<Box<Self>> {
        cut.appends().then(|| Box::new(Self::new(algorithm)))
    }

    /// Waits until part `number` is next; `None` where an earlier part has failed.
    async fn turn(&self, number: u32) -> Option<Turn<'_>> {
        let mut next = self.next.subscribe();
        // `self` holds the sender, so the channel stays open.
        let next = *next.wait_for(|next| next.number.is_none_or(|next| next == number)).await.ok()?;
        next.number.map(|number| Turn { order: self, number, before: next.before, stored: false })
    }
}

impl Turn<'_> {
    fn stored(mut self, checksum: &Checksum) {
        self.stored = true;
        let next = Next { number: Some(self.number + 1), before: self.before.then(checksum) };
        self.order.next.send_replace(next);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.stored {
            self.order.next.send_modify(|next| next.number = None);
        }
    }
}

impl Upload {
    /// Waits until part `number` may be sent, where the session is appended to. Wait for this before taking
    /// the buffers that the part is sent through, because an earlier part may still need them.
    pub(super) async fn in_turn(&self, number: u32) -> Result<()> {
        let Some(order) = &self.order else { return Ok(()) };
        let mut next = order.next.subscribe();
        let next = next.wait_for(|next| next.number.is_none_or(|next| next == number)).await;
        match next.is_ok_and(|next| next.number.is_some()) {
            true => Ok(()),
            false => Err(self.out_of_turn(order)),
        }
    }

    /// The error of the earlier part that failed, so that every later part reports the same one.
    fn out_of_turn(&self, order: &Order) -> Error {
        let failed = order.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map_or_else(
            || self.error(ErrorKind::Closed, Operation::Part, "a part before this one was given up"),
            Error::again,
        )
    }

    /// Appends one part, with retries.
    pub(super) async fn append(
        &self,
        order: &Order,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        permit: Option<Permit>,
    ) -> Result<Receipt> {
        let turn = order.turn(number).await.ok_or_else(|| self.out_of_turn(order))?;
        let checksum = match self.append_one(number, range, &payload, permit).await {
            Ok(checksum) => checksum,
            Err(error) => {
                // Before the turn ends, so that the parts that wait for their turn find the error.
                *order.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.again());
                return Err(error);
            }
        };
        turn.stored(&checksum);
        self.requests.progress.acknowledged(payload.len());
        self.requests.progress.parts_stored(1);
        Ok(Receipt { number, size: payload.len(), etag: String::new(), checksum: Some(checksum) })
    }

    async fn append_one(
        &self,
        number: u32,
        range: Range<u64>,
        payload: &Payload,
        permit: Option<Permit>,
    ) -> Result<Checksum> {
        let session = self.session().await?;
        let failed = |failure| self.failed(failure, Operation::Part).at_part(number, range.clone());
        let pushed = self.push(&session, &range, payload, None, permit).await.map_err(failed)?;
        if pushed.is_some() {
            let error = self.error(ErrorKind::SessionLost, Operation::Part, FINISHED);
            return Err(error.at_part(number, range));
        }
        self.checksum_of(payload).await
    }

    /// Appends the last part, which publishes the object.
    pub(super) async fn append_last(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        permit: Option<Permit>,
    ) -> Result<Object> {
        let Some(order) = &self.order else {
            return Err(self.error(
                ErrorKind::Closed,
                Operation::Complete,
                "this session is not appended to",
            ));
        };
        let turn = order.turn(number).await.ok_or_else(|| self.out_of_turn(order))?;
        let whole = turn.before.then(&self.checksum_of(&payload).await?);
        self.append_rest(number, range, payload, whole, permit).await?
    }

    /// Appends all missing bytes, which publishes the object; `whole` is the checksum of all its bytes. The
    /// inner error means that an object is published that is not what was sent.
    pub(super) async fn append_rest(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        whole: Checksum,
        permit: Option<Permit>,
    ) -> Result<Result<Object>> {
        let session = self.session().await?;
        let (began, attempts) = (Instant::now(), AtomicU32::new(0));
        let pushed = self.push(&session, &range, &payload, Some((&whole, &attempts)), permit).await;
        let written = Written { operation: Operation::Complete, size: whole.covers(), checksum: Some(whole) };
        let object = match pushed {
            Ok(Some(object)) => *object,
            Ok(None) => {
                let message = "the store has all bytes and does not publish the object";
                return Err(self.error(ErrorKind::Unavailable, Operation::Complete, message));
            }
            // The session is open, so it has published nothing, and it is aborted before it is given up.
            Err(failure) if self.is_journaled && failure.fault.kind == FaultKind::Diverged => {
                return Err(self.failed(failure, Operation::Complete).at_part(number, range));
            }
            Err(failure)
                if failure.is_unsettled()
                    || failure.fault.kind == FaultKind::NoSession
                    || self.may_be_published =>
            {
                Box::pin(self.settle(failure, written)).await?
            }
            Err(failure) => {
                return Err(self.failed(failure, Operation::Complete).at_part(number, range));
            }
        };
        self.session_ended().await;
        let verified = self.verify(object, whole.covers(), Some(whole), Operation::Complete);
        if verified.is_ok() {
            self.requests.progress.acknowledged(payload.len());
            self.requests.progress.parts_stored(1);
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
        let known = Mutex::new(Some(range.start));
        let was_low = AtomicBool::new(false);
        let (known, was_low) = (&known, &was_low);
        let push = |attempt| async move {
            let store = self.backend.need_append()?;
            if let Some((_, attempts)) = last {
                attempts.fetch_add(1, Relaxed);
            }
            let known = known.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut stands = match known {
                Some(at) => Appended::Open(at),
                None => store.position(session, attempt).await?,
            };
            loop {
                let at = match stands {
                    Appended::Published(object) => return Ok(Some(object)),
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
                    Err(fault) => return Err(fault),
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
