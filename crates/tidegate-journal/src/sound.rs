//! Checks whether the records of a journal can be true.
//!
//! The frames prove that no accident has changed the file. A forged file can have good frames that contradict each
//! other, so the records are compared with the rest of the file before anything is done with it.

use std::path::Path;

use super::error::JournalError;
use super::record::{JournalState, Part, SessionKind};
use super::recover::Recovered;

/// Most bytes of a name that a store has given to a session or a part.
const LONGEST_NAME: usize = 64 << 10;
/// The first second of the year 10000.
const YEAR_10000: u64 = 253_402_300_800;

impl Recovered {
    /// Refuses a journal whose records contradict each other, its bytes, or its name. `path` is its file.
    ///
    /// # Errors
    /// [`JournalError::Damaged`], which says what does not fit.
    pub fn check(&self, path: &Path) -> Result<(), JournalError> {
        match self.contradiction(path) {
            Some(what) => Err(JournalError::damaged(path, 0, what)),
            None => Ok(()),
        }
    }

    fn contradiction(&self, path: &Path) -> Option<&'static str> {
        let JournalState { header, session, parts, committed, finish, .. } = &self.state;
        if path.file_stem().is_some_and(|name| name != &*header.upload) {
            return Some("it is the journal of another upload, whose name it does not have");
        }
        if header.url.chars().any(char::is_control) {
            return Some("its URL has control characters");
        }
        if header.created >= YEAR_10000 {
            return Some("it says that it was begun after the year 9999");
        }
        let algorithm = header.checksum.algorithm();
        if header.checksum != algorithm.empty() {
            return Some("it does not begin with the checksum of no bytes");
        }
        if finish.is_some_and(|finish| finish != self.checksum) {
            return Some("the checksum that its producer has finished with is not that of its bytes");
        }
        let appends = session.as_ref().is_some_and(|session| session.kind == SessionKind::Append);
        let is_name = |name: &str| name.len() <= LONGEST_NAME && !name.chars().any(char::is_control);
        if session.as_ref().is_some_and(|session| session.id.is_empty() || !is_name(&session.id)) {
            return Some("its upload id is empty, too long or has control characters");
        }
        if !parts.is_empty() && (appends || session.is_none()) {
            return Some("it has parts, and no session of parts");
        }
        if *committed > 0 && session.is_none() {
            return Some("its bytes were acknowledged without a session");
        }
        if self.first > *committed {
            return Some("it has given back bytes that no store has acknowledged");
        }
        let mut behind = 0;
        let mut in_a_row = 0;
        for (index, part) in (1u32..).zip(parts.values()) {
            let Part { number, offset, size, etag, checksum } = part;
            if *number == 0 || *size == 0 || !is_name(etag) {
                return Some("it has a part that no store acknowledges");
            }
            if checksum.algorithm() != algorithm {
                return Some("it has a part whose checksum is of another kind than the object's");
            }
            if checksum.covers() != *size {
                return Some("it has a part whose checksum is of another number of bytes");
            }
            if *offset < behind {
                return Some("it has parts that overlap");
            }
            // The part is inside the object: that was checked when the file was read.
            behind = offset.saturating_add(*size);
            if *number == index && *offset == in_a_row {
                in_a_row = behind;
            }
        }
        if behind > self.checksum.covers() || *committed > self.checksum.covers() {
            return Some("its records are of more bytes than it has");
        }
        (!appends && *committed > in_a_row)
            .then_some("it says that more bytes were acknowledged than its parts have")
    }
}
