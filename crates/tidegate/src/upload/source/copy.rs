//! Bytes that the store copies itself: in one request, repeated until all are copied, or in parts.

use std::ops::Range;
use std::sync::Arc;

use tokio::time::Instant;

use crate::backend::{Capabilities, Copied, CopySource, PartOrigin};
use crate::engine::request::{Doubt, Made};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::driver::{Driver, ReadyBytes, RequestBody, RequestBytes, UploadSource};
use crate::upload::plan::{Cut, Plan, Schedule, ScheduleError};
use crate::upload::session::{SessionTakes, Upload};

/// How a copy is made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopyMethod {
    /// In one request.
    Whole,
    /// In parts of a session.
    Parts(Schedule),
    /// An empty object has no part to copy: it is written like any object.
    Nothing,
}

/// Why the store makes no copy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoCopyMethod {
    #[error("the store copies no object of {0} bytes itself")]
    TooLarge(u64),
    #[error("the store makes no copy itself that depends on whether the key has an object")]
    CreateOnly,
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl CopyMethod {
    /// Size of a part where none is set: a store copies this much in about a second.
    const PART: u64 = 128 << 20;

    /// Chooses the way for `size` bytes. An object no larger than a part is copied in one request, unless one
    /// request can't keep `create_only`.
    pub(crate) fn choose(
        store: &Capabilities,
        size: u64,
        create_only: bool,
        part_size: Option<u64>,
    ) -> Result<Self, NoCopyMethod> {
        let part = part_size.unwrap_or(Self::PART.clamp(store.min_part, store.max_part));
        let whole = size <= store.max_copy && (!create_only || store.create_only_copy);
        let in_parts = store.copy_parts && (!create_only || store.create_only_parts);
        match (whole, in_parts) {
            (true, true) if size > part => {}
            (true, _) => return Ok(Self::Whole),
            (false, true) if size == 0 => return Ok(Self::Nothing),
            (false, true) => {}
            (false, false) if create_only && size <= store.max_copy => return Err(NoCopyMethod::CreateOnly),
            (false, false) => return Err(NoCopyMethod::TooLarge(size)),
        }
        Ok(Self::Parts(Schedule::new(store, Some(part), Some(size), None, false)?))
    }
}

/// How an object of `size` bytes is copied.
fn plan(store: &Capabilities, way: &CopyMethod, size: u64) -> Plan {
    match way {
        CopyMethod::Whole | CopyMethod::Nothing => Plan::new(store, Cut::Whole { limit: size }),
        CopyMethod::Parts(schedule) => Plan::new(store, Cut::Parts(*schedule)).in_session(),
    }
}

/// Has the store copy an object. Dropping the future aborts the upload.
pub(crate) async fn copy(
    upload: Upload,
    from: CopySource,
    way: CopyMethod,
    in_flight: usize,
) -> Result<Object> {
    let size = from.object.size;
    let plan = plan(upload.backend.capabilities(), &way, size);
    let upload = Arc::new(upload.into_session_of(SessionTakes::Parts(PartOrigin::Copied)));
    let ranges = CopyRanges { upload, from: Arc::new(from), way };
    Driver::new(ranges, plan, in_flight.max(1)).run(size).await
}

/// The ranges of an object of the same store.
struct CopyRanges {
    upload: Arc<Upload>,
    from: Arc<CopySource>,
    way: CopyMethod,
}

impl RequestBytes for RequestBody {
    async fn ready(self, _: &Upload) -> Result<ReadyBytes> {
        Ok(ReadyBytes { body: self, line: None, ring: None })
    }
}

impl UploadSource for CopyRanges {
    type Bytes = RequestBody;

    fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    fn take(&mut self, _: Range<u64>, _: &mut Plan) -> Result<RequestBody> {
        Ok(match self.way {
            CopyMethod::Whole | CopyMethod::Parts(_) => RequestBody::CopyOf(self.from.clone()),
            CopyMethod::Nothing => {
                let nothing = self.upload.backend.capabilities().checksum.empty();
                RequestBody::Bytes(Payload::from_memory(Vec::new(), nothing))
            }
        })
    }

    fn put(&self) -> Operation {
        match self.way {
            CopyMethod::Whole | CopyMethod::Parts(_) => Operation::Copy,
            CopyMethod::Nothing => Operation::Put,
        }
    }

    /// No bytes come from here.
    fn accepted(&self, _: u64) {}

    fn checksum(&self, _: &Plan) -> Option<Checksum> {
        self.from.checksum(self.upload.backend.capabilities().checksum)
    }
}

impl Upload {
    /// Has the store copy an object in one request, which is repeated from the store's cursor until all bytes
    /// are copied.
    pub(in crate::upload) async fn copy(&self, from: &CopySource) -> Result<Object> {
        let began = Instant::now();
        let (size, checksum) = (from.object.size, from.checksum(self.backend.capabilities().checksum));
        let (mut cursor, mut copied, mut standing, mut doubt) = (None, 0, 0, Doubt::None);
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
                Ok(Made { answer: Copied::Going { cursor: next, bytes }, attempts, doubt: next_doubt }) => {
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
                    doubt = doubt.max(next_doubt);
                }
                Err(mut failure) => {
                    failure.doubt = failure.doubt.max(doubt);
                    if failure.doubt == Doubt::None {
                        return Err(self.failed(failure, Operation::Copy));
                    }
                    let attempts = failure.attempts;
                    break (Box::pin(self.settle_copy(failure, from)).await?, attempts);
                }
            }
        };
        self.requests.progress.acknowledged(size.saturating_sub(copied));
        self.verify(object, size, checksum, Operation::Copy)
            .map_err(|error| error.after(attempts, began.elapsed()))
    }
}

#[cfg(test)]
mod tests;
