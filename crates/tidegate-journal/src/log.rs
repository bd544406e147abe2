//! One journal file that is open for appending: writes frames, and syncs them in groups.
//!
//! Everything here blocks. There are three locks, taken in this order: the turn, held during a sync; the tail, held
//! while a frame is written; the view, never held during I/O. So frames are appended while a sync is under way;
//! callers that ask for a sync meanwhile find it done when they get the turn, or one of them syncs for all; and
//! readers wait for no writer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::disk::JournalFile;
use super::error::JournalError;
use super::format::{
    ALIGN, BLOCK, Crc32c, DATA_LIMIT, FrameHeader, FrameKind, FramePosition, HEAD, Preamble, RECORD_LIMIT,
    SECTOR, Salt, Slot, VERSION,
};
use super::index::Index;
use super::record::{Header, JournalState, Record};
use super::reserve::Reserve;
use tidegate_core::types::checksum::{Checksum, Hasher};

#[derive(Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn JournalFile>,
    pub(super) salt: Salt,
    turn: Mutex<()>,
    tail: Mutex<Tail>,
    view: Mutex<View>,
}

/// The writer's state: everything that the next frame depends on.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) state: JournalState,
    pub(super) hasher: Hasher,
    pub(super) end: FramePosition,
    pub(super) slot: Slot,
    /// The space below this offset of the file was given back.
    pub(super) punched: u64,
    /// Whether the file system can punch holes, once that is known.
    pub(super) punches: Option<bool>,
    pub(super) reserve: Reserve,
    /// The object's bytes below this offset were given back, or will be when the upload is resumed: a slot that
    /// says so may be in the file even if writing it failed.
    pub(super) given_back: u64,
    /// True if whole frames that are not part of the log may be on the disk where its next frame goes, and would
    /// continue its last frame: frames of a failed append, or of an earlier process. Another frame must be durable
    /// in their place first, or a loss of power could bring them back instead of the next frame.
    pub(super) unfenced: bool,
}

/// The contents of the file, for readers and syncs.
#[derive(Debug)]
pub(super) struct View {
    /// Where the log begins.
    pub(super) first: FramePosition,
    /// The end of the last whole frame.
    pub(super) end: FramePosition,
    /// The end of the last frame that needs a sync. The marks that a sync writes need none.
    pub(super) content: FramePosition,
    /// Everything before this place is durable.
    pub(super) synced: FramePosition,
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

/// A log as a scan found it, or as it was created.
pub(super) struct ScannedLog {
    pub(super) salt: Salt,
    pub(super) slot: Slot,
    pub(super) state: JournalState,
    pub(super) end: FramePosition,
    pub(super) content: FramePosition,
    pub(super) index: Index,
}

impl Log {
    /// Continues at the end of `found`, all of which counts as durable.
    pub(super) fn new(path: &Path, file: Arc<dyn JournalFile>, found: ScannedLog) -> Self {
        let ScannedLog { salt, slot, state, end, content, index } = found;
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

    /// Creates a journal in an empty file: writes the head and the header, and makes them durable.
    pub(super) fn create(
        path: &Path,
        file: Arc<dyn JournalFile>,
        header: Header,
        salt: Salt,
    ) -> Result<Self, JournalError> {
        let preamble = Preamble { version: VERSION, salt };
        let running = header.checksum.value();
        let first = FramePosition { file: HEAD, object: 0, running, previous: preamble.sum() };
        let slot = Slot { sequence: 0, first, checkpoint: 0, synced: 0 };
        let slots = slot.encode(&salt);
        let head: [&[u8]; 5] = [&preamble.encode(), &[0; BLOCK - SECTOR], &slots, &slots, &[0; BLOCK]];
        file.write(0, &head).map_err(|error| JournalError::io(path, "writing its head", error))?;
        let state = JournalState::new(header.clone());
        let index = Index::new(first);
        let log = Self::new(path, file, ScannedLog { salt, slot, state, end: first, content: first, index });
        log.record(Record::Header(header))?;
        log.first_reserve()?;
        log.sync()?;
        Ok(log)
    }

    /// Appends object bytes and returns the object's new length. The bytes are in the file, but not durable yet. If
    /// this fails, the journal is as before.
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
                    written = self.put(&mut tail, FrameKind::Data, &frame);
                    (frame, filled) = (Vec::new(), 0);
                }
            }
        }
        if filled > 0 && written.is_ok() {
            written = self.put(&mut tail, FrameKind::Data, &frame);
        }
        self.settle(&mut tail, before, written)?;
        Ok(tail.end.object)
    }

    /// Appends a record and returns its offset in the file. As with object bytes, it is not durable yet.
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

    /// Records that no byte follows. Returns the whole object's checksum.
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
        let written = self.put(tail, FrameKind::Record, &[&text]);
        let offset = before.0.file;
        self.settle(tail, before, written)?;
        if matches!(record, Record::Checkpoint(_)) {
            tail.reserve.checkpoint = length;
        } else {
            // The next checkpoint is no larger than this.
            tail.reserve.checkpoint += length;
            tail.state.apply(record);
        }
        Ok(offset)
    }

    /// Writes a frame at the end.
    pub(super) fn put(&self, tail: &mut Tail, kind: FrameKind, pieces: &[&[u8]]) -> io::Result<()> {
        let mut crc = Crc32c::new();
        let mut length = 0;
        for piece in pieces {
            crc.update(piece);
            length += piece.len();
            if kind == FrameKind::Data {
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
            running: if kind == FrameKind::Data { tail.hasher.finish().value() } else { place.running },
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

    /// Publishes the written frames to readers and syncs, or takes all of them back if a write failed.
    pub(super) fn settle(
        &self,
        tail: &mut Tail,
        before: (FramePosition, Hasher),
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

    pub(super) fn take_back(&self, tail: &mut Tail, before: (FramePosition, Hasher)) {
        (tail.end, tail.hasher) = before;
        tail.unfenced = true;
        self.view().index.cut(tail.end);
        // To free the space.
        let _ = self.file.truncate(tail.end.file);
        tail.reserve.to = tail.end.file;
        self.refill(tail);
    }

    /// The whole object's checksum so far.
    pub(super) fn checksum(&self) -> Checksum {
        self.tail().hasher.finish()
    }

    /// The state of the upload.
    pub(super) fn state(&self) -> JournalState {
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
    pub(super) fn before(&self) -> (FramePosition, Hasher) {
        (self.end, self.hasher.clone())
    }
}
