//! A journal that is new.

use std::path::Path;

use super::{Journal, directory};

/// A new journal, which is removed where this is dropped and not [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct Begun {
    /// Dropped first: the journal is locked until its file is gone.
    pub(super) file: directory::Begun,
    pub(super) journal: Journal,
}

impl Begun {
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.journal.path()
    }

    pub(crate) fn keep(self) -> Journal {
        self.file.keep();
        self.journal
    }
}
