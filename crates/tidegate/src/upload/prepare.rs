//! Prepares an upload: all bytes are at the store and nothing is visible, until any process commits or abandons it.
//!
//! Whoever holds the [`Pending`] relies on its record, which keeps other machines' sweeps from the session. So the
//! record is written before the `Pending` exists. Where the record has bytes of the object, its name says all that a
//! sweep needs as soon as they are there.

use std::future::{IntoFuture, poll_fn};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use tokio::task::JoinHandle;

use super::described_write::DescribedWrite;
use super::driver::WriterState;
use super::intake::Intake;
use super::pending::{Pending, PendingBytes, Tail, lifetime_from_now};
use super::session::{Done, Remainder, Upload};
use super::writer::{Side, Writer};
use crate::backend::{Attempt, Receipt, WriteOptions};
use crate::engine::pending::RecordName;
use crate::journal::{Part, SessionKind};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::date::since_1970;
use crate::types::error::{Error, ErrorKind, Operation, Result};

const DAY: Duration = Duration::from_secs(86_400);

/// The longest lifetime that every store grants. Azure's uncommitted blocks and Google's resumable uploads live for a
/// week, which begins before the end of the write.
pub(super) const SIX_DAYS: Duration = Duration::from_secs(6 * 86_400);

/// Sets up the end of a write whose object is published later; from [`Writer::prepare`]. Awaited, it is the
/// [`Pending`] upload.
#[derive(Debug)]
#[must_use = "nothing is prepared before it is awaited"]
pub struct PrepareBuilder {
    writer: Writer,
    lifetime: Duration,
}

impl PrepareBuilder {
    pub(super) fn new(writer: Writer) -> Self {
        Self { writer, lifetime: SIX_DAYS }
    }

    /// How long the upload waits for its commit. The default, and `None`, is six days. Until then no sweep, on any machine, ends
    /// it; afterwards every sweep of the bucket removes its record, and it counts as any unfinished upload. Azure Blob Storage
    /// and Google's resumable uploads live for a week at most, and a bucket may have a lifecycle rule that ends uploads earlier:
    /// [`Pending::warning`] says so.
    pub fn lifetime(mut self, lifetime: impl Into<Option<Duration>>) -> Self {
        self.lifetime = lifetime.into().unwrap_or(SIX_DAYS);
        self
    }

    async fn run(self) -> Result<Pending> {
        let Self { mut writer, lifetime } = self;
        let (created, until) = lifetime_from_now(lifetime);
        let remainder = poll_fn(|cx| writer.poll_prepare(cx, until)).await?;
        let Side::Direct(direct) = &mut writer.side else { return Err(journaled(&writer, "prepare")) };
        let (upload, parts, checksum) =
            (Intake::upload(direct).clone(), direct.plan.parts(), direct.plan.checksum());
        let kept = upload.keep(parts, checksum, remainder, (created, until)).await;
        match kept {
            Ok(pending) => {
                // Until nothing is awaited any more, a drop aborts the upload: nobody would have the `Pending`.
                upload.session_ended().await;
                direct.state = WriterState::Kept;
                Ok(pending)
            }
            Err(error) => {
                // The first error is reported; an error of the abort is logged where it happens.
                let _ = direct.discard().await;
                Err(error)
            }
        }
    }
}

impl IntoFuture for PrepareBuilder {
    type Output = Result<Pending>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Writer {
    /// Ends the write with all bytes at the store and nothing visible. The [`Pending`] that comes of it is a value with
    /// which any process can publish the object, by [`Store::commit`](crate::Store::commit), or give it up, by
    /// [`Store::abandon`](crate::Store::abandon). Conditions ([`create_only`](crate::upload::WriterBuilder::create_only),
    /// [`replaces`](crate::upload::WriterBuilder::replaces)) are decided at the commit.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use tidegate::upload::Pending;
    ///
    /// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
    /// let mut writer = store.writer("part-0.parquet").await?;
    /// writer.write_bytes("rows".into()).await?;
    /// let pending = writer.prepare().await?.to_json(); // nothing is visible
    /// assert!(!store.exists("part-0.parquet").await?);
    ///
    /// // In any process, on any machine, once or more often:
    /// let object = store.commit(&Pending::from_json(&pending)?).await?;
    /// assert_eq!(object.size, 4);
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancellation
    /// Dropping the future aborts, as dropping the writer does; a record that was written already is removed by a sweep
    /// when its lifetime is over.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), without the conditions. [`ErrorKind::Unsupported`] with
    /// [`Strategy::Journal`](crate::Strategy::Journal), where keys are spread over prefixes, and where the store has
    /// neither sessions nor copies of its own. [`ErrorKind::PermissionDenied`] also where no record may be written below
    /// `.tidegate/`.
    pub fn prepare(self) -> PrepareBuilder {
        PrepareBuilder::new(self)
    }

    fn poll_prepare(&mut self, cx: &mut Context<'_>, until: u64) -> Poll<Result<Remainder>> {
        self.check_known()?;
        if matches!(self.side, Side::Journaled(_)) {
            return Poll::Ready(Err(journaled(self, "prepare")));
        }
        if self.side.upload().is_spread {
            let message = "a commit may come after the layout of the prefixes has changed: prepare in the bucket itself";
            let error = self.side.upload().error(ErrorKind::Unsupported, Operation::Write, message);
            return Poll::Ready(Err(self.side.fail(error)));
        }
        std::task::ready!(self.poll_item(cx))?;
        self.check_all()?;
        match &mut self.side {
            Side::Direct(direct) => direct.poll_prepare(cx, until),
            Side::Journaled(_) => Poll::Ready(Err(journaled(self, "prepare"))),
        }
    }
}

/// The error of a writer with a journal that was to `prepare` or to `persist`.
pub(super) fn journaled(writer: &Writer, verb: &str) -> Error {
    let message = format!(
        "the strategy `journal` resumes an upload from its own disk, and publishes it: {verb} with another"
    );
    writer.side.upload().error(ErrorKind::Unsupported, Operation::Write, message)
}

impl Upload {
    /// Sends the last bytes of an object that is published later; `until` is when its lifetime ends. If its session is
    /// appended to, keeps back the bytes that only the last append may have; if the store has no sessions, all of them.
    pub(super) async fn prepare_last(
        self: &Arc<Self>,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        until: u64,
    ) -> Result<Done> {
        let has_none =
            |error: &Error| error.kind() == ErrorKind::Unsupported && error.operation() == Operation::Open;
        match self.session().await {
            Err(error) if number == 1 && has_none(&error) => {
                return self.put_aside(payload, until).await;
            }
            session => session?,
        };
        let Some(turn) = self.append_turn(range.start).await? else {
            let permit = self.requests.turn_with(&payload).await;
            let receipt = self.part(number, range, payload, Some(permit)).await?;
            return Ok(Done::Prepared(receipt, Remainder::Nothing));
        };
        let appended = self.append_whole(number, range, payload).await;
        let (receipt, tail) = turn.end(appended, |(receipt, _)| receipt.checksum)?;
        let remainder = if tail.is_empty() { Remainder::Nothing } else { Remainder::Tail(tail) };
        Ok(Done::Prepared(receipt, remainder))
    }

    /// Appends as much of a part as a session takes that goes on; returns the receipt of all its bytes, and the rest.
    async fn append_whole(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
    ) -> Result<(Receipt, Bytes)> {
        let grain = self.backend.capabilities().append.unwrap_or(1).max(1);
        let whole = payload.len() / grain * grain;
        let mut checksum = payload.algorithm().empty();
        if whole > 0 {
            let first = payload.first(whole);
            let permit = self.requests.turn_with(&first).await;
            let range = range.start..range.start + whole;
            let stored = self.append(number, range, first, Some(permit)).await?;
            checksum = stored.checksum.unwrap_or(checksum);
        }
        if self.points.appended() > range.start + whole {
            let message = "another process has sent more bytes than the object has";
            return Err(self.error(ErrorKind::SessionLost, Operation::Part, message).at_part(number, range));
        }
        let unreadable = |error: std::io::Error| {
            self.error(ErrorKind::Source, Operation::Part, error.to_string()).with_source(error)
        };
        let pieces: Vec<Bytes> = payload.behind(whole).unsent().try_collect().await.map_err(&unreadable)?;
        let tail = pieces.into_iter().fold(BytesMut::new(), |mut tail, piece| {
            tail.extend_from_slice(&piece);
            tail
        });
        let checksum = checksum.then(&Checksum::of(payload.algorithm(), &tail));
        if payload.checksum().is_some_and(|taken| taken != checksum) {
            let message = "the bytes are not those that were taken in";
            return Err(self.error(ErrorKind::Integrity, Operation::Part, message).at_part(number, range));
        }
        let size = payload.len();
        Ok((Receipt { number, size, etag: String::new(), checksum: Some(checksum) }, tail.freeze()))
    }

    /// Stores all bytes of the object in the record, from which the commit copies them.
    async fn put_aside(self: &Arc<Self>, payload: Payload, until: u64) -> Result<Done> {
        let refuse = |why: &str| {
            let message =
                format!("the store has no uploads in parts, and {why}, so nothing can be published later");
            self.error(ErrorKind::Unsupported, Operation::Write, message)
        };
        let capabilities = self.backend.capabilities();
        if self.backend.server_copy().is_none() || payload.len() > capabilities.max_copy {
            return Err(refuse("makes no copies of such objects itself"));
        }
        if self.options.replaces.is_some() || (self.options.create_only && !capabilities.create_only_copy) {
            return Err(refuse("its copies cannot be bound to the condition"));
        }
        let checksum = payload.read_checksum().await.map_err(|error| {
            self.error(ErrorKind::Source, Operation::Put, error.to_string()).with_source(error)
        })?;
        let name = RecordName::new(until, "", self.options.token.as_deref().unwrap_or_default());
        let size = payload.len();
        self.keep_record(name.key(), payload).await?;
        self.requests.progress.acknowledged(size);
        let receipt = Receipt { number: 1, size, etag: String::new(), checksum: Some(checksum) };
        Ok(Done::Prepared(receipt, Remainder::Aside))
    }

    /// Makes the pending upload of what is at the store now, and its record.
    async fn keep(
        self: &Arc<Self>,
        parts: Vec<Receipt>,
        checksum: Checksum,
        remainder: Remainder,
        (created, until): (u64, u64),
    ) -> Result<Pending> {
        let is_local = self.backend.is_local();
        let (mut tail, mut is_aside) = (Bytes::new(), false);
        match remainder {
            Remainder::Nothing => {}
            Remainder::Tail(bytes) => tail = bytes,
            Remainder::Aside => is_aside = true,
        }
        let bytes = if is_aside {
            PendingBytes::Aside
        } else {
            let session = self.session().await?;
            if is_local {
                let keep = |attempt: Attempt| {
                    let session = &session;
                    async move { self.backend.need_parts()?.keep(session, since_1970(until), attempt).await }
                };
                let kept = self.requests.send(Operation::Complete, None, None, keep).await;
                kept.map_err(|failure| self.failed(failure, Operation::Complete))?;
            }
            match self.is_appended(&session) {
                true => PendingBytes::Append { id: session.id, tail: Tail::new(&tail) },
                false => PendingBytes::Parts { id: session.id, parts: self.with_offsets(&parts)? },
            }
        };
        let (write, has_points) = (DescribedWrite::of(self), self.points.are_kept());
        let mut pending = Pending::new(write, checksum, (created, until), bytes, has_points);
        let lifetime = pending.until().duration_since(since_1970(created)).unwrap_or_default();
        pending.warning = self.ends_early(lifetime, Duration::ZERO, pending.bytes.kind()).await;
        if let Some(warning) = &pending.warning {
            tracing::warn!(object = %self.requests.object, "{warning}");
        }
        if !is_local && !is_aside {
            let has_tail = matches!(&pending.bytes, PendingBytes::Append { tail: Tail::Record(_), .. });
            let content = if has_tail { tail } else { Bytes::new() };
            let sum = Checksum::of(self.backend.capabilities().checksum, &content);
            self.keep_record(pending.record_name().key(), Payload::from_memory(vec![content], sum)).await?;
        }
        Ok(pending)
    }

    pub(super) fn with_offsets(&self, parts: &[Receipt]) -> Result<Vec<Part>> {
        let mut offset = 0;
        let placed = parts.iter().map(|receipt| {
            let part = Part::new(offset, receipt);
            offset += receipt.size;
            part.ok_or_else(|| {
                let message = "the receipt has no checksum of the bytes that were sent";
                self.error(ErrorKind::Integrity, Operation::Part, message)
            })
        });
        placed.collect()
    }

    /// Writes the record of a pending upload. If the caller is cancelled while the request is in flight, the request goes on,
    /// and then the record is removed.
    async fn keep_record(self: &Arc<Self>, key: String, content: Payload) -> Result<()> {
        let (upload, record) = (self.clone(), key.clone());
        let write = async move { upload.put_record(&record, content).await };
        let upload = self.clone();
        let remove = move |writing: JoinHandle<Result<()>>| async move {
            // The record may be there also if the request failed.
            drop(writing.await);
            upload.remove_own(&key).await
        };
        let written = self.aborts.run_to_end(write, remove, &self.runtime).await;
        written.unwrap_or_else(|ended| {
            let message = "the runtime was shut down while the record of the upload was written";
            Err(self.error(ErrorKind::Closed, Operation::Put, message).with_source(ended))
        })
    }

    /// Writes a record or a tail. It belongs to this upload alone, so that a repeated request does no harm.
    pub(super) async fn put_record(&self, key: &str, content: Payload) -> Result<()> {
        let options = WriteOptions { token: self.options.token.clone(), ..WriteOptions::default() };
        let put = |attempt| {
            let (content, options) = (content.clone(), &options);
            async move { self.backend.put(key, content, options, attempt).await }
        };
        let sent = self.requests.send(Operation::Put, Some(&content), None, put).await;
        sent.map(|_| ()).map_err(|failure| {
            self.failed(failure, Operation::Put).and(&format!("it was writing the record `{key}`"))
        })
    }

    /// Why the store may end an upload before its lifetime, if it may. `age` is how long it has been there already, and
    /// `kind` that of its session.
    pub(super) async fn ends_early(
        &self,
        lifetime: Duration,
        age: Duration,
        kind: Option<SessionKind>,
    ) -> Option<String> {
        let lives_a_week = match kind {
            Some(SessionKind::Parts) => !self.backend.capabilities().aborts,
            Some(SessionKind::Append) => true,
            None => false,
        };
        let whole = lifetime.saturating_add(age);
        if lives_a_week && (lifetime > SIX_DAYS || whole > SIX_DAYS + DAY) {
            return Some("the store ends an upload that is not committed within a week".to_owned());
        }
        if self.backend.is_local() || kind == Some(SessionKind::Append) {
            return None;
        }
        let admin = self.backend.admin()?;
        let endpoint = &self.requests.endpoint;
        let rules = endpoint.lifecycle_rules(self.backend.location(), async {
            let requests = self.requests.once();
            let rules = requests.send(Operation::Lifecycle, None, None, |attempt| admin.lifecycle(attempt));
            match rules.await {
                Ok(lifecycle) => lifecycle.rules,
                // Who may write objects may often not read the bucket's rules, and many stores have none.
                Err(failure) => {
                    tracing::debug!(fault = %failure.fault, "the bucket's lifecycle rules are not known");
                    Vec::new()
                }
            }
        });
        let rules = rules.await;
        let days = rules.iter().filter_map(|rule| {
            let applies = rule.enabled && self.key.starts_with(&rule.prefix);
            rule.abort_after_days.filter(|_| applies).map(|days| (days, rule.id.clone()))
        });
        let (days, id) = days.min()?;
        let name = id.map_or(String::new(), |id| format!(" `{id}`"));
        (whole > DAY * days).then(|| {
            format!("the bucket's lifecycle rule{name} ends uploads after {days} days, before the lifetime of this one")
        })
    }
}
