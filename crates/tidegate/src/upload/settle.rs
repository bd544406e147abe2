//! Finds out whether a write was committed: compares the store's answer with what was sent, and asks the
//! store for the object where the answer was lost. Where the store cannot tell, the error says so, and how to
//! recognize the object.

use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::state::Upload;
use crate::backend::{Body, Fault, FaultKind};
use crate::engine::request::{Failure, Made};
use crate::types::checksum::{Checksum, Hasher};
use crate::types::date::http_date;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Waiting;

/// The most that the store's clock may differ from the local one: with more, the store refuses requests (S3's
/// `RequestTimeTooSkewed`).
const CLOCKS_APART: Duration = Duration::from_secs(15 * 60);

/// The write that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The operation that publishes the object.
    pub(super) operation: Operation,
    pub(super) size: u64,
    pub(super) checksum: Option<Checksum>,
}

/// A write whose outcome is not known on this side.
struct Doubt {
    written: Written,
    /// When the write was first sent.
    since: SystemTime,
}

/// The object at the key: ours, another writer's, or none.
pub(super) enum There {
    Ours(Box<Object>),
    Another(Box<Object>),
    Nothing,
}

impl Doubt {
    /// True when the store has another writer's object from before our write was sent: ours was not published
    /// since.
    fn is_older(&self, there: &There) -> bool {
        let There::Another(object) = there else { return false };
        was_modified_before(object, self.since, CLOCKS_APART)
    }
}

/// Whether the store says that the object is older than `since`, even if the clocks differ by `apart`. A time
/// too large to add `apart` to is not older.
fn was_modified_before(object: &Object, since: SystemTime, apart: Duration) -> bool {
    object.modified.and_then(|modified| modified.checked_add(apart)).is_some_and(|modified| modified < since)
}

impl Upload {
    /// Asks the store whether the object at the key is ours.
    pub(super) async fn settle(&self, failure: Failure, written: Written) -> Result<Object> {
        let (attempts, elapsed, asked) = (failure.attempts, failure.elapsed, Instant::now());
        let since = SystemTime::now().checked_sub(elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
        self.ask(failure, Doubt { written, since })
            .await
            .map_err(|error| error.after(attempts, elapsed + asked.elapsed()))
    }

    async fn ask(&self, failure: Failure, doubt: Doubt) -> Result<Object> {
        debug!(object = %self.requests.object, fault = %failure.fault, "asking the store whether it was committed");
        let operation = doubt.written.operation;
        let there = match self.there(&doubt, &failure).await {
            Ok(There::Nothing) if failure.unseen => self.appears(&doubt, &failure).await,
            there => there,
        };
        let there = match there {
            Ok(There::Ours(object)) => return Ok(*object),
            // The store itself refused the first attempt, and nothing contradicts that.
            _ if !failure.is_unsettled() => return Err(self.failed(failure, operation)),
            there => there?,
        };
        let is_older = doubt.is_older(&there);
        let is_another = matches!(there, There::Another(_));
        // The store's own condition refused the write because of another writer's object. If an earlier
        // attempt is in doubt, that object must be older than our write: a newer one may have replaced ours.
        if failure.fault.kind == FaultKind::Exists && is_another && (is_older || !failure.in_doubt) {
            return Err(self.failed(failure, operation));
        }
        if matches!(operation, Operation::Put | Operation::Copy) {
            // There is no session to abort, so this side cannot know whether ours was published before
            // another's object, or will still be published.
            let why = if is_another && !is_older {
                "the object that is there now is another's, and may have replaced this one"
            } else if failure.late {
                "the store may write the object yet"
            } else {
                return Err(self.failed(failure, operation));
            };
            return Err(self.uncertain(&doubt, &format!("{}; {why}", failure.fault)));
        }
        if self.is_journaled {
            // A resume needs the session, so it is kept; the resume settles the outcome first.
            let why = match failure.fault.kind {
                // Our object would have replaced this older one.
                FaultKind::NoSession | FaultKind::PartMismatch if is_older => {
                    return Err(self.failed(failure, operation));
                }
                // A store that has published the object would not check its parts. A completion still under
                // way ends with the session.
                FaultKind::PartMismatch if !is_another => return Err(self.failed(failure, operation)),
                FaultKind::NoSession => "it may have been there, and been removed or replaced since",
                _ => "the store may publish it yet",
            };
            return Err(self.uncertain(&doubt, &format!("{}; {why}", failure.fault)));
        }
        self.end(failure, doubt).await
    }

    /// The object at the key, where an earlier process may have published this upload, which was begun at
    /// `since`. An object older than `since` counts as `Nothing`.
    pub(super) async fn published(&self, checksum: Checksum, since: SystemTime) -> Result<There> {
        let head = self.head_now().await.map_err(|failure| self.failed(failure, Operation::Head))?;
        let Some(object) = head else { return Ok(There::Nothing) };
        if self.is_ours(&object, checksum.covers(), Some(checksum)) {
            return Ok(There::Ours(Box::new(object)));
        }
        let keeps_tokens = self.backend.capabilities().tokens;
        let apart = if keeps_tokens { CLOCKS_APART } else { Duration::ZERO };
        if was_modified_before(&object, since, apart) {
            return Ok(There::Nothing);
        }
        // The store keeps no writer tokens, so an object with the same bytes counts as ours.
        if !keeps_tokens && object.size == checksum.covers() {
            let (object, has_bytes) = self.compared(&checksum).await?;
            let object = Box::new(object);
            return Ok(if has_bytes { There::Ours(object) } else { There::Another(object) });
        }
        Ok(There::Another(Box::new(object)))
    }

    /// Downloads the object at the key; returns it, and whether its bytes match the checksum.
    async fn compared(&self, checksum: &Checksum) -> Result<(Object, bool)> {
        let began = Instant::now();
        let get = |attempt| self.backend.get(&self.key, None, None, attempt);
        let get = self.requests.make(Operation::Get, None, None, get).await;
        let Made { answer: Body { object, mut stream, .. }, attempts, .. } =
            get.map_err(|failure| self.failed(failure, Operation::Get))?;
        let mut hasher = Hasher::new(checksum.algorithm());
        let broken = |fault| {
            let url = self.requests.object.clone();
            Error::from_fault(fault, Operation::Get, url, attempts, began.elapsed())
        };
        while let Some(piece) = stream.try_next().await.map_err(broken)? {
            hasher.update(&piece);
        }
        Ok((object, hasher.finish() == *checksum))
    }

    /// The object at the key now, if any.
    async fn head_now(&self) -> Result<Option<Object>, Failure> {
        let head = |attempt| self.backend.head(&self.key, attempt);
        match self.requests.send(Operation::Head, None, None, head).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.fault.kind == FaultKind::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn is_ours(&self, object: &Object, size: u64, checksum: Option<Checksum>) -> bool {
        let same_token = object.token.is_some() && object.token == self.options.token;
        let same_bytes =
            object.size == size && checksum.is_none_or(|sum| object.matches(&sum) != Some(false));
        same_token && same_bytes
    }

    /// Aborts the session of an object that is not there (yet): a request still on its way could publish the
    /// object, but not once the session is aborted. Not every store distinguishes an abort that came too late
    /// from one in time (MinIO does not), so the store is asked for the object once more.
    async fn end(&self, failure: Failure, doubt: Doubt) -> Result<Object> {
        let operation = doubt.written.operation;
        let mut in_time = match self.abort_session().await {
            // An abort can't be in time for a session that the store reported as gone.
            Ok(in_time) => in_time && failure.fault.kind != FaultKind::NoSession,
            Err(error) => {
                let why = format!("{}; the session could not be aborted either", failure.fault);
                return Err(self.uncertain(&doubt, &why).with_source(error));
            }
        };
        let there = self.there(&doubt, &failure).await;
        let is_older = there.as_ref().is_ok_and(|there| doubt.is_older(there));
        if in_time && !is_older && matches!(there, Ok(There::Another(_))) {
            // The other object may have replaced ours, if the abort came too late and the store does not say
            // so. Such a store does not report a second abort as too late either, so the first is trusted
            // only where the second is reported so.
            in_time = matches!(self.abort_session().await, Ok(false));
        }
        if !self.given_up.is_set() {
            // The session has ended, and no part can arrive later: the writer need not abort it again.
            self.lock().take();
        }
        let why = match there? {
            There::Ours(object) => return Ok(*object),
            _ if in_time || is_older => return Err(self.failed(failure, operation)),
            There::Another(_) => "the session has ended, and the object that is there now is another's",
            There::Nothing => "the session has ended, and no object is there",
        };
        Err(self.uncertain(&doubt, why))
    }

    /// Waits for an object that the store has reported as published but that is not there: the store may
    /// still be publishing it. Asks as often as a failed request is retried.
    async fn appears(&self, doubt: &Doubt, failure: &Failure) -> Result<There> {
        let unseen = Fault::new(FaultKind::Undone, "not there yet");
        for attempt in 1.. {
            let Some(pause) = self.requests.retry.pause(&unseen, attempt) else { break };
            let waiting = self.requests.progress.waiting(Waiting::Backoff);
            sleep(pause).await;
            drop(waiting);
            match self.there(doubt, failure).await? {
                There::Nothing => {}
                there => return Ok(there),
            }
        }
        Ok(There::Nothing)
    }

    /// Asks the store for the object at the key, and says whose it is.
    async fn there(&self, doubt: &Doubt, failure: &Failure) -> Result<There> {
        let Written { size, checksum, .. } = doubt.written;
        let head = self.head_now().await.map_err(|asked| {
            let what = match failure.fault.kind {
                FaultKind::NotAStore => &failure.fault.message,
                _ => "the answer was lost",
            };
            self.uncertain(doubt, &format!("{what}, and asking for the object failed: {}", asked.fault))
        })?;
        let Some(object) = head else { return Ok(There::Nothing) };
        let is_ours = self.is_ours(&object, size, checksum);
        let object = Box::new(object);
        Ok(if is_ours { There::Ours(object) } else { There::Another(object) })
    }

    pub(super) fn verify(
        &self,
        object: Object,
        size: u64,
        checksum: Option<Checksum>,
        operation: Operation,
    ) -> Result<Object> {
        if object.size != size {
            let message = format!("the store has {} bytes where {size} were sent", object.size);
            return Err(self.error(ErrorKind::Integrity, operation, message));
        }
        if let Some(checksum) = checksum
            && object.matches(&checksum) == Some(false)
        {
            let message = format!("the store's checksum is not {checksum}, that of the bytes that were sent");
            return Err(self.error(ErrorKind::Integrity, operation, message));
        }
        Ok(object)
    }

    /// The error of an unknown outcome: says how to recognize the object, and when it was sent.
    fn uncertain(&self, doubt: &Doubt, why: &str) -> Error {
        let Written { operation, size, .. } = doubt.written;
        let token = self.options.token.as_deref().unwrap_or_default();
        let [since, until] = [doubt.since, SystemTime::now()].map(http_date);
        let message = format!(
            "{why}; if it was written, it has {size} bytes and `tidegate-writer: {token}` in its metadata, and \
             was sent between {since} and {until}"
        );
        self.error(ErrorKind::Uncertain, operation, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_may_have_been_modified_at_any_time() {
        let (now, second) = (SystemTime::now(), Duration::from_secs(1));
        let latest = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64)).unwrap();
        let earliest = SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(i64::MAX as u64)).unwrap();
        for (modified, is_older) in [
            (Some(latest), false),
            (Some(earliest), true),
            (Some(now), false),
            (Some(now - CLOCKS_APART), false),
            (Some(now - CLOCKS_APART - second), true),
            (None, false),
        ] {
            let object = Object { modified, ..Object::default() };
            assert_eq!(was_modified_before(&object, now, CLOCKS_APART), is_older, "{modified:?}");
        }
    }
}
