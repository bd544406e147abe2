//! Disk space that is set aside behind the end of the log.
//!
//! To give space back on a full disk, what the store has acknowledged must be written down first. So
//! object bytes are only appended where, behind them, there is space for that: the reserve, which only
//! records and marks use. The file's length does not tell of it.

use std::io;

use super::error::{JournalError, is_full};
use super::format::{ALIGN, BLOCK, DATA_LIMIT, HEADER};
use super::log::{Log, Tail};
use super::record::Record;

/// Beside checkpoints: some fifty parts and their syncs' marks.
const RESERVE: u64 = 16 << 10;
/// What only the last record may use, which is of an upload that is over.
const LAST: u64 = BLOCK as u64;
/// Most that is set aside beyond the reserve, so that not each append has to.
const AHEAD: u64 = 1 << 20;

/// What a writer knows of it.
#[derive(Debug)]
pub(super) struct Reserve {
    /// There is space for all below this offset of the file.
    pub(super) to: u64,
    /// About as many bytes as a checkpoint has.
    pub(super) checkpoint: u64,
    /// Whether the file system can set space aside.
    pub(super) can: bool,
}

impl Tail {
    /// Bytes behind the end that object bytes leave free: for records, and for a checkpoint, twice in case
    /// that somebody else takes the space that the first one gave back.
    fn reserved(&self) -> u64 {
        RESERVE + LAST + 2 * self.cost()
    }

    /// Bytes that giving space back takes.
    fn cost(&self) -> u64 {
        // With a mark before and behind it.
        self.reserve.checkpoint + 4 * HEADER as u64
    }

    /// Bytes from which on giving space back gives more than it takes.
    pub(super) fn worth(&self) -> u64 {
        2 * self.cost()
    }
}

impl Log {
    /// Sees to it that there is space for so many bytes of the object, and for the reserve behind them.
    pub(super) fn room_for_bytes(&self, tail: &mut Tail, bytes: u64) -> io::Result<()> {
        let frames = bytes.div_ceil(DATA_LIMIT as u64);
        self.set_aside(tail, bytes + frames * (HEADER as u64 + ALIGN))
    }

    /// Sees to it that a record leaves what more important ones need. Where no space is left, it is taken
    /// from the reserve.
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

    /// The reserve once more, where it was used or cut off and there is space.
    pub(super) fn refill(&self, tail: &mut Tail) {
        // Whoever appends object bytes is told.
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
                // Not every file system can; then a full disk is found when it is written to.
                tracing::debug!(path = %self.path.display(), %error, "space can't be set aside for a journal");
                tail.reserve.can = error.kind() != io::ErrorKind::Unsupported;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Makes a new log's reserve.
    pub(super) fn first_reserve(&self) -> Result<(), JournalError> {
        let mut tail = self.tail();
        self.set_aside(&mut tail, 0)
            .map_err(|error| JournalError::io(&self.path, "setting space aside", error))
    }
}
