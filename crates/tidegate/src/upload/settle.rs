//! What became of a write: compared where the answer came, asked of the store where it was lost. Where
//! the store cannot tell, the error says so, and by what the object can be known.

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

/// How far the store's clock may be from this one: further, and it refuses requests (S3's
/// `RequestTimeTooSkewed`).
const CLOCKS_APART: Duration = Duration::from_secs(15 * 60);

/// What was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// What publishes it.
    pub(super) operation: Operation,
    pub(super) size: u64,
    pub(super) checksum: Option<Checksum>,
}

/// A write of which nobody on this side knows what became.
struct Doubt {
    written: Written,
    /// When it was sent first.
    since: SystemTime,
}

/// What the store has where an object may have been written.
pub(super) enum There {
    Ours(Box<Object>),
    Another(Box<Object>),
    Nothing,
}

impl Doubt {
    /// Whether another's object was there before ours was sent, and ours never since.
    fn is_older(&self, there: &There) -> bool {
        let There::Another(object) = there else { return false };
        was_modified_before(object, self.since, CLOCKS_APART)
    }
}

/// Whether the store says that the object is older than `since`, even if the clocks are that far apart. A time that no
/// clock can hold is not.
fn was_modified_before(object: &Object, since: SystemTime, apart: Duration) -> bool {
    object.modified.and_then(|modified| modified.checked_add(apart)).is_some_and(|modified| modified < since)
}

impl Upload {
    /// Asks the store whether the object that is there is ours.
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
            // The first attempt was refused by the store's own word, and nothing speaks against it.
            _ if !failure.is_unsettled() => return Err(self.failed(failure, operation)),
            there => there?,
        };
        let is_older = doubt.is_older(&there);
        let is_another = matches!(there, There::Another(_));
        // The store's condition stopped us, and not by an object of our own. One that came since we sent
        // ours may as well have replaced it.
        if failure.fault.kind == FaultKind::Exists && is_another && (is_older || !failure.in_doubt) {
            return Err(self.failed(failure, operation));
        }
        if matches!(operation, Operation::Put | Operation::Copy) {
            // No session that could be aborted: what came before another's object, or comes yet, is
            // not for this side to know.
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
            // Its session is what it is gone on with: whoever resumes it settles this first.
            let why = match failure.fault.kind {
                // Ours would have replaced what was there before it was sent.
                FaultKind::NoSession | FaultKind::PartMismatch if is_older => {
                    return Err(self.failed(failure, operation));
                }
                // The store would not look at the parts of what it has published. What it does yet ends with
                // the session.
                FaultKind::PartMismatch if !is_another => return Err(self.failed(failure, operation)),
                FaultKind::NoSession => "it may have been there, and been removed or replaced since",
                _ => "the store may publish it yet",
            };
            return Err(self.uncertain(&doubt, &format!("{}; {why}", failure.fault)));
        }
        self.end(failure, doubt).await
    }

    /// What is there where an earlier process may have published this upload, which it began at `since`;
    /// `Nothing` where it is older than that.
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
        // Whoever wrote the same bytes, they are there.
        if !keeps_tokens && object.size == checksum.covers() {
            let (object, has_bytes) = self.compared(&checksum).await?;
            let object = Box::new(object);
            return Ok(if has_bytes { There::Ours(object) } else { There::Another(object) });
        }
        Ok(There::Another(Box::new(object)))
    }

    /// The object that is there, and whether it has the bytes that the checksum is of.
    async fn compared(&self, checksum: &Checksum) -> Result<(Object, bool)> {
        let began = Instant::now();
        let get =
            self.requests.make(Operation::Get, None, None, || self.backend.get(&self.key, None, None)).await;
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

    /// The object that is there now.
    async fn head_now(&self) -> Result<Option<Object>, Failure> {
        match self.requests.send(Operation::Head, None, None, || self.backend.head(&self.key)).await {
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

    /// Not there yet: a request that is still on its way could publish it. Once the session is aborted it
    /// can't. Not every store tells an abort that came too late from one in time (MinIO does not), so it
    /// is asked for the object once more.
    async fn end(&self, failure: Failure, doubt: Doubt) -> Result<Object> {
        let operation = doubt.written.operation;
        let mut in_time = match self.abort_session().await {
            // An abort can't be in time for a session that was said to be gone.
            Ok(in_time) => in_time && failure.fault.kind != FaultKind::NoSession,
            Err(error) => {
                let why = format!("{}; the session could not be aborted either", failure.fault);
                return Err(self.uncertain(&doubt, &why).with_source(error));
            }
        };
        let there = self.there(&doubt, &failure).await;
        let is_older = there.as_ref().is_ok_and(|there| doubt.is_older(there));
        if in_time && !is_older && matches!(there, Ok(There::Another(_))) {
            // The other may have replaced ours, if the abort was late and the store does not tell: then
            // it does not tell of a second one either.
            in_time = matches!(self.abort_session().await, Ok(false));
        }
        if !self.given_up.is_set() {
            // It has ended, and no part comes in behind that: the writer need not abort it again.
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

    /// What is there in the end, where the store says that the object is published and it is not there: it
    /// may be at that yet. It is asked as often as a request is made again that fails.
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

    /// Whose object the store has.
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

    /// The store cannot tell: what to look for, and from when.
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
