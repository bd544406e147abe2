//! A new journal.

use std::path::Path;

use super::{Journal, directory};

/// A new journal, removed when this is dropped without being [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct NewJournal {
    /// Dropped first: the journal stays locked until its file is removed.
    pub(super) file: directory::NewJournalFile,
    pub(super) journal: Journal,
}

impl NewJournal {
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.journal.path()
    }

    pub(crate) fn keep(self) -> Journal {
        self.file.keep();
        self.journal
    }
}
