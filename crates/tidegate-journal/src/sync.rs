//! Makes a journal durable, group by group, and handles a failed sync.

use std::io;
use std::sync::MutexGuard;

use super::error::{JournalError, is_full};
use super::format::FrameKind;
use super::log::{Failed, Log, Tail, View};

impl Log {
    /// Makes everything that was appended before durable, and returns how many bytes of the object that is. After
    /// one failure, every later call fails too: the system forgets which bytes it could not write.
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

    /// As `sync`, for a caller that holds the turn. Does nothing if everything below `asked` is durable.
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

    /// Appends a mark that says how far the log is durable, so that a bad frame below that is recognized as damage.
    /// Little is lost without the mark, so it is not synced, and a failure is not an error.
    fn mark(&self) {
        let mut tail = self.tail();
        if tail.unfenced {
            return;
        }
        let before = tail.before();
        if self.put(&mut tail, FrameKind::Mark, &[]).is_ok() {
            self.view().end = tail.end;
        } else {
            self.take_back(&mut tail, before);
        }
    }

    /// Returns the tail, fenced, so that a frame can be appended.
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

    /// For a caller that holds the turn: makes sure that no other frame on the disk continues the log's last frame.
    pub(super) fn fence(&self, tail: &mut Tail) -> Result<(), JournalError> {
        if !tail.unfenced {
            return Ok(());
        }
        self.check_failed()?;
        let before = tail.before();
        // A mark with random bytes, so that no frame on the disk continues it either.
        let written = self.put(tail, FrameKind::Mark, &[&fastrand::u64(..).to_le_bytes()]);
        self.settle(tail, before, written)?;
        let content = self.view().content;
        self.file.sync().map_err(|error| self.fail(&error))?;
        self.view().synced = content;
        tail.unfenced = false;
        Ok(())
    }

    /// Fences a log after its torn tail was cut off: see [`fence`](Self::fence). A sync of the cut is not relied
    /// on: `fdatasync` need not keep a length that became smaller (fdatasync(2)). A full disk is not an error until
    /// something is appended.
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
