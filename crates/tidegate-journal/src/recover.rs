//! Recovers a journal file, however its writer ended.
//!
//! The log is read from where the slot says, frame by frame, until a frame is bad: cut short, never written, or not
//! a continuation of the frame before it. The rest of the file decides what a bad frame means. If a good frame, or
//! the slot, says that the log was durable beyond the bad frame, that frame was whole once: the file is damaged.
//! Otherwise the bad frame and everything after it are a tail that was not synced. A loss of power may have left
//! any of its sectors, so the log ends before the bad frame.

use std::path::Path;
use std::sync::Arc;

use super::disk::{CHUNK, JournalFile, read_full};
use super::error::JournalError;
use super::format::{BLOCK, HEAD, Preamble, SECTOR, SLOTS, Salt, Slot, VERSION};
use super::log::{Log, ScannedLog};
use super::record::JournalState;
use super::walk::FrameWalk;
use tidegate_core::types::checksum::Checksum;

/// Which of the object's bytes are read and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Bytes that are not known to have been durable; others are checked when they are read.
    Tail,
    /// All bytes.
    Whole,
}

/// The recovered contents of a journal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recovered {
    /// The state of the upload.
    pub state: JournalState,
    /// The object's bytes below this offset were given back after the session had acknowledged them.
    pub first: u64,
    /// The checksum of the object up to the last byte that was recovered, which includes the number of bytes.
    pub checksum: Checksum,
    /// Bytes after the last good frame, which were not synced and are not part of the journal.
    pub cut: u64,
}

/// The result of a scan.
pub(super) struct Scan {
    pub(super) found: ScannedLog,
    /// Everything below this offset was durable once.
    witnessed: u64,
    /// The file's length.
    length: u64,
}

impl Scan {
    pub(super) fn recovered(&self) -> Recovered {
        let ScannedLog { state, slot, end, .. } = &self.found;
        let algorithm = state.header.checksum.algorithm();
        Recovered {
            state: state.clone(),
            first: slot.first.object,
            checksum: Checksum::known(algorithm, end.running, end.object),
            cut: self.length.saturating_sub(end.file),
        }
    }
}

/// Prepares a journal for appending: cuts off a torn tail, and makes everything before it durable.
pub(super) fn resume(path: &Path, file: Arc<dyn JournalFile>) -> Result<(Log, Recovered), JournalError> {
    let mut scan = scan(path, &*file, Check::Tail)?;
    let found = &scan.found.state;
    if found.finish.is_some() && found.session.is_none() {
        // Without a session, one request may publish the object as it is, so all bytes are checked now. When an
        // object goes in parts, their checksums are compared before it is published.
        scan = self::scan(path, &*file, Check::Whole)?;
    }
    let recovered = scan.recovered();
    let end = scan.found.end.file;
    let io = |doing| move |error| JournalError::io(path, doing, error);
    let (witnessed, first, is_torn) = (scan.witnessed, scan.found.slot.first.file, scan.length > end);
    if is_torn {
        file.truncate(end).map_err(io("cutting off its torn tail"))?;
    }
    let log = Log::new(path, file.clone(), scan.found);
    // The space that was reserved went with the tail.
    log.refill(&mut log.tail());
    // A frame that can be read need not be on the disk. After a sync that failed in another process, a sync alone
    // would not change that: the system forgets which bytes it did not write ("Can Applications Recover from fsync
    // Failures?", USENIX ATC 2020). So the bytes are written again.
    let mut at = witnessed.max(first);
    let mut chunk = vec![0; CHUNK];
    while at < end {
        let some = usize::try_from(end - at).map_or(CHUNK, |rest| rest.min(CHUNK));
        read_full(path, &*file, &mut chunk[..some], at)?;
        file.write(at, &[&chunk[..some]]).map_err(io("writing its tail again"))?;
        at += some as u64;
    }
    file.sync().map_err(io("syncing it"))?;
    log.begin()?;
    match log.punch_again() {
        Err(error @ JournalError::Lost { .. }) => return Err(error),
        Err(error) => tracing::debug!(%error, "space that a crash may have left is not given back"),
        Ok(()) => {}
    }
    Ok((log, recovered))
}

/// Reads a journal file and checks it.
pub(super) fn scan(path: &Path, file: &dyn JournalFile, check: Check) -> Result<Scan, JournalError> {
    let length = file.length().map_err(|error| JournalError::io(path, "looking at its size", error))?;
    let (salt, slot) = read_head(path, file, length)?;
    let mut walk = FrameWalk::new(path, file, salt, slot, length);
    let bad = walk.run(None)?;
    let (mut witnessed, at) = (walk.synced, walk.place.file);
    if bad.is_some() {
        witnessed = witnessed.max(walk.synced_behind(at)?);
    }
    if at < witnessed {
        return Err(JournalError::damaged(path, at, bad.unwrap_or("the file ends there, too early")));
    }
    let from = if check == Check::Whole { 0 } else { witnessed };
    if from < walk.content.file {
        walk = FrameWalk::new(path, file, salt, slot, length);
        let bad = walk.run(Some(from))?;
        if let Some(what) = bad
            && walk.place.file < witnessed
        {
            return Err(JournalError::damaged(path, walk.place.file, what));
        }
    }
    let end = walk.place;
    let Some(state) = walk.state else {
        return Err(JournalError::damaged(path, slot.first.file, "its header is missing"));
    };
    // No space was given back, so the checksums of all frames must continue that of no bytes.
    if slot.first.object == 0 && slot.first.running != state.header.checksum.value() {
        return Err(JournalError::damaged(path, SLOTS[0], "the object does not begin where the log does"));
    }
    let whole = state.finish.is_none_or(|finish| finish.covers() == end.object);
    let sum = state.parts.values().try_fold(0u64, |sum, part| {
        let inside = part.offset.checked_add(part.size).is_some_and(|behind| behind <= end.object);
        if inside { sum.checked_add(part.size) } else { None }
    });
    if state.committed > end.object || !whole || sum.is_none() {
        return Err(JournalError::damaged(path, end.file, "its records are of more bytes than it has"));
    }
    let found = ScannedLog { salt, slot, state, end, content: walk.content, index: walk.index };
    Ok(Scan { found, witnessed, length })
}

/// Reads the salt, and where the log begins.
pub(super) fn read_head(
    path: &Path,
    file: &dyn JournalFile,
    length: u64,
) -> Result<(Salt, Slot), JournalError> {
    let other = |why| JournalError::Other { path: path.to_owned(), why };
    if length < HEAD {
        return Err(other("it is too short"));
    }
    let mut head = [0; HEAD as usize];
    read_full(path, file, &mut head, 0)?;
    let Preamble { version, salt } = Preamble::decode(&head).map_err(other)?;
    if version != VERSION {
        return Err(JournalError::Newer { path: path.to_owned(), version });
    }
    if let Some(stray) = head[SECTOR..BLOCK].iter().position(|byte| *byte != 0) {
        let at = (SECTOR + stray) as u64;
        return Err(JournalError::damaged(path, at, "its head has something where nothing was written"));
    }
    let slots = [1, 2].map(|block| Slot::decode(&head[block * BLOCK..], &salt));
    match slots.into_iter().flatten().max_by_key(|slot| slot.sequence) {
        Some(slot) => Ok((salt, slot)),
        None => Err(JournalError::damaged(path, SLOTS[0], "both notes of where it begins are bad")),
    }
}
