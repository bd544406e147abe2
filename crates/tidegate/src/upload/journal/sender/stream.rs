//! The stream: one request that stays open and takes bytes as the journal has them, until it breaks.
//!
//! While it has nothing to send it holds a connection, but neither memory nor a limiter permit: both are
//! taken for a chunk at a time. The store is asked on another connection how many bytes of the stream it has
//! for good: Google's reference has the client "call QueryWriteStatus() at any time to determine how much
//! data has been processed", for one that "needs to know which data can be safely evicted", and `bytes */*`
//! asks the same session the same; over gRPC the question is sent on the stream itself. Should a store break
//! the stream off because of the question, the next stream continues from where the store stands.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{Instrument, debug};

use super::appending::AppendSender;
use crate::backend::{Appended, Fault, FaultKind, Session};
use crate::engine::journaling::Feed;
use crate::engine::limiter::Outcome;
use crate::engine::request::{answer, is_held_back};
use crate::memory::payload::{Giver, Unending};
use crate::types::error::{Error, Operation, Result};
use crate::upload::source::journal::JournalRanges;

/// How long until a store that has not acknowledged all that was sent is asked again; then twice as long each
/// time.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often the store is asked while the disk is full. A store that has acknowledged nothing new for as long
/// as [`ASK_AGAIN`] may have nothing of the stream for good before the stream ends.
const ASK_WHEN_FULL: Duration = Duration::from_millis(100);

/// How long a stream may have nothing to send. Then it is ended, before something on the way drops its
/// connection without notice.
const IDLE: Duration = Duration::from_secs(30);

/// How a stream ended.
enum StreamEnd {
    /// The store has ended the stream.
    Answered(Result<Appended, Fault>),
    /// The stream must be broken off: the rest is for the request that publishes.
    Last,
    /// The stream must be broken off, to decide anew what comes next.
    Enough,
    /// There was nothing to send for long.
    Idle,
    Failed(Fault),
    Error(Error),
}

/// Gives a stream its bytes.
struct Feeding<'a> {
    source: &'a Arc<JournalRanges>,
    /// Whether a record may name the session.
    on_record: bool,
    feed: watch::Receiver<Feed>,
    giver: Giver,
    chunk: u64,
    /// Counts from 1.
    attempt: u32,
    read: Arc<AtomicU64>,
    /// How far the stream was given bytes.
    sent: &'a watch::Sender<u64>,
}

impl AppendSender {
    /// Streams from where the session stands, until the stream breaks or has done its part.
    pub(super) async fn stream(&mut self) -> Result<()> {
        let source = self.link.source.clone();
        let upload = &source.upload;
        let session = upload.session().await?;
        let (began, again) = (self.stored, self.again.take());
        (self.is_sure, self.idle, self.quiet) = (false, None, None);
        let (giver, bytes) = Unending::new();
        let (sent, asked) = watch::channel(began);
        let feeding = Feeding {
            source: &source,
            on_record: self.link.on_record,
            feed: self.link.feed.clone(),
            giver,
            chunk: self.chunk,
            attempt: self.row.failed + 1,
            read: self.read.clone(),
            sent: &sent,
        };
        let _counted = upload.requests.progress.request(Operation::Part.name(), 0, again.is_some());
        let attempt = self.attempt(again.as_ref());
        let figures = self.figures(attempt);
        let request = async { upload.backend.need_append()?.stream(&session, began, bytes, attempt).await };
        let request = request.instrument(figures.span());
        let ended = tokio::select! {
            biased;
            answered = request => StreamEnd::Answered(answered),
            ended = feeding.run(began) => ended,
            ended = self.follow(&session, asked) => ended,
        };
        let sent = *sent.borrow();
        match &ended {
            StreamEnd::Answered(Err(fault)) | StreamEnd::Failed(fault) => {
                figures.failed(fault.kind.error_kind().name());
            }
            StreamEnd::Answered(Ok(_)) | StreamEnd::Last | StreamEnd::Enough | StreamEnd::Idle => {
                figures.succeeded();
            }
            StreamEnd::Error(_) => {}
        }
        match ended {
            StreamEnd::Answered(answer) => {
                if sent == source.reach(self.link.on_record) {
                    self.quiet = Some(sent);
                }
                self.answered(began, answer).await
            }
            StreamEnd::Last => {
                self.is_last = true;
                Ok(())
            }
            StreamEnd::Enough => Ok(()),
            StreamEnd::Idle => {
                self.idle = Some(sent);
                Ok(())
            }
            // The store has more than this stream has sent, and the journal has given the space of these
            // bytes back.
            StreamEnd::Failed(fault) if fault.kind == FaultKind::Source && sent < self.stored => Ok(()),
            StreamEnd::Failed(fault) => self.failed(fault).await,
            StreamEnd::Error(error) => {
                if source.goes_on(&error, source.is_finished()).await {
                    Ok(())
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Asks the store what it has each time that it was sent another chunk, and repeatedly while the disk is
    /// full.
    async fn follow(&mut self, session: &Session, mut sent: watch::Receiver<u64>) -> StreamEnd {
        let source = self.link.source.clone();
        let upload = &source.upload;
        let mut feed = self.link.feed.clone();
        let (mut due, mut pause) = (self.stored + self.chunk, ASK_AGAIN);
        let (mut asked, mut nothing_since) = (Instant::now(), None);
        loop {
            if !feed.borrow().full {
                nothing_since = None;
            }
            let (mut also_sent, least) = (sent.clone(), self.stored + self.chunk);
            // `sent` may get there only while this waits.
            let is_behind = async {
                if also_sent.wait_for(|sent| *sent >= least).await.is_err() {
                    std::future::pending::<()>().await;
                }
                sleep(pause).await;
            };
            let is_full = async {
                let full = feed.wait_for(|feed| feed.full).await.is_ok();
                if full {
                    sleep_until(asked + ASK_WHEN_FULL).await;
                }
                full
            };
            tokio::select! {
                _ = sent.wait_for(|sent| *sent >= due) => {}
                () = is_behind => pause *= 2,
                full = is_full => {
                    if !full {
                        return StreamEnd::Error(source.left_alone());
                    }
                    if nothing_since.get_or_insert_with(Instant::now).elapsed() >= ASK_AGAIN {
                        self.is_mute = true;
                        return StreamEnd::Enough;
                    }
                }
            }
            asked = Instant::now();
            due = *sent.borrow() + self.chunk;
            let question =
                |attempt| async move { upload.backend.need_append()?.position(session, attempt).await };
            match upload.requests.send(Operation::Part, None, None, question).await {
                Ok(Appended::Open(at)) if at >= self.stored => {
                    if at > self.stored {
                        (pause, nothing_since, self.is_mute) = (ASK_AGAIN, None, false);
                    }
                    if let Err(error) = self.stands_at(at).await {
                        return StreamEnd::Error(error);
                    }
                    // Late bytes of an earlier stream have arrived: the store has what this stream sends
                    // next.
                    if at > *sent.borrow() + self.chunk {
                        return StreamEnd::Enough;
                    }
                }
                Err(failure) if failure.fault.kind.is_retriable() => {
                    debug!(fault = %failure.fault, "the store does not say what it has of a stream");
                }
                // The store is asked once more, without a stream.
                _ => {
                    self.is_mute |= feed.borrow().full;
                    return StreamEnd::Enough;
                }
            }
        }
    }
}

/// A piece that a connection holds.
struct LentPiece {
    piece: Bytes,
    /// Closed when the last piece is dropped.
    _lent: mpsc::Sender<()>,
}

impl AsRef<[u8]> for LentPiece {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

fn source_fault(error: io::Error) -> Fault {
    Fault::new(FaultKind::Source, error.to_string()).with_source(error)
}

impl Feeding<'_> {
    async fn run(mut self, mut at: u64) -> StreamEnd {
        loop {
            let to = match self.next(at).await {
                Ok(to) => to,
                Err(ended) => return ended,
            };
            if let Err(ended) = self.give(at..to).await {
                return ended;
            }
            at = to;
            self.sent.send_replace(at);
        }
    }

    /// How far to send next; waits for bytes that are durable.
    async fn next(&mut self, at: u64) -> Result<u64, StreamEnd> {
        loop {
            let Feed { length, finish, .. } = *self.feed.borrow_and_update();
            let reach = self.source.reach(self.on_record);
            if finish.is_some() && reach < length {
                return Err(StreamEnd::Enough);
            }
            if finish.is_some() && length.saturating_sub(at) <= self.chunk {
                return Err(StreamEnd::Last);
            }
            if reach > at {
                let safe = self.source.durable(&mut self.feed, at + self.chunk, self.on_record).await;
                let safe = safe.map_err(StreamEnd::Error)?;
                if safe > at {
                    return Ok(safe.min(at + self.chunk));
                }
                continue;
            }
            match timeout(IDLE, self.feed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(StreamEnd::Error(self.source.left_alone())),
                Err(_) => return Err(StreamEnd::Idle),
            }
        }
    }

    /// Gives a range to the stream.
    async fn give(&self, range: Range<u64>) -> Result<(), StreamEnd> {
        let requests = &self.source.upload.requests;
        let (payload, _share) = self.source.payload(range, &self.read).await.map_err(StreamEnd::Error)?;
        let turn = requests.turn_with(&payload).await;
        let _in_flight = requests.progress.carries(payload.len());
        let given = async {
            let (lent, mut home) = mpsc::channel(1);
            let mut pieces = payload.stream();
            while let Some(piece) = pieces.next().await {
                let piece = LentPiece { piece: piece.map_err(source_fault)?, _lent: lent.clone() };
                if self.giver.give(Bytes::from_owner(piece)).await.is_err() {
                    // The answer of the request says why.
                    std::future::pending::<()>().await;
                }
            }
            drop(lent);
            // Others can have this share of the memory when the connection holds no piece any more.
            home.recv().await;
            Ok(())
        };
        let expected = requests.endpoint.latency.expected(payload.len());
        let patience = requests.retry.deadline(Operation::Part, payload.len(), self.attempt, 0, expected);
        let began = Instant::now();
        if let Err(fault) = answer(patience, Some(&payload), given).await {
            turn.end(if fault.kind == FaultKind::Timeout { Outcome::Overload } else { Outcome::Other });
            return Err(StreamEnd::Failed(fault));
        }
        // A shorter payload may still be in buffers, and says nothing about the store's speed.
        let measures = payload.len() == self.chunk && !is_held_back(payload.held_back(), began.elapsed());
        turn.end(if measures { Outcome::Moved(self.chunk) } else { Outcome::Other });
        Ok(())
    }
}
