//! Reserves disk space after the end of the log, so that a full disk can be relieved.
//!
//! Giving space back on a full disk takes space itself: the state must be written again first, with all that the
//! store has acknowledged. So object bytes are only appended if there is space for that after them: the reserve,
//! which only records and marks use. It is not part of the file's length.

use std::io;

use super::error::{JournalError, is_full};
use super::format::{ALIGN, BLOCK, DATA_LIMIT, HEADER};
use super::log::{Log, Tail};
use super::record::Record;

/// Reserved besides checkpoints: for the records of some fifty parts, and the marks of their syncs.
const RESERVE: u64 = 16 << 10;
/// Reserved for the last record, which says how the upload ended.
const LAST: u64 = BLOCK as u64;
/// Most that is reserved beyond the reserve itself, so that not every append has to allocate.
const AHEAD: u64 = 1 << 20;

/// The writer's knowledge of the reserve.
#[derive(Debug)]
pub(super) struct Reserve {
    /// There is space for everything below this offset of the file.
    pub(super) to: u64,
    /// About how many bytes a checkpoint has.
    pub(super) checkpoint: u64,
    /// Whether the file system can reserve space.
    pub(super) can: bool,
}

impl Tail {
    /// Bytes after the end that object bytes leave free: for records, and for two checkpoints, in case somebody
    /// else takes the space that the first one gave back.
    fn reserved(&self) -> u64 {
        RESERVE + LAST + 2 * self.cost()
    }

    /// Bytes that giving space back takes.
    fn cost(&self) -> u64 {
        // With a mark before the checkpoint and one after it.
        self.reserve.checkpoint + 4 * HEADER as u64
    }

    /// From this many bytes on, giving space back is worth its cost.
    pub(super) fn worth(&self) -> u64 {
        2 * self.cost()
    }
}

impl Log {
    /// Reserves space for so many bytes of the object, and for the reserve after them.
    pub(super) fn room_for_bytes(&self, tail: &mut Tail, bytes: u64) -> io::Result<()> {
        let frames = bytes.div_ceil(DATA_LIMIT as u64);
        self.set_aside(tail, bytes + frames * (HEADER as u64 + ALIGN))
    }

    /// Reserves space for a record. If the disk is full, the record takes its space from the reserve, as long as it
    /// leaves what more important records need.
    pub(super) fn room_for_record(&self, tail: &mut Tail, record: &Record, bytes: u64) -> io::Result<()> {
        let bytes = bytes + HEADER as u64 + ALIGN;
        let Err(error) = self.set_aside(tail, bytes) else { return Ok(()) };
        let leaves = match record {
            Record::End(_) => 0,
            Record::Checkpoint(_) => LAST,
            _ => LAST + tail.cost(),
        };
        if tail.end.file + bytes + leaves <= tail.reserve.to { Ok(()) } else { Err(error) }
    }

    /// Renews the reserve if it was used or cut off, and if there is space.
    pub(super) fn refill(&self, tail: &mut Tail) {
        // The next append of object bytes reports the error.
        let _ = self.set_aside(tail, 0);
    }

    fn set_aside(&self, tail: &mut Tail, bytes: u64) -> io::Result<()> {
        let end = tail.end.file;
        let needed = end + bytes + tail.reserved();
        if !tail.reserve.can || needed <= tail.reserve.to {
            return Ok(());
        }
        let ahead = RESERVE + (end.saturating_sub(tail.slot.first.file) / 8).min(AHEAD);
        let mut done = Ok(());
        for to in [needed + ahead, needed] {
            done = self.file.allocate(tail.reserve.to.max(end)..to);
            if done.is_ok() {
                tail.reserve.to = to;
                return Ok(());
            }
        }
        match done {
            Err(error) if is_full(&error) => Err(error),
            Err(error) => {
                // Not every file system can reserve space. A full disk is then noticed when it is written to.
                tracing::debug!(path = %self.path.display(), %error, "space can't be set aside for a journal");
                tail.reserve.can = error.kind() != io::ErrorKind::Unsupported;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Reserves the space of a new log.
    pub(super) fn first_reserve(&self) -> Result<(), JournalError> {
        let mut tail = self.tail();
        self.set_aside(&mut tail, 0)
            .map_err(|error| JournalError::io(&self.path, "setting space aside", error))
    }
}
