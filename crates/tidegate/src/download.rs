//! Reads an object or a range of it: as a stream, as a seekable file, as blocks, or into a local file.

use std::future::IntoFuture;
use std::ops::{Bound, Range, RangeBounds};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{Stream, TryStreamExt};
use tokio::task::coop::poll_proceed;
use tokio::time::Instant;

use crate::engine::Context;
use crate::types::checksum::Hasher;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;

mod ahead;
mod blocks;
mod chunk;
mod direct;
pub(crate) mod into_file;
mod position;
mod ranges;
mod source;
#[cfg(test)]
mod tests;

use ahead::Ahead;
pub use blocks::{Block, BlockStream, BlocksBuilder};
use chunk::ChunkRead;
use direct::Direct;
pub use into_file::DownloadBuilder;
use ranges::Ranges;
use source::{ObjectSource, OpenObject};

/// The size of the first request after a seek: programs that seek often read little at each place.
const FIRST_REACH: u64 = 256 << 10;

/// Sets up a read. Awaiting the builder makes the first request, for all bytes to be read; for a small object it is
/// the only one.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] where the range ends before it begins, or begins past the object's end;
/// [`ErrorKind::Replaced`] where the key has another object than [`if_unchanged`](Self::if_unchanged) names.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before the builder is awaited"]
pub struct ReaderBuilder {
    context: Context,
    key: String,
    range: Option<(u64, Option<u64>)>,
    same: Option<Object>,
    progress: Progress,
}

impl ReaderBuilder {
    pub(crate) fn new(context: Context, key: String) -> Self {
        let progress = context.engine().progress.part();
        Self { context, key, range: None, same: None, progress }
    }

    /// Reads only these bytes; an end past the object's end means the object's end.
    pub fn range(mut self, range: impl RangeBounds<u64>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => Some(end.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        // All bytes are not a range: an empty object has no range to ask for.
        self.range = Some((start, end)).filter(|range| *range != (0, None));
        self
    }

    /// Fails with [`ErrorKind::Replaced`] unless the key still has the object that `object`
    /// describes ([`Object::is_same`]).
    pub fn if_unchanged(mut self, object: &Object) -> Self {
        self.same = Some(object.clone());
        self
    }

    /// The progress of this read.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(crate) async fn start(self) -> Result<Reader> {
        let source = Arc::new(ObjectSource::new(&self.context, &self.key, self.progress.clone()));
        if let Some((start, Some(end))) = self.range
            && end < start
        {
            let message = format!("the range {start}..{end} ends before it begins");
            return Err(Error::new(ErrorKind::InvalidInput, Operation::Get, source.url(), message));
        }
        self.context.check(Operation::Get, &self.key, None)?;
        let began = Instant::now();
        let range = self.range.map(|(start, end)| start..end.unwrap_or(u64::MAX));
        let opened = source.open(range, self.same.as_ref()).await;
        let OpenObject { object, range, pieces } = opened.map_err(|failure| source.failed(failure, 0))?;
        // An object that is read whole is compared with the store's checksum.
        let algorithm = self.context.backend().capabilities().checksum;
        let hasher = (range == (0..object.size)).then(|| Hasher::new(algorithm));
        let ranges = Ranges::one(range.clone());
        let ahead = match source.is_one_stream(&object) {
            true => None,
            false => Ahead::for_more_than_one_request(&ranges, &self.context.engine().budget),
        };
        Ok(Reader {
            source,
            object: Arc::new(self.context.relative(object)),
            at: range.start,
            direct: Some(Direct::of(pieces, range)),
            reach: u64::MAX,
            ranges,
            ahead,
            hasher,
            began,
            piece: Bytes::new(),
            progress: self.progress,
            failed: None,
        })
    }

    /// All bytes of the range, if they are no more than the memory budget. They are the caller's own memory, as a
    /// buffer would be that the caller reads into.
    pub(crate) async fn bytes(self) -> Result<Bytes> {
        let budget = self.context.engine().budget.total();
        let mut reader = self.start().await?;
        let Range { start, end } = reader.range();
        let length = end - start;
        if length > budget {
            let message = format!(
                "{length} bytes are more than the memory budget of {budget} bytes: read them with a reader, get them \
                 in ranges, or download them to a file"
            );
            return Err(Error::new(ErrorKind::TooLarge, Operation::Get, reader.source.url(), message));
        }
        let first = reader.try_next().await?.unwrap_or_default();
        if first.len() as u64 == length {
            // The checksum is compared at the end of the stream.
            while reader.try_next().await?.is_some() {}
            return Ok(first);
        }
        let mut bytes = BytesMut::with_capacity(length as usize);
        bytes.extend_from_slice(&first);
        drop(first);
        while let Some(piece) = reader.try_next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }
}

impl IntoFuture for ReaderBuilder {
    type Output = Result<Reader>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

/// The bytes of an object in order: a [`Stream`] of [`Bytes`], an [`AsyncRead`], [`AsyncBufRead`] and [`AsyncSeek`].
///
/// A small object is one request. Of a larger object, ranges are requested ahead of the consumer, as many at a time
/// as it takes to keep the consumer busy, within the limiter's limit and the memory that the engine can spare (at
/// most half of it, for all readers together; it is called back where writers need it). Without spare memory a reader
/// continues over one request, whose bytes are taken as the consumer asks for them.
///
/// All bytes are of one object, the one that the first answer described: if the key gets another object meanwhile,
/// the read fails with [`ErrorKind::Replaced`]. If the store gives neither a tag nor a version of the object
/// ([`Object::has_identity`]), one request brings all bytes; if that request breaks, or the reader seeks back, the
/// error is [`ErrorKind::Unsupported`]. A request that breaks is resumed from the exact byte; a request that is far
/// slower than its peers is hedged with a second one. The stream ends without an error only after every byte of the
/// range. Where the object is read whole and in order, bytes that do not match the store's checksum are an error at
/// the end. An error is final, and every later poll returns it again: stop at the first.
///
/// Dropping the reader cancels its requests. A consumer may pause for as long as it likes. A consumer that never
/// pauses still lets other tasks run from time to time (tokio's cooperative budget).
///
/// [`AsyncRead`]: tokio::io::AsyncRead
/// [`AsyncBufRead`]: tokio::io::AsyncBufRead
/// [`AsyncSeek`]: tokio::io::AsyncSeek
pub struct Reader {
    source: Arc<ObjectSource>,
    object: Arc<Object>,
    ranges: Ranges,
    /// The next byte of the object after `piece`.
    at: u64,
    direct: Option<Direct>,
    /// The size of the next request that is opened after a seek.
    reach: u64,
    ahead: Option<Ahead>,
    hasher: Option<Hasher>,
    began: Instant,
    /// Bytes that were received but not yet read into a buffer.
    piece: Bytes,
    progress: Progress,
    /// The error that every later poll returns.
    failed: Option<Error>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("url", &self.source.url())
            .field("range", &self.range())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// The object being read, as the store described it.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The bytes of the object that are read.
    pub fn range(&self) -> Range<u64> {
        self.ranges.span()
    }

    /// The next bytes; `None` after the last.
    fn poll_piece(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Some(Err(error.again())));
        }
        if let Err(inherited) = self.source.check_owner() {
            return Poll::Ready(Some(Err(inherited)));
        }
        let next = loop {
            let Some(range) = self.ranges.from(self.at) else {
                return Poll::Ready(self.check_end().err().map(|error| Err(self.fail(error))));
            };
            self.at = range.start;
            if self.ahead.is_some() && self.source.ignores_ranges() {
                self.turn_to_one_stream();
            }
            // Bytes from `until` on come from chunks.
            self.direct.take_if(|direct| direct.at.max(range.start) >= direct.until);
            self.read_ahead(range.end);
            if let Some(chunk) = self.ahead.as_ref().and_then(|ahead| ahead.at(self.at)) {
                match (chunk.poll(self.at, cx), &mut self.ahead) {
                    (Poll::Ready(ChunkRead::Bytes(piece)), _) => break Ok(piece),
                    // The chunk may just have failed because the store ignores ranges.
                    (Poll::Ready(ChunkRead::Failed(_)), Some(_)) if self.source.ignores_ranges() => {}
                    (Poll::Ready(ChunkRead::Failed(error)), _) => break Err(error),
                    (Poll::Ready(ChunkRead::CalledBack), Some(ahead)) => ahead.drop_at(self.at),
                    (Poll::Pending, Some(ahead)) => {
                        ahead.waits_for(self.at);
                        // Keep more requests in flight while this chunk is awaited.
                        self.read_ahead(range.end);
                        return Poll::Pending;
                    }
                    (_, None) => {}
                }
                continue;
            }
            match &mut self.direct {
                Some(direct) if (direct.at..direct.until).contains(&self.at) => {
                    let skip = self.at - direct.at;
                    match direct.poll(&self.source, &self.object, cx) {
                        Poll::Ready(Ok(piece)) if piece.len() as u64 <= skip => {}
                        Poll::Ready(Ok(piece)) => break Ok(piece.slice(skip as usize..)),
                        Poll::Ready(Err(error)) => break Err(error),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                _ if self.source.ignores_ranges() => {
                    let asked = self.at..self.ranges.span().end;
                    self.direct = Some(Direct::open(&self.source, &self.object, asked));
                }
                _ => {
                    let end = range.end.min(self.at.saturating_add(self.reach));
                    self.reach = self.reach.saturating_mul(2);
                    let next = self.ahead.as_ref().and_then(|ahead| ahead.next_after(self.at));
                    let asked = self.at..end.min(next.unwrap_or(end));
                    self.direct = Some(Direct::open(&self.source, &self.object, asked));
                }
            }
        };
        Poll::Ready(Some(match next {
            Ok(piece) => {
                self.take_in(&piece);
                Ok(piece)
            }
            Err(error) => Err(self.fail(error)),
        }))
    }

    /// The store sends the whole object for each chunk: stops reading ahead, and reads the open request to its end.
    fn turn_to_one_stream(&mut self) {
        self.ahead = None;
        // A request that has reached `until` has dropped the bytes after it.
        self.direct.take_if(|direct| direct.at >= direct.until);
        if let Some(direct) = &mut self.direct {
            direct.until = direct.asked;
        }
    }

    /// Requests chunks ahead of the open request, or of the consumer where none is open. `end` is the end of the
    /// range that the consumer is in.
    fn read_ahead(&mut self, end: u64) {
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.is_due(self.at)) else { return };
        let Some(size) = ahead.chunk_size() else { return };
        let (source, object, ranges) = (&self.source, &self.object, &self.ranges);
        match &mut self.direct {
            Some(direct) if (direct.at..direct.until).contains(&self.at) => {
                if direct.until < end || end - self.at <= 2 * size {
                    // The request ends at a chunk already, or its range ends soon. A reader that has just sought gets
                    // no chunks yet.
                    if self.reach == u64::MAX {
                        ahead.fill(source, object, direct.until, size, ranges);
                    }
                } else if ahead.fill(source, object, self.at + size, size, ranges) {
                    direct.until = self.at + size;
                }
            }
            _ if self.reach >= size => {
                self.reach = u64::MAX;
                ahead.fill(source, object, self.at, size, ranges);
                ahead.looked(self.at);
            }
            _ => {}
        }
    }

    fn take_in(&mut self, piece: &Bytes) {
        self.at += piece.len() as u64;
        self.progress.acknowledged(piece.len() as u64);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
    }

    fn check_end(&mut self) -> Result<()> {
        match self.hasher.take() {
            Some(hasher) => self.source.check(&self.object, &hasher.finish(), self.began),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        tracing::debug!(%error, "a read failed");
        self.failed = Some(error.again());
        (self.direct, self.ahead) = (None, None);
        error
    }
}

impl Stream for Reader {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let turn = ready!(poll_proceed(cx));
        let next = match self.piece.is_empty() {
            true => self.poll_piece(cx),
            false => Poll::Ready(Some(Ok(std::mem::take(&mut self.piece)))),
        };
        if next.is_ready() {
            turn.made_progress();
        }
        next
    }
}
