//! What both senders have: the session, and a journal whose disk may fail them.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;
use tracing::{debug, warn};

use super::lost::Sessions;
use crate::engine::journaling::Feed;
use crate::journal::{Journal, JournalError, Session, SessionKind};
use crate::types::error::{Operation, Result};
use crate::types::object::Object;
use crate::upload::journal::source::Source;
use crate::upload::state::Upload;

/// Between the journal and its session.
pub(super) struct Link {
    pub(super) source: Arc<Source>,
    pub(super) feed: watch::Receiver<Feed>,
    /// How many bytes that are acknowledged are kept.
    pub(super) keep: u64,
    /// Whether the journal's disk takes records, and gives space back.
    disk: Disk,
    /// The session that is open.
    pub(super) session: Option<String>,
    /// Whether a record may name it, so that somebody may go on with it.
    pub(super) on_record: bool,
    pub(super) sessions: Sessions,
    /// When the upload was begun, in seconds since 1970.
    pub(super) created: u64,
    /// Whether it is to be asked if an earlier process has published the object: its producer had finished.
    resumed: bool,
    /// An object that is not ours came after the upload was begun.
    pub(super) rival: bool,
}

/// What the disk under the journal turned out not to do.
#[derive(Default)]
struct Disk {
    /// A record could not be written, or a sync has failed: nothing is written down any more.
    failed: bool,
    /// It punches no holes.
    keeps_all: bool,
}

impl Link {
    pub(super) fn new(source: Arc<Source>, keep: u64, session: Option<String>, created: u64) -> Self {
        let resumed = source.upload.may_be_published;
        let feed = source.feed.clone();
        Self {
            source,
            feed,
            keep,
            disk: Disk::default(),
            session,
            on_record: true,
            sessions: Sessions::default(),
            created,
            resumed,
            rival: false,
        }
    }

    /// Opens a session, where there is none.
    pub(super) async fn open(&mut self, kind: SessionKind) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        // An earlier process whose disk failed may have had one that no record names.
        self.check_rival(Operation::Open)?;
        let id = self.source.open().await?;
        let source = self.source.clone();
        let opened = Session { kind, id: id.clone() };
        // Of a record that fails some may be found all the same; none is begun behind a sync that has failed.
        self.on_record = self.journal().failure().is_none();
        let write = || source.journal.session(opened.clone());
        let progress = &source.upload.requests.progress;
        match source.disk.patiently(progress, source.patience, write).await {
            Ok(()) => {}
            // What followed would be taken for another session's.
            Err(error @ (JournalError::Lost { .. } | JournalError::Io { .. })) => self.fails(&error),
            Err(error) => {
                // Nobody would know of it.
                let _ = self.upload().abort_session().await;
                return Err(self.source.failed(error));
            }
        }
        self.session = Some(id);
        Ok(())
    }

    /// The object, where an earlier process has published it: asked once, when all is known of it.
    pub(super) async fn was_published(&mut self) -> Result<Option<Object>> {
        let finish = self.feed.borrow().finish;
        let Some(checksum) = finish.filter(|_| self.resumed) else { return Ok(None) };
        self.resumed = false;
        self.published_before(checksum).await
    }

    /// The session is open: no earlier process has published the object by it.
    pub(super) fn is_unpublished(&mut self) {
        self.resumed = false;
    }

    /// Writes the whole object in one request.
    pub(super) async fn put(&self, size: u64) -> Result<Object> {
        self.check_rival(Operation::Put)?;
        let object = self.source.put(size).await?;
        if self.session.is_some() {
            // Of an object that was longer before a loss of power.
            let _ = self.upload().abort_session().await;
        }
        Ok(object)
    }

    /// Waits for news of the producer's side.
    pub(super) async fn news(&mut self) -> Result<()> {
        self.feed.changed().await.map_err(|_| self.source.left_alone())
    }

    /// Whether records are written down yet.
    pub(super) fn takes_records(&self) -> bool {
        !self.disk.failed
    }

    /// Takes in whether something was written down. What can't be is sent again by whoever resumes.
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

    /// What can be read can be sent.
    fn fails(&mut self, error: &JournalError) {
        warn!(%error, "the upload goes on, and nothing of it is written down any more");
        self.disk.failed = true;
    }

    /// Gives back the space of what is written down as acknowledged, where that is at least `keep` bytes.
    pub(super) async fn give_back(&mut self, keep: u64) -> Result<(), JournalError> {
        if keep == u64::MAX || self.disk.keeps_all {
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
