//! Handles a lost session: all bytes are sent to a new one, unless the object is already published or the
//! journal no longer has all bytes.
//!
//! A session is lost when it expired or was aborted, or when it lacks parts that it had acknowledged, as
//! happens when a store stops during a completion.

use tracing::debug;

use super::link::Link;
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::settle::There;

/// How many sessions in a row may be lost without the upload getting further than before.
const LOST: u32 = 3;

/// Counts the lost sessions of one upload.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Sessions that were lost since the upload last got further than ever.
    lost: u32,
    /// Bytes that the open session has stored.
    sent: u64,
    /// The most bytes that any session has stored.
    most: u64,
}

impl Sessions {
    /// Takes in that the session has stored `bytes` more.
    pub(super) fn stored(&mut self, bytes: u64) {
        self.sent += bytes;
        if self.sent > self.most {
            (self.lost, self.most) = (0, self.sent);
        }
    }

    /// Counts the session as lost; returns whether another one is worth it.
    fn lose(&mut self) -> bool {
        self.sent = 0;
        self.lost += 1;
        self.lost <= LOST
    }
}

impl Link {
    /// Gives the session up where the error says that it is lost, so that a new one can be opened; any other
    /// error ends the upload. Returns the object where it turns out to be published.
    pub(super) async fn lose(&mut self, error: Error) -> Result<Option<Object>> {
        if error.kind() != ErrorKind::SessionLost {
            return Err(error);
        }
        self.check_rival(Operation::Complete)?;
        if !self.has_all().await? {
            let message = format!(
                "the session is lost, and the journal has not all bytes any more that it held: {error}"
            );
            return Err(self.upload().error(ErrorKind::SessionLost, error.operation(), message));
        }
        if !self.sessions.lose() {
            return Err(error.and(&format!("{LOST} more were opened in its stead, and lost as well")));
        }
        // Parts that the session still has would stay, and a completion under way could still publish the
        // object.
        self.abort(error.operation()).await?;
        let finish = self.feed.borrow().finish;
        if let Some(checksum) = finish.filter(|_| error.operation() == Operation::Complete) {
            if let Some(object) = self.published_before(checksum).await? {
                return Ok(Some(object));
            }
            self.check_rival(Operation::Complete)?;
        }
        debug!(object = self.upload().requests.object, %error, "sending all again to a new session");
        self.session = None;
        Ok(None)
    }

    /// Aborts the session that is given up, after it refused the operation `refused`. If the abort fails and
    /// no request that publishes can have been under way, the session is left at the store, and its record
    /// says so.
    async fn abort(&self, refused: Operation) -> Result<()> {
        loop {
            let is_last = self.source.is_finished();
            let Err(error) = self.upload().abort().await else { return Ok(()) };
            if self.source.goes_on(&error, is_last).await {
                continue;
            }
            let may_publish =
                refused == Operation::Complete || self.upload().persistence().may_be_published();
            if may_publish {
                return Err(error);
            }
            debug!(object = self.upload().requests.object, %error, "a session that is given up is left");
            return Ok(());
        }
    }

    /// Fails where the `whole` object can't go to the session, because some of it is not durable and never
    /// will be. The error is [`ErrorKind::SessionLost`] where the object can go to a session that no record
    /// names.
    pub(super) async fn check_durable(&self, whole: u64) -> Result<()> {
        if self.session.is_none() || self.source.reach(self.on_record) >= whole {
            return Ok(());
        }
        match self.journal().failure() {
            // The session must be gone before another one publishes: a resume would find it open and use it.
            Some(error) if self.has_all().await? => {
                Err(self.upload().error(ErrorKind::SessionLost, Operation::Complete, error.to_string()))
            }
            Some(error) => Err(self.source.failed(error)),
            None => Ok(()),
        }
    }

    /// Whether the journal still has all bytes that it ever had.
    pub(super) async fn has_all(&self) -> Result<bool> {
        let has_given_back = self.journal().has_given_back().await;
        has_given_back.map(|has| !has).map_err(|error| self.source.failed(error))
    }

    /// Fails where an earlier process may have published the object, and another writer's object is there
    /// now: nobody can say which one should stay.
    pub(super) fn check_rival(&self, operation: Operation) -> Result<()> {
        // With `create_only`, the store's own condition protects the other object.
        if !self.rival || self.upload().options.create_only {
            return Ok(());
        }
        let message = "the object that is there now came after this upload was begun: it may have replaced this one, \
                       which an earlier process may have published (if it is to be replaced, remove it and \
                       resume the upload)";
        Err(self.upload().error(ErrorKind::Uncertain, operation, message))
    }

    /// The object, where an earlier process has published it and died before it could record that.
    pub(super) async fn published_before(&mut self, checksum: Checksum) -> Result<Option<Object>> {
        let since = since_1970(self.created);
        match self.upload().published(checksum, since).await? {
            There::Nothing | There::Older => Ok(None),
            There::Another => {
                // Only the process that began the upload would know that it has published nothing.
                self.rival = self.upload().persistence().may_be_published();
                Ok(None)
            }
            There::Ours(object) => {
                if self.session.is_some() {
                    // The session is gone already, unless the same bytes came by another way.
                    let _ = self.upload().abort_session().await;
                }
                Ok(Some(*object))
            }
        }
    }
}
