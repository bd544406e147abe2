//! A new journal.

use std::path::Path;

use super::{InUse, Journal, directory};

/// A new journal, removed when this is dropped without being [kept](Self::keep).
#[derive(Debug)]
pub struct NewJournal {
    /// Dropped first: the journal stays locked until its file is removed.
    pub(super) file: directory::NewJournalFile,
    pub(super) journal: Journal,
}

impl NewJournal {
    /// The file.
    pub fn path(&self) -> &Path {
        self.journal.path()
    }

    /// Marks the journal as in use.
    pub async fn in_use(&self) -> InUse {
        InUse::mark(&self.journal).await
    }

    /// Keeps the journal, whose file is otherwise removed when this is dropped.
    pub fn keep(self) -> Journal {
        self.file.keep();
        self.journal
    }
}
