//! Stores bytes. A [`StoredPiece`] holds the bytes of one request, and an object is a list of pieces, so that
//! completing a session moves no bytes in any storage.

pub(crate) mod discard;
pub(crate) mod disk;
pub(crate) mod memory;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use disk::{DataDir, DataFile};

/// The storage of one server.
#[derive(Debug)]
pub(crate) enum Vault {
    Memory,
    Disk(Arc<DataDir>),
    Discard,
}

impl Vault {
    /// Starts to store the bytes of one request.
    pub(crate) fn writer(&self) -> PieceWriter {
        match self {
            Self::Memory => PieceWriter::Memory(memory::MemoryWriter::default()),
            Self::Disk(dir) => PieceWriter::Disk(disk::DiskWriter::new(Arc::clone(dir))),
            Self::Discard => PieceWriter::Discard(0),
        }
    }

    /// Whether bytes are stored, so that a checksum of them is useful later.
    pub(crate) fn keeps_bytes(&self) -> bool {
        !matches!(self, Self::Discard)
    }
}

/// Stores the bytes of one request; if dropped before `finish`, it leaves nothing behind.
#[derive(Debug)]
pub(crate) enum PieceWriter {
    Memory(memory::MemoryWriter),
    Disk(disk::DiskWriter),
    Discard(u64),
}

impl PieceWriter {
    pub(crate) async fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        match self {
            Self::Memory(writer) => writer.push(bytes),
            Self::Disk(writer) => writer.push(bytes).await?,
            Self::Discard(length) => *length += bytes.len() as u64,
        }
        Ok(())
    }

    pub(crate) async fn finish(self) -> io::Result<StoredPiece> {
        Ok(match self {
            Self::Memory(writer) => writer.finish(),
            Self::Disk(writer) => StoredPiece::File(Arc::new(writer.finish().await?)),
            Self::Discard(length) => StoredPiece::Void(length),
        })
    }
}

/// The stored bytes of one request.
#[derive(Clone, Debug)]
pub(crate) enum StoredPiece {
    Memory(Arc<[Bytes]>, u64),
    File(Arc<DataFile>),
    Void(u64),
}

impl StoredPiece {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Memory(_, length) | Self::Void(length) => *length,
            Self::File(file) => file.length(),
        }
    }

    /// Keeps the data file: its record is on disk, so the file outlives the process.
    pub(crate) fn keep(&self) {
        if let Self::File(file) = self {
            file.set_kept(true);
        }
    }

    /// Gives the data file up: it is removed when its last reader is dropped.
    pub(crate) fn release(&self) {
        if let Self::File(file) = self {
            file.set_kept(false);
        }
    }

    fn read(&self, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        match self {
            Self::Memory(chunks, _) => memory::read(chunks, range).boxed(),
            Self::File(file) => disk::read(Arc::clone(file), range),
            Self::Void(_) => discard::read(range).boxed(),
        }
    }
}

/// Reads `range` of the concatenated pieces.
pub(crate) fn read(pieces: &[StoredPiece], range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
    let mut parts = Vec::new();
    let mut start = 0;
    for piece in pieces {
        let end = start + piece.length();
        let from = range.start.max(start);
        let to = range.end.min(end);
        if from < to {
            parts.push((piece.clone(), from - start..to - start));
        }
        start = end;
    }
    stream::iter(parts).flat_map(|(piece, range)| piece.read(range)).boxed()
}

#[cfg(test)]
mod tests;
