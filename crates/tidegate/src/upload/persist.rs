//! Persists a point of an upload, from which any process on any machine can continue.
//!
//! All parts that are cut are at the store then, and the bytes behind them, the *tail*, are kept as well: in the point
//! itself or in an object. The record, which keeps sweeps from the session, is written before the tail and the point. From
//! the first point on, no end of the writer aborts the session but [`Writer::abort`]: somebody may have the point.

use std::future::{IntoFuture, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use futures::future::BoxFuture;

use super::described_write::DescribedWrite;
use super::driver::Driver;
use super::intake::Intake;
use super::pending::{LONGEST_TAIL, lifetime_from_now};
use super::plan::Cut;
use super::points::PointRecord;
use super::prepare::{SIX_DAYS, journaled};
use super::resumable::{PointTail, Resumable};
use super::session::Upload;
use super::source::buffer::Buffered;
use super::writer::{Side, Writer};
use crate::backend::{Attempt, Receipt, Session};
use crate::engine::pending::{RecordName, tail_key};
use crate::journal::{JournaledSession, Part, SessionKind};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{ErrorKind, Operation, Result};

/// Sets up a point of an upload; from [`Writer::persist`]. Awaited, it is the [`Resumable`].
#[derive(Debug)]
#[must_use = "nothing is persisted before it is awaited"]
pub struct PersistBuilder<'a> {
    writer: &'a mut Writer,
    lifetime: Duration,
}

impl PersistBuilder<'_> {
    /// How long the point can be continued from; six days by default and with `None`, and at times an eighth longer. Until then
    /// no sweep, on any machine, ends the upload; afterwards it counts as any unfinished upload. Azure Blob Storage and Google's
    /// resumable uploads live for a week at most, and a bucket may have a lifecycle rule that ends uploads earlier:
    /// [`Resumable::warning`] says so. A process that [continues](crate::Store::resume) from the point has the upload spared for
    /// as long again.
    pub fn lifetime(mut self, lifetime: impl Into<Option<Duration>>) -> Self {
        self.lifetime = lifetime.into().unwrap_or(SIX_DAYS);
        self
    }

    async fn run(self) -> Result<Resumable> {
        let Self { writer, lifetime } = self;
        poll_fn(|cx| writer.poll_all_in(cx)).await?;
        let Side::Direct(direct) = &mut writer.side else { return Err(journaled(writer, "persist")) };
        direct.persist(lifetime).await
    }
}

impl<'a> IntoFuture for PersistBuilder<'a> {
    type Output = Result<Resumable>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Writer {
    /// Makes all bytes taken so far outlast this process and this machine. The [`Resumable`] that comes of it is a value
    /// with which any process continues the upload from here, by [`Store::resume`](crate::Store::resume), or gives it up,
    /// by [`Store::abandon`](crate::Store::abandon). Nothing is visible, and the writer goes on.
    ///
    /// From the first point on, the session stays when the writer is dropped or fails, until the point's
    /// [lifetime](PersistBuilder::lifetime) is over. All points of the upload end with [`finish`](Self::finish) or
    /// [`abort`](Self::abort); after a [`prepare`](Self::prepare), with the commit or the abandon.
    ///
    /// The bytes behind the last part, its *tail*, are in the point itself up to 4 KiB, else they are a part that is cut
    /// early or, where the store takes no part so small, an object below `.tidegate/tails/`. Each such point has an object
    /// of its own, until the upload ends or [`Store::forget`](crate::Store::forget) removes it.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use tidegate::upload::Resumable;
    ///
    /// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// let mut writer = store.writer("events").await?;
    /// writer.write_bytes("before the checkpoint".into()).await?;
    /// let point = writer.persist().await?.to_json(); // goes into the checkpoint
    /// writer.write_bytes(", lost".into()).await?;
    /// drop(writer); // or a crash
    ///
    /// // In any process, on any machine:
    /// let mut writer = store.resume(&Resumable::from_json(&point)?).await?;
    /// assert_eq!(writer.position(), 21);
    /// writer.write_bytes(", and after".into()).await?;
    /// assert_eq!(writer.finish().await?.size, 32);
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancellation
    /// The writer is as it was, and may go on. What was written of the point is removed with the upload, or by a sweep when
    /// the lifetime is over.
    ///
    /// # Errors
    /// Where a part fails, the writer has failed. Other errors leave the writer open: of the session, of the tail, and of
    /// the record ([`ErrorKind::PermissionDenied`] where nothing may be written below `.tidegate/`).
    /// [`ErrorKind::Unsupported`] with [`Strategy::Journal`](crate::Strategy::Journal), with
    /// [`Strategy::Put`](crate::Strategy::Put) on a local disk, where keys are spread over prefixes, and on a server that
    /// does not tell how much it has of an upload. As [`finish`](Self::finish) after a cancelled write.
    pub fn persist(&mut self) -> PersistBuilder<'_> {
        PersistBuilder { writer: self, lifetime: SIX_DAYS }
    }

    /// Opens the upload session now, before the first byte, and returns a value with which any process can give the upload
    /// up, by [`Store::abandon`](crate::Store::abandon): for a program that writes down which sessions it has, so that
    /// another one can end them after a crash. The value has the session alone, and no bytes.
    ///
    /// Unlike after [`persist`](Self::persist), the session is still the writer's: a drop or a failure aborts it, and a sweep
    /// counts its age as that of any unfinished upload. Where the store has no sessions, nothing is opened. `lifetime` is how
    /// long the upload is to wait for its commit; if the store may end it earlier, [`Resumable::warning`] says so.
    ///
    /// # Cancellation
    /// The writer is as it was, or its session is open.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if bytes were written before. [`ErrorKind::Unsupported`] with
    /// [`Strategy::Journal`](crate::Strategy::Journal), with [`Strategy::Put`](crate::Strategy::Put) on a local disk, and
    /// where keys are spread over prefixes. Otherwise the errors of the session; the writer stays open.
    pub async fn open_session(&mut self, lifetime: Duration) -> Result<Resumable> {
        poll_fn(|cx| self.poll_all_in(cx)).await?;
        if self.given() > 0 {
            let message = "the session is opened before the first byte, or not on its own";
            return Err(self.side.upload().error(ErrorKind::InvalidInput, Operation::Open, message));
        }
        let Side::Direct(direct) = &mut self.side else { return Err(journaled(self, "open the session")) };
        direct.open_early().await?;
        let upload = Intake::upload(direct).clone();
        let (session, kind) = upload.opened().await?;
        let sent = direct.plan.checksum();
        let stored = StoredBytes { session, kind, parts: Vec::new(), sent, cut: direct.plan.cut() };
        let (created, until) = lifetime_from_now(lifetime);
        let tail = (PointTail::Inline(String::new()), None);
        upload.point(stored, tail, PointRecord { created, until }, lifetime).await
    }

    /// Waits until all bytes that were given are taken.
    fn poll_all_in(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check_known()?;
        if self.side.upload().is_spread {
            let message =
                "another process may see another layout of the prefixes: persist in the bucket itself";
            let error = self.side.upload().error(ErrorKind::Unsupported, Operation::Write, message);
            return Poll::Ready(Err(error));
        }
        ready!(self.poll_item(cx))?;
        Poll::Ready(self.side.check_open())
    }
}

impl Driver<Buffered> {
    async fn persist(&mut self, lifetime: Duration) -> Result<Resumable> {
        // Nobody waits for the producer meanwhile.
        let _is_busy = self.source.part_buffer.spooling();
        self.open_early().await?;
        poll_fn(|cx| self.poll_stored(cx)).await?;
        let upload = Intake::upload(self).clone();
        let (session, kind) = upload.opened().await?;
        if let Some(session) = &session {
            upload.check_position_is_told(session)?;
        }
        if kind == Some(SessionKind::Parts) {
            self.plan.end_part_early(upload.backend.capabilities().min_part);
            self.act()?;
            poll_fn(|cx| self.poll_stored(cx)).await?;
        }
        let (tail, _ring) = self.source.tail().await;
        if tail.len() != self.plan.filled() {
            let message = "the bytes of the part that is being filled are not those that were taken";
            return Err(upload.error(ErrorKind::Integrity, Operation::Write, message));
        }
        let (parts, sent, cut) = (self.plan.parts(), self.plan.checksum(), self.plan.cut());
        let point = StoredBytes { session, kind, parts, sent, cut };
        let point = upload.persist(point, &tail, lifetime).await?;
        upload.points.keep();
        Ok(point)
    }

    /// Opens the session, if there is none yet and the store has sessions.
    async fn open_early(&mut self) -> Result<()> {
        let upload = Intake::upload(self).clone();
        if self.plan.open_early() {
            self.source.open_now()?;
            if let Err(error) = upload.session().await {
                self.plan.not_opened();
                upload.lock().take();
                let has_none = error.kind() == ErrorKind::Unsupported && error.operation() == Operation::Open;
                return if has_none && !upload.backend.is_local() { Ok(()) } else { Err(error) };
            }
        }
        if upload.backend.is_local() && self.plan.cut().schedule().is_none() {
            let message =
                "on a disk, one request has no point to continue from: choose another strategy than `put`";
            return Err(upload.error(ErrorKind::Unsupported, Operation::Write, message));
        }
        Ok(())
    }
}

/// What the store has of an upload.
struct StoredBytes {
    session: Option<Session>,
    kind: Option<SessionKind>,
    parts: Vec<Receipt>,
    /// The checksum of all parts.
    sent: Checksum,
    cut: Cut,
}

impl Upload {
    /// Refuses a session of which nobody could ask how much it has.
    fn check_position_is_told(&self, session: &Session) -> Result<()> {
        let tells = self
            .backend
            .appending()
            .is_none_or(|append| !append.has(session) || append.tells_position(session));
        if tells {
            return Ok(());
        }
        let message = "the server does not tell how much it has of an upload, so that nobody could continue from a point";
        Err(self.error(ErrorKind::Unsupported, Operation::Write, message))
    }

    /// The session and its kind, if one was opened.
    async fn opened(&self) -> Result<(Option<Session>, Option<SessionKind>)> {
        let has_session = self.lock().is_some();
        let session = if has_session { Some(self.session().await?) } else { None };
        let kind = session.as_ref().map(|session| match self.is_appended(session) {
            true => SessionKind::Append,
            false => SessionKind::Parts,
        });
        Ok((session, kind))
    }

    /// Keeps what a process needs that continues from here.
    async fn persist(
        self: &Arc<Self>,
        stored: StoredBytes,
        tail: &Payload,
        lifetime: Duration,
    ) -> Result<Resumable> {
        let id = stored.session.as_ref().map_or("", |session| &session.id);
        let record = self.keep_session(stored.session.as_ref(), id, lifetime).await?;
        let tail = self.keep_tail(tail).await?;
        self.point(stored, tail, record, lifetime).await
    }

    /// The point behind these bytes. The tail has a checksum if it has bytes.
    async fn point(
        &self,
        stored: StoredBytes,
        (tail, tail_sum): (PointTail, Option<Checksum>),
        record: PointRecord,
        lifetime: Duration,
    ) -> Result<Resumable> {
        let StoredBytes { session, kind, parts, sent, cut } = stored;
        let algorithm = self.backend.capabilities().checksum;
        let checksum = sent.then(&tail_sum.unwrap_or_else(|| algorithm.empty()));
        let parts = match kind {
            Some(SessionKind::Append) => appended(sent),
            _ => self.with_offsets(&parts)?,
        };
        // A server without parts may have opened another kind of session than was asked for.
        let cut = match (kind, cut) {
            (Some(SessionKind::Append), Cut::Parts(schedule)) => Cut::Chunks(schedule),
            (_, cut) => cut,
        };
        // The store counts from the opening, which the first point has followed.
        let (now, _) = lifetime_from_now(lifetime);
        let age = Duration::from_secs(now.saturating_sub(record.created));
        let warning = self.ends_early(lifetime, age, kind).await;
        if let Some(warning) = &warning {
            tracing::warn!(object = %self.requests.object, "{warning}");
        }
        let session = session.zip(kind).map(|(session, kind)| JournaledSession { kind, id: session.id });
        let (write, life) = (DescribedWrite::of(self), (record.created, record.until));
        Ok(Resumable::new(write, life, lifetime, checksum, cut, session, parts, tail, warning))
    }

    /// Has sweeps leave the session alone for its lifetime.
    pub(super) async fn keep_session(
        &self,
        session: Option<&Session>,
        id: &str,
        lifetime: Duration,
    ) -> Result<PointRecord> {
        let (now, until) = lifetime_from_now(lifetime);
        let known = self.points.record();
        let created = known.map_or(now, |known| known.created);
        if let Some(session) = session.filter(|_| self.backend.is_local()) {
            let keep = |attempt: Attempt| async move {
                self.backend.need_parts()?.keep(session, since_1970(until), attempt).await
            };
            let kept = self.requests.send(Operation::Part, None, None, keep).await;
            kept.map_err(|failure| self.failed(failure, Operation::Part))?;
            let record = PointRecord { created, until };
            self.points.has_record(record);
            return Ok(record);
        }
        if let Some(known) = known.filter(|known| known.until >= until) {
            return Ok(known);
        }
        // A little longer, so that not each point needs a record of its own.
        let until = until.saturating_add(lifetime.as_secs() / 8);
        let name = RecordName::new(until, id, self.options.token.as_deref().unwrap_or_default());
        let algorithm = self.backend.capabilities().checksum;
        self.put_record(&name.key(), Payload::from_memory(Vec::new(), algorithm.empty())).await?;
        let record = PointRecord { created, until };
        self.points.has_record(record);
        Ok(record)
    }

    /// Keeps the bytes that the session does not have; returns their checksum too, if there are any.
    async fn keep_tail(&self, tail: &Payload) -> Result<(PointTail, Option<Checksum>)> {
        let unreadable = |error: std::io::Error| {
            self.error(ErrorKind::Source, Operation::Write, error.to_string()).with_source(error)
        };
        if tail.len() <= LONGEST_TAIL as u64 {
            let pieces: Vec<Bytes> = tail.unsent().try_collect().await.map_err(&unreadable)?;
            let bytes = pieces.into_iter().fold(BytesMut::new(), |mut bytes, piece| {
                bytes.extend_from_slice(&piece);
                bytes
            });
            let sum = Checksum::of(tail.algorithm(), &bytes);
            if tail.checksum().is_some_and(|taken| taken != sum) {
                let message = "the bytes are not those that were taken in";
                return Err(self.error(ErrorKind::Integrity, Operation::Write, message));
            }
            if let Some(inline) = PointTail::inline(&bytes) {
                return Ok((inline, Some(sum)));
            }
        }
        let sum = tail.read_checksum().await.map_err(&unreadable)?;
        let number = self.requests.retry.token();
        let key = tail_key(self.options.token.as_deref().unwrap_or_default(), &number);
        self.put_record(&key, tail.clone()).await?;
        Ok((PointTail::Object { number, size: tail.len() }, Some(sum)))
    }
}

/// All that a session has which is appended to, as one part.
fn appended(sent: Checksum) -> Vec<Part> {
    let receipt = Receipt { number: 1, size: sent.covers(), etag: String::new(), checksum: Some(sent) };
    Part::new(0, &receipt).filter(|part| part.size > 0).into_iter().collect()
}
