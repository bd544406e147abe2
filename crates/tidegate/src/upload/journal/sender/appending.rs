//! Appends bytes to a session: streams them in one request that stays open while the producer writes
//! (`stream.rs`), and sends the last of them in a request that publishes the object.
//!
//! A stream never ends cleanly: its end would publish the bytes so far, but their checksum can't be sent
//! ahead of the stream, and the store takes none after it. So the stream is broken off, the store is asked
//! how many bytes it has, and the missing bytes are sent together with the size and the checksum of the whole
//! object. The store compares these before anything is visible.
//!
//! Whatever goes wrong, the session knows how many bytes it has, and the journal has the rest.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::time::Instant;
use tracing::{Instrument, debug};

use super::link::Link;
use crate::backend::{Attempt, Fault, FaultKind};
use crate::engine::journaling::Feed;
use crate::engine::limiter::Outcome;
use crate::engine::request::{answer, is_held_back};
use crate::types::checksum::Checksum;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::telemetry::AttemptFigures;

/// Sends to a session that is appended to.
pub(in crate::upload::journal) struct AppendSender {
    pub(super) link: Link,
    /// Most bytes in the request that publishes. The store is also asked what it has each time that it was
    /// sent this many more.
    pub(super) chunk: u64,
    /// Bytes that the session has for good, as far as the store has acknowledged them.
    pub(super) stored: u64,
    /// How many of these bytes the journal has a record of.
    pub(super) recorded: u64,
    /// Whether the session has exactly `stored` bytes: nothing was sent since the store said so.
    pub(super) is_sure: bool,
    pub(super) row: FailedAppends,
    /// Set where the last request has failed.
    pub(super) again: Option<Again>,
    /// Length of the object when a stream was ended because it had nothing to send: another stream waits for
    /// more bytes.
    pub(super) idle: Option<u64>,
    /// Length of the object when a stream broke that had sent all of it: another stream waits for more bytes
    /// than fit in the request that publishes.
    pub(super) quiet: Option<u64>,
    /// The store has acknowledged nothing new of a stream while the disk was full, and nothing of any stream
    /// since.
    pub(super) is_mute: bool,
    /// The rest goes with the request that publishes, however much of it the last stream has lost.
    pub(super) is_last: bool,
    /// The published object is not what was sent.
    pub(super) is_wrong: bool,
    /// Where the last request began that the store refused as invalid.
    pub(super) refused_at: Option<u64>,
    /// How far any request has read the journal.
    pub(super) read: Arc<AtomicU64>,
    /// Length of the object when an earlier process's session was resumed: the session can have no more bytes
    /// than that, but for those sent since.
    pub(super) found: u64,
}

/// Requests that failed in a row, with nothing new acknowledged in between.
#[derive(Debug, Default)]
pub(super) struct FailedAppends {
    pub(super) failed: u32,
    began: Option<Instant>,
    /// Whether the producer had finished when the row began.
    is_last: bool,
}

/// A retry: the last request has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// The last request's connection broke or stalled.
    pub(super) is_broken: bool,
}

impl AppendSender {
    pub(super) fn new(link: Link, chunk: u64, committed: u64, found: u64) -> Self {
        Self {
            link,
            chunk,
            stored: committed,
            recorded: committed,
            is_sure: false,
            row: FailedAppends::default(),
            again: None,
            idle: None,
            quiet: None,
            is_mute: false,
            is_last: false,
            is_wrong: false,
            refused_at: None,
            read: Arc::new(AtomicU64::new(committed)),
            found,
        }
    }

    /// Sends to a session that has just been opened.
    pub(super) fn of_new_session(link: Link, chunk: u64) -> Self {
        Self { is_sure: true, ..Self::new(link, chunk, 0, 0) }
    }

    pub(super) async fn publish(&mut self) -> Result<Object> {
        loop {
            let error = match self.send().await {
                Ok(object) => return Ok(object),
                Err(error) => error,
            };
            let lost = match error.kind() {
                // With `create_only` another attempt would only find that the object exists: this very
                // object.
                ErrorKind::Integrity if self.is_wrong && self.link.upload().options.create_only => {
                    return Err(error);
                }
                // The session would keep the wrong bytes for ever.
                ErrorKind::Integrity if self.link.session.is_some() => {
                    let upload = self.link.upload();
                    let lost = upload.error(ErrorKind::SessionLost, error.operation(), error.to_string());
                    self.link.lose(lost).await.map_err(|_| error)?
                }
                _ => self.link.lose(error).await?,
            };
            if let Some(object) = lost {
                let rest = object.size.saturating_sub(self.stored);
                self.link.upload().requests.progress.acknowledged(rest);
                return Ok(object);
            }
            self.link.upload().requests.progress.unacknowledged(mem::take(&mut self.stored), 0);
            (self.recorded, self.found, self.refused_at) = (0, 0, None);
            (self.idle, self.quiet, self.is_last) = (None, None, false);
        }
    }

    /// Sends until the object is published, or the session is lost.
    async fn send(&mut self) -> Result<Object> {
        loop {
            let Feed { length, finish, full } = *self.link.feed.borrow_and_update();
            if self.link.session.is_none() {
                if let Some(object) = self.link.was_published().await? {
                    return Ok(object);
                }
                match finish {
                    Some(whole) if whole.covers() <= self.chunk => {
                        return self.link.put(whole.covers()).await;
                    }
                    // The object may need no session; but where the disk is full, any bytes that the store
                    // takes make room.
                    None if length <= self.chunk && !(full && length >= self.grain()) => {
                        self.link.news().await?;
                        continue;
                    }
                    _ => self.link.open().await?,
                }
                (self.stored, self.recorded, self.is_sure) = (0, 0, true);
            }
            if let Some(whole) = finish {
                self.link.check_durable(whole.covers()).await?;
            }
            let reach = self.link.source.reach(self.link.on_record);
            if self.idle == Some(reach) && finish.is_none() && !full {
                self.link.news().await?;
                continue;
            }
            if !self.is_sure {
                match self.ask().await {
                    Ok(None) => {}
                    Ok(Some(object)) => return Ok(object),
                    // An open session, or one that reports the object, says all. If the session is gone, the
                    // store is asked for the object.
                    Err(error) if error.kind() == ErrorKind::SessionLost => {
                        return self.link.was_published().await?.ok_or(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            if full {
                self.write_down(1).await?;
            }
            let left = reach.saturating_sub(self.stored);
            match finish {
                Some(whole) if self.is_last || left <= self.chunk => return self.last(whole).await,
                None if left == 0 => self.link.news().await?,
                _ if full && (self.is_mute || self.row.failed > 0 || self.quiet == Some(reach)) => {
                    self.one().await?;
                }
                None if self.quiet == Some(reach) && left <= self.chunk => self.link.news().await?,
                None if !self.link.tells_position() && left <= self.chunk => self.link.news().await?,
                _ if !self.link.tells_position() => self.one().await?,
                _ => self.stream().await?,
            }
        }
    }

    /// Pauses before the next request, where a retry can help. There is no limit on retries while the
    /// producer has not finished.
    pub(super) async fn failed(&mut self, mut fault: Fault) -> Result<()> {
        let source = self.link.source.clone();
        let requests = &source.upload.requests;
        if self.row.failed == 0 {
            self.row = FailedAppends {
                began: Some(Instant::now()),
                is_last: source.is_finished(),
                ..FailedAppends::default()
            };
        }
        self.row.failed += 1;
        let is_broken = !fault.answered && (fault.is_ambiguous() || fault.kind == FaultKind::Unreachable);
        self.again = Some(Again { is_broken });
        if let Some(pause) = requests.retry.pause(&fault, self.row.failed) {
            debug!(object = requests.object, failed = self.row.failed, ?pause, %fault, "rewinding");
            requests.tell_retry(Operation::Part, self.row.failed, pause, &fault);
            if requests.wait_to_retry(pause, &mut fault).await.is_ok() {
                return Ok(());
            }
        }
        let row = mem::take(&mut self.row);
        let elapsed = row.began.map(|began| began.elapsed()).unwrap_or_default();
        let error = Error::from_fault(fault, self.operation(), requests.object.clone(), row.failed, elapsed);
        let error = error.at_part(self.number(), self.stored..source.journal.len());
        if source.goes_on(&error, row.is_last).await { Ok(()) } else { Err(error) }
    }

    /// Appends one chunk in a request that the store acknowledges. For a full disk, where the store does not
    /// acknowledge more of a stream, or the last stream broke; and for a store that takes no streams.
    async fn one(&mut self) -> Result<()> {
        let source = self.link.source.clone();
        let on_record = self.link.on_record;
        let safe = source.durable(&mut self.link.feed.clone(), self.stored + self.chunk, on_record).await?;
        let grain = self.grain();
        let bytes = safe.saturating_sub(self.stored).min(self.chunk) / grain * grain;
        if bytes == 0 {
            return self.link.news().await;
        }
        let (began, requests) = (self.stored, &source.upload.requests);
        let session = source.upload.session().await?;
        let (payload, _share) = source.payload(began..began + bytes, &self.read).await?;
        let turn = requests.turn_with(&payload).await;
        let again = self.again.take();
        let _in_flight = requests.progress.request(Operation::Part.name(), bytes, again.is_some());
        let expected = requests.endpoint.latency.expected(bytes);
        let patience = requests.retry.deadline(Operation::Part, bytes, self.row.failed + 1, 0, expected);
        self.is_sure = false;
        let attempt = self.attempt(again.as_ref());
        let request = async {
            let store = source.upload.backend.need_append()?;
            store.append(&session, began, payload.clone(), None, attempt).await
        };
        let sent = Instant::now();
        let figures = self.figures(attempt);
        let answer = answer(patience, Some(&payload), request).instrument(figures.span()).await;
        match &answer {
            Ok(_) => figures.succeeded(),
            Err(fault) => figures.failed(fault.kind.error_kind().name()),
        }
        turn.end(match &answer {
            Ok(_) if is_held_back(payload.held_back(), sent.elapsed()) => Outcome::Answered,
            Ok(_) => Outcome::Moved(bytes),
            Err(_) => Outcome::Other,
        });
        self.answered(began, answer).await
    }

    /// Sends the rest with the size and the checksum of the whole object, which publishes it.
    async fn last(&mut self, whole: Checksum) -> Result<Object> {
        self.is_sure = false;
        let source = self.link.source.clone();
        let range = self.stored..whole.covers();
        let (payload, _share) = source.payload(range.clone(), &self.read).await?;
        let published = source.upload.append_rest(self.number(), range, payload, whole).await?;
        self.is_wrong = published.is_err();
        source.disk.moves();
        published
    }

    /// The operation that errors name: once the producer has finished, any request may turn out to have
    /// published the object.
    pub(super) fn operation(&self) -> Operation {
        if self.link.source.is_finished() { Operation::Complete } else { Operation::Part }
    }

    /// The next attempt of a request, over a new connection if that of the last one broke.
    pub(super) fn attempt(&self, again: Option<&Again>) -> Attempt {
        Attempt::nth(self.row.failed + 1).renewed(again.is_some_and(|again| again.is_broken))
    }

    /// The figures of a request that begins now. The bytes that it sends are counted once the store says that it has them.
    pub(super) fn figures(&self, attempt: Attempt) -> AttemptFigures {
        let requests = &self.link.upload().requests;
        AttemptFigures::begin(&requests.span, Operation::Part.name(), &requests.object, attempt.number)
    }

    /// The store takes multiples of this many bytes, except at the end.
    fn grain(&self) -> u64 {
        self.link.upload().backend.capabilities().append.unwrap_or(1)
    }

    /// The number of the next chunk.
    fn number(&self) -> u32 {
        u32::try_from(self.stored / self.chunk.max(1) + 1).unwrap_or(u32::MAX)
    }
}
