//! Resumes an upload that another process, or an earlier writer, has left in its journal.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::Journaled;
use super::ending::end_upload;
use super::intent::Intent;
use super::sender::Before;
use crate::engine::Context;
use crate::engine::journaling::{Feed, Journaling, live};
use crate::journal::{self, End, InUse, Journal, JournalError, Recovered, SessionKind};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;
use crate::types::spawn_blocking::spawn_blocking;
use crate::types::trusted_file::TrustedOwners;
use crate::upload::intake::Intake;
use crate::upload::session::{Persistence, Upload};
use crate::upload::source::journal::failed;
use crate::upload::writer::Writer;

/// An upload that was left, and that this process has claimed, from
/// [`LeftUpload::claim`](crate::recover::LeftUpload::claim): nobody adds to it until it is resumed. If this is dropped,
/// the upload is as it was.
pub struct ClaimedUpload {
    /// Dropped first, while the journal's file is open.
    in_use: InUse,
    context: Context,
    upload: Arc<Upload>,
    journal: Journal,
    recovered: Recovered,
    intent: Intent,
}

/// An upload that was resumed.
#[derive(Debug)]
pub enum Resumed {
    /// Its producer had not finished: this writer continues where the journal ends ([`Writer::position`]).
    Writer(Writer),
    /// Its producer had finished: the object is there now.
    Object(Object),
}

impl Resumed {
    /// The object, where the upload needed no producer.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Writer(_) => None,
        }
    }
}

impl ClaimedUpload {
    /// The contents of the journal.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The progress figures of the upload. Bytes that the store acknowledged to an earlier process count once
    /// [`resume`](Self::resume) has begun.
    pub fn progress(&self) -> Progress {
        self.upload.requests.progress.clone()
    }

    /// Opens the journal at `path`, which is of an upload to this store.
    pub(crate) async fn open(context: &Context, path: &Path, owners: &TrustedOwners) -> Result<Self> {
        context.engine().owner.check(Operation::Open, || path.display().to_string())?;
        let (context, journaling) = (context.root(), &context.engine().journaling);
        let resume = || Journal::resume(path, journaling.durability, owners);
        let resumed = live::past_dropped(path, owners, resume).await;
        let (journal, recovered) = resumed.map_err(|error| of(path, error))?;
        let in_use = InUse::mark(&journal).await;
        recovered.check(path).map_err(|error| of(path, error))?;
        let header = &recovered.state.header;
        let mut intent = Intent::of(header, context.backend())?;
        if recovered.state.session.as_ref().is_some_and(|session| session.kind == SessionKind::Append) {
            intent.goes_to_appended(context.backend());
        }
        intent.check_parts(&recovered, context.backend())?;
        let progress = context.engine().progress.part();
        let mut upload = Upload::new(&context, &header.key, intent.clone().into_options(), progress);
        upload.persists = match recovered.state.finish {
            Some(_) => Persistence::MayBePublished,
            None => Persistence::Resumable,
        };
        let upload = Arc::new(upload.into_session_of(intent.cut().into()));
        if let Some(session) = &recovered.state.session {
            if (session.kind == SessionKind::Append) != intent.cut().appends() {
                let message = "its journal has a session of another kind than it was begun for";
                return Err(upload.error(ErrorKind::Unsupported, Operation::Open, message));
            }
            upload.go_on_with(session.id.clone()).await;
        }
        Ok(Self { context, upload, journal, recovered, intent, in_use })
    }

    /// Resumes the upload. Where its producer had finished, publishes the object.
    ///
    /// # Errors
    /// Errors of [`LeftUpload::resume`](crate::recover::LeftUpload::resume).
    pub async fn resume(self) -> Result<Resumed> {
        let state = &self.recovered.state;
        if let Some(end) = state.end {
            return self.ended(end).await;
        }
        let (length, finish) = (self.recovered.checksum.covers(), state.finish);
        let progress = &self.upload.requests.progress;
        progress.accepted(length);
        progress.journaled(length);
        let in_parts = state.parts.values().map(|part| part.size).sum::<u64>();
        progress.acknowledged(in_parts.max(state.committed));
        progress.parts_stored(state.parts.len() as u64);
        let before = Before {
            stored: state.parts.clone(),
            committed: state.committed,
            length,
            session: state.session.as_ref().map(|session| session.id.clone()),
            created: state.header.created,
        };
        let engine = self.context.engine().clone();
        let disk = engine.journaling.disk(self.journal.path()).await;
        let mut journaled = Journaled::new(
            self.upload.clone(),
            self.journal,
            self.in_use,
            disk,
            self.intent.cut(),
            engine.parts_in_flight,
            engine.budget.clone(),
            &engine.journaling,
            Feed { length, finish, full: false },
            before,
        );
        if finish.is_some() {
            let object = std::future::poll_fn(|cx| journaled.poll_finish(cx)).await?;
            return Ok(Resumed::Object(object));
        }
        Ok(Resumed::Writer(Writer::journaled(journaled, engine)))
    }

    /// Aborts the session and removes the journal. Returns the object where it turns out to be published: it
    /// stays.
    ///
    /// # Errors
    /// Those of the store; the journal stays then
    /// ([`LeftUpload::forget`](crate::recover::LeftUpload::forget) removes it even so).
    pub async fn abort(self) -> Result<Option<Object>> {
        let finish = self.recovered.state.finish;
        end_upload(&self.upload, self.journal, finish).await
    }

    /// Handles an upload that had ended, but whose journal was not removed.
    async fn ended(self, end: End) -> Result<Resumed> {
        self.journal.end(end).await.map_err(|error| failed(&self.upload, error))?;
        match end {
            End::Completed => {
                let object = self.context.head(&self.recovered.state.header.key).await?;
                Ok(Resumed::Object(object))
            }
            End::Aborted => {
                let message = "it was aborted before";
                Err(self.upload.error(ErrorKind::Closed, Operation::Write, message))
            }
        }
    }
}

/// Removes the journal at `path`, without a request to its store.
pub(crate) async fn forget(path: &Path, journaling: &Journaling, owners: &TrustedOwners) -> Result<()> {
    let resume = || Journal::resume(path, journaling.durability, owners);
    let ended = match live::past_dropped(path, owners, resume).await {
        Ok((journal, _)) => journal.end(End::Aborted).await,
        // This version can't add a record of the end to such a journal.
        Err(JournalError::Damaged { .. } | JournalError::Newer { .. } | JournalError::Other { .. }) => {
            let (file, owners) = (path.to_owned(), owners.clone());
            spawn_blocking(move || journal::discard(&file, &owners)).await
        }
        Err(error) => Err(error),
    };
    ended.map_err(|error| of(path, error))
}

impl fmt::Debug for ClaimedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedUpload").field("recovered", &self.recovered).finish_non_exhaustive()
    }
}

fn of(path: &Path, error: JournalError) -> Error {
    let object = path.display().to_string();
    Error::new(error.kind(), Operation::Write, object, error.to_string()).with_source(error)
}
