//! One journal file, open for appending: frames behind frames, synced in groups.
//!
//! Everything here blocks. Three locks, taken in this order: the turn, held over a sync; the tail, held
//! while a frame is written; the view, never held over I/O. So frames are appended while a sync is under
//! way, whoever comes to sync meanwhile finds it done or does one for all, and readers wait for nobody.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::disk::JournalFile;
use super::error::JournalError;
use super::format::{
    ALIGN, BLOCK, Crc32c, DATA_LIMIT, FrameHeader, HEAD, Kind, Place, Preamble, RECORD_LIMIT, SECTOR, Salt,
    Slot, VERSION,
};
use super::index::Index;
use super::record::{Header, Record, State};
use super::reserve::Reserve;
use crate::types::checksum::{Checksum, Hasher};

#[derive(Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn JournalFile>,
    pub(super) salt: Salt,
    turn: Mutex<()>,
    tail: Mutex<Tail>,
    view: Mutex<View>,
}

/// What the next frame depends on.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) state: State,
    pub(super) hasher: Hasher,
    pub(super) end: Place,
    pub(super) slot: Slot,
    /// Below this offset of the file, space was given back.
    pub(super) punched: u64,
    /// Whether the file system can give space back, once that is known.
    pub(super) punches: Option<bool>,
    pub(super) reserve: Reserve,
    /// The object's bytes below this offset are given back, or will be by whoever resumes: a slot that says
    /// so may be in the file, though writing it failed.
    pub(super) given_back: u64,
    /// Frames that are no part of the log may be on the disk where its next one goes, whole, and would
    /// follow on its last one: those of an append that failed, or of an earlier process. Another one must
    /// be durable in their place first, or a loss of power could bring them back in the next one's stead.
    pub(super) unfenced: bool,
}

/// What is in the file, for those who read and sync.
#[derive(Debug)]
pub(super) struct View {
    /// Where the log begins.
    pub(super) first: Place,
    /// Behind the last frame that is whole.
    pub(super) end: Place,
    /// Behind the last one that is more than a mark.
    pub(super) content: Place,
    /// All before it is durable.
    pub(super) synced: Place,
    pub(super) index: Index,
    /// Why a sync failed, once one has.
    pub(super) failed: Option<Failed>,
}

/// A sync that failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) reason: String,
    /// The disk was full.
    pub(super) is_full: bool,
}

/// A log as it was found or made.
pub(super) struct Found {
    pub(super) salt: Salt,
    pub(super) slot: Slot,
    pub(super) state: State,
    pub(super) end: Place,
    pub(super) content: Place,
    pub(super) index: Index,
}

impl Log {
    /// Goes on at the end of what was found, all of which is durable.
    pub(super) fn new(path: &Path, file: Arc<dyn JournalFile>, found: Found) -> Self {
        let Found { salt, slot, state, end, content, index } = found;
        let algorithm = state.header.checksum.algorithm();
        let hasher = Hasher::resume(&Checksum::known(algorithm, end.running, end.object));
        let given_back = slot.first.object;
        let checkpoint = serde_json::to_vec(&state).map_or(0, |text| text.len() as u64);
        let reserve = Reserve { to: end.file, checkpoint, can: true };
        let (punched, punches, unfenced) = (HEAD, None, false);
        let tail = Tail { state, hasher, end, slot, punched, punches, reserve, given_back, unfenced };
        let view = View { first: slot.first, end, content, synced: content, index, failed: None };
        let path = path.to_owned();
        Self { path, file, salt, turn: Mutex::default(), tail: Mutex::new(tail), view: Mutex::new(view) }
    }

    /// Makes a journal of an empty file: head and header, durable.
    pub(super) fn create(
        path: &Path,
        file: Arc<dyn JournalFile>,
        header: Header,
        salt: Salt,
    ) -> Result<Self, JournalError> {
        let preamble = Preamble { version: VERSION, salt };
        let running = header.checksum.value();
        let first = Place { file: HEAD, object: 0, running, previous: preamble.sum() };
        let slot = Slot { sequence: 0, first, checkpoint: 0, synced: 0 };
        let slots = slot.encode(&salt);
        let head: [&[u8]; 5] = [&preamble.encode(), &[0; BLOCK - SECTOR], &slots, &slots, &[0; BLOCK]];
        file.write(0, &head).map_err(|error| JournalError::io(path, "writing its head", error))?;
        let state = State::new(header.clone());
        let index = Index::new(first);
        let log = Self::new(path, file, Found { salt, slot, state, end: first, content: first, index });
        log.record(Record::Header(header))?;
        log.first_reserve()?;
        log.sync()?;
        Ok(log)
    }

    /// Appends object bytes and returns the object's length then. They are in the file, not durable yet.
    /// Where it fails, the journal is as before.
    pub(super) fn append(&self, pieces: &[Bytes]) -> Result<u64, JournalError> {
        let mut tail = self.fenced()?;
        self.check(&tail)?;
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let room = self.room_for_bytes(&mut tail, bytes);
        room.map_err(|error| JournalError::io(&self.path, "appending", error))?;
        let before = tail.before();
        let (mut frame, mut filled) = (Vec::new(), 0);
        let mut written = Ok(());
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() && written.is_ok() {
                let (now, later) = rest.split_at(rest.len().min(DATA_LIMIT - filled));
                frame.push(now);
                (filled, rest) = (filled + now.len(), later);
                if filled == DATA_LIMIT {
                    written = self.put(&mut tail, Kind::Data, &frame);
                    (frame, filled) = (Vec::new(), 0);
                }
            }
        }
        if filled > 0 && written.is_ok() {
            written = self.put(&mut tail, Kind::Data, &frame);
        }
        self.settle(&mut tail, before, written)?;
        Ok(tail.end.object)
    }

    /// Appends a record and returns where it is. As with bytes, it is not durable yet.
    pub(super) fn record(&self, record: Record) -> Result<u64, JournalError> {
        let mut tail = self.fenced()?;
        if tail.state.end.is_some() {
            return Err(JournalError::refused(&self.path, "its upload has ended"));
        }
        if matches!(record, Record::Session(_)) && tail.given_back > 0 {
            return Err(JournalError::GivenBack { path: self.path.clone(), first: tail.given_back });
        }
        self.write_record(&mut tail, record)
    }

    /// No byte follows. Returns the whole object's checksum.
    pub(super) fn finish(&self) -> Result<Checksum, JournalError> {
        let mut tail = self.fenced()?;
        self.check(&tail)?;
        let checksum = tail.hasher.finish();
        self.write_record(&mut tail, Record::Finish(checksum))?;
        Ok(checksum)
    }

    pub(super) fn write_record(&self, tail: &mut Tail, record: Record) -> Result<u64, JournalError> {
        let text = serde_json::to_vec(&record)
            .map_err(|error| JournalError::io(&self.path, "writing a record", error.into()))?;
        if text.len() > RECORD_LIMIT {
            return Err(JournalError::refused(&self.path, "a record is larger than 16 MiB"));
        }
        let length = text.len() as u64;
        let room = self.room_for_record(tail, &record, length);
        room.map_err(|error| JournalError::io(&self.path, "appending", error))?;
        let before = tail.before();
        let written = self.put(tail, Kind::Record, &[&text]);
        let offset = before.0.file;
        self.settle(tail, before, written)?;
        if matches!(record, Record::Checkpoint(_)) {
            tail.reserve.checkpoint = length;
        } else {
            // No less than it will be.
            tail.reserve.checkpoint += length;
            tail.state.apply(record);
        }
        Ok(offset)
    }

    /// Writes a frame at the end.
    pub(super) fn put(&self, tail: &mut Tail, kind: Kind, pieces: &[&[u8]]) -> io::Result<()> {
        let mut crc = Crc32c::new();
        let mut length = 0;
        for piece in pieces {
            crc.update(piece);
            length += piece.len();
            if kind == Kind::Data {
                tail.hasher.update(piece);
            }
        }
        let filling = &[0; ALIGN as usize][..length.next_multiple_of(ALIGN as usize) - length];
        crc.update(filling);
        let place = tail.end;
        let header = FrameHeader {
            kind,
            length: u32::try_from(length).map_err(io::Error::other)?,
            payload: crc.finish(),
            object: place.object,
            synced: self.view().synced.file,
            running: if kind == Kind::Data { tail.hasher.finish().value() } else { place.running },
            previous: place.previous,
        };
        let (bytes, sum) = header.encode(&self.salt, place.file);
        let mut all: Vec<&[u8]> = Vec::with_capacity(pieces.len() + 2);
        all.push(&bytes);
        all.extend(pieces);
        all.push(filling);
        self.file.write(place.file, &all)?;
        tail.end = header.follow(place, sum).ok_or(io::ErrorKind::FileTooLarge)?;
        self.view().index.push(place);
        Ok(())
    }

    /// Makes what was written known, or takes it back where some of it failed.
    pub(super) fn settle(
        &self,
        tail: &mut Tail,
        before: (Place, Hasher),
        written: io::Result<()>,
    ) -> Result<(), JournalError> {
        if let Err(error) = written {
            self.take_back(tail, before);
            return Err(JournalError::io(&self.path, "appending", error));
        }
        let mut view = self.view();
        (view.end, view.content) = (tail.end, tail.end);
        Ok(())
    }

    pub(super) fn take_back(&self, tail: &mut Tail, before: (Place, Hasher)) {
        (tail.end, tail.hasher) = before;
        tail.unfenced = true;
        self.view().index.cut(tail.end);
        // To have the space back.
        let _ = self.file.truncate(tail.end.file);
        tail.reserve.to = tail.end.file;
        self.refill(tail);
    }

    /// The whole object's checksum so far.
    pub(super) fn checksum(&self) -> Checksum {
        self.tail().hasher.finish()
    }

    /// What is known of the upload.
    pub(super) fn state(&self) -> State {
        self.tail().state.clone()
    }

    /// Bytes in the file that are not durable.
    pub(super) fn unsynced(&self) -> u64 {
        let view = self.view();
        view.content.file.saturating_sub(view.synced.file)
    }

    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, tail: &Tail) -> Result<(), JournalError> {
        self.check_failed()?;
        if tail.state.finish.is_some() || tail.state.end.is_some() {
            return Err(JournalError::refused(&self.path, "its object is finished and takes no more bytes"));
        }
        Ok(())
    }
}

impl Tail {
    pub(super) fn before(&self) -> (Place, Hasher) {
        (self.end, self.hasher.clone())
    }
}
