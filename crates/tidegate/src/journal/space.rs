//! Giving disk space back for what the store has.

use std::io;

use super::disk::read_full;
use super::error::JournalError;
use super::format::{BLOCK, HEAD, Kind, Place, SLOTS, Slot, ZEROS};
use super::log::Log;
use super::read::Window;
use super::record::Record;
use super::walk::Walk;

impl Log {
    /// Gives back the space of what the session has acknowledged, where that is at least `least` bytes,
    /// and as much as that takes, and returns how many. What is at most lost where it fails is space.
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
        // What is punched away has records in it: all of them are written again, and durable, before the
        // log begins behind them; and that is durable before anything is punched.
        let (checkpoint, behind) = {
            let mut tail = self.tail();
            self.fence(&mut tail)?;
            let state = Box::new(tail.state.clone());
            (self.write_record(&mut tail, Record::Checkpoint(state))?, tail.end.file)
        };
        self.sync_to(behind)?;
        let sequence = {
            let mut tail = self.tail();
            // A session that was replaced meanwhile has acknowledged nothing.
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
        // Before somebody else has it.
        self.refill(&mut self.tail());
        // A second copy, against a sector that goes bad; of no use before the next sync, and not needed.
        let _ = self.write_slot(&slot, sequence + 1);
        Ok(punchable - punched)
    }

    /// Whether it is worth a look: mostly it is not, and nobody is to wait for a sync to see that.
    fn may_give_back(&self, least: u64) -> bool {
        let (committed, punched, worth) = {
            let tail = self.tail();
            (tail.state.committed, tail.punched, tail.worth())
        };
        let view = self.view();
        let at_most = view.index.behind(committed).unwrap_or(view.end).file;
        block(at_most).saturating_sub(punched) >= least.max(worth)
    }

    /// Whether the file system can give space back; where it can't, nothing must be begun.
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

    /// Punches from where it ended last to `to`.
    fn punch(&self, from: u64, to: u64) -> Result<(), JournalError> {
        let give = |error| JournalError::io(&self.path, "giving space back", error);
        self.file.punch(from..to).map_err(give)?;
        self.tail().punched = to;
        Ok(())
    }

    /// Punches again what a crash may have left. That the slot was read does not mean that it is on the
    /// disk, so it is made durable first, where it may not be. Where the log can't begin as the other slot
    /// says any more, it is: nothing is punched before. Then it is the only good one, and not written over.
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

    /// Whether the log can be read from where a slot says to this frame.
    fn leads_to(&self, slot: Slot, first: Place) -> bool {
        let mut walk = Walk::new(&self.path, &*self.file, self.salt, slot, first.file);
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

    /// The place of the first frame with a byte of the object from `offset` on; the end where none has.
    pub(super) fn frame_of(&self, offset: u64) -> Result<Place, JournalError> {
        let (mut place, end) = {
            let view = self.view();
            (view.index.find(offset), view.end)
        };
        let mut window = Window::new(end.file);
        while place.file < end.file {
            match self.header(place, &mut window, true) {
                Ok((header, behind)) if header.kind != Kind::Data || behind.object <= offset => {
                    place = behind;
                }
                Ok(_) => break,
                Err(stop) => return Err(self.why(stop)),
            }
        }
        Ok(place)
    }
}

/// Where a slot is written: the two take turns.
fn place_of(turn: u64) -> u64 {
    if turn.is_multiple_of(2) { SLOTS[0] } else { SLOTS[1] }
}

/// Whole blocks: no file system gives back less.
fn block(offset: u64) -> u64 {
    offset / BLOCK as u64 * BLOCK as u64
}
