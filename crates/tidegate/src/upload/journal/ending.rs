//! How a journaled upload ends without being published: it is aborted, or its writer is gone and the journal
//! stays.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use super::Journaled;
use crate::journal::{End, Journal, JournalError, JournaledSession, SessionKind};
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::driver::WriterState;
use crate::upload::session::{Upload, within};
use crate::upload::settle::There;
use crate::upload::source::journal::failed;

/// How long a journal may be held open by connections that are being closed.
const CLOSING: Duration = Duration::from_secs(10);

/// How long to wait for a session that is being opened when its writer is gone: longer than a store that
/// answers takes, and shorter than a store that is down.
const OPENING: Duration = Duration::from_secs(3);

/// How long parts in flight may take to be acknowledged once their writer is gone. A process that was asked
/// to end has two seconds in all.
const DRAINING: Duration = Duration::from_secs(1);

/// How long to wait for a write to the journal once its writer is gone.
const ENDING: Duration = Duration::from_secs(1);

impl Journaled {
    /// Aborts the upload: ends its session and its journal.
    pub(in crate::upload) async fn abort(mut self) -> Result<()> {
        let upload = self.upload.clone();
        // In a task, as in `sync`.
        let ended = upload.runtime.spawn(async move { self.abort_now().await }).await;
        ended.unwrap_or_else(|ended| Err(upload.ended_early(None, ended)))
    }

    /// The same in the caller's task.
    pub(in crate::upload) async fn abort_now(&mut self) -> Result<()> {
        self.state = WriterState::Failed;
        self.stop().await;
        // After a cancelled `shutdown`, the store may have carried out the commit.
        let finish = self.appender.feed.borrow().finish;
        match end_upload(&self.upload, self.appender.journal.clone(), finish).await? {
            None => Ok(()),
            Some(_) => {
                let message = "the object was published before, and is there";
                Err(self.upload.error(ErrorKind::Closed, Operation::Abort, message))
            }
        }
    }

    /// Cancels the requests and the append that are under way, and waits until they have ended.
    async fn stop(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.abort();
            let _ = sending.await;
        }
        self.tracker.wait().await;
        end(self.appending.take(), None).await;
    }
}

/// Aborts an upload: ends its session and its journal. Returns the object where its producer had finished and
/// the object turns out to be published: it stays.
pub(super) async fn end_upload(
    upload: &Arc<Upload>,
    journal: Journal,
    finish: Option<Checksum>,
) -> Result<Option<Object>> {
    let state = journal.state().await.map_err(|error| failed(upload, error))?;
    if state.end.is_none() {
        upload.discard().await.map_err(|error| error.again())?;
    }
    let mut published = None;
    if let Some(checksum) = finish.filter(|_| state.end != Some(End::Aborted)) {
        // Asked now: a completion may have been under way until the abort.
        let since = since_1970(state.header.created);
        if let There::Ours(object) = upload.published(checksum, since).await? {
            published = Some(*object);
        }
    }
    let end = if published.is_some() { End::Completed } else { End::Aborted };
    journal.end(end).await.map_err(|error| failed(upload, error))?;
    Ok(published)
}

/// Lets an append end, but does not wait for a full disk; waits `longest` for the end of an append that it cancels.
async fn end(appending: Option<JoinHandle<Result<(), JournalError>>>, longest: Option<Duration>) {
    let Some(mut appending) = appending else { return };
    if timeout(ENDING, &mut appending).await.is_err() {
        appending.abort();
        let _ = within(longest, appending).await;
    }
}

/// Records a session that was being opened when its writer was dropped. Its request is not cancelled with the
/// writer, and without a record nobody would know of the session.
async fn write_down_session(upload: &Arc<Upload>, journal: &Journal) {
    if upload.lock().is_none() {
        return;
    }
    let session = match timeout(OPENING, upload.session()).await {
        Ok(Ok(session)) => session,
        Ok(Err(_)) => return,
        Err(_) => {
            // Somebody else may have the journal when the session is open.
            let late = upload.clone();
            let abort = async move {
                if let Err(error) = late.abort_session_beside().await {
                    warn!(%error, "a session that opened late could not be aborted; a sweep will find it");
                }
            };
            upload.aborts.spawn_late(abort, &upload.runtime);
            return;
        }
    };
    let known = journal.state().await.ok().and_then(|state| state.session);
    if known.is_some_and(|known| known.id == session.id) {
        return;
    }
    let kind = if upload.is_appended(&session) { SessionKind::Append } else { SessionKind::Parts };
    let opened = JournaledSession { kind, id: session.id };
    if journal.session(opened).await.is_err() {
        let _ = upload.abort_session().await;
    }
}

impl Drop for Journaled {
    fn drop(&mut self) {
        if matches!(self.state, WriterState::Published(_)) {
            return;
        }
        let (sending, appending) = (self.sending.take(), self.appending.take());
        let (tracker, upload) = (self.tracker.clone(), self.upload.clone());
        // No byte was ever taken: there is nothing to resume.
        let unused = matches!(self.state, WriterState::Open) && self.taken == 0;
        let journal = self.appender.journal.clone();
        let awaited = self.upload.aborts.awaited();
        let task = async move {
            let _awaited = awaited;
            // The runtime may stand still, perhaps in the very drop that waits for this task.
            let patience = upload.aborts.patience();
            end(appending, patience).await;
            // An appended session keeps what arrived, so only parts are worth a wait.
            let draining = if upload.appends() { Duration::ZERO } else { DRAINING };
            if let Some(mut sending) = sending
                && timeout(draining, &mut sending).await.is_err()
            {
                sending.abort();
                let _ = within(patience, sending).await;
            }
            within(patience, tracker.wait()).await;
            if !unused {
                write_down_session(&upload, &journal).await;
                // A caller that waits for this task can then resume the upload.
                let _ = timeout(CLOSING, journal.closed()).await;
                return Ok(());
            }
            if let Err(error) = journal.end(End::Aborted).await {
                warn!(%error, "an empty journal can't be removed");
            }
            upload.abort_session_beside().await.map(|_| ())
        };
        // If the runtime ends first, nothing is lost: the bytes are in the journal.
        drop(self.upload.aborts.spawn(task, None, &self.upload.runtime));
    }
}
