//! Reading: one object or a range of it, as a stream, as a file that is sought in, or into a file.

use std::ops::{Bound, Range, RangeBounds};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use tokio::task::coop::poll_proceed;
use tokio::time::Instant;

use crate::backend::Body;
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
use chunk::Look;
use direct::Direct;
pub use into_file::DownloadBuilder;
use ranges::Ranges;
use source::Source;

/// What is asked for first behind a seek: whoever seeks often reads little from each place.
const FIRST_REACH: u64 = 256 << 10;

/// Sets up a read.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before `start`"]
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

    /// Reads only these bytes; an end beyond the object's is the object's.
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
        // From the first byte to the last is no range: of an empty object there would be none.
        self.range = Some((start, end)).filter(|range| *range != (0, None));
        self
    }

    /// Reads only the object that was described so before ([`Object::is_same`]).
    pub fn same(mut self, object: &Object) -> Self {
        self.same = Some(object.clone());
        self
    }

    /// The figures of the read to be.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Makes the first request, for all that is to be read: of what is not large it is the only one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where the range ends before it begins, or begins past the object's end;
    /// [`ErrorKind::Replaced`] where the key has another object than [`same`](Self::same) says.
    pub async fn start(self) -> Result<Reader> {
        let source = Arc::new(Source::new(&self.context, &self.key, self.progress.clone()));
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
        let Body { object, range, stream, .. } = opened.map_err(|failure| source.failed(failure, 0))?;
        // What is read whole is compared with the checksum that the store keeps.
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
            direct: Some(Direct::of(stream, range)),
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
}

/// The bytes of an object in order: a [`Stream`] of [`Bytes`], an [`AsyncRead`], [`AsyncBufRead`] and
/// [`AsyncSeek`].
///
/// Small objects are one request. Of larger ones, ranges are asked for ahead of the consumer, as many at a time
/// as it takes to keep it busy, within the limiter's bound and the memory that the engine can spare (at most
/// half of it, for all readers together; it is called back where writers need it). Without memory to spare a
/// reader goes on, over one request whose bytes are taken as the consumer asks for them.
///
/// All bytes are of one object, the one that the first answer described: where the key gets another meanwhile,
/// reading on is [`ErrorKind::Replaced`]. Where the store gives neither a tag nor a version of the object
/// ([`Object::has_identity`]), one request brings all bytes; when that breaks, or the reader is sought back, the error
/// is [`ErrorKind::Unsupported`]. A request that breaks is made again from the exact byte, one that is far
/// slower than its peers is made a second time beside itself. It ends cleanly only after every byte of the
/// range; where the object is read whole and in order, bytes that do not match the checksum that the store keeps
/// are an error at the end. An error is the last that it gives, and it gives it again however often it is
/// asked: stop at the first.
///
/// Dropping it cancels its requests. A consumer may stop for as long as it likes. One that does not lets other tasks
/// run from time to time (tokio's cooperative budget).
///
/// [`AsyncRead`]: tokio::io::AsyncRead
/// [`AsyncBufRead`]: tokio::io::AsyncBufRead
/// [`AsyncSeek`]: tokio::io::AsyncSeek
pub struct Reader {
    source: Arc<Source>,
    object: Arc<Object>,
    ranges: Ranges,
    /// The next byte of the object that is to come behind `piece`.
    at: u64,
    direct: Option<Direct>,
    /// How far the next request goes that is opened behind a seek.
    reach: u64,
    ahead: Option<Ahead>,
    hasher: Option<Hasher>,
    began: Instant,
    /// What was received and not read yet, by those who read into buffers.
    piece: Bytes,
    progress: Progress,
    /// An error that is told to all who ask.
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
    /// The object that is read, as the store described it.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Which bytes of it are read.
    pub fn range(&self) -> Range<u64> {
        self.ranges.span()
    }

    /// The next bytes, `None` behind the last.
    fn poll_piece(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Some(Err(error.again())));
        }
        let next = loop {
            let Some(range) = self.ranges.from(self.at) else {
                return Poll::Ready(self.check_end().err().map(|error| Err(self.fail(error))));
            };
            self.at = range.start;
            if self.ahead.is_some() && self.source.ignores_ranges() {
                self.turn_to_one_stream();
            }
            // What lies behind its last byte is left to chunks.
            self.direct.take_if(|direct| direct.at.max(range.start) >= direct.until);
            self.read_ahead(range.end);
            if let Some(chunk) = self.ahead.as_ref().and_then(|ahead| ahead.at(self.at)) {
                match (chunk.poll(self.at, cx), &mut self.ahead) {
                    (Poll::Ready(Look::Bytes(piece)), _) => break Ok(piece),
                    // It may have failed for that very reason, just now.
                    (Poll::Ready(Look::Failed(_)), Some(_)) if self.source.ignores_ranges() => {}
                    (Poll::Ready(Look::Failed(error)), _) => break Err(error),
                    (Poll::Ready(Look::CalledBack), Some(ahead)) => ahead.drop_at(self.at),
                    (Poll::Pending, Some(ahead)) => {
                        ahead.waits_for(self.at);
                        // So that more are under way while this one is waited for.
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

    /// The store sends the whole object for each chunk: nothing is read ahead any more, and the open request is read
    /// to its end.
    fn turn_to_one_stream(&mut self) {
        self.ahead = None;
        // Of one that has come to where the first chunk began, bytes were left out behind that.
        self.direct.take_if(|direct| direct.at >= direct.until);
        if let Some(direct) = &mut self.direct {
            direct.until = direct.asked;
        }
    }

    /// Asks for what lies ahead of the open request, or of the consumer where there is none; the range that it is
    /// in ends at `end`.
    fn read_ahead(&mut self, end: u64) {
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.is_due(self.at)) else { return };
        let Some(size) = ahead.chunk_size() else { return };
        let (source, object, ranges) = (&self.source, &self.object, &self.ranges);
        match &mut self.direct {
            Some(direct) if (direct.at..direct.until).contains(&self.at) => {
                if direct.until < end || end - self.at <= 2 * size {
                    // It ends where a chunk begins already, or soon; or it is of a reader that seeks.
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
