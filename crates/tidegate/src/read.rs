//! Reading: one object or a range of it, as a stream.

use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::backend::{Body, Fault, FaultKind};
use crate::checksum::Hasher;
use crate::client::Store;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::object::Object;
use crate::progress::Progress;

/// Sets up a read.
#[derive(Clone, Debug)]
#[must_use = "nothing is read before `start`"]
pub struct ReaderBuilder {
    store: Store,
    key: String,
    range: Option<(u64, Option<u64>)>,
    progress: Progress,
}

impl ReaderBuilder {
    pub(crate) fn new(store: Store, key: String) -> Self {
        let progress = store.engine().progress.part();
        Self { store, key, range: None, progress }
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

    /// The figures of the read to be.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Makes the request; the reader gives its body.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where the range ends before it begins, or begins past the object's end.
    pub async fn start(self) -> Result<Reader> {
        let requests = self.store.requests(&self.key, self.progress.clone());
        if let Some((start, Some(end))) = self.range
            && end < start
        {
            let message = format!("the range {start}..{end} ends before it begins");
            return Err(Error::new(ErrorKind::InvalidInput, Operation::Get, requests.object, message));
        }
        self.store.check(Operation::Get, &self.key, None)?;
        let key = self.store.full_key(&self.key);
        let began = Instant::now();
        let range = self.range.map(|(start, end)| start..end.unwrap_or(u64::MAX));
        let get = || self.store.backend().get(&key, range.clone(), None);
        let Body { object, range, stream } = requests
            .send(Operation::Get, None, None, get)
            .await
            .map_err(|failure| failure.into_error(Operation::Get, &requests.object))?;
        // What is read whole is compared with the checksum that the store keeps.
        let algorithm = self.store.backend().capabilities().checksum;
        let whole = range == (0..object.size);
        let hasher = whole.then(|| Hasher::new(algorithm));
        let url = requests.object;
        Ok(Reader {
            url,
            object,
            range,
            stream,
            hasher,
            began,
            read: 0,
            piece: Bytes::new(),
            progress: self.progress,
            patience: requests.retry.policy.patience,
            stalled: None,
            end: None,
        })
    }
}

/// The bytes of an object in order: a [`Stream`] of [`Bytes`], and an [`AsyncRead`].
///
/// It ends cleanly only after every byte of the range; a body that ends early, or whose bytes do not
/// match the checksum that the store keeps for the whole object, is an error; so is a store that gives
/// no byte for as long as [`RetryPolicy::patience`](crate::RetryPolicy::patience). An error is the last
/// that it gives, and it gives it again however often it is asked: stop at the first. Dropping it cancels
/// the request.
pub struct Reader {
    url: String,
    object: Object,
    range: Range<u64>,
    stream: BoxStream<'static, Result<Bytes, Fault>>,
    hasher: Option<Hasher>,
    began: Instant,
    read: u64,
    piece: Bytes,
    progress: Progress,
    patience: Duration,
    /// Set while the store is waited for, and not while the reader's user is.
    stalled: Option<Pin<Box<Sleep>>>,
    /// How it ended, once it has: with every byte, or with an error that is told to all who ask.
    end: Option<Result<()>>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("url", &self.url)
            .field("range", &self.range)
            .field("read", &self.read)
            .finish()
    }
}

impl Reader {
    /// The object that is read, as the store described it.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Which bytes of it are read.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    fn fail(&mut self, kind: FaultKind, message: String) -> Error {
        let error = Error::from_fault(
            Fault::new(kind, message),
            Operation::Get,
            self.url.clone(),
            1,
            self.began.elapsed(),
        );
        tracing::debug!(%error, "a read failed");
        self.end = Some(Err(error.again()));
        error
    }

    fn take_in(&mut self, piece: &Bytes) {
        self.read += piece.len() as u64;
        self.progress.acknowledged(piece.len() as u64);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
    }

    fn check_end(&mut self) -> Result<()> {
        self.end = Some(Ok(()));
        let expected = self.range.end - self.range.start;
        if self.read != expected {
            let message = format!("the body ended after {} of {expected} bytes", self.read);
            return Err(self.fail(FaultKind::Transient, message));
        }
        if let Some(hasher) = self.hasher.take()
            && self.object.matches(&hasher.finish()) == Some(false)
        {
            let message =
                format!("the bytes read have {}, which the store's checksum is not", hasher.finish());
            return Err(self.fail(FaultKind::Integrity, message));
        }
        Ok(())
    }
}

impl Stream for Reader {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        match &self.end {
            None => {}
            Some(Ok(())) => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.again()))),
        }
        let Poll::Ready(next) = self.stream.poll_next_unpin(cx) else {
            let patience = self.patience;
            let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
            ready!(stalled.as_mut().poll(cx));
            let message = format!(
                "no byte within {:.0} s, at byte {}",
                patience.as_secs_f64(),
                self.range.start + self.read
            );
            return Poll::Ready(Some(Err(self.fail(FaultKind::Timeout, message))));
        };
        self.stalled = None;
        Poll::Ready(match next {
            Some(Ok(piece)) => {
                self.take_in(&piece);
                Some(Ok(piece))
            }
            Some(Err(fault)) => {
                let at = self.range.start + self.read;
                Some(Err(self.fail(fault.kind, format!("at byte {at}: {}", fault.message))))
            }
            None => self.check_end().err().map(Err),
        })
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.piece.is_empty() {
            match ready!(self.as_mut().poll_next(cx)) {
                Some(piece) => self.piece = piece?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = self.piece.len().min(buffer.remaining());
        buffer.put_slice(&self.piece[..taken]);
        self.piece.advance(taken);
        Poll::Ready(Ok(()))
    }
}
