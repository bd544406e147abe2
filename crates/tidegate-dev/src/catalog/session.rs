//! Google's resumable uploads: sessions to which clients append. A session's persisted bytes are a list of
//! pieces, each a multiple of [`GRAIN`] long, so that any storage can keep them like the parts of S3's
//! sessions.

use std::time::Duration;

use md5::Md5;
use s3s::S3Error;
use serde::{Deserialize, Serialize};

use super::generations::Generations;
use super::{Catalog, CatalogAttributes, CatalogObject, Condition, Moment};
use crate::storage::StoredPiece;
use std::sync::Arc;

/// An unfinished session persists multiples of this many bytes.
pub(crate) const GRAIN: u64 = 256 * 1024;

/// The lifetime of a session; the session's outcome is remembered as long.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Only this many ended sessions are remembered, the latest.
const REMEMBERED: usize = 10_000;

/// A sweep for sessions to forget runs each time this many sessions have been added.
const LOOKED_OVER: usize = 1000;

/// The client's statements about the whole object, to be checked at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) size: Option<u64>,
    pub(crate) crc32c: Option<u32>,
    pub(crate) md5: Option<[u8; 16]>,
}

/// The state of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) enum SessionState {
    #[default]
    Open,
    /// The finished object, as it was at that time.
    Finished(Box<CatalogObject>),
    Cancelled,
}

/// A piece of a session's bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionPiece {
    pub(crate) number: u64,
    pub(crate) crc32c: u32,
    #[serde(skip, default = "super::record::nothing")]
    pub(crate) piece: StoredPiece,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResumableSession {
    pub(crate) id: String,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) started: Moment,
    pub(crate) attributes: CatalogAttributes,
    pub(crate) generations: Generations,
    pub(crate) expected: Expected,
    #[serde(default)]
    pub(crate) state: SessionState,
    #[serde(skip)]
    pub(crate) pieces: Vec<SessionPiece>,
    /// The MD5 of all persisted bytes; `None` after a restart, or if the session computes no MD5.
    #[serde(skip)]
    pub(crate) md5: Option<Md5>,
    /// The number of the only request that may append: the latest one. After a client has reconnected, bytes
    /// from its earlier request must not be appended.
    #[serde(skip)]
    pub(crate) writer: u64,
}

impl ResumableSession {
    pub(crate) fn persisted(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.piece.length()).sum()
    }

    fn is_open(&self) -> bool {
        matches!(self.state, SessionState::Open)
    }

    fn is_past(&self) -> bool {
        self.started.age() > LIFETIME
    }
}

/// Why a session rejects a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionFault {
    #[error("there is no such upload")]
    Unknown,
    #[error("the upload was cancelled")]
    Cancelled,
    #[error("the upload is finished")]
    Finished,
    #[error("another request has gone on with the upload")]
    Superseded,
    #[error(transparent)]
    Store(#[from] S3Error),
}

impl Catalog {
    /// Opens a session.
    pub(crate) fn create_session(&mut self, session: ResumableSession) -> Result<(), SessionFault> {
        self.bucket(&session.bucket)?;
        if self.sessions.len() >= self.sessions_looked_over + LOOKED_OVER {
            self.forget_sessions()?;
            self.sessions_looked_over = self.sessions.len();
        }
        self.record(|ledger| ledger.save_session(&session))?;
        self.sessions.insert(session.id.clone(), session);
        Ok(())
    }

    pub(crate) fn session(&self, id: &str) -> Result<&ResumableSession, SessionFault> {
        self.sessions.get(id).filter(|session| !session.is_past()).ok_or(SessionFault::Unknown)
    }

    /// Claims the session for a request that will append to it.
    pub(crate) fn claim_session(&mut self, id: &str) -> Result<&ResumableSession, SessionFault> {
        self.session(id)?;
        let session = self.sessions.get_mut(id).ok_or(SessionFault::Unknown)?;
        match session.state {
            SessionState::Open => session.writer += 1,
            SessionState::Finished(_) => return Err(SessionFault::Finished),
            SessionState::Cancelled => return Err(SessionFault::Cancelled),
        }
        Ok(session)
    }

    fn claimed(&self, id: &str, writer: u64) -> Result<&ResumableSession, SessionFault> {
        let session = self.session(id)?;
        match session.state {
            SessionState::Open if session.writer == writer => Ok(session),
            SessionState::Cancelled => Err(SessionFault::Cancelled),
            SessionState::Open | SessionState::Finished(_) => Err(SessionFault::Superseded),
        }
    }

    /// Persists another piece of a session; `md5` covers all bytes up to its end.
    pub(crate) fn append_to_session(
        &mut self,
        id: &str,
        writer: u64,
        piece: StoredPiece,
        crc32c: u32,
        md5: Option<Md5>,
    ) -> Result<(), SessionFault> {
        let session = self.claimed(id, writer)?;
        let number = session.pieces.last().map_or(0, |last| last.number + 1);
        let piece = SessionPiece { number, crc32c, piece };
        self.record(|ledger| ledger.save_session_piece(id, &piece))?;
        piece.piece.keep();
        if let Some(session) = self.sessions.get_mut(id) {
            session.pieces.push(piece);
            session.md5 = md5;
        }
        Ok(())
    }

    /// Publishes the session's object, if its conditions hold.
    pub(crate) fn finish_session(
        &mut self,
        id: &str,
        writer: u64,
        object: CatalogObject,
    ) -> Result<Arc<CatalogObject>, SessionFault> {
        let session = self.claimed(id, writer)?;
        let bucket = session.bucket.clone();
        let condition = Condition::generations(session.generations);
        let object = self.put_object(&bucket, object, &condition)?;
        self.end_session(
            id,
            SessionState::Finished(Box::new(CatalogObject { pieces: Vec::new(), ..(*object).clone() })),
        )?;
        Ok(object)
    }

    /// Cancels a session and discards its persisted bytes.
    pub(crate) fn cancel_session(&mut self, id: &str) -> Result<(), SessionFault> {
        let session = self.session(id)?;
        match session.state {
            SessionState::Finished(_) => return Err(SessionFault::Finished),
            SessionState::Cancelled => return Err(SessionFault::Cancelled),
            SessionState::Open => {}
        }
        let pieces = session.pieces.clone();
        self.end_session(id, SessionState::Cancelled)?;
        pieces.iter().for_each(|piece| piece.piece.release());
        Ok(())
    }

    /// Cancels all sessions of a key.
    pub(crate) fn cancel_sessions_of(&mut self, bucket: &str, key: &str) -> Result<(), SessionFault> {
        let is_meant =
            |session: &&ResumableSession| session.bucket == bucket && session.key == key && session.is_open();
        let all = self.sessions.values().filter(is_meant);
        let ids: Vec<String> = all.map(|session| session.id.clone()).collect();
        ids.iter().try_for_each(|id| self.cancel_session(id))
    }

    fn end_session(&mut self, id: &str, state: SessionState) -> Result<(), SessionFault> {
        let session = self.session(id)?;
        let ended = ResumableSession { state, pieces: Vec::new(), md5: None, ..session.clone() };
        self.record(|ledger| ledger.end_session(&ended))?;
        self.sessions.insert(id.to_owned(), ended);
        Ok(())
    }

    /// Removes sessions past their lifetime, and the oldest ended ones beyond the limit: ids sort by age.
    fn forget_sessions(&mut self) -> Result<(), SessionFault> {
        let ended = self.sessions.values().filter(|session| !session.is_open()).count();
        let mut surplus = ended.saturating_sub(REMEMBERED);
        let mut old = Vec::new();
        for session in self.sessions.values() {
            let is_surplus = surplus > 0 && !session.is_open();
            surplus -= usize::from(is_surplus);
            if is_surplus || session.is_past() {
                old.push(session.id.clone());
            }
        }
        old.iter().try_for_each(|id| self.remove_session(id))
    }

    pub(super) fn remove_sessions_of(&mut self, bucket: &str) -> Result<(), SessionFault> {
        let of_bucket = self.sessions.values().filter(|session| session.bucket == bucket);
        let ids: Vec<String> = of_bucket.map(|session| session.id.clone()).collect();
        ids.iter().try_for_each(|id| self.remove_session(id))
    }

    fn remove_session(&mut self, id: &str) -> Result<(), SessionFault> {
        self.record(|ledger| ledger.remove_session(id))?;
        if let Some(session) = self.sessions.remove(id) {
            session.pieces.iter().for_each(|piece| piece.piece.release());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
