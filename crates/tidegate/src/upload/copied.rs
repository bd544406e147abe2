//! Copies that the store makes itself: in one request, repeated until all bytes are copied, or in parts.

use std::ops::Range;
use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::plan::{Schedule, ScheduleError};
use super::settle::Written;
use super::state::Upload;
use crate::backend::{Capabilities, Copied, CopySource, PartOrigin, PartSource, Receipt};
use crate::engine::request::Made;
use crate::memory::payload::Payload;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;

/// How a copy is made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one request.
    Whole,
    /// In parts of a session.
    Parts(Schedule),
    /// An empty object has no part to copy: it is written like any object.
    Nothing,
}

/// Why the store makes no copy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoWay {
    #[error("the store copies no object of {0} bytes itself")]
    TooLarge(u64),
    #[error("the store makes no copy itself that depends on whether the key has an object")]
    CreateOnly,
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl Way {
    /// Size of a part where none is set: a store copies this much in about a second.
    const PART: u64 = 128 << 20;

    /// Chooses the way for `size` bytes. An object no larger than a part is copied in one request, unless one
    /// request can't keep `create_only`.
    pub(crate) fn choose(
        store: &Capabilities,
        size: u64,
        create_only: bool,
        part_size: Option<u64>,
    ) -> Result<Self, NoWay> {
        let part = part_size.unwrap_or(Self::PART.clamp(store.min_part, store.max_part));
        let whole = size <= store.max_copy && (!create_only || store.create_only_copy);
        let in_parts = store.copy_parts && (!create_only || store.create_only_parts);
        match (whole, in_parts) {
            (true, true) if size > part => {}
            (true, _) => return Ok(Self::Whole),
            (false, true) if size == 0 => return Ok(Self::Nothing),
            (false, true) => {}
            (false, false) if create_only && size <= store.max_copy => return Err(NoWay::CreateOnly),
            (false, false) => return Err(NoWay::TooLarge(size)),
        }
        Ok(Self::Parts(Schedule::new(store, Some(part), Some(size), None, false)?))
    }
}

/// The parts of `size` bytes, by number.
fn cuts(schedule: Schedule, size: u64) -> impl Iterator<Item = (u32, Range<u64>)> {
    let ends = std::iter::successors(Some((0, 0..0)), move |(number, range): &(u32, Range<u64>)| {
        let end = size.min(range.end.saturating_add(schedule.part_at(range.end)));
        (range.end < size).then(|| (number + 1, range.end..end))
    });
    ends.skip(1)
}

/// The result of one task of a copy.
enum Done {
    Part(Receipt),
    Published(Box<Object>),
}

/// One copy. Its requests run in tasks, like those of an upload: a future that is not polled holds no limiter
/// permit.
pub(crate) struct Copy {
    upload: Arc<Upload>,
    from: Arc<CopySource>,
    tasks: JoinSet<Result<Done>>,
    /// The operation that publishes the object, once it is in flight.
    commit: Option<Operation>,
    ended: bool,
}

impl Copy {
    pub(crate) fn new(mut upload: Upload, from: CopySource) -> Self {
        upload.origin = PartOrigin::Copied;
        let (upload, from) = (Arc::new(upload), Arc::new(from));
        Self { upload, from, tasks: JoinSet::new(), commit: None, ended: false }
    }

    /// Makes the copy. Dropping the future cancels the requests in flight and aborts the session.
    pub(crate) async fn run(mut self, way: Way, in_flight: usize) -> Result<Object> {
        let (upload, from) = (self.upload.clone(), self.from.clone());
        let result = match way {
            Way::Whole => self.publish(Operation::Copy, async move { upload.copy(&from).await }).await,
            Way::Parts(schedule) => self.in_parts(schedule, in_flight.max(1)).await,
            Way::Nothing => {
                let nothing = upload.backend.capabilities().checksum.empty();
                let payload = Payload::from_memory(Vec::new(), nothing);
                self.publish(Operation::Put, async move { upload.put(payload).await }).await
            }
        };
        self.ended = true;
        if result.is_err() {
            let tasks = std::mem::take(&mut self.tasks);
            // The first error is reported; an error of the abort is logged where it happens.
            let _ = self.upload.abort(tasks).await;
        }
        result
    }

    async fn in_parts(&mut self, schedule: Schedule, in_flight: usize) -> Result<Object> {
        let size = self.from.object.size;
        let mut cuts = cuts(schedule, size);
        let mut parts = Vec::new();
        self.upload.open();
        loop {
            while self.tasks.len() < in_flight
                && let Some((number, range)) = cuts.next()
            {
                let (upload, from) = (self.upload.clone(), self.from.clone());
                self.spawn(async move { upload.copy_part(&from, number, range).await.map(Done::Part) });
            }
            match self.next().await? {
                Some(Done::Part(part)) => parts.push(part),
                Some(Done::Published(object)) => return Ok(*object),
                None => break,
            }
        }
        parts.sort_by_key(|part| part.number);
        let checksum = self.from.checksum(self.upload.backend.capabilities().checksum);
        let upload = self.upload.clone();
        self.publish(Operation::Complete, async move { upload.complete_from(parts, checksum).await }).await
    }

    /// Makes the request that publishes the object.
    async fn publish(
        &mut self,
        operation: Operation,
        request: impl Future<Output = Result<Object>> + Send + 'static,
    ) -> Result<Object> {
        self.commit = Some(operation);
        self.spawn(async move { request.await.map(|object| Done::Published(Box::new(object))) });
        match self.next().await? {
            Some(Done::Published(object)) => Ok(*object),
            _ => Err(self.upload.error(ErrorKind::Closed, operation, "the copy was not made")),
        }
    }

    fn spawn(&mut self, task: impl Future<Output = Result<Done>> + Send + 'static) {
        self.tasks.spawn_on(task, &self.upload.runtime);
    }

    async fn next(&mut self) -> Result<Option<Done>> {
        let ended = |ended: JoinError| Err(self.upload.ended_early(self.commit, ended));
        match self.tasks.join_next().await {
            Some(joined) => joined.unwrap_or_else(ended).map(Some),
            None => Ok(None),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.upload.abort(std::mem::take(&mut self.tasks)));
        }
    }
}

impl Upload {
    /// Has the store copy an object in one request, which is repeated from the store's cursor until all bytes
    /// are copied.
    async fn copy(&self, from: &CopySource) -> Result<Object> {
        let began = Instant::now();
        let (size, checksum) = (from.object.size, from.checksum(self.backend.capabilities().checksum));
        let (mut cursor, mut copied, mut standing, mut in_doubt) = (None, 0, 0, false);
        let (object, attempts) = loop {
            let copy = |attempt| {
                let cursor = cursor.as_deref();
                self.publishing.watch(async move {
                    let store = self.backend.need_server_copy()?;
                    store.copy(from, &self.key, cursor, &self.options, attempt).await
                })
            };
            match self.requests.make(Operation::Copy, None, None, copy).await {
                Ok(Made { answer: Copied::Whole(object), attempts, .. }) => break (*object, attempts),
                Ok(Made { answer: Copied::Going { cursor: next, bytes }, attempts, in_doubt: doubted }) => {
                    let bytes = bytes.min(size);
                    self.requests.progress.acknowledged(bytes.saturating_sub(copied));
                    standing = if bytes > copied { 0 } else { standing + 1 };
                    if standing >= self.requests.retry.policy.attempts {
                        let message =
                            format!("the store is still at byte {copied} after {standing} requests");
                        let error = self.error(ErrorKind::Unavailable, Operation::Copy, message);
                        return Err(error.after(attempts, began.elapsed()));
                    }
                    (cursor, copied) = (Some(next), bytes.max(copied));
                    in_doubt |= doubted;
                }
                Err(mut failure) => {
                    failure.in_doubt |= in_doubt;
                    if !failure.is_unsettled() {
                        return Err(self.failed(failure, Operation::Copy));
                    }
                    let attempts = failure.attempts;
                    let written = Written { operation: Operation::Copy, size, checksum };
                    break (Box::pin(self.settle(failure, written)).await?, attempts);
                }
            }
        };
        self.requests.progress.acknowledged(size.saturating_sub(copied));
        self.verify(object, size, checksum, Operation::Copy)
            .map_err(|error| error.after(attempts, began.elapsed()))
    }

    /// Has the store copy one part.
    async fn copy_part(&self, from: &CopySource, number: u32, range: Range<u64>) -> Result<Receipt> {
        let session = self.session().await?;
        let copy = |attempt| {
            let (session, offset) = (&session, range.start);
            let source = PartSource::CopyOf(from, range.clone());
            self.given_up.watch(async move {
                self.backend.need_parts()?.part(session, number, offset, source, attempt).await
            })
        };
        let sent = self.requests.send(Operation::Copy, None, None, copy).await;
        let part =
            sent.map_err(|failure| self.failed(failure, Operation::Copy).at_part(number, range.clone()))?;
        self.stored(Operation::Copy, (part.number, part.size), number, range)?;
        Ok(part)
    }
}

#[cfg(test)]
mod tests;
