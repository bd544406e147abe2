//! What a journal file has, after whatever became of its writer.
//!
//! The log goes on from where the slot says, frame by frame, until one is bad: cut short, never written,
//! or not following on the one before it. What is behind it decides. Where some good frame, or the slot,
//! says that the log was durable beyond the bad frame, that frame was whole once: the file is damaged.
//! Where none does, the bad one and what is behind it are of a tail that was not synced, of which a loss
//! of power leaves any sectors in any order, and the log ends before it.

use std::path::Path;
use std::sync::Arc;

use super::disk::{CHUNK, JournalFile, read_full};
use super::error::JournalError;
use super::format::{BLOCK, HEAD, Preamble, SECTOR, SLOTS, Salt, Slot, VERSION};
use super::log::{Found, Log};
use super::record::State;
use super::walk::Walk;
use crate::types::checksum::Checksum;

/// How much of the object's bytes is read to check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Those that are not known to have been durable; others are checked when they are read.
    Tail,
    /// All.
    Whole,
}

/// What is left of a journal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recovered {
    /// What is known of the upload.
    pub state: State,
    /// The object's bytes below this offset were given back when the session had acknowledged them.
    pub first: u64,
    /// The checksum of all bytes of the object that were recovered, with how many those are.
    pub checksum: Checksum,
    /// Bytes behind the last good frame, which were not synced and are no part of the journal.
    pub cut: u64,
}

/// The result of a scan.
pub(super) struct Scan {
    pub(super) found: Found,
    /// All below this offset has been durable.
    witnessed: u64,
    /// The file's length.
    length: u64,
}

impl Scan {
    pub(super) fn recovered(&self) -> Recovered {
        let Found { state, slot, end, .. } = &self.found;
        let algorithm = state.header.checksum.algorithm();
        Recovered {
            state: state.clone(),
            first: slot.first.object,
            checksum: Checksum::known(algorithm, end.running, end.object),
            cut: self.length.saturating_sub(end.file),
        }
    }
}

/// Makes a journal fit to be gone on with: cuts off what is torn and makes all that is left durable.
pub(super) fn resume(path: &Path, file: Arc<dyn JournalFile>) -> Result<(Log, Recovered), JournalError> {
    let mut scan = scan(path, &*file, Check::Tail)?;
    let found = &scan.found.state;
    if found.finish.is_some() && found.session.is_none() {
        // It may be published by one request, as it is; where it goes in parts, their checksums are compared before.
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
    // What was set aside went with the tail.
    log.refill(&mut log.tail());
    // That a frame can be read does not mean that it is on the disk, and after a sync that failed in
    // another process a sync alone would change nothing about that: what was not written is forgotten
    // ("Can Applications Recover from fsync Failures?", USENIX ATC 2020). So it is written again.
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

/// Reads what a file has.
pub(super) fn scan(path: &Path, file: &dyn JournalFile, check: Check) -> Result<Scan, JournalError> {
    let length = file.length().map_err(|error| JournalError::io(path, "looking at its size", error))?;
    let (salt, slot) = read_head(path, file, length)?;
    let mut walk = Walk::new(path, file, salt, slot, length);
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
        walk = Walk::new(path, file, salt, slot, length);
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
    // Nothing was given back, so the checksums of all frames follow on that of no bytes.
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
    let found = Found { salt, slot, state, end, content: walk.content, index: walk.index };
    Ok(Scan { found, witnessed, length })
}

/// The salt, and where the log begins.
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
