//! Bytes in the spool.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::directory::{Allocation, BLOCK, Directory};

/// Bytes that were spooled, in order. Clones share the blocks, which are free again when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    sections: Vec<Section>,
    len: u64,
}

/// The bytes in one directory.
#[derive(Clone, Debug)]
struct Section {
    directory: Arc<Directory>,
    allocations: Vec<Arc<Allocation>>,
    /// Bytes that are written, from the start.
    len: u64,
}

/// Bytes on their way to the disk, and the blocks that they go to.
struct SpooledPiece {
    piece: Bytes,
    _blocks: Arc<[Arc<Allocation>]>,
}

impl AsRef<[u8]> for SpooledPiece {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Stored {
    /// How many bytes there are.
    #[expect(clippy::len_without_is_empty, reason = "a number of bytes, not of elements")]
    pub fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn last(&self) -> Option<&Arc<Directory>> {
        self.sections.last().map(|section| &section.directory)
    }

    /// Marks the blocks as making room when they are given back. Blocks of bytes that were not spooled whole are
    /// not marked: they were taken from the existing room.
    pub(super) fn is_whole(&self) {
        for allocation in self.sections.iter().flat_map(|section| section.allocations.last()) {
            allocation.written();
        }
    }

    /// The same bytes with `pieces` appended, in `directory`.
    pub(super) async fn extended(&self, directory: &Arc<Directory>, pieces: &[Bytes]) -> io::Result<Self> {
        let mut extended = self.clone();
        let mut section = match extended.sections.pop() {
            Some(last) if Arc::ptr_eq(&last.directory, directory) => last,
            other => {
                extended.sections.extend(other);
                Section { directory: directory.clone(), allocations: Vec::new(), len: 0 }
            }
        };
        section.append(pieces).await?;
        extended.sections.push(section);
        extended.len = extended.sections.iter().map(|section| section.len).sum();
        Ok(extended)
    }

    /// Reads at `offset`, up to the end of the run of blocks there. With `wait` it waits for the disk; without, it
    /// reads only bytes that are known to be in memory.
    pub fn read(&self, buffer: &mut [u8], offset: u64, wait: bool) -> io::Result<Option<usize>> {
        let mut start = 0;
        for section in &self.sections {
            if offset < start + section.len {
                return section.read(buffer, offset - start, wait);
            }
            start += section.len;
        }
        Ok(Some(0))
    }
}

impl Section {
    async fn append(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let room = self.room();
        if bytes > room {
            self.allocations.push(Arc::new(self.directory.allocate(bytes - room)?));
        }
        // A cancelled write may continue in its thread: until it ends, nobody else gets its blocks.
        let blocks: Arc<[Arc<Allocation>]> = self.allocations.clone().into();
        let mut writes = Vec::with_capacity(pieces.len());
        let mut offset = self.len;
        for piece in pieces {
            let mut rest = piece.clone();
            while !rest.is_empty() {
                let (place, together) = self.place(offset)?;
                let length = rest.len().min(usize::try_from(together).unwrap_or(usize::MAX));
                let piece = SpooledPiece { piece: rest.split_to(length), _blocks: blocks.clone() };
                writes.push((place, Bytes::from_owner(piece)));
                offset += length as u64;
            }
        }
        self.directory.write(writes).await?;
        self.len += bytes;
        Ok(())
    }

    fn room(&self) -> u64 {
        let ranges = self.allocations.iter().flat_map(|allocation| &allocation.ranges);
        let blocks: u64 = ranges.map(|range| u64::from(range.end - range.start)).sum();
        blocks * BLOCK - self.len
    }

    /// The offset in the file of the byte at `offset`, and how many bytes follow it there.
    fn place(&self, offset: u64) -> io::Result<(u64, u64)> {
        let mut start = 0;
        for range in self.allocations.iter().flat_map(|allocation| &allocation.ranges) {
            let length = u64::from(range.end - range.start) * BLOCK;
            if offset < start + length {
                let within = offset - start;
                return Ok((u64::from(range.start) * BLOCK + within, length - within));
            }
            start += length;
        }
        Err(io::Error::other("past the end of what was spooled"))
    }

    fn read(&self, buffer: &mut [u8], offset: u64, wait: bool) -> io::Result<Option<usize>> {
        let (place, together) = self.place(offset)?;
        let length = together.min(self.len - offset).min(buffer.len() as u64);
        let buffer = &mut buffer[..usize::try_from(length).unwrap_or(usize::MAX)];
        let disk = self.directory.disk();
        let read = if wait { disk.read(buffer, place).map(Some) } else { disk.read_cached(buffer, place) };
        read.map_err(|error| {
            io::Error::new(error.kind(), format!("spool directory {}: {error}", disk.name()))
        })
    }
}
