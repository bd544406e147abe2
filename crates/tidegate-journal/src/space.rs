//! Gives back the disk space of bytes that the store has acknowledged.

use std::io;

use super::disk::read_full;
use super::error::JournalError;
use super::format::{BLOCK, FrameKind, FramePosition, HEAD, SLOTS, Slot, ZEROS};
use super::log::Log;
use super::read::ReadWindow;
use super::record::Record;
use super::walk::FrameWalk;

impl Log {
    /// Gives back the space of the bytes that the session has acknowledged, if that is at least `least` bytes and
    /// worth its cost, and returns how many bytes of the file it was. A failure can lose space, but no bytes.
    pub(super) fn give_back(&self, least: u64) -> Result<u64, JournalError> {
        self.check_failed()?;
        if !self.may_give_back(least) {
            return Ok(0);
        }
        let _turn = self.turn();
        self.check_failed()?;
        let (committed, punched, worth) = {
            let tail = self.tail();
            (tail.state.committed, tail.punched, tail.worth())
        };
        let first = self.frame_of(committed)?;
        let punchable = block(first.file);
        if punchable.saturating_sub(punched) < least.max(worth) || !self.punches()? {
            return Ok(0);
        }
        // The range to punch contains records. So all records are written again and synced first; then the log's
        // new beginning is written and synced; only then is the range punched.
        let (checkpoint, behind) = {
            let mut tail = self.tail();
            self.fence(&mut tail)?;
            let state = Box::new(tail.state.clone());
            (self.write_record(&mut tail, Record::Checkpoint(state))?, tail.end.file)
        };
        self.sync_to(behind)?;
        let sequence = {
            let mut tail = self.tail();
            // If the session was replaced meanwhile, the new one has acknowledged nothing.
            if tail.state.committed < committed {
                return Ok(0);
            }
            tail.given_back = tail.given_back.max(first.object);
            tail.slot.sequence + 1
        };
        let slot = Slot { sequence, first, checkpoint, synced: behind };
        self.write_slot(&slot, sequence)?;
        self.file.sync().map_err(|error| self.fail(&error))?;
        self.tail().slot = slot;
        {
            let mut view = self.view();
            view.first = first;
            view.index.begin(first);
        }
        self.punch(punched, punchable)?;
        // At once, before somebody else takes the space.
        self.refill(&mut self.tail());
        // A second copy, in case a sector goes bad. It is durable only after the next sync, and not required.
        let _ = self.write_slot(&slot, sequence + 1);
        Ok(punchable - punched)
    }

    /// A quick check whether enough space can be given back. Usually it can't, and the caller should not wait for a
    /// sync to find that out.
    fn may_give_back(&self, least: u64) -> bool {
        let (committed, punched, worth) = {
            let tail = self.tail();
            (tail.state.committed, tail.punched, tail.worth())
        };
        let view = self.view();
        let at_most = view.index.behind(committed).unwrap_or(view.end).file;
        block(at_most).saturating_sub(punched) >= least.max(worth)
    }

    /// Whether the file system can punch holes; if it can't, giving back must not begin.
    fn punches(&self) -> Result<bool, JournalError> {
        if let Some(known) = self.tail().punches {
            return Ok(known);
        }
        let punches = match self.file.punch(ZEROS) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::debug!(path = %self.path.display(), "no space of a journal can be given back there");
                false
            }
            Err(error) => return Err(JournalError::io(&self.path, "giving space back", error)),
        };
        self.tail().punches = Some(punches);
        Ok(punches)
    }

    /// Punches `from..to`, and remembers `to`.
    fn punch(&self, from: u64, to: u64) -> Result<(), JournalError> {
        let give = |error| JournalError::io(&self.path, "giving space back", error);
        self.file.punch(from..to).map_err(give)?;
        self.tail().punched = to;
        Ok(())
    }

    /// Punches again the range that a crash may have left. The current slot was read, but need not be on the disk,
    /// so it is written again and synced first where that is in doubt. If the log can't be read any more from where
    /// the other slot says, there is no doubt: space is punched only after the current slot is durable. The current
    /// slot is then the only good one, and is not written over.
    pub(super) fn punch_again(&self) -> Result<(), JournalError> {
        let _turn = self.turn();
        let slot = self.tail().slot;
        let to = block(slot.first.file);
        if to <= HEAD {
            return Ok(());
        }
        let [own, other] = [slot.sequence, slot.sequence + 1].map(|turn| self.read_slot(turn));
        let is_behind = |other: Slot| other.sequence < slot.sequence && self.leads_to(other, slot.first);
        if own? != Some(slot) || other?.is_some_and(is_behind) {
            self.write_slot(&slot, slot.sequence)?;
            self.file.sync().map_err(|error| self.fail(&error))?;
        }
        self.write_slot(&slot, slot.sequence + 1)?;
        self.punch(HEAD, to)
    }

    /// Whether the log can be read from where `slot` says up to the frame at `first`.
    fn leads_to(&self, slot: Slot, first: FramePosition) -> bool {
        let mut walk = FrameWalk::new(&self.path, &*self.file, self.salt, slot, first.file);
        walk.run(None).is_ok() && walk.place.file == first.file
    }

    fn read_slot(&self, turn: u64) -> Result<Option<Slot>, JournalError> {
        let mut block = [0; BLOCK];
        read_full(&self.path, &*self.file, &mut block, place_of(turn))?;
        Ok(Slot::decode(&block, &self.salt))
    }

    fn write_slot(&self, slot: &Slot, turn: u64) -> Result<(), JournalError> {
        let written = self.file.write(place_of(turn), &[&slot.encode(&self.salt)]);
        written.map_err(|error| JournalError::io(&self.path, "writing where it begins", error))
    }

    /// The place of the first frame with a byte of the object from `offset` on; the end if no frame has one.
    pub(super) fn frame_of(&self, offset: u64) -> Result<FramePosition, JournalError> {
        let (mut place, end) = {
            let view = self.view();
            (view.index.find(offset), view.end)
        };
        let mut window = ReadWindow::new(end.file);
        while place.file < end.file {
            match self.header(place, &mut window, true) {
                Ok((header, behind)) if header.kind != FrameKind::Data || behind.object <= offset => {
                    place = behind;
                }
                Ok(_) => break,
                Err(stop) => return Err(self.why(stop)),
            }
        }
        Ok(place)
    }
}

/// Offset of the slot for this turn: the two slots alternate.
fn place_of(turn: u64) -> u64 {
    if turn.is_multiple_of(2) { SLOTS[0] } else { SLOTS[1] }
}

/// Rounds down to whole blocks: no file system gives back less.
fn block(offset: u64) -> u64 {
    offset / BLOCK as u64 * BLOCK as u64
}
