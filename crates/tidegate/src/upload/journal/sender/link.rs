//! The state that both senders share: the session, and a journal whose disk may fail.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;
use tracing::{debug, warn};

use super::lost::Sessions;
use crate::backend::Session;
use crate::engine::journaling::Feed;
use crate::journal::{Journal, JournalError, JournaledSession, SessionKind};
use crate::types::error::{Operation, Result};
use crate::types::object::Object;
use crate::upload::session::Upload;
use crate::upload::source::journal::JournalRanges;

/// Links the journal and its session.
pub(super) struct Link {
    pub(super) source: Arc<JournalRanges>,
    pub(super) feed: watch::Receiver<Feed>,
    /// How many acknowledged bytes the journal keeps.
    pub(super) keep: u64,
    /// Whether the journal's disk takes records, and gives space back.
    disk: DiskFailures,
    /// The id of the open session.
    pub(super) session: Option<String>,
    /// Whether a record may name the session, so that another process may resume it.
    pub(super) on_record: bool,
    pub(super) sessions: Sessions,
    /// When the upload was begun, in seconds since 1970.
    pub(super) created: u64,
    /// Whether to ask if an earlier process has published the object, because its producer had finished.
    resumed: bool,
    /// Whether another writer's object came after the upload was begun.
    pub(super) rival: bool,
}

/// The failures of the journal's disk.
#[derive(Default)]
struct DiskFailures {
    /// A record could not be written, or a sync has failed: no more records are written.
    failed: bool,
    /// The disk can't punch holes, so no space is given back.
    keeps_all: bool,
}

impl Link {
    pub(super) fn new(source: Arc<JournalRanges>, keep: u64, session: Option<String>, created: u64) -> Self {
        let resumed = source.upload.persistence().may_be_published();
        let feed = source.feed.clone();
        Self {
            source,
            feed,
            keep,
            disk: DiskFailures::default(),
            session,
            on_record: true,
            sessions: Sessions::default(),
            created,
            resumed,
            rival: false,
        }
    }

    /// Opens a session, unless one is open.
    pub(super) async fn open(&mut self) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        // An earlier process whose disk failed may have had a session that no record names.
        self.check_rival(Operation::Open)?;
        let id = self.source.open().await?;
        let source = self.source.clone();
        let kind = if source.upload.appends() { SessionKind::Append } else { SessionKind::Parts };
        let opened = JournaledSession { kind, id: id.clone() };
        // A record whose write fails may still be found in part; after a failed sync no record is begun.
        self.on_record = self.journal().failure().is_none();
        let write = || source.journal.session(opened.clone());
        let progress = &source.upload.requests.progress;
        match source.disk.patiently(progress, source.patience, write).await {
            Ok(()) => {}
            // Later records would be taken for another session's.
            Err(error @ (JournalError::Lost { .. } | JournalError::Io { .. })) => self.fails(&error),
            Err(error) => {
                // Nobody would know of the session.
                let _ = self.upload().abort_session().await;
                return Err(self.source.failed(error));
            }
        }
        self.session = Some(id);
        Ok(())
    }

    /// The object, where an earlier process has published it. Asks once, when the whole object is known.
    pub(super) async fn was_published(&mut self) -> Result<Option<Object>> {
        let finish = self.feed.borrow().finish;
        let Some(checksum) = finish.filter(|_| self.resumed) else { return Ok(None) };
        self.resumed = false;
        self.published_before(checksum).await
    }

    /// Takes in that the session is open: no earlier process has published the object by it.
    pub(super) fn is_unpublished(&mut self) {
        self.resumed = false;
    }

    /// Writes the whole object in one request.
    pub(super) async fn put(&self, size: u64) -> Result<Object> {
        self.check_rival(Operation::Put)?;
        let object = self.source.put(size).await?;
        if self.session.is_some() {
            // The session of an object that was longer before a loss of power.
            let _ = self.upload().abort_session().await;
        }
        Ok(object)
    }

    /// Waits for a change on the producer's side.
    pub(super) async fn news(&mut self) -> Result<()> {
        self.feed.changed().await.map_err(|_| self.source.left_alone())
    }

    /// Whether the store tells how much of the session it has.
    pub(super) fn tells_position(&self) -> bool {
        let upload = self.upload();
        let (Some(append), Some(id)) = (upload.backend.appending(), &self.session) else { return true };
        append.tells_position(&Session { key: upload.key.clone(), id: id.clone() })
    }

    /// Whether records are still written to the journal.
    pub(super) fn takes_records(&self) -> bool {
        !self.disk.failed
    }

    /// Takes in whether a record was written. Bytes whose record can't be written are sent again after a
    /// resume.
    pub(super) fn written_down(&mut self, written: Result<(), JournalError>) -> Result<()> {
        match written {
            Ok(()) | Err(JournalError::Full { .. }) => Ok(()),
            Err(error @ (JournalError::Lost { .. } | JournalError::Io { .. })) => {
                self.fails(&error);
                Ok(())
            }
            Err(error) => Err(self.source.failed(error)),
        }
    }

    /// Stops writing records. The upload continues, because bytes that can be read can be sent.
    fn fails(&mut self, error: &JournalError) {
        warn!(%error, "the upload goes on, and nothing of it is written down any more");
        self.disk.failed = true;
    }

    /// Gives back the space of the bytes that are recorded as acknowledged, where that is at least `keep`
    /// bytes.
    pub(super) async fn give_back(&mut self, keep: u64) -> Result<(), JournalError> {
        // All bytes are sent again if the session is lost. That happens with any request to a store that does not tell
        // the position, and with any other write of the key on a store that aborts no sessions (Azure Blob Storage).
        let may_need_all = !self.tells_position() || !self.upload().backend.capabilities().aborts;
        if keep == u64::MAX || self.disk.keeps_all || may_need_all {
            return Ok(());
        }
        match self.journal().give_back(keep).await {
            Ok(0) => {}
            Ok(bytes) => {
                debug!(object = self.upload().requests.object, bytes, "gave space of the journal back");
                self.source.disk.has_room();
            }
            Err(error @ JournalError::Lost { .. }) => return Err(error),
            Err(error) => {
                let is_unsupported = |source: &io::Error| source.kind() == io::ErrorKind::Unsupported;
                self.disk.keeps_all =
                    matches!(&error, JournalError::Io { source, .. } if is_unsupported(source));
                debug!(%error, "space of the journal is not given back");
            }
        }
        Ok(())
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.source.journal
    }

    pub(super) fn upload(&self) -> &Arc<Upload> {
        &self.source.upload
    }
}
