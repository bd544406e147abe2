//! The order of parts in a session that is appended to, if they were cut to be sent in any order.
//!
//! That a server has no uploads in parts shows only when the first session is opened. By then several parts may be on
//! their way, with their bytes in memory. So each part waits here for its turn: before it waits for a ring or a permit,
//! which a part before it may need.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use crate::backend::Session;
use crate::memory::payload::Payload;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::session::{Done, Upload};

#[cfg(test)]
mod tests;

/// The order of appending to one session: the checksum of all bytes appended so far; the part that starts behind them
/// is next. After an error, no part is sent.
#[derive(Debug)]
pub(in crate::upload) struct AppendOrder(watch::Sender<Result<Checksum, Arc<Error>>>);

/// The turn of one part. If it is dropped, no later part is appended.
pub(in crate::upload) struct AppendTurn<'a> {
    upload: &'a Upload,
    order: &'a AppendOrder,
    /// The checksum of all parts before this one.
    before: Checksum,
    has_ended: bool,
}

impl AppendOrder {
    pub(in crate::upload) fn new(algorithm: Algorithm) -> Self {
        Self(watch::Sender::new(Ok(algorithm.empty())))
    }

    /// Takes in that the session has these bytes already.
    pub(in crate::upload) fn begin_behind(&self, stored: Checksum) {
        self.set(Ok(stored));
    }

    /// Waits until the session has all bytes before `offset`; returns their checksum.
    async fn reaches(&self, offset: u64) -> Result<Checksum, Arc<Error>> {
        let mut next = self.0.subscribe();
        let is_settled =
            |next: &Result<Checksum, _>| next.as_ref().map_or(true, |sum| sum.covers() == offset);
        let settled = next.wait_for(is_settled).await.map(|next| next.clone());
        // Never closed, because the sender is here.
        settled.unwrap_or_else(|_| self.0.borrow().clone())
    }

    fn set(&self, next: Result<Checksum, Arc<Error>>) {
        self.0.send_modify(|now| *now = next);
    }
}

impl AppendTurn<'_> {
    /// Takes in whether the part was appended, and lets the next part have its turn.
    pub(in crate::upload) fn end<T>(
        mut self,
        appended: Result<T>,
        checksum: impl FnOnce(&T) -> Option<Checksum>,
    ) -> Result<T> {
        self.has_ended = true;
        match appended {
            Ok(appended) => {
                let sum = checksum(&appended).map_or(self.before, |sum| self.before.then(&sum));
                self.order.set(Ok(sum));
                Ok(appended)
            }
            Err(error) => {
                let error = Arc::new(error);
                self.order.set(Err(error.clone()));
                Err(error.again())
            }
        }
    }
}

impl Drop for AppendTurn<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let message = "a part before it was not sent";
            let error = Arc::new(self.upload.error(ErrorKind::Closed, Operation::Part, message));
            self.order.set(Err(error));
        }
    }
}

impl Upload {
    /// The turn of the part that begins at `offset`; waits for it, and before that for the session. `None` if the
    /// session takes parts in any order, or the store has no sessions of another kind.
    pub(in crate::upload) async fn append_turn(&self, offset: u64) -> Result<Option<AppendTurn<'_>>> {
        if self.backend.appending().is_none() || !self.is_appended(&self.session().await?) {
            return Ok(None);
        }
        let order = self.order();
        let before = order.reaches(offset).await.map_err(|error| error.again())?;
        Ok(Some(AppendTurn { upload: self, order, before, has_ended: false }))
    }

    /// Appends a part whose turn it is. The part that ends the object publishes it.
    pub(in crate::upload) async fn append_in_turn(
        &self,
        turn: AppendTurn<'_>,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        ends_object: bool,
    ) -> Result<Done> {
        if ends_object {
            let published = self.append_last(number, range, payload, turn.before).await;
            return turn.end(published, |_| None).map(Done::published);
        }
        let permit = self.requests.turn_with(&payload).await;
        let appended = self.append(number, range, payload, Some(permit)).await;
        turn.end(appended, |receipt| receipt.checksum).map(Done::Stored)
    }

    /// Publishes an object whose bytes the session has all.
    pub(in crate::upload) async fn end_appended(&self, number: u32, whole: Checksum) -> Result<Object> {
        let size = whole.covers();
        let nothing = Payload::from_memory(Vec::new(), whole.algorithm().empty());
        self.append_rest(number, size..size, nothing, whole).await?
    }

    /// Whether bytes are appended to `session`, which may be so although parts were asked for.
    pub(in crate::upload) fn is_appended(&self, session: &Session) -> bool {
        self.backend.appending().is_some_and(|append| append.has(session))
    }
}
