//! Finds out whether a write was committed: compares the store's answer with what was sent, and asks the
//! store for the object where the answer was lost. Where the store cannot tell, the error says so, and how to
//! recognize the object.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::session::{Persistence, Upload};
use crate::backend::{Body, CopySource, Fault, FaultKind};
use crate::engine::request::{Doubt, Failure, Made};
use crate::types::checksum::{Checksum, Hasher};
use crate::types::date::http_date;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Waiting;
use crate::types::telemetry;

/// The most that the store's clock may differ from the local one: with more, the store refuses requests (S3's
/// `RequestTimeTooSkewed`).
const CLOCKS_APART: Duration = Duration::from_secs(15 * 60);

/// Why it is not known what became of an object whose session is gone.
const GONE: &str = "it may have been there, and been removed or replaced since";

/// A write that was sent, and whose outcome the store is asked for.
struct SentWrite {
    /// The operation that publishes the object.
    operation: Operation,
    size: u64,
    checksum: Option<Checksum>,
    /// When the write was first sent.
    since: SystemTime,
}

/// The object at the key.
pub(super) enum There {
    Ours(Box<Object>),
    /// Another writer's, from before our write was sent: ours was not published since.
    Older,
    /// Another writer's, which may have replaced ours.
    Another,
    Nothing,
}

/// By which request the object was to be published.
#[derive(Clone, Copy)]
enum Publishing {
    /// By the one that carries it: nothing can stop that request.
    Put,
    /// By the completion of a session, which can be aborted.
    Session,
    /// The same, but a resume needs the session, and settles the outcome first.
    JournaledSession,
    /// By the completion of a session on a store that aborts none
    /// ([`Capabilities::aborts`](crate::backend::Capabilities::aborts)): nothing can stop that request.
    UnabortedSession,
}

/// The outcome of a failed write, where the object at the key is not ours.
enum Verdict {
    NotCommitted,
    Uncertain(&'static str),
    /// The session must be aborted first, so that no request on its way can publish the object.
    Abort,
}

impl Verdict {
    /// Decides as `docs/CERTAINTY.md` says.
    fn of(by: Publishing, fault: FaultKind, doubt: Doubt, there: &There) -> Self {
        match (by, fault, there) {
            // The store's own condition refused the write because of another writer's object. If an answer was lost,
            // that object must be older than our write: a newer one may have replaced ours.
            (_, FaultKind::Exists, There::Older) => Self::NotCommitted,
            (_, FaultKind::Exists, There::Another) if doubt < Doubt::AnswerLost => Self::NotCommitted,
            (Publishing::Session, ..) => Self::Abort,
            // Parts that are gone can be published by no completion any more. Our object would have replaced this older
            // one.
            (Publishing::UnabortedSession, FaultKind::NoSession, There::Older) => Self::NotCommitted,
            (Publishing::UnabortedSession, FaultKind::NoSession, _) => Self::Uncertain(GONE),
            (Publishing::Put | Publishing::UnabortedSession, _, There::Another) => {
                Self::Uncertain("the object that is there now is another's, and may have replaced this one")
            }
            (Publishing::Put | Publishing::UnabortedSession, ..) if doubt >= Doubt::OnItsWay => {
                Self::Uncertain("the store may write the object yet")
            }
            (Publishing::Put | Publishing::UnabortedSession, ..) => Self::NotCommitted,
            // Our object would have replaced this older one.
            (_, FaultKind::NoSession | FaultKind::PartMismatch, There::Older) => Self::NotCommitted,
            // A store that has published the object would not check its parts. A completion still under way ends
            // with the session.
            (_, FaultKind::PartMismatch, There::Nothing) => Self::NotCommitted,
            (_, FaultKind::NoSession, _) => Self::Uncertain(GONE),
            (Publishing::JournaledSession, ..) => Self::Uncertain("the store may publish it yet"),
        }
    }
}

/// Whether the store says that the object is older than `since`, even if the clocks differ by `apart`. A time
/// too large to add `apart` to is not older.
fn was_modified_before(object: &Object, since: SystemTime, apart: Duration) -> bool {
    object.modified.and_then(|modified| modified.checked_add(apart)).is_some_and(|modified| modified < since)
}

impl Upload {
    /// Asks the store whether the object at the key is ours, of `size` bytes. `operation` is to have published it.
    pub(super) async fn settle(
        &self,
        failure: Failure,
        operation: Operation,
        size: u64,
        checksum: Option<Checksum>,
    ) -> Result<Object> {
        let (attempts, elapsed, asked) = (failure.attempts, failure.elapsed, Instant::now());
        let since = SystemTime::now().checked_sub(elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
        self.ask(failure, SentWrite { operation, size, checksum, since })
            .await
            .map_err(|error| error.after(attempts, elapsed + asked.elapsed()))
    }

    /// Like [`settle`](Self::settle), for a copy that the store makes of `from`. Where metadata has names in capital
    /// letters, Azure gives a copy the writer token of its source, so nothing shows whose copy is there. An object that
    /// has everything that the copy was to have is as good as the copy, unless that was to replace nothing, or one object
    /// only.
    pub(in crate::upload) async fn settle_copy(&self, failure: Failure, from: &CopySource) -> Result<Object> {
        let checksum = from.checksum(self.backend.capabilities().checksum);
        let settled = self.settle(failure, Operation::Copy, from.object.size, checksum).await;
        let is_bound = self.options.create_only || self.options.replaces.is_some();
        let uncertain = match settled {
            Err(error) if error.kind() == ErrorKind::Uncertain && !is_bound => error,
            settled => return settled,
        };
        match self.head_now().await {
            Ok(Some(there)) if self.is_equal_copy(&there, from) => Ok(there),
            _ => Err(uncertain),
        }
    }

    /// Whether an object has the bytes, by a checksum, and the attributes that a copy of `from` was to have, and the
    /// source's writer token.
    fn is_equal_copy(&self, there: &Object, from: &CopySource) -> bool {
        let source = &from.object;
        let md5 = |object: &Object| object.other_checksums.get("md5").cloned();
        let checksums = |object: &Object| [object.crc64nvme.clone(), object.crc32c.clone(), md5(object)];
        let has_bytes = checksums(there)
            .iter()
            .zip(&checksums(source))
            .any(|(there, source)| there.is_some() && there == source);
        let tags = self.options.attributes.tags.len();
        let kept = if from.keeps_tags { source.tag_count } else { 0 };
        has_bytes
            && there.size == source.size
            && there.token == source.token
            && there.tag_count == if tags > 0 { tags as u64 } else { kept }
            && there.attributes == self.options.attributes
    }

    async fn ask(&self, failure: Failure, sent: SentWrite) -> Result<Object> {
        debug!(object = %self.requests.object, fault = %failure.fault, "asking the store whether it was committed");
        let operation = sent.operation;
        let there = match self.there(&sent, &failure).await {
            Ok(There::Nothing) if failure.doubt == Doubt::Unseen => self.appears(&sent, &failure).await,
            there => there,
        };
        let there = match there {
            Ok(There::Ours(object)) => return Ok(*object),
            // The store itself refused the first attempt, and nothing contradicts that.
            _ if failure.doubt == Doubt::None => return Err(self.failed(failure, operation)),
            there => there?,
        };
        let by = match (operation, self.persistence()) {
            (Operation::Put | Operation::Copy, _) => Publishing::Put,
            _ if !self.backend.capabilities().aborts => Publishing::UnabortedSession,
            (_, Persistence::Process) => Publishing::Session,
            (_, Persistence::Resumable | Persistence::MayBePublished) => Publishing::JournaledSession,
        };
        match Verdict::of(by, failure.fault.kind, failure.doubt, &there) {
            Verdict::NotCommitted => Err(self.failed(failure, operation)),
            Verdict::Uncertain(why) => Err(self.uncertain(&sent, &format!("{}; {why}", failure.fault))),
            Verdict::Abort => self.end(failure, sent).await,
        }
    }

    /// The object at the key, where an earlier process may have published this upload, which was begun at
    /// `since`.
    pub(super) async fn published(&self, checksum: Checksum, since: SystemTime) -> Result<There> {
        let head = self.head_now().await.map_err(|failure| self.failed(failure, Operation::Head))?;
        let Some(object) = head else { return Ok(There::Nothing) };
        if self.is_ours(&object, checksum.covers(), Some(checksum)).await? {
            return Ok(There::Ours(Box::new(object)));
        }
        let keeps_tokens = self.backend.capabilities().tokens;
        let apart = if keeps_tokens { CLOCKS_APART } else { Duration::ZERO };
        if was_modified_before(&object, since, apart) {
            return Ok(There::Older);
        }
        // The store keeps no writer tokens, so an object with the same bytes counts as ours.
        if !keeps_tokens && object.size == checksum.covers() {
            let (object, has_bytes) = self.compared(&checksum).await?;
            return Ok(if has_bytes { There::Ours(Box::new(object)) } else { There::Another });
        }
        Ok(There::Another)
    }

    /// Downloads the object at the key; returns it, and whether its bytes match the checksum.
    async fn compared(&self, checksum: &Checksum) -> Result<(Object, bool)> {
        let began = Instant::now();
        let get = |attempt| self.backend.get(&self.key, None, None, attempt);
        let get = self.requests.open(Operation::Get, get).await;
        let (made, figures) = get.map_err(|failure| self.failed(failure, Operation::Get))?;
        let Made { answer: Body { object, mut stream, .. }, attempts, .. } = made;
        let mut hasher = Hasher::new(checksum.algorithm());
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(fault) => {
                    figures.failed(fault.kind.error_kind().name());
                    let url = self.requests.object.clone();
                    return Err(Error::from_fault(fault, Operation::Get, url, attempts, began.elapsed()));
                }
            };
            telemetry::received(piece.len() as u64);
            hasher.update(&piece);
        }
        figures.succeeded();
        Ok((object, hasher.finish() == *checksum))
    }

    /// The object at the key now, if any.
    pub(super) async fn head_now(&self) -> Result<Option<Object>, Failure> {
        let head = |attempt| self.backend.head(&self.key, attempt);
        match self.requests.send(Operation::Head, None, None, head).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.fault.kind == FaultKind::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Whether this upload has published the object: it has the upload's token, and its bytes as far as the store tells.
    async fn is_ours(&self, object: &Object, size: u64, checksum: Option<Checksum>) -> Result<bool> {
        let same_token = object.token.is_some() && object.token == self.options.token;
        if !same_token || object.size != size {
            return Ok(false);
        }
        let Some(checksum) = checksum else { return Ok(true) };
        match object.matches(&checksum) {
            // All who continue from a point have one token: only the bytes tell their objects apart.
            None if self.points.are_shared() => Ok(self.compared(&checksum).await?.1),
            matches => Ok(matches != Some(false)),
        }
    }

    /// Aborts the session of an object that is not there (yet): a request still on its way could publish the
    /// object, but not once the session is aborted. Not every store distinguishes an abort that came too late
    /// from one in time (MinIO does not), so the store is asked for the object once more.
    async fn end(&self, failure: Failure, sent: SentWrite) -> Result<Object> {
        let operation = sent.operation;
        let mut in_time = match self.abort_session().await {
            // An abort can't be in time for a session that the store reported as gone.
            Ok(in_time) => in_time && failure.fault.kind != FaultKind::NoSession,
            Err(error) => {
                let why = format!("{}; the session could not be aborted either", failure.fault);
                return Err(self.uncertain(&sent, &why).with_source(error));
            }
        };
        let there = self.there(&sent, &failure).await;
        if in_time && matches!(there, Ok(There::Another)) {
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
            There::Older => return Err(self.failed(failure, operation)),
            _ if in_time => return Err(self.failed(failure, operation)),
            There::Another => "the session has ended, and the object that is there now is another's",
            There::Nothing => "the session has ended, and no object is there",
        };
        Err(self.uncertain(&sent, why))
    }

    /// Waits for an object that the store has reported as published but that is not there: the store may
    /// still be publishing it. Asks as often as a failed request is retried.
    async fn appears(&self, sent: &SentWrite, failure: &Failure) -> Result<There> {
        let unseen = Fault::new(FaultKind::Undone, "not there yet");
        for attempt in 1.. {
            let Some(pause) = self.requests.retry.pause(&unseen, attempt) else { break };
            let waiting = self.requests.progress.waiting(Waiting::Backoff);
            sleep(pause).await;
            drop(waiting);
            match self.there(sent, failure).await? {
                There::Nothing => {}
                there => return Ok(there),
            }
        }
        Ok(There::Nothing)
    }

    /// Asks the store for the object at the key, and says whose it is.
    async fn there(&self, sent: &SentWrite, failure: &Failure) -> Result<There> {
        let SentWrite { size, checksum, since, .. } = *sent;
        let head = self.head_now().await.map_err(|asked| {
            let what = match failure.fault.kind {
                FaultKind::NotAStore => &failure.fault.message,
                _ => "the answer was lost",
            };
            self.uncertain(sent, &format!("{what}, and asking for the object failed: {}", asked.fault))
        })?;
        let Some(object) = head else { return Ok(There::Nothing) };
        Ok(if self.is_ours(&object, size, checksum).await? {
            There::Ours(Box::new(object))
        } else if was_modified_before(&object, since, CLOCKS_APART) {
            There::Older
        } else {
            There::Another
        })
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
    fn uncertain(&self, sent: &SentWrite, why: &str) -> Error {
        let SentWrite { operation, size, since, .. } = *sent;
        let token = self.options.token.as_deref().unwrap_or_default();
        let [since, until] = [since, SystemTime::now()].map(http_date);
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
    fn without_an_abort_only_what_the_store_excludes_is_not_committed() {
        let verdict =
            |fault, doubt, there| match Verdict::of(Publishing::UnabortedSession, fault, doubt, &there) {
                Verdict::NotCommitted => Some(false),
                Verdict::Uncertain(_) => None,
                Verdict::Abort => Some(true),
            };
        let refused = FaultKind::Throttled;
        assert_eq!(verdict(refused, Doubt::AnswerLost, There::Nothing), Some(false));
        assert_eq!(verdict(refused, Doubt::OnItsWay, There::Nothing), None);
        assert_eq!(verdict(refused, Doubt::OnItsWay, There::Older), None);
        assert_eq!(verdict(refused, Doubt::AnswerLost, There::Another), None);
        assert_eq!(verdict(FaultKind::NoSession, Doubt::RanIntoItself, There::Nothing), None);
        assert_eq!(verdict(FaultKind::NoSession, Doubt::OnItsWay, There::Older), Some(false));
        assert_eq!(verdict(FaultKind::Exists, Doubt::OnItsWay, There::Older), Some(false));
        assert_eq!(verdict(FaultKind::Exists, Doubt::OnItsWay, There::Another), None);
    }

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
