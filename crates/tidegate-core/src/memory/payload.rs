//! The bytes of one request: where they are, and how a retry reads them again.
//!
//! Bytes that exist nowhere else are held in memory. Bytes that are in a file are read into a few small reused
//! buffers just before they are sent, and checksummed while they are in the CPU's cache; a retry reads them again,
//! and must read the same bytes.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};

use crate::types::checksum::{Algorithm, Checksum, Hasher};
use crate::types::progress::Progress;
use crate::types::transfer_rate::{HeldTime, SliceTurn, TransferRate};

mod disk_read;
mod file;
mod source;
mod spooled;
#[cfg(test)]
mod tests;
mod unending;

use file::FileStream;
pub use file::Ring;
pub use source::{CachedFile, ReadAt, SourceChanged, SourceFile};
pub use spooled::Spooled;
pub use unending::{Giver, Unending};

/// Slabs that one request is streamed through: the connection holds up to two that it has not sent yet
/// while the third is read.
pub const RING: u64 = 3;

/// The bytes of one request; a clone stands for the same bytes.
#[derive(Clone, Debug)]
pub struct Payload {
    len: u64,
    /// How many bytes of the source come before this payload.
    skip: u64,
    source: PayloadSource,
    moved: Arc<Moved>,
}

#[derive(Clone, Debug)]
enum PayloadSource {
    Memory { pieces: Arc<[Bytes]>, checksum: Checksum },
    File(Arc<Slice>),
}

/// A range of a file, or of another source that can be read at any offset, and the buffers that it is read through.
#[derive(Debug)]
struct Slice {
    file: Arc<dyn ReadAt>,
    offset: u64,
    ring: Mutex<Ring>,
    algorithm: Algorithm,
    /// Known once the range has been read to its end, by this slice or by another one of the same bytes.
    checksum: Arc<OnceLock<Checksum>>,
}

impl Payload {
    fn new(len: u64, source: PayloadSource) -> Self {
        Self { len, skip: 0, source, moved: Arc::default() }
    }

    /// How many bytes its streams have given so far: while this stands still, nothing is being sent.
    pub fn moved(&self) -> u64 {
        self.moved.given.load(Relaxed)
    }

    /// From here on, bytes that a request sends count in `progress`, until [`is_sent`](Self::is_sent).
    pub fn counts_in(&self, progress: &Progress) {
        self.moved.progress.get_or_init(|| progress.clone());
    }

    /// From here on, streams that are sent keep to the rate, if there is one.
    pub fn keeps_to(&self, rate: Option<&Arc<TransferRate>>) {
        if let Some(rate) = rate {
            self.moved.rate.get_or_init(|| (rate.clone(), Arc::default()));
        }
    }

    /// How long the rate has held back its streams.
    pub fn held_back(&self) -> Duration {
        self.moved.rate.get().map_or(Duration::ZERO, |(_, held)| held.total())
    }

    /// How long its streams have waited for the disk that its bytes are on.
    pub fn disk_waits(&self) -> Duration {
        self.moved.disk_waits.total()
    }

    /// The request that carried it has ended: its sent bytes do not count any more, or count as acknowledged.
    pub fn is_sent(&self) {
        self.moved.settle();
    }

    /// Bytes held in memory, in order, with their checksum.
    pub fn from_memory(pieces: Vec<Bytes>, checksum: Checksum) -> Self {
        Self::new(checksum.covers(), PayloadSource::Memory { pieces: pieces.into(), checksum })
    }

    /// `len` bytes of `file` (or a journal) from `offset`, read through `ring` as they are sent.
    pub fn from_file(file: Arc<dyn ReadAt>, offset: u64, len: u64, ring: Ring, algorithm: Algorithm) -> Self {
        let slice = Slice { file, offset, ring: Mutex::new(ring), algorithm, checksum: Arc::default() };
        Self::new(len, PayloadSource::File(Arc::new(slice)))
    }

    /// A part whose bytes are in the spool, or still in memory, and whose checksum was taken as they came in; read
    /// through `ring` as it is sent.
    pub fn from_spool(spooled: Spooled, ring: Ring) -> Self {
        let (len, sum) = (spooled.checksum().covers(), spooled.checksum());
        let slice = Slice {
            file: Arc::new(spooled),
            offset: 0,
            ring: Mutex::new(ring),
            algorithm: sum.algorithm(),
            checksum: Arc::new(OnceLock::from(sum)),
        };
        Self::new(len, PayloadSource::File(Arc::new(slice)))
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The payload without its first `bytes`. In a file those are read all the same: this proves that the rest is
    /// the end of the bytes that were sent before. The checksum of the rest is not known.
    pub fn behind(&self, bytes: u64) -> Self {
        let bytes = bytes.min(self.len);
        Self { len: self.len - bytes, skip: self.skip + bytes, ..self.clone() }
    }

    /// The payload's first `bytes`, of a payload that was not [shortened](Self::behind).
    pub fn first(&self, bytes: u64) -> Self {
        let mut left = bytes.min(self.len);
        let source = match &self.source {
            PayloadSource::Memory { pieces, checksum } => {
                let (mut first, mut hasher) = (Vec::new(), Hasher::new(checksum.algorithm()));
                for piece in pieces.iter() {
                    let piece = piece.slice(..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
                    hasher.update(&piece);
                    left -= piece.len() as u64;
                    first.push(piece);
                }
                PayloadSource::Memory { pieces: first.into(), checksum: hasher.finish() }
            }
            PayloadSource::File(slice) => PayloadSource::File(Arc::new(Slice {
                file: slice.file.clone(),
                offset: slice.offset,
                ring: Mutex::new(slice.ring.lock().unwrap_or_else(PoisonError::into_inner).clone()),
                algorithm: slice.algorithm,
                checksum: Arc::default(),
            })),
        };
        let first = Self::new(bytes.min(self.len), source);
        first.keeps_to(self.moved.rate.get().map(|(rate, _)| rate));
        first
    }

    /// The checksum of all the bytes, if it is known: in memory always, from a file once a stream of it was read to
    /// its end.
    pub fn checksum(&self) -> Option<Checksum> {
        if self.skip > 0 {
            return None;
        }
        match &self.source {
            PayloadSource::Memory { checksum, .. } => Some(*checksum),
            PayloadSource::File(slice) => slice.checksum.get().copied(),
        }
    }

    /// The algorithm of its checksum.
    pub fn algorithm(&self) -> Algorithm {
        match &self.source {
            PayloadSource::Memory { checksum, .. } => checksum.algorithm(),
            PayloadSource::File(slice) => slice.algorithm,
        }
    }

    /// The same bytes for a second request beside the first, which counts its own moved bytes. Bytes of a file need
    /// buffers of their own: `None` if there is no spare memory for them now.
    pub fn again(&self) -> Option<Self> {
        let source = match &self.source {
            PayloadSource::Memory { .. } => self.source.clone(),
            PayloadSource::File(slice) => {
                let ring = slice.ring.lock().unwrap_or_else(PoisonError::into_inner).another()?;
                PayloadSource::File(Arc::new(Slice {
                    file: slice.file.clone(),
                    offset: slice.offset,
                    ring: Mutex::new(ring),
                    algorithm: slice.algorithm,
                    checksum: slice.checksum.clone(),
                }))
            }
        };
        let again = Self { skip: self.skip, ..Self::new(self.len, source) };
        again.keeps_to(self.moved.rate.get().map(|(rate, _)| rate));
        Some(again)
    }

    /// Whether the bytes in memory are those of their checksum. True for a file: each read of a file is compared with
    /// the first one.
    pub async fn is_of_its_checksum(&self) -> io::Result<bool> {
        let PayloadSource::Memory { checksum, .. } = &self.source else { return Ok(true) };
        if self.skip > 0 {
            return Ok(true);
        }
        let (mut stream, mut hasher) = (self.unsent(), Hasher::new(checksum.algorithm()));
        while let Some(piece) = stream.next().await {
            hasher.update(&piece?);
        }
        Ok(hasher.finish() == *checksum)
    }

    /// The checksum of all the bytes; a file that was not read yet is read for it.
    pub async fn read_checksum(&self) -> io::Result<Checksum> {
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
    pub async fn gather(&self) -> io::Result<Self> {
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
            PayloadSource::Memory { pieces, .. } => Inner::Memory(pieces.clone(), 0),
            PayloadSource::File(slice) => Inner::File(Box::new(FileStream::new(
                slice.clone(),
                self.skip + self.len,
                self.moved.clone(),
            ))),
        };
        let moved = self.moved.clone();
        let turn = moved.rate.get().map(|(rate, held)| SliceTurn::new(rate.clone(), held.clone()));
        let slices = turn.map(|turn| Slices { turn, piece: Bytes::new() });
        PayloadStream { remaining: self.len, skip: self.skip, moved, counts: Some(self.len), slices, inner }
    }

    /// The same stream for another purpose than to send it.
    pub fn unsent(&self) -> PayloadStream {
        PayloadStream { counts: None, slices: None, ..self.stream() }
    }
}

/// Counts the bytes of a payload's streams.
#[derive(Debug, Default)]
struct Moved {
    /// Bytes that all streams together have given.
    given: AtomicU64,
    /// Bytes that count in `progress` as sent by the request that is in flight: never more than the payload has.
    sent: AtomicU64,
    progress: OnceLock<Progress>,
    /// The rate that streams keep to, and how long it held them back.
    rate: OnceLock<(Arc<TransferRate>, Arc<HeldTime>)>,
    /// How long streams have waited for the disk that their bytes are on.
    disk_waits: HeldTime,
}

impl Moved {
    fn send(&self, bytes: u64, len: u64) {
        let Some(progress) = self.progress.get() else { return };
        let more = bytes.min(len.saturating_sub(self.sent.load(Relaxed)));
        // In this order, `settle` never takes back more than was counted.
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

/// One pass over the bytes of a [`Payload`].
#[derive(Debug)]
pub struct PayloadStream {
    remaining: u64,
    skip: u64,
    moved: Arc<Moved>,
    /// The payload's length if the stream is sent; a stream that is only read does not count as sent.
    counts: Option<u64>,
    /// Where a rate is to be kept.
    slices: Option<Slices>,
    inner: Inner,
}

/// A piece that is given slice by slice, as the rate allows.
#[derive(Debug)]
struct Slices {
    turn: SliceTurn,
    /// The rest of the piece.
    piece: Bytes,
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

    /// Counts bytes that are given now.
    fn gives(&mut self, bytes: Bytes) -> Bytes {
        let len = bytes.len() as u64;
        self.moved.given.fetch_add(len, Relaxed);
        if let Some(total) = self.counts {
            self.moved.send(len, total);
        }
        self.remaining = self.remaining.saturating_sub(len);
        bytes
    }
}

impl Stream for PayloadStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(Slices { turn, piece }) = &mut this.slices
                && !piece.is_empty()
            {
                let most = ready!(turn.poll_take(piece.len() as u64, cx));
                // Not more than the piece's own length.
                let slice = piece.split_to(most as usize);
                return Poll::Ready(Some(Ok(this.gives(slice))));
            }
            let piece = match &mut this.inner {
                Inner::Memory(pieces, next) => {
                    let piece = pieces.get(*next).cloned();
                    *next += 1;
                    piece.map(Ok)
                }
                Inner::File(stream) => ready!(stream.poll_next(cx)),
            };
            let Some(Ok(mut bytes)) = piece else { return Poll::Ready(piece) };
            let skipped = this.skip.min(bytes.len() as u64);
            this.skip -= skipped;
            this.moved.given.fetch_add(skipped, Relaxed);
            // Not more than the bytes' own length.
            bytes.advance(skipped as usize);
            if bytes.is_empty() {
                continue;
            }
            match &mut this.slices {
                Some(slices) => slices.piece = bytes,
                None => return Poll::Ready(Some(Ok(this.gives(bytes)))),
            }
        }
    }
}
