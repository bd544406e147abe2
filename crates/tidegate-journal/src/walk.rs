//! Reads a journal file frame by frame.

use std::path::Path;

use super::disk::{CHUNK, JournalFile, read_full};
use super::error::JournalError;
use super::format::{ALIGN, Crc32c, FrameHeader, FrameKind, FramePosition, HEADER, Salt, Slot};
use super::index::Index;
use super::record::{JournalState, Record};
use tidegate_core::types::checksum::{Checksum, Hasher};

/// Most parts that a journal may have: more than any store allows in one object, and few enough to hold in memory.
const MOST_PARTS: usize = 1_000_000;

/// A walk over frames.
pub(super) struct FrameWalk<'a> {
    path: &'a Path,
    file: &'a dyn JournalFile,
    salt: Salt,
    checkpoint: u64,
    length: u64,
    pub(super) place: FramePosition,
    pub(super) content: FramePosition,
    /// How far the log was durable, by the slot and all frames so far.
    pub(super) synced: u64,
    pub(super) state: Option<JournalState>,
    pub(super) index: Index,
    /// The bytes that were read last: one read covers the headers of several small frames.
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> FrameWalk<'a> {
    pub(super) fn new(
        path: &'a Path,
        file: &'a dyn JournalFile,
        salt: Salt,
        slot: Slot,
        length: u64,
    ) -> Self {
        Self {
            path,
            file,
            salt,
            checkpoint: slot.checkpoint,
            length,
            place: slot.first,
            content: slot.first,
            synced: slot.synced,
            state: None,
            index: Index::new(slot.first),
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Walks to the end, or to the first bad frame, and returns what is bad about it. Object bytes are checked in
    /// frames from `check_from` on, or nowhere if it is `None`; records are checked everywhere.
    pub(super) fn run(&mut self, check_from: Option<u64>) -> Result<Option<&'static str>, JournalError> {
        let mut chunk = vec![0; CHUNK];
        while self.place.file < self.length {
            let at = self.place.file;
            let Some((header, sum)) = self.header(at)? else { return Ok(Some("no frame begins there")) };
            let Some(behind) = header.follow(self.place, sum) else {
                return Ok(Some("the frame there does not follow on the one before"));
            };
            if behind.file > self.length {
                return Ok(Some("the file ends within the frame there"));
            }
            match header.kind {
                FrameKind::Mark if header.length == 0 => {}
                FrameKind::Record => {
                    if !self.record(&header)? {
                        return Ok(Some("the record there is not the one that was written"));
                    }
                }
                FrameKind::Data if check_from.is_none_or(|from| at < from) => {}
                FrameKind::Data | FrameKind::Mark => {
                    if !self.data(&header, &mut chunk)? {
                        return Ok(Some("the bytes of the frame there are not those that were written"));
                    }
                }
            }
            self.synced = self.synced.max(header.synced);
            self.index.push(self.place);
            self.place = behind;
            if header.kind != FrameKind::Mark {
                self.content = behind;
            }
        }
        Ok(None)
    }

    fn header(&mut self, at: u64) -> Result<Option<(FrameHeader, u32)>, JournalError> {
        if self.length - at < HEADER as u64 {
            return Ok(None);
        }
        let inside = |walk: &Self| {
            let start = usize::try_from(at.checked_sub(walk.window_at)?).ok()?;
            walk.window.get(start..start.checked_add(HEADER)?)?.try_into().ok()
        };
        let bytes: [u8; HEADER] = match inside(self) {
            Some(bytes) => bytes,
            None => {
                let some = usize::try_from(self.length - at).map_or(4096, |rest| rest.min(4096));
                self.window.resize(some, 0);
                self.window_at = at;
                read_full(self.path, self.file, &mut self.window, at)?;
                let mut bytes = [0; HEADER];
                bytes.copy_from_slice(&self.window[..HEADER]);
                bytes
            }
        };
        Ok(FrameHeader::decode(&bytes, &self.salt, at))
    }

    /// Applies a record; `false` if its bytes are not those that were written. A record that was written so and
    /// makes no sense is an error: damage, or a bug of the writer.
    fn record(&mut self, header: &FrameHeader) -> Result<bool, JournalError> {
        let at = self.place.file;
        // Its length is within the format's limit and within the file.
        let mut bytes = vec![0; usize::try_from(header.padded()).unwrap_or_default()];
        read_full(self.path, self.file, &mut bytes, at + HEADER as u64)?;
        let mut crc = Crc32c::new();
        crc.update(&bytes);
        if crc.finish() != header.payload {
            return Ok(false);
        }
        // The checkpoint contains the records before it.
        if at < self.checkpoint {
            return Ok(true);
        }
        bytes.truncate(header.length as usize);
        let damaged = |what| JournalError::damaged(self.path, at, what);
        let Ok(record) = serde_json::from_slice::<Record>(&bytes) else {
            return Err(damaged("the record there has no meaning"));
        };
        let state = JournalState::after(self.state.take(), record).map_err(damaged)?;
        if state.parts.len() > MOST_PARTS {
            return Err(damaged("it has more parts than any store takes"));
        }
        self.state = Some(state);
        Ok(true)
    }

    fn data(&self, header: &FrameHeader, chunk: &mut [u8]) -> Result<bool, JournalError> {
        let (mut at, mut rest) = (self.place.file + HEADER as u64, header.padded());
        let mut data = header.data();
        let mut crc = Crc32c::new();
        let algorithm = self.state.as_ref().map(|state| state.header.checksum.algorithm());
        let known = |algorithm| Checksum::known(algorithm, self.place.running, self.place.object);
        let mut hasher = algorithm.map(|algorithm| Hasher::resume(&known(algorithm)));
        while rest > 0 {
            let some = usize::try_from(rest).map_or(chunk.len(), |rest| rest.min(chunk.len()));
            read_full(self.path, self.file, &mut chunk[..some], at)?;
            crc.update(&chunk[..some]);
            let of_data = usize::try_from(data).map_or(some, |data| data.min(some));
            if let Some(hasher) = &mut hasher {
                hasher.update(&chunk[..of_data]);
            }
            data -= of_data as u64;
            rest -= some as u64;
            at += some as u64;
        }
        let same = hasher.is_none_or(|hasher| hasher.finish().value() == header.running);
        Ok(same && crc.finish() == header.payload)
    }

    /// How far the log was durable, by the frames after the bad one at `bad`.
    pub(super) fn synced_behind(&self, bad: u64) -> Result<u64, JournalError> {
        let mut synced = 0;
        let mut chunk = vec![0; CHUNK];
        let mut at = bad + ALIGN;
        while at < self.length && self.length - at >= HEADER as u64 {
            // Skips holes, which may have terabytes. A header may begin in the hole before the next data.
            let next = self.file.next_data(at);
            let next = next.map_err(|error| JournalError::io(self.path, "looking for its bytes", error))?;
            let Some(next) = next else { break };
            at = at.max(next.saturating_sub(HEADER as u64) / ALIGN * ALIGN);
            if self.length - at < HEADER as u64 {
                break;
            }
            let some = usize::try_from(self.length - at).map_or(CHUNK, |rest| rest.min(CHUNK));
            read_full(self.path, self.file, &mut chunk[..some], at)?;
            let mut start = 0;
            while let Some(bytes) = chunk[..some].get(start..start + HEADER) {
                let found = bytes
                    .try_into()
                    .ok()
                    .and_then(|bytes| FrameHeader::decode(bytes, &self.salt, at + start as u64));
                synced = found.map_or(synced, |(header, _)| synced.max(header.synced));
                start += ALIGN as usize;
            }
            at += start as u64;
        }
        Ok(synced)
    }
}
