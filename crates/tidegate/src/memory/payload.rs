//! The bytes of one request: where they are, and how they are produced again for a retry.
//!
//! Bytes that exist nowhere else are held in memory. Bytes that sit in a file are read into a few
//! small reused buffers just before they are sent, and checksummed while those are hot; a retry reads
//! them again, and must read the same.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};

use crate::types::checksum::{Algorithm, Checksum};
use crate::types::progress::Progress;

mod file;
mod source;
mod spooled;
#[cfg(test)]
mod tests;
mod unending;

use file::FileStream;
pub(crate) use file::Ring;
pub use source::SourceChanged;
pub(crate) use source::{CachedFile, ReadAt, SourceFile};
pub(crate) use spooled::Spooled;
pub(crate) use unending::Giver;
pub use unending::Unending;

/// Slabs that one request is streamed through: the connection holds up to two that it has not sent yet
/// while the third is read.
pub(crate) const RING: u64 = 3;

/// The bytes of one request; a clone is the same bytes again.
#[derive(Clone, Debug)]
pub struct Payload {
    len: u64,
    /// So many bytes of the source come before it.
    skip: u64,
    source: Source,
    moved: Arc<Moved>,
}

#[derive(Clone, Debug)]
enum Source {
    Memory { pieces: Arc<[Bytes]>, checksum: Checksum },
    File(Arc<Slice>),
}

/// A range of a file, or of what else can be read at any offset, and the buffers that it is read through.
#[derive(Debug)]
struct Slice {
    file: Arc<dyn ReadAt>,
    offset: u64,
    ring: Mutex<Ring>,
    algorithm: Algorithm,
    /// Known once the range has been read to its end, by this or by another that stands for the same.
    checksum: Arc<OnceLock<Checksum>>,
}

impl Payload {
    fn new(len: u64, source: Source) -> Self {
        Self { len, skip: 0, source, moved: Arc::default() }
    }

    /// How many bytes its streams have given so far: where this stands still, nothing is being sent.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.given.load(Relaxed)
    }

    /// What it is sent by counts in `progress` from here on, until [`is_sent`](Self::is_sent).
    pub(crate) fn counts_in(&self, progress: &Progress) {
        self.moved.progress.get_or_init(|| progress.clone());
    }

    /// The request that carried it has ended: what it has sent counts no more, or as acknowledged.
    pub(crate) fn is_sent(&self) {
        self.moved.settle();
    }

    /// Bytes held in memory, in order, with their checksum.
    pub fn from_memory(pieces: Vec<Bytes>, checksum: Checksum) -> Self {
        Self::new(checksum.covers(), Source::Memory { pieces: pieces.into(), checksum })
    }

    /// `len` bytes of `file` (or a journal) from `offset`, read through `ring` as they are sent.
    pub(crate) fn from_file(
        file: Arc<dyn ReadAt>,
        offset: u64,
        len: u64,
        ring: Ring,
        algorithm: Algorithm,
    ) -> Self {
        let slice = Slice { file, offset, ring: Mutex::new(ring), algorithm, checksum: Arc::default() };
        Self::new(len, Source::File(Arc::new(slice)))
    }

    /// What was spooled, and what was still in memory, of a part whose checksum was taken as it came
    /// in; read through `ring` as it is sent.
    pub(crate) fn from_spool(spooled: Spooled, ring: Ring) -> Self {
        let (len, sum) = (spooled.checksum().covers(), spooled.checksum());
        let slice = Slice {
            file: Arc::new(spooled),
            offset: 0,
            ring: Mutex::new(ring),
            algorithm: sum.algorithm(),
            checksum: Arc::new(OnceLock::from(sum)),
        };
        Self::new(len, Source::File(Arc::new(slice)))
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What follows the first `bytes` of it. Those are read all the same where they are in a file: what is
    /// sent of it then is known to be the end of what was sent before. Its checksum is not told.
    pub(crate) fn behind(&self, bytes: u64) -> Self {
        let bytes = bytes.min(self.len);
        Self { len: self.len - bytes, skip: self.skip + bytes, ..self.clone() }
    }

    /// The checksum of all the bytes, where it is known: in memory always, from a file once a stream
    /// of it was read to its end.
    pub fn checksum(&self) -> Option<Checksum> {
        if self.skip > 0 {
            return None;
        }
        match &self.source {
            Source::Memory { checksum, .. } => Some(*checksum),
            Source::File(slice) => slice.checksum.get().copied(),
        }
    }

    /// Which checksum is taken of it.
    pub fn algorithm(&self) -> Algorithm {
        match &self.source {
            Source::Memory { checksum, .. } => checksum.algorithm(),
            Source::File(slice) => slice.algorithm,
        }
    }

    /// The same bytes for a second request beside the first, which counts for itself what it has moved.
    /// Those of a file need buffers of their own: `None` where there is no memory to spare for them now.
    pub(crate) fn again(&self) -> Option<Self> {
        let source = match &self.source {
            Source::Memory { .. } => self.source.clone(),
            Source::File(slice) => {
                let ring = slice.ring.lock().unwrap_or_else(PoisonError::into_inner).another()?;
                Source::File(Arc::new(Slice {
                    file: slice.file.clone(),
                    offset: slice.offset,
                    ring: Mutex::new(ring),
                    algorithm: slice.algorithm,
                    checksum: slice.checksum.clone(),
                }))
            }
        };
        Some(Self { skip: self.skip, ..Self::new(self.len, source) })
    }

    /// The checksum of all the bytes; what is in a file and was not read yet is read for it.
    pub(crate) async fn read_checksum(&self) -> io::Result<Checksum> {
        let known = || self.checksum().or_else(|| self.is_empty().then(|| self.algorithm().empty()));
        if let Some(checksum) = known() {
            return Ok(checksum);
        }
        let mut stream = self.unsent();
        while let Some(piece) = stream.next().await {
            piece?;
        }
        known().ok_or_else(|| io::Error::other("the checksum is not known at the end of the bytes"))
    }

    /// The same bytes read into memory, in the pieces that [`stream`](Self::stream) gives. The pieces
    /// must all fit into the ring.
    pub(crate) async fn gather(&self) -> io::Result<Self> {
        let mut stream = self.unsent();
        let mut pieces = Vec::new();
        while let Some(piece) = stream.next().await {
            pieces.push(piece?);
        }
        let checksum = self.checksum().unwrap_or_else(|| self.algorithm().empty());
        Ok(Self::from_memory(pieces, checksum))
    }

    /// The bytes from the start, in pieces of at most a slab for files. The stream ends after exactly
    /// [`len`](Self::len) bytes or with an error: [`SourceChanged`] inside the `io::Error` where the
    /// file is shorter than it was, or reads differently from an earlier pass.
    pub fn stream(&self) -> PayloadStream {
        let inner = match &self.source {
            Source::Memory { pieces, .. } => Inner::Memory(pieces.clone(), 0),
            Source::File(slice) => {
                Inner::File(Box::new(FileStream::new(slice.clone(), self.skip + self.len)))
            }
        };
        let moved = self.moved.clone();
        PayloadStream { remaining: self.len, skip: self.skip, moved, counts: Some(self.len), inner }
    }

    /// The same stream for another purpose than to send it.
    fn unsent(&self) -> PayloadStream {
        PayloadStream { counts: None, ..self.stream() }
    }
}

/// How far the streams of a payload have come.
#[derive(Debug, Default)]
struct Moved {
    /// Bytes that they have given, all together.
    given: AtomicU64,
    /// Bytes that count in `progress` as sent by the request that is in flight: never more than the payload has.
    sent: AtomicU64,
    progress: OnceLock<Progress>,
}

impl Moved {
    fn send(&self, bytes: u64, len: u64) {
        let Some(progress) = self.progress.get() else { return };
        let more = bytes.min(len.saturating_sub(self.sent.load(Relaxed)));
        // In this order what is taken back is never more than what was counted.
        progress.sent(more);
        self.sent.fetch_add(more, Relaxed);
    }

    fn settle(&self) {
        if let Some(progress) = self.progress.get() {
            progress.unsent(self.sent.swap(0, Relaxed));
        }
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        self.settle();
    }
}

/// The bytes of a [`Payload`], once through.
#[derive(Debug)]
pub struct PayloadStream {
    remaining: u64,
    skip: u64,
    moved: Arc<Moved>,
    /// The payload's length, where the stream is sent; one that is only read does not count as sent.
    counts: Option<u64>,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Memory(Arc<[Bytes]>, usize),
    File(Box<FileStream>),
}

impl PayloadStream {
    /// How many bytes are still to come.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }
}

impl Stream for PayloadStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let piece = match &mut this.inner {
                Inner::Memory(pieces, next) => {
                    let piece = pieces.get(*next).cloned();
                    *next += 1;
                    piece.map(Ok)
                }
                Inner::File(stream) => ready!(stream.poll_next(cx)),
            };
            let Some(Ok(mut bytes)) = piece else { return Poll::Ready(piece) };
            this.moved.given.fetch_add(bytes.len() as u64, Relaxed);
            let skipped = this.skip.min(bytes.len() as u64);
            this.skip -= skipped;
            // Not more than the bytes' own length.
            bytes.advance(skipped as usize);
            if !bytes.is_empty() {
                if let Some(len) = this.counts {
                    this.moved.send(bytes.len() as u64, len);
                }
                this.remaining = this.remaining.saturating_sub(bytes.len() as u64);
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}
