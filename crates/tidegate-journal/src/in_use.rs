//! Who has a locked journal: a writer that still uses it, or only the last operations of one that was dropped.
//!
//! Both hold the lock. The mark says which it is to every engine of every process, because it is on the file. It is
//! cleared in `drop`, before anybody could try to resume the upload, and that waits for no disk.

use std::path::Path;
use std::sync::{Arc, Weak};

use super::{Journal, JournalShared};
use tidegate_core::types::locked_file::is_marked;
use tidegate_core::types::spawn_blocking::spawn_blocking;
use tidegate_core::types::trusted_file;
use tidegate_core::types::trusted_file::{Access, TrustedOwners};

/// Marks a journal as in use by a writer or a claim, until dropped.
#[derive(Debug)]
pub struct InUse(Weak<JournalShared>);

impl InUse {
    /// Marks the journal. On a file system without such marks the journal looks dropped: a resume then waits for its lock
    /// before it fails with [`JournalError::InUse`](super::JournalError::InUse).
    pub async fn mark(journal: &Journal) -> Self {
        let shared = journal.shared.clone();
        spawn_blocking(move || {
            if let Err(error) = shared.log.file.set_in_use(true) {
                tracing::debug!(path = %shared.log.path.display(), %error, "a journal can't be marked as in use");
            }
            Self(Arc::downgrade(&shared))
        })
        .await
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Without the journal the file is closed, and the mark is gone with it.
        if let Some(shared) = self.0.upgrade() {
            // It fails where there was no mark.
            let _ = shared.log.file.set_in_use(false);
        }
    }
}

/// Whether a writer or a claim uses the journal at `path`, as far as its file system tells. Blocks.
pub fn is_in_use(path: &Path, owners: &TrustedOwners) -> bool {
    trusted_file::open(path, Access::Read, owners).and_then(|file| is_marked(&file)).unwrap_or(false)
}
