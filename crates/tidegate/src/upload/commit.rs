//! Publishes a pending upload, or gives it up. Any process may do so, and may repeat it: the object is published once.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use super::pending::{Pending, PendingBytes, Tail};
use super::session::{Persistence, SessionTakes, Upload};
use super::settle::There;
use super::source::copy::{CopyMethod, copy};
use crate::backend::{CopySource, FaultKind, PartOrigin, Session};
use crate::engine::Context;
use crate::journal::Part;
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// Publishes the object; see [`Store::commit`](crate::Store::commit).
pub(crate) async fn commit(context: &Context, pending: &Pending) -> Result<Object> {
    let to_commit = PendingUpload::new(context, pending, Operation::Complete)?;
    let object = match to_commit.publish().await {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::SessionLost | ErrorKind::AlreadyExists | ErrorKind::Replaced
            ) =>
        {
            // Another process may have committed it, in a store that keeps no writer tokens too.
            match to_commit.published().await? {
                Some(object) => object,
                None => return Err(to_commit.lost(error)),
            }
        }
        published => published?,
    };
    to_commit.remove_record().await;
    Ok(context.relative(object))
}

/// Gives the upload up; see [`Store::abandon`](crate::Store::abandon).
pub(crate) async fn abandon(context: &Context, pending: &Pending) -> Result<()> {
    let given_up = PendingUpload::new(context, pending, Operation::Abort)?;
    let upload = &given_up.upload;
    if !matches!(pending.bytes, PendingBytes::Aside) && upload.backend.capabilities().aborts {
        upload.adopt(pending.bytes.session().to_owned());
        let was_open = upload.abort_session().await?;
        // Without tokens the object's bytes must be compared, so a session that was open is believed.
        if was_open && !upload.backend.capabilities().tokens {
            return Ok(());
        }
    }
    // The record goes first: from here on no commit begins that depends on it.
    given_up.remove_record_or_fail().await?;
    match given_up.published().await? {
        None => Ok(()),
        Some(_) => {
            let message = "the object was committed before, and is there";
            Err(upload.error(ErrorKind::Closed, Operation::Abort, message))
        }
    }
}

/// A pending upload in the hands of this process.
struct PendingUpload<'a> {
    root: Context,
    pending: &'a Pending,
    upload: Arc<Upload>,
}

impl<'a> PendingUpload<'a> {
    fn new(context: &Context, pending: &'a Pending, operation: Operation) -> Result<Self> {
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
        Ok(Self { root, pending, upload: Arc::new(upload.into_session_of(takes)) })
    }

    async fn publish(&self) -> Result<Object> {
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
            PendingBytes::Aside => self.copy_from_record().await,
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
        let key = self.pending.record_name().key();
        let head = |attempt| self.upload.backend.head(&key, attempt);
        let found = self.upload.requests.send(Operation::Head, None, None, head).await;
        found.map_err(|mut failure| {
            if failure.fault.kind == FaultKind::NotFound {
                failure.fault.kind = FaultKind::NoSession;
                failure.fault.message = "its record is gone".to_owned();
            }
            self.upload.failed(failure, Operation::Complete)
        })
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
    async fn copy_from_record(&self) -> Result<Object> {
        if let Some(object) = self.published().await? {
            return Ok(object);
        }
        let object = self.record().await?;
        let key = self.pending.record_name().key();
        let verified =
            self.upload.verify(object, self.pending.size(), Some(self.pending.checksum), Operation::Head)?;
        let from = CopySource { location: self.upload.backend.location().to_owned(), key, object: verified };
        let mut upload = Upload::new(
            &self.root,
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
        // Such an object has the time of a file that it was made of.
        let since = if self.pending.write.preserve && self.upload.backend.is_local() {
            0
        } else {
            self.pending.created
        };
        let there = self.upload.published(self.pending.checksum, since_1970(since)).await?;
        Ok(match there {
            There::Ours(object) => Some(*object),
            There::Older | There::Another | There::Nothing => None,
        })
    }

    /// The error of a commit that found no session and not its object.
    fn lost(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::SessionLost {
            return error;
        }
        let pending = self.pending;
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
        if self.upload.backend.is_local() {
            return Ok(());
        }
        self.upload.remove_own(&self.pending.record_name().key()).await
    }
}
