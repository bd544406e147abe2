//! Going on with an upload that another process, or an earlier writer, has left in its journal.

use std::path::Path;
use std::sync::Arc;

use super::append::Feed;
use super::intent::Intent;
use super::sender::Before;
use super::{Journaled, failed};
use crate::client::Store;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::journal::{End, Journal, JournalError, Recovered, SessionKind};
use crate::object::Object;
use crate::recover::Resumed;
use crate::write::taking::Taking;
use crate::write::upload::{Tasks, Upload};
use crate::write::writer::Writer;

/// An upload that was left, opened: nobody else has it.
pub(crate) struct Left {
    store: Store,
    upload: Arc<Upload>,
    journal: Journal,
    recovered: Recovered,
    intent: Intent,
}

impl Left {
    /// Opens the journal at `path`, which is of an upload to this store.
    pub(crate) async fn open(store: &Store, path: &Path) -> Result<Self> {
        let (store, journaling) = (store.root(), &store.engine().journaling);
        let (journal, recovered) =
            Journal::resume(path, journaling.durability).await.map_err(|error| of(path, error))?;
        let header = &recovered.state.header;
        let intent = Intent::of(header, store.backend())?;
        let progress = store.engine().progress.part();
        let mut upload = Upload::new(&store, &header.key, intent.clone().into_options(), progress);
        upload.is_journaled = true;
        upload.may_be_published = recovered.state.finish.is_some();
        let upload = Arc::new(upload);
        if let Some(session) = &recovered.state.session {
            if session.kind != SessionKind::Parts {
                let message =
                    "its journal has a session that takes bytes at its end only, which this version can't";
                return Err(upload.error(ErrorKind::Unsupported, Operation::Open, message));
            }
            upload.go_on_with(session.id.clone()).await;
        }
        Ok(Self { store, upload, journal, recovered, intent })
    }

    /// Goes on with it: to its end, where its producer had finished.
    pub(crate) async fn resume(self) -> Result<Resumed> {
        let state = &self.recovered.state;
        if let Some(end) = state.end {
            return self.ended(end).await;
        }
        let (length, finish) = (self.recovered.checksum.covers(), state.finish);
        let progress = &self.upload.requests.progress;
        progress.accepted(length);
        progress.journaled(length);
        progress.acknowledged(state.parts.values().map(|part| part.size).sum());
        let before = Before {
            stored: state.parts.clone(),
            session: state.session.as_ref().map(|session| session.id.clone()),
            given_back: self.recovered.first > 0,
            created: state.header.created,
            resumed: finish.is_some(),
        };
        let engine = self.store.engine().clone();
        let disk = engine.journaling.disk(self.journal.path()).await;
        let mut journaled = Journaled::new(
            self.upload.clone(),
            self.journal,
            disk,
            self.intent.schedule,
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
        Ok(Resumed::Writer(Writer::journaled(journaled)))
    }

    /// Ends its session and removes its journal.
    pub(crate) async fn abort(self) -> Result<()> {
        if self.recovered.state.end.is_none() {
            self.upload.abort(Tasks::new()).await?;
        }
        self.journal.end(End::Aborted).await.map_err(|error| failed(&self.upload, error))
    }

    /// It had ended, and its file was not removed.
    async fn ended(self, end: End) -> Result<Resumed> {
        self.journal.end(end).await.map_err(|error| failed(&self.upload, error))?;
        match end {
            End::Completed => {
                let object = self.store.head(&self.recovered.state.header.key).await?;
                Ok(Resumed::Object(object))
            }
            End::Aborted => {
                let message = "it was aborted before";
                Err(self.upload.error(ErrorKind::Closed, Operation::Write, message))
            }
        }
    }
}

/// What was published before comes without its producer.
impl Resumed {
    /// The object, where the upload needed no producer.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Writer(_) => None,
        }
    }
}

fn of(path: &Path, error: JournalError) -> Error {
    let object = path.display().to_string();
    Error::new(error.kind(), Operation::Write, object, error.to_string()).with_source(error)
}
