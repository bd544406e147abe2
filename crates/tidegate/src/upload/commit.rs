//! Publishes a pending upload, or gives it up. Any process may do so, and may repeat it: the object is published once.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::pending::{Pending, PendingBytes, Tail};
use super::publish::RemainingParts;
use super::session::{Persistence, SessionTakes, Upload};
use super::settle::There;
use super::source::copy::{CopyMethod, copy};
use crate::backend::{Appended, CopySource, FaultKind, PartOrigin, Receipt, Session};
use crate::engine::Context;
use crate::engine::pending::RecordName;
use crate::journal::Part;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// How often a store that refused a commit is asked again for the object, and the pause before the first time, which doubles:
/// three seconds in all.
const LOOKS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Publishes the object; see [`Store::commit`](crate::Store::commit).
pub(crate) async fn commit(context: &Context, pending: &Pending) -> Result<Object> {
    PendingUpload::new(context, pending, Operation::Complete)?.commit(context).await
}

/// Publishes an upload whose parts several processes have sent: so a part counts only if the store proves its bytes.
/// [`ErrorKind::InvalidInput`] if the session is there, and does not have a part as its receipt says.
pub(super) async fn commit_parts(context: &Context, pending: &Pending) -> Result<Object> {
    let mut to_commit = PendingUpload::new(context, pending, Operation::Complete)?;
    to_commit.upload.points.share();
    to_commit.receipts = ReceiptsOf::Caller;
    to_commit.commit(context).await
}

/// Gives the upload up; see [`Store::abandon`](crate::Store::abandon).
pub(crate) async fn abandon(context: &Context, pending: &Pending) -> Result<()> {
    PendingUpload::new(context, pending, Operation::Abort)?.abandon().await
}

/// Gives up uploads that nobody knows of any more, on the thread of the engine's aborts. The engine's last drop waits for them.
pub(crate) fn abandon_unknown(context: &Context, pending: &[Pending], runtime: &Handle) {
    let aborts = &context.engine().aborts;
    for pending in pending {
        // A forked child inherits them: they are its parent's.
        let Ok(given_up) = PendingUpload::new(context, pending, Operation::Abort) else { continue };
        let message = "the runtime was shut down before the prepared upload was abandoned";
        let lost = given_up.upload.error(ErrorKind::Closed, Operation::Abort, message);
        let awaited = aborts.awaited();
        let abandon = async move {
            let abandoned = given_up.abandon().await;
            if let Err(error) = &abandoned {
                tracing::warn!(%error, "a prepared upload that nobody knows of could not be abandoned");
            }
            drop(awaited);
            abandoned
        };
        drop(aborts.spawn(abandon, Some(lost), runtime));
    }
}

/// Fails if a commit could not publish the upload now: its bytes are gone, or its condition does not hold.
///
/// [`ErrorKind::SessionLost`], [`ErrorKind::AlreadyExists`] and [`ErrorKind::Replaced`] as of [`commit`]; other errors say
/// nothing about the upload. Changes nothing at the store.
pub(crate) async fn check(context: &Context, pending: &Pending) -> Result<()> {
    let checked = PendingUpload::new(context, pending, Operation::Complete)?;
    let refused = match checked.check_bytes().await {
        Ok(()) => match checked.check_condition().await? {
            None => return Ok(()),
            Some(refused) => refused,
        },
        Err(error) if error.kind() == ErrorKind::SessionLost => error,
        Err(error) => return Err(error),
    };
    // Another process may have committed it.
    match checked.published().await? {
        Some(_) => Ok(()),
        None => Err(checked.lost(refused)),
    }
}

/// Whether the upload was published, and its object is there.
pub(crate) async fn is_published(context: &Context, pending: &Pending) -> Result<bool> {
    Ok(PendingUpload::new(context, pending, Operation::Complete)?.published().await?.is_some())
}

/// A pending upload in the hands of this process.
struct PendingUpload {
    pending: Pending,
    upload: Arc<Upload>,
    receipts: ReceiptsOf,
}

/// Who has the receipts of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiptsOf {
    /// The writer that has prepared the upload. A record keeps sweeps from the session.
    Writer,
    /// The caller, who may choose other parts if the session does not have these.
    Caller,
}

impl PendingUpload {
    fn new(context: &Context, pending: &Pending, operation: Operation) -> Result<Self> {
        let root = context.root();
        let mut upload = pending.write.upload(context, &root, pending.checksum.algorithm(), operation)?;
        upload.persists = Persistence::MayBePublished;
        if pending.has_points {
            upload.points.share();
        }
        let takes = match &pending.bytes {
            PendingBytes::Append { .. } => SessionTakes::AppendedBytes,
            PendingBytes::Parts { .. } | PendingBytes::Aside => SessionTakes::Parts(PartOrigin::Sent),
        };
        let upload = Arc::new(upload.into_session_of(takes));
        Ok(Self { pending: pending.clone(), upload, receipts: ReceiptsOf::Writer })
    }

    async fn commit(&self, context: &Context) -> Result<Object> {
        let object = match self.publish(&context.root()).await {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::SessionLost | ErrorKind::AlreadyExists | ErrorKind::Replaced
                ) =>
            {
                if error.kind() == ErrorKind::SessionLost
                    && let Some(number) = self.lacks().await
                {
                    let message = format!(
                        "the upload does not have part {number} as its receipt says: put it again, or complete with the \
                         receipt of the part that was put last"
                    );
                    let refused = self.upload.error(ErrorKind::InvalidInput, Operation::Complete, message);
                    return Err(refused.with_source(error));
                }
                // Another process may have committed it, in a store that keeps no writer tokens too.
                match self.appears(&error).await? {
                    Some(object) => object,
                    None => return Err(self.lost(error)),
                }
            }
            published => published?,
        };
        self.remove_record().await;
        Ok(context.relative(object))
    }

    /// The part that an open session does not have as the caller's receipt says. `None` if the session has ended, the
    /// store can't tell, or the parts are not the caller's choice.
    async fn lacks(&self) -> Option<u32> {
        let PendingBytes::Parts { id, parts } = &self.pending.bytes else { return None };
        if self.receipts == ReceiptsOf::Writer {
            return None;
        }
        let upload = &self.upload;
        let session = Session { key: upload.key.clone(), id: id.clone() };
        let receipts: Vec<Receipt> = parts.iter().map(Part::receipt).filter(|part| part.size > 0).collect();
        let Ok(RemainingParts::Lacks(number)) = upload.kept(&session, &receipts).await else { return None };
        if upload.backend.capabilities().aborts {
            return Some(number);
        }
        // The blocks of an upload that has ended are gone, and those of one without parts were never there.
        let held = |attempt| {
            let session = &session;
            async move { upload.backend.need_admin()?.held(session, attempt).await }
        };
        upload.requests.send(Operation::List, None, None, held).await.ok().map(|_| number)
    }

    async fn abandon(&self) -> Result<()> {
        let upload = &self.upload;
        if !matches!(self.pending.bytes, PendingBytes::Aside) && upload.backend.capabilities().aborts {
            upload.adopt(self.pending.bytes.session().to_owned());
            let was_open = upload.abort_session().await?;
            // Without tokens the object's bytes must be compared, so a session that was open is believed.
            if was_open && !upload.backend.capabilities().tokens {
                return Ok(());
            }
        }
        // The record goes first: from here on no commit begins that depends on it.
        self.remove_record_or_fail().await?;
        match self.published().await? {
            None => Ok(()),
            Some(_) => {
                let message = "the object was committed before, and is there";
                Err(upload.error(ErrorKind::Closed, Operation::Abort, message))
            }
        }
    }

    async fn publish(&self, root: &Context) -> Result<Object> {
        let (upload, checksum) = (&self.upload, self.pending.checksum);
        if self.only_record_tells() {
            self.record().await?;
        }
        match &self.pending.bytes {
            PendingBytes::Parts { id, parts } => {
                upload.adopt(id.clone());
                let parts = parts.iter().map(Part::receipt).collect();
                upload.complete(parts, Some(checksum)).await
            }
            PendingBytes::Append { id, tail } => {
                let tail = self.tail(tail).await?;
                upload.adopt(id.clone());
                let (size, sum) = (checksum.covers(), Checksum::of(checksum.algorithm(), &tail));
                let range = size - tail.len() as u64..size;
                let tail = Payload::from_memory(vec![tail], sum);
                let object = upload.append_rest(1, range, tail, checksum).await??;
                if !upload.backend.capabilities().tokens {
                    return Ok(object);
                }
                // A session that was finished before answers with what it published then, which may be gone.
                self.published().await?.ok_or_else(|| {
                    let message = "it was published before, and the object was removed or replaced since";
                    upload.error(ErrorKind::SessionLost, Operation::Complete, message)
                })
            }
            PendingBytes::Aside => self.copy_from_record(root).await,
        }
    }

    /// Fails with [`ErrorKind::SessionLost`] if the store does not have all bytes of the upload any more.
    async fn check_bytes(&self) -> Result<()> {
        if self.only_record_tells() {
            self.record().await?;
        }
        match &self.pending.bytes {
            PendingBytes::Parts { id, parts } => self.check_parts(id, parts).await,
            PendingBytes::Append { id, tail } => {
                if matches!(tail, Tail::Record(_)) {
                    self.record().await?;
                }
                self.check_appended(id).await
            }
            PendingBytes::Aside => {
                let object = self.record().await?;
                let (size, checksum) = (self.pending.size(), self.pending.checksum);
                self.upload.verify(object, size, Some(checksum), Operation::Head).map(drop)
            }
        }
    }

    async fn check_parts(&self, id: &str, parts: &[Part]) -> Result<()> {
        let upload = &self.upload;
        let session = Session { key: upload.key.clone(), id: id.to_owned() };
        // Azure keeps no block for a part without bytes. Where that is the only part, the record alone tells.
        let is_kept = |receipt: &Receipt| receipt.size > 0 || upload.backend.capabilities().aborts;
        let receipts: Vec<Receipt> = parts.iter().map(Part::receipt).filter(is_kept).collect();
        if receipts.is_empty() {
            return Ok(());
        }
        let failed = |failure| upload.failed(failure, Operation::List);
        match upload.kept(&session, &receipts).await.map_err(failed)? {
            RemainingParts::Copies(_) => return Ok(()),
            RemainingParts::Lacks(number) => {
                let message = format!("the session has lost part {number}, which it had acknowledged");
                return Err(upload.error(ErrorKind::SessionLost, Operation::List, message));
            }
            RemainingParts::Unknown => {}
        }
        let held = |attempt| {
            let session = &session;
            async move { upload.backend.need_admin()?.held(session, attempt).await }
        };
        match upload.requests.send(Operation::List, None, None, held).await {
            Ok(held) if upload.backend.is_local() && held.bytes < self.pending.size() => {
                let message = format!(
                    "the unfinished file has {} bytes, and the upload has {}",
                    held.bytes,
                    self.pending.size()
                );
                Err(upload.error(ErrorKind::SessionLost, Operation::List, message))
            }
            // A store that cannot tell shows it with the commit.
            Err(failure) if failure.fault.kind == FaultKind::Unsupported => Ok(()),
            held => held.map(drop).map_err(failed),
        }
    }

    async fn check_appended(&self, id: &str) -> Result<()> {
        let upload = &self.upload;
        // Where the server does not tell, the record was asked for.
        if self.only_record_tells() {
            return Ok(());
        }
        let session = &Session { key: upload.key.clone(), id: id.to_owned() };
        let ask = |attempt| async move { upload.backend.need_append()?.position(session, attempt).await };
        let position = upload.requests.send(Operation::List, None, None, ask).await;
        let position = position.map_err(|failure| upload.failed(failure, Operation::List))?;
        let sent = self.pending.sent();
        let message = match position {
            Appended::Open(at) if at >= sent => return Ok(()),
            Appended::Open(at) => format!("the store has {at} bytes of the session, where it had {sent}"),
            Appended::Published(_) => "the session was finished".to_owned(),
        };
        Err(upload.error(ErrorKind::SessionLost, Operation::List, message))
    }

    /// The error with which the store would refuse the commit, because the condition does not hold now.
    async fn check_condition(&self) -> Result<Option<Error>> {
        let (upload, options) = (&self.upload, &self.upload.options);
        if !options.create_only && options.replaces.is_none() {
            return Ok(None);
        }
        let there = upload.head_now().await.map_err(|failure| upload.failed(failure, Operation::Head))?;
        let refused = |kind, message| Ok(Some(upload.error(kind, Operation::Head, message)));
        match (&options.replaces, there) {
            (None, Some(_)) => refused(ErrorKind::AlreadyExists, "there is an object already"),
            (Some(replaced), there) if !there.as_ref().is_some_and(|there| there.is_same(replaced)) => {
                refused(ErrorKind::Replaced, "the object is not the one that was to be replaced")
            }
            _ => Ok(None),
        }
    }

    /// Whether nothing but the record tells that the upload was given up: the store aborts no session (Azure), or only says
    /// that it does (fake-gcs-server).
    fn only_record_tells(&self) -> bool {
        let backend = &self.upload.backend;
        let session =
            Session { key: self.pending.write.key.clone(), id: self.pending.bytes.session().to_owned() };
        match &self.pending.bytes {
            PendingBytes::Parts { .. } => !backend.capabilities().aborts,
            PendingBytes::Append { .. } => {
                backend.appending().is_some_and(|append| !append.tells_position(&session))
            }
            PendingBytes::Aside => false,
        }
    }

    /// Describes the record. [`ErrorKind::SessionLost`] if there is none.
    async fn record(&self) -> Result<Object> {
        self.upload.record(&self.pending.record_name(), Operation::Complete).await
    }

    /// The last bytes of a session that is appended to.
    async fn tail(&self, tail: &Tail) -> Result<Bytes> {
        let Tail::Record(size) = *tail else { return Ok(tail.inline().unwrap_or_default().into()) };
        let key = self.pending.record_name().key();
        if size >= self.upload.backend.capabilities().append.unwrap_or_default() {
            let message = format!("`{key}` does not have the last bytes of the object");
            return Err(self.upload.error(ErrorKind::Integrity, Operation::Complete, message));
        }
        self.upload.read_own(&key, size).await
    }

    /// Has the store copy the record to the key.
    async fn copy_from_record(&self, root: &Context) -> Result<Object> {
        if let Some(object) = self.published().await? {
            return Ok(object);
        }
        let object = self.record().await?;
        let key = self.pending.record_name().key();
        let verified =
            self.upload.verify(object, self.pending.size(), Some(self.pending.checksum), Operation::Head)?;
        let from = CopySource::new(self.upload.backend.location(), key, verified);
        let mut upload = Upload::new(
            root,
            &self.pending.write.key,
            self.pending.write.options(),
            self.upload.requests.progress.clone(),
        );
        upload.persists = Persistence::MayBePublished;
        let copied = copy(upload, from, CopyMethod::Whole, 1).await?;
        self.upload.verify(copied, self.pending.size(), Some(self.pending.checksum), Operation::Copy)
    }

    /// The object, if the key has it now.
    async fn published(&self) -> Result<Option<Object>> {
        Ok(match self.there().await? {
            There::Ours(object) => Some(*object),
            There::Older | There::Another | There::Nothing => None,
        })
    }

    async fn there(&self) -> Result<There> {
        // Such an object has the time of a file that it was made of.
        let since = if self.pending.write.preserve && self.upload.backend.is_local() {
            0
        } else {
            self.pending.created
        };
        self.upload.published(self.pending.checksum, since_1970(since)).await
    }

    /// As [`published`](Self::published), for a commit that the store refused with `error`. Another commit may be under way,
    /// perhaps for a process that was killed: meanwhile MinIO shows neither the session nor the object, and rclone says that
    /// an object exists which it does not show. So the store is asked again, for a while.
    async fn appears(&self, error: &Error) -> Result<Option<Object>> {
        let has_sessions = matches!(self.pending.bytes, PendingBytes::Parts { .. })
            && self.upload.backend.capabilities().aborts;
        let looks = if has_sessions { LOOKS } else { 0 };
        for attempt in 0..=looks {
            match self.there().await? {
                There::Ours(object) => return Ok(Some(*object)),
                // What is there is what the condition is about.
                There::Older | There::Another if error.kind() != ErrorKind::SessionLost => break,
                There::Older | There::Another | There::Nothing if attempt < looks => {
                    sleep(FIRST_PAUSE * (1 << attempt)).await;
                }
                There::Older | There::Another | There::Nothing => {}
            }
        }
        Ok(None)
    }

    /// The error of a commit that found no session and not its object.
    fn lost(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::SessionLost {
            return error;
        }
        let pending = &self.pending;
        let why = match pending.until() < SystemTime::now() {
            true => "its lifetime is over",
            false => {
                "it was abandoned, or the store has ended it, or it was committed and the object was removed or \
                      replaced since"
            }
        };
        let endpoint = self.upload.backend.endpoint();
        let elsewhere = match pending.endpoint() == endpoint {
            true => String::new(),
            false => format!(" (it was prepared at {}, and this is {endpoint})", pending.endpoint()),
        };
        error.and(&format!("no commit publishes it any more: {why}{elsewhere}"))
    }

    /// Removes the record after the commit. If that fails, a sweep removes it when the lifetime is over.
    async fn remove_record(&self) {
        if let Err(error) = self.remove_record_or_fail().await {
            tracing::warn!(%error, "the record of an upload that is committed could not be removed; a sweep will do it");
        }
    }

    async fn remove_record_or_fail(&self) -> Result<()> {
        if self.pending.has_points {
            self.upload.remove_points(self.pending.bytes.session()).await?;
        }
        let has_record = self.receipts == ReceiptsOf::Writer || self.only_record_tells();
        if self.upload.backend.is_local() || !has_record {
            return Ok(());
        }
        self.upload.remove_own(&self.pending.record_name().key()).await
    }
}

impl Upload {
    /// Asks the store for the record of this name. [`ErrorKind::SessionLost`] if the record is gone: then the upload was given
    /// up. The error names `operation`.
    pub(super) async fn record(&self, name: &RecordName, operation: Operation) -> Result<Object> {
        let key = name.key();
        let head = |attempt| self.backend.head(&key, attempt);
        let found = self.requests.send(Operation::Head, None, None, head).await;
        found.map_err(|mut failure| {
            if failure.fault.kind == FaultKind::NotFound {
                failure.fault.kind = FaultKind::NoSession;
                failure.fault.message = "its record is gone".to_owned();
            }
            self.failed(failure, operation)
        })
    }
}
