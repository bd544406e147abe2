//! A journal as a source of the bytes of requests.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::JournalShared;
use super::format::FramePosition;
use tidegate_core::memory::payload::ReadAt;

/// Reads object bytes of a journal, and checks each. A reader remembers where its last read ended, so each stream
/// of reads should have a reader of its own.
#[derive(Debug)]
pub struct JournalReader {
    pub(super) shared: Arc<JournalShared>,
    pub(super) near: Mutex<Option<FramePosition>>,
}

impl JournalReader {
    fn read_at(&self, buffer: &mut [u8], offset: u64, wait: bool) -> io::Result<Option<usize>> {
        // The lock is not held while waiting for the disk.
        let mut near = *self.near.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.shared.log.read(buffer, offset, &mut near, wait)?;
        *self.near.lock().unwrap_or_else(PoisonError::into_inner) = near;
        Ok(read)
    }
}

impl ReadAt for JournalReader {
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, offset, false)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.read_at(buffer, offset, true)?.unwrap_or_default())
    }

    fn disk(&self) -> String {
        format!("the disk of journal {}", self.shared.log.path.display())
    }

    fn differs(&self, offset: u64) -> io::Error {
        let path = self.shared.log.path.display();
        let message =
            format!("journal {path} gave other bytes of the object from offset {offset} on than before");
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}
