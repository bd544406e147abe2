//! Storage in memory, in the buffers in which the bytes arrived.

use std::io;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, Stream};

use super::StoredPiece;

/// Bodies up to this size are copied into one buffer: a small slice would keep a whole read buffer alive.
const COPIED: u64 = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct MemoryWriter {
    chunks: Vec<Bytes>,
    length: u64,
}

impl MemoryWriter {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.length += bytes.len() as u64;
        self.chunks.push(bytes);
    }

    pub(crate) fn finish(self) -> StoredPiece {
        if self.length > COPIED {
            return StoredPiece::Memory(self.chunks.into(), self.length);
        }
        let mut copy = BytesMut::new();
        for chunk in &self.chunks {
            copy.extend_from_slice(chunk);
        }
        StoredPiece::Memory([copy.freeze()].into(), self.length)
    }
}

pub(crate) fn read(
    chunks: &[Bytes],
    range: Range<u64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let mut slices = Vec::new();
    let mut start = 0;
    for chunk in chunks {
        let end = start + chunk.len() as u64;
        let from = range.start.max(start);
        let to = range.end.min(end);
        if from < to {
            // Both offsets lie within the chunk, whose length is a usize.
            slices.push(Ok(chunk.slice((from - start) as usize..(to - start) as usize)));
        }
        start = end;
    }
    stream::iter(slices)
}
