//! Bytes are appended to a session: streamed in one request that is held open while the producer goes on
//! (`stream.rs`), and the last of them in one that publishes the object.
//!
//! No stream ends cleanly: its end would publish what came until then, and the checksum of that can't be
//! said ahead of it, nor does the store take one behind. It is broken off, the store is asked where it
//! stands, and sent what is missing together with the size and the checksum of the whole. These it
//! compares before anything is visible.
//!
//! Whatever goes wrong, the session knows where it stands, and the journal has the rest.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::time::Instant;
use tracing::debug;

use super::link::Link;
use crate::backend::{Fault, FaultKind, connected};
use crate::engine::journaling::Feed;
use crate::engine::limiter::Outcome;
use crate::engine::request::answer;
use crate::journal::{Journal, SessionKind};
use crate::types::checksum::Checksum;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::plan::Schedule;

/// Sends to a session that is appended to.
pub(in crate::upload::journal) struct Appending {
    pub(super) link: Link,
    /// The most that goes with the request that publishes; and after so much more the store is asked what
    /// it has.
    pub(super) chunk: u64,
    /// What the session has for good, as far as it has said.
    pub(super) stored: u64,
    /// What of that is on record.
    pub(super) recorded: u64,
    /// Whether that is where it stands: nothing was sent since.
    pub(super) is_sure: bool,
    pub(super) row: Row,
    /// Where the last request has failed.
    pub(super) again: Option<Again>,
    /// How long the object was when a stream was let go that had nothing to send: until there is more, another
    /// would have no more to do.
    pub(super) idle: Option<u64>,
    /// The same, of one that broke: another is for more than what goes with the request that publishes.
    pub(super) quiet: Option<u64>,
    /// The store has said nothing new of a stream while the disk was full, and of none since.
    pub(super) is_mute: bool,
    /// What is left goes with the request that publishes, however much the last stream has lost of it.
    pub(super) is_last: bool,
    /// An object is published that is not what was sent.
    pub(super) is_wrong: bool,
    /// Where the session stood when a request from there was refused as wrong.
    pub(super) refused_at: Option<u64>,
    /// How far it was read, by any request.
    pub(super) read: Arc<AtomicU64>,
    /// How long the object was when an earlier process's session was found: that has no more but what was
    /// sent since.
    pub(super) found: u64,
}

/// Requests that failed in a row, without that the store came further.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) failed: u32,
    began: Option<Instant>,
    /// Whether the producer had finished when it began.
    is_last: bool,
}

/// A request that is made because the last one has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// The last one's connection broke, or stood still.
    pub(super) is_broken: bool,
}

impl Appending {
    pub(super) fn new(link: Link, schedule: Schedule, committed: u64, found: u64) -> Self {
        Self {
            link,
            chunk: schedule.part_at(0),
            stored: committed,
            recorded: committed,
            is_sure: false,
            row: Row::default(),
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

    pub(super) async fn publish(&mut self) -> Result<Object> {
        loop {
            let error = match self.send().await {
                Ok(object) => return Ok(object),
                Err(error) => error,
            };
            let lost = match error.kind() {
                // It would be told that the object exists, which is this one.
                ErrorKind::Integrity if self.is_wrong && self.link.upload().options.create_only => {
                    return Err(error);
                }
                // The session would have those bytes for ever.
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
                    // It may need no session; where the disk is full, all that a store takes makes room.
                    None if length <= self.chunk && !(full && length >= self.grain()) => {
                        self.link.news().await?;
                        continue;
                    }
                    _ => self.link.open(SessionKind::Append).await?,
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
                    // One that is open, or tells of the object, says all; of one that is gone the object does.
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
                _ => self.stream().await?,
            }
        }
    }

    /// Pauses before the next request, where another one can help; for as long as it takes, while the
    /// producer has not finished.
    pub(super) async fn failed(&mut self, mut fault: Fault) -> Result<()> {
        let source = self.link.source.clone();
        let requests = &source.upload.requests;
        if self.row.failed == 0 {
            self.row = Row { began: Some(Instant::now()), is_last: source.is_finished(), ..Row::default() };
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

    /// Appends one chunk, which the store acknowledges: the disk is full, and the store does not say that it
    /// has more of a stream, or the last one broke.
    async fn one(&mut self) -> Result<()> {
        let source = self.link.source.clone();
        let on_record = self.link.on_record;
        let safe = source.durable(&mut self.link.feed.clone(), self.stored + self.chunk, on_record).await?;
        let grain = self.grain();
        let bytes = (safe.saturating_sub(self.stored) / grain * grain).min(self.chunk);
        if bytes == 0 {
            return self.link.news().await;
        }
        let (began, requests) = (self.stored, &source.upload.requests);
        let session = source.upload.session().await?;
        let (payload, _share) = source.payload(began..began + bytes, &self.read).await?;
        let turn = requests.turn().await;
        let again = self.again.take();
        let _in_flight = requests.progress.request(Operation::Part.name(), bytes, again.is_some());
        let expected = requests.endpoint.pace.expected(bytes);
        let patience = requests.retry.deadline(Operation::Part, bytes, self.row.failed + 1, 0, expected);
        self.is_sure = false;
        let request = source.upload.backend.append(&session, began, payload.clone(), None);
        let answer =
            answer(patience, Some(&payload), connected(again.is_some_and(|again| again.is_broken), request))
                .await;
        turn.end(if answer.is_ok() { Outcome::Moved(bytes) } else { Outcome::Other });
        self.answered(began, answer).await
    }

    /// Sends what is left, and with it what the whole is to be: that publishes it.
    async fn last(&mut self, whole: Checksum) -> Result<Object> {
        self.is_sure = false;
        let source = self.link.source.clone();
        let range = self.stored..whole.covers();
        let (payload, _share) = source.payload(range.clone(), &self.read).await?;
        let published = source.upload.append_rest(self.number(), range, payload, whole, None).await?;
        self.is_wrong = published.is_err();
        source.disk.moves();
        published
    }

    /// What an error is about: from the producer's end on, any request may turn out to have published.
    pub(super) fn operation(&self) -> Operation {
        if self.link.source.is_finished() { Operation::Complete } else { Operation::Part }
    }

    /// What the store takes a multiple of, but at the end.
    fn grain(&self) -> u64 {
        self.link.upload().backend.capabilities().append.unwrap_or(1)
    }

    /// Which chunk is next.
    fn number(&self) -> u32 {
        u32::try_from(self.stored / self.chunk.max(1) + 1).unwrap_or(u32::MAX)
    }

    pub(super) fn into_journal(self) -> Journal {
        self.link.source.journal.clone()
    }
}
