//! Makes requests whose bytes are in the journal, and retries for as long as an outage lasts.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::{Mutex, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::streamed::Streamed;
use crate::backend::StoredPart;
use crate::engine::journaling::{CountedReader, Feed, JournalDisk};
use crate::journal::{Journal, JournalError, Part};
use crate::memory::budget::Budget;
use crate::memory::payload::{Payload, ReadAt as _};
use crate::types::checksum::{Checksum, Hasher};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Waiting;
use crate::types::spawn_blocking::spawn_blocking;

use crate::upload::session::Upload;

/// How long bytes wait for more, to be made durable with one sync, and sent.
const SYNC_LAG: Duration = Duration::from_millis(500);

/// Bytes that are read at once, to compare the journal with a part that the store has.
const READ: usize = 256 << 10;

/// The source of the bytes of each request.
#[derive(Debug)]
pub(in crate::upload) struct JournalRanges {
    pub(in crate::upload) journal: Journal,
    pub(in crate::upload) upload: Arc<Upload>,
    /// The memory that bytes are sent through.
    pub(in crate::upload) memory: Budget,
    pub(in crate::upload) disk: Arc<JournalDisk>,
    /// How long to wait for a full disk that nothing leaves.
    pub(in crate::upload) patience: Duration,
    pub(in crate::upload) feed: watch::Receiver<Feed>,
    /// Held by the part that waits for memory and a limiter permit: one part at a time, in order.
    pub(in crate::upload) first: Mutex<()>,
}

impl JournalRanges {
    /// Stores a part, with no limit on retries but that of [`goes_on`](Self::goes_on). `listed` is the part
    /// of that number that the store had when the upload was resumed. Also returns how long the last request
    /// took; `None` where the store had the part.
    pub(in crate::upload) async fn part(
        self: Arc<Self>,
        number: u32,
        range: Range<u64>,
        listed: Option<StoredPart>,
    ) -> Result<(Part, Option<Duration>)> {
        if let Some(listed) = listed
            && let Some(part) = self.had(range.clone(), listed).await
        {
            return Ok((part, None));
        }
        let read = Arc::new(AtomicU64::new(range.start));
        loop {
            let is_last = self.is_finished();
            match self.attempt(number, range.clone(), &read).await {
                Ok((part, took)) => return Ok((part, Some(took))),
                Err(error) if self.goes_on(&error, is_last).await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The parts that the session has. A part may be there although its answer never came, because the
    /// process was killed first. Empty where the store does not say.
    pub(in crate::upload) async fn listed(&self) -> BTreeMap<u32, StoredPart> {
        let Ok(session) = self.upload.session().await else { return BTreeMap::new() };
        let session = &session;
        let list =
            |attempt| async move { self.upload.backend.need_parts()?.stored_parts(session, attempt).await };
        match self.upload.requests.send(Operation::List, None, None, list).await {
            Ok(listed) => listed.into_iter().map(|part| (part.number, part)).collect(),
            Err(failure) => {
                debug!(fault = %failure.fault, "the store does not say which parts it has: they are sent again");
                BTreeMap::new()
            }
        }
    }

    /// The receipt of a part that the store listed, if its checksum is that of the range in the journal.
    async fn had(&self, range: Range<u64>, listed: StoredPart) -> Option<Part> {
        let sum = listed.checksum.filter(|_| listed.size == range.end - range.start)?;
        let (reader, algorithm) = (self.journal.reader(), self.upload.backend.capabilities().checksum);
        let from = range.start;
        let read = move || -> io::Result<Checksum> {
            let (mut hasher, mut buffer, mut at) = (Hasher::new(algorithm), vec![0; READ], range.start);
            while at < range.end {
                let most = READ.min(usize::try_from(range.end - at).unwrap_or(READ));
                let read = reader.read(&mut buffer[..most], at)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                hasher.update(&buffer[..read]);
                at += read as u64;
            }
            Ok(hasher.finish())
        };
        // A journal that can't be read fails again when the part is sent, with its own error.
        let checksum = spawn_blocking(read).await.ok()?;
        let is_same = checksum.compare(&sum) == Some(true) && !listed.etag.is_empty();
        let StoredPart { number, size, etag, .. } = listed;
        is_same.then_some(Part { number, offset: from, size, etag, checksum })
    }

    async fn attempt(
        &self,
        number: u32,
        range: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<(Part, Duration)> {
        // This part gets its permit before the next part takes memory.
        let first = self.first.lock().await;
        let (payload, _share) = self.payload(range.clone(), read).await?;
        let permit = self.upload.requests.turn_with(&payload).await;
        drop(first);
        let began = Instant::now();
        let receipt = self.upload.part(number, range.clone(), payload, Some(permit)).await?;
        self.disk.moves();
        let part = Part::new(range.start, &receipt).ok_or_else(|| {
            self.upload.error(ErrorKind::Integrity, Operation::Part, "the part's receipt has no checksum")
        })?;
        Ok((part, began.elapsed()))
    }

    /// Opens a session and returns its id.
    pub(in crate::upload) async fn open(&self) -> Result<String> {
        loop {
            let is_last = self.is_finished();
            self.upload.open();
            match self.upload.session().await {
                Ok(session) => return Ok(session.id),
                Err(error) if self.goes_on(&error, is_last).await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes all `size` bytes in one request.
    pub(in crate::upload) async fn put(&self, size: u64) -> Result<Object> {
        let (payload, _share) = self.payload(0..size, &Arc::default()).await?;
        let object = self.upload.put(payload).await?;
        self.disk.moves();
        Ok(object)
    }

    /// A range of the object as the body of a request, and its share of the memory that the store may hold.
    pub(in crate::upload) async fn payload(
        &self,
        range: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<(Payload, Option<SemaphorePermit<'_>>)> {
        let (reader, disk, read) = (self.journal.reader(), self.disk.clone(), read.clone());
        let file = Arc::new(CountedReader { reader, disk, read });
        let streamed = Streamed { file, offset: range.start, len: range.end - range.start };
        let slabs = streamed.slabs(self.memory.slab_size() as u64);
        let waiting = self.upload.requests.progress.waiting(Waiting::Memory);
        // Never closed, so no error.
        let share = self.upload.requests.endpoint.journaled.acquire_many(slabs).await.ok();
        drop(waiting);
        Ok((streamed.payload(&self.upload, &self.memory).await?, share))
    }

    /// How far the object may ever be sent to a session that is appended to; `on_record` says whether a
    /// record names that session. After a failed sync, bytes that are not durable may be lost in a loss of
    /// power, and other bytes come in their place: a process that resumes the session must not find the lost
    /// bytes there. A session that no record names is never resumed.
    pub(in crate::upload) fn reach(&self, on_record: bool) -> u64 {
        let length = self.feed.borrow().length;
        let is_held_back = on_record && self.journal.failure().is_some();
        if is_held_back { self.journal.durable().min(length) } else { length }
    }

    /// How far the object is safe from a loss of power, and may be sent to a session that is appended to:
    /// bytes that the session has acknowledged are not replaced when a producer writes other bytes after a
    /// loss of power. Where not all bytes up to `up_to` are durable, this syncs: at once if the object is
    /// that long, otherwise after a short wait. Where no sync can succeed any more, returns
    /// [`reach`](Self::reach).
    pub(in crate::upload) async fn durable(
        &self,
        feed: &mut watch::Receiver<Feed>,
        up_to: u64,
        on_record: bool,
    ) -> Result<u64> {
        let length = feed.borrow().length;
        let durable = self.journal.durable().min(length);
        if durable == length || durable >= up_to {
            return Ok(durable);
        }
        let is_time = |feed: &Feed| feed.length >= up_to || feed.finish.is_some() || feed.full;
        // An error means that the writer is gone; the next wait for the feed finds that out.
        let _ = timeout(SYNC_LAG, feed.wait_for(is_time)).await;
        match self.journal.sync().await {
            Ok(durable) => Ok(durable),
            Err(JournalError::Lost { .. }) => Ok(self.reach(on_record)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Whether to retry after `error`; waits for a while first. An outage that began before the producer had
    /// finished is retried without a limit: the bytes are safe, and nobody waits.
    pub(in crate::upload) async fn goes_on(&self, error: &Error, is_last: bool) -> bool {
        let passes = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Throttled | ErrorKind::Starved
        );
        if !passes || is_last {
            return false;
        }
        warn!(%error, "the store does not take the upload now: it waits in its journal");
        let _waiting = self.upload.requests.progress.waiting(Waiting::Backoff);
        let (mut feed, pause) = (self.feed.clone(), self.upload.requests.retry.policy.longest_pause);
        // A `finish` ends the pause.
        !matches!(timeout(pause, feed.wait_for(|feed| feed.finish.is_some())).await, Ok(Err(_)))
    }

    pub(in crate::upload) fn is_finished(&self) -> bool {
        self.feed.borrow().finish.is_some()
    }

    /// The error of an upload whose writer is gone.
    pub(in crate::upload) fn left_alone(&self) -> Error {
        self.upload.error(ErrorKind::Closed, Operation::Write, "its writer is gone")
    }

    pub(in crate::upload) fn failed(&self, error: JournalError) -> Error {
        failed(&self.upload, error)
    }
}

/// The error of an upload's operation whose journal has failed.
pub(in crate::upload) fn failed(upload: &Upload, error: JournalError) -> Error {
    upload.error(error.kind(), Operation::Write, error.to_string()).with_source(error)
}
