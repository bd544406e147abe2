//! Making a journal durable, group by group, and what it means where that fails.

use std::io;
use std::sync::MutexGuard;

use super::error::{JournalError, is_full};
use super::format::Kind;
use super::log::{Failed, Log, Tail, View};

impl Log {
    /// Makes everything that was appended before durable, and returns how many bytes of the object are.
    /// Once it has failed, it fails for good: the system forgets what it could not write.
    pub(super) fn sync(&self) -> Result<u64, JournalError> {
        let asked = {
            let view = self.view();
            if view.failed.is_none() && view.synced.file >= view.content.file {
                return Ok(view.synced.object);
            }
            view.content.file
        };
        let _turn = self.turn();
        self.sync_to(asked)
    }

    /// For whoever has the turn.
    pub(super) fn sync_to(&self, asked: u64) -> Result<u64, JournalError> {
        self.check_failed()?;
        let content = {
            let view = self.view();
            if view.synced.file >= asked {
                return Ok(view.synced.object);
            }
            view.content
        };
        self.file.sync().map_err(|error| self.fail(&error))?;
        self.view().synced = content;
        self.mark();
        Ok(content.object)
    }

    /// Writes down how far the log is durable, for whoever finds a bad frame below that. As good as
    /// nothing is lost where it can't be written, so it is not synced, and no error.
    fn mark(&self) {
        let mut tail = self.tail();
        if tail.unfenced {
            return;
        }
        let before = tail.before();
        if self.put(&mut tail, Kind::Mark, &[]).is_ok() {
            self.view().end = tail.end;
        } else {
            self.take_back(&mut tail, before);
        }
    }

    /// The tail, where a frame can be appended.
    pub(super) fn fenced(&self) -> Result<MutexGuard<'_, Tail>, JournalError> {
        self.check_failed()?;
        let tail = self.tail();
        if !tail.unfenced {
            return Ok(tail);
        }
        drop(tail);
        let _turn = self.turn();
        let mut tail = self.tail();
        self.fence(&mut tail)?;
        Ok(tail)
    }

    /// For whoever has the turn: sees to it that nothing else follows on the log's last frame.
    pub(super) fn fence(&self, tail: &mut Tail) -> Result<(), JournalError> {
        if !tail.unfenced {
            return Ok(());
        }
        self.check_failed()?;
        let before = tail.before();
        // A mark as no other, so that nothing on the disk follows on it either.
        let written = self.put(tail, Kind::Mark, &[&fastrand::u64(..).to_le_bytes()]);
        self.settle(tail, before, written)?;
        let content = self.view().content;
        self.file.sync().map_err(|error| self.fail(&error))?;
        self.view().synced = content;
        tail.unfenced = false;
        Ok(())
    }

    /// What follows in the file was cut off: see [`fence`](Self::fence). That the cut was synced is not
    /// relied on: `fdatasync` need not keep a length that became smaller (fdatasync(2)). A disk that is
    /// full is none the worse for it, until something is appended.
    pub(super) fn begin(&self) -> Result<(), JournalError> {
        let _turn = self.turn();
        let mut tail = self.tail();
        tail.unfenced = true;
        match self.fence(&mut tail) {
            Err(JournalError::Full { .. }) => Ok(()),
            fenced => fenced,
        }
    }

    pub(super) fn check_failed(&self) -> Result<(), JournalError> {
        let view = self.view();
        match &view.failed {
            Some(failed) => Err(self.lost(&view, failed)),
            None => Ok(()),
        }
    }

    pub(super) fn fail(&self, error: &io::Error) -> JournalError {
        let mut view = self.view();
        let failed =
            view.failed.insert(Failed { reason: error.to_string(), is_full: is_full(error) }).clone();
        self.lost(&view, &failed)
    }

    pub(super) fn lost(&self, view: &View, failed: &Failed) -> JournalError {
        let (path, Failed { reason, is_full }) = (self.path.clone(), failed.clone());
        JournalError::Lost { path, durable: view.synced.object, reason, is_full }
    }
}
