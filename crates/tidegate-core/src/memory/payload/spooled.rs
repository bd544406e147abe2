//! A part with some or all of its bytes in the spool.

use std::io;

use bytes::Bytes;

use super::ReadAt;
use crate::memory::spool::Stored;
use crate::types::checksum::Checksum;

/// The bytes of one part: first the spooled ones, then the ones in memory.
#[derive(Debug)]
pub struct Spooled {
    stored: Stored,
    pieces: Vec<Bytes>,
    checksum: Checksum,
}

impl Spooled {
    /// `checksum` covers all bytes as they came in.
    pub fn new(stored: Stored, pieces: Vec<Bytes>, checksum: Checksum) -> Self {
        Self { stored, pieces, checksum }
    }

    /// The checksum of the spooled bytes.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    fn copy(&self, buffer: &mut [u8], mut offset: u64) -> usize {
        for piece in &self.pieces {
            let length = piece.len() as u64;
            if offset < length {
                let from = &piece[usize::try_from(offset).unwrap_or(piece.len())..];
                let copied = from.len().min(buffer.len());
                buffer[..copied].copy_from_slice(&from[..copied]);
                return copied;
            }
            offset -= length;
        }
        0
    }
}

impl ReadAt for Spooled {
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        match offset.checked_sub(self.stored.len()) {
            Some(offset) => Ok(Some(self.copy(buffer, offset))),
            None => self.stored.read(buffer, offset, false),
        }
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match offset.checked_sub(self.stored.len()) {
            Some(offset) => Ok(self.copy(buffer, offset)),
            None => Ok(self.stored.read(buffer, offset, true)?.unwrap_or_default()),
        }
    }

    fn disk(&self) -> String {
        "the disk of the spool directory".to_owned()
    }

    fn differs(&self, _: u64) -> io::Error {
        let message = "the spool directory gave back other bytes than were written to it";
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}
