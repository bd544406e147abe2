//! A session that is gone: everything is sent to a new one, where the object is not there already and the
//! journal still has all bytes.
//!
//! Gone is one that expired or was aborted, and one that lacks parts that it had acknowledged, as a store
//! leaves it that stopped while it completed.

use tracing::debug;

use super::link::Link;
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::settle::There;
use crate::upload::state::Tasks;

/// How many sessions in a row may be lost without that the upload comes further than before.
const LOST: u32 = 3;

/// What became of the sessions of one upload.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Those that were lost since it came further than ever.
    lost: u32,
    /// What was sent to the one that is open.
    sent: u64,
    /// The most that was sent to one.
    most: u64,
}

impl Sessions {
    /// The session has another part.
    pub(super) fn stored(&mut self, bytes: u64) {
        self.sent += bytes;
        if self.sent > self.most {
            (self.lost, self.most) = (0, self.sent);
        }
    }

    /// It is gone; whether another one is worth it.
    fn lose(&mut self) -> bool {
        self.sent = 0;
        self.lost += 1;
        self.lost <= LOST
    }
}

impl Link {
    /// Gives the session up where the error is that it is gone, so that a new one can be opened; any other
    /// error ends the upload. The object, where it turns out that it is there.
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
        // What of it is there yet would stay, and a completion that is under way could still end.
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

    /// Ends the session that is given up, after something that was asked of it was refused. Where nothing can
    /// have been under way that publishes, one that can't be ended only stays, as its record says.
    async fn abort(&self, refused: Operation) -> Result<()> {
        loop {
            let is_last = self.source.is_finished();
            let Err(error) = self.upload().abort(Tasks::new()).await else { return Ok(()) };
            if self.source.goes_on(&error, is_last).await {
                continue;
            }
            let may_publish = refused == Operation::Complete || self.upload().may_be_published;
            if may_publish {
                return Err(error);
            }
            debug!(object = self.upload().requests.object, %error, "a session that is given up is left");
            return Ok(());
        }
    }

    /// Fails where the `whole` object can't go to the session, for some of it is not durable and never will be:
    /// with [`ErrorKind::SessionLost`] where it can go to one that no record names.
    pub(super) async fn check_durable(&self, whole: u64) -> Result<()> {
        if self.session.is_none() || self.source.reach(self.on_record) >= whole {
            return Ok(());
        }
        match self.journal().failure() {
            // It must be gone before another publishes: whoever resumes would find it open, and go on with it.
            Some(error) if self.has_all().await? => {
                Err(self.upload().error(ErrorKind::SessionLost, Operation::Complete, error.to_string()))
            }
            Some(error) => Err(self.source.failed(error)),
            None => Ok(()),
        }
    }

    /// Whether the journal has all bytes that it ever had.
    pub(super) async fn has_all(&self) -> Result<bool> {
        let has_given_back = self.journal().has_given_back().await;
        has_given_back.map(|has| !has).map_err(|error| self.source.failed(error))
    }

    /// Fails where an earlier process may have published the object, and another's has come in its place:
    /// nobody can say which is to be there.
    pub(super) fn check_rival(&self, operation: Operation) -> Result<()> {
        // The store's own condition leaves it as it is.
        if !self.rival || self.upload().options.create_only {
            return Ok(());
        }
        let message = "the object that is there now came after this upload was begun: it may have replaced this one, \
                       which an earlier process may have published (if it is to be replaced, remove it and \
                       resume the upload)";
        Err(self.upload().error(ErrorKind::Uncertain, operation, message))
    }

    /// The object, where an earlier process has published it and died before it could say so.
    pub(super) async fn published_before(&mut self, checksum: Checksum) -> Result<Option<Object>> {
        let since = since_1970(self.created);
        match self.upload().published(checksum, since).await? {
            There::Nothing => Ok(None),
            There::Another(_) => {
                // Its own process alone would know that it has published nothing.
                self.rival = self.upload().may_be_published;
                Ok(None)
            }
            There::Ours(object) => {
                if self.session.is_some() {
                    // It is gone, but where the same bytes came by another way.
                    let _ = self.upload().abort_session().await;
                }
                Ok(Some(*object))
            }
        }
    }
}
