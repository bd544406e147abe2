//! The public writer: takes a producer's bytes and hands them to memory (`source/buffer.rs`) or to a journal
//! (`journal.rs`).

use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::driver::Driver;
use super::given::Given;
use super::intake::Intake;
use super::interrupted::{Interrupted, Unknown};
use super::journal::Journaled;
use super::source::buffer::Buffered;
use super::strategy::Strategy;
use crate::engine::Engine;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;

/// Writes one object.
///
/// Bytes go in by [`write_bytes`](Self::write_bytes) (shared, not copied, where they are large), as a
/// [`tokio::io::AsyncWrite`], as a [`futures::Sink`] of [`Bytes`], or by [`read_from`](Self::read_from). Each
/// call waits while the memory budget is used up or as many parts are in flight as the strategy allows. A
/// call that need not wait still yields to other tasks from time to time (tokio's cooperative budget).
///
/// The object becomes visible only by [`finish`](Self::finish), or by `shutdown` or `close`, which do the
/// same. [`abort`](Self::abort) aborts the session and waits until the session is gone. Dropping the writer
/// aborts as well, in the background; [`Tidegate::settled`](crate::Tidegate::settled) waits for that, and so
/// does the last drop of the engine, for two seconds at most.
///
/// With [`Strategy::Journal`] only a successful `finish` or an [`abort`](Self::abort) ends the upload: when
/// the writer fails or is dropped, its journal and its session stay, and
/// [`Tidegate::recover`](crate::Tidegate::recover) can resume the upload. When a flush of the `Sink` or the
/// `AsyncWrite` returns, all bytes are in the journal.
///
/// Where the engine has spool directories, bytes that the budget has no room for go to the spool and are sent
/// from there; nothing else changes. Without a spool, a wait for memory that nothing in flight can end
/// becomes an error of the kind [`ErrorKind::Starved`].
///
/// # Cancellation
/// A `write` or `read_from` that is cancelled may have taken some of its bytes; so may a `write_all` of `AsyncWrite`,
/// which is cancelled while a `poll_write` is pending. Then `finish`, `shutdown` and `close` fail until [`position`](Self::position) is called, which returns how many bytes the writer has:
/// continue from there. After a panic in the source of a `read_from` the upload can't continue: `finish`,
/// `shutdown` and `close` fail from then on. Cancelling `finish` drops the writer (see above), unless the
/// store has already carried out the commit.
///
/// # Errors
/// In a process that was forked from the writer's, it changes nothing, because the upload is the parent's: `finish`,
/// `abort`, `sync` and a flush fail with [`ErrorKind::Closed`], and so does a write that needs more memory.
///
/// After an error the upload is aborted (with [`Strategy::Journal`], its journal and session stay as when the
/// writer is dropped), and every further call that takes bytes, flushes, syncs or finishes returns an error
/// of the kind [`ErrorKind::Closed`]. Two errors leave the writer open: that of a `finish` before `position`, as
/// above, and that of a [`sync`](Self::sync) without a journal.
#[derive(Debug)]
pub struct Writer {
    strategy: Strategy,
    pub(super) side: Side,
    /// An item of the sink, or the probe byte of a `read_from`, that is not taken yet.
    pub(super) item: Given,
    /// The key to report for the published object, relative to the store handle; `None` reports the backend's
    /// key.
    pub(super) key: Option<String>,
    /// The exact size of the object, where the caller has set one.
    pub(super) exact: Option<u64>,
    pub(super) interrupted: Interrupted,
    /// Declared last, so that the side is dropped before: an engine's last drop waits for aborts.
    _engine: Arc<Engine>,
}

/// Where the writer keeps its bytes until the store has them.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all writers are the large one")]
pub(super) enum Side {
    Direct(Driver<Buffered>),
    Journaled(Box<Journaled>),
}

impl Deref for Side {
    type Target = dyn Intake;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Direct(direct) => direct,
            Self::Journaled(journaled) => &**journaled,
        }
    }
}

impl DerefMut for Side {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Direct(direct) => direct,
            Self::Journaled(journaled) => &mut **journaled,
        }
    }
}

impl Writer {
    pub(super) fn direct(strategy: Strategy, direct: Driver<Buffered>, engine: Arc<Engine>) -> Self {
        Self::new(strategy, Side::Direct(direct), engine)
    }

    pub(super) fn journaled(journaled: Journaled, engine: Arc<Engine>) -> Self {
        Self::new(Strategy::Journal, Side::Journaled(Box::new(journaled)), engine)
    }

    fn new(strategy: Strategy, side: Side, engine: Arc<Engine>) -> Self {
        let (item, interrupted) = (Given::default(), Interrupted::default());
        Self { strategy, side, item, key: None, exact: None, interrupted, _engine: engine }
    }

    /// Takes all of `bytes`.
    ///
    /// Less than 1 MiB is copied into memory of the budget. From 1 MiB on, `bytes` is shared and counts with
    /// its length. Sharing keeps the whole buffer that `bytes` is a slice of alive until the store has the
    /// last of the slice; the budget does not know of a buffer that is far larger than its slice. Copy such a
    /// slice first ([`Bytes::copy_from_slice`]).
    pub async fn write_bytes(&mut self, bytes: Bytes) -> Result<()> {
        self.write_all(Given::new(bytes)).await
    }

    /// Like [`write_bytes`](Self::write_bytes), for callers that know their buffers: shares `bytes` from 64 KiB on.
    /// `bytes` must be all of its buffer or most of it, because the budget counts only its length.
    pub async fn write_shared(&mut self, bytes: Bytes) -> Result<()> {
        self.write_all(Given::shared(bytes)).await
    }

    async fn write_all(&mut self, mut given: Given) -> Result<()> {
        self.check_more(given.len())?;
        self.interrupted.begin(self.given());
        let taken = self.take_all(&mut given).await;
        self.interrupted.end();
        taken
    }

    async fn take_all(&mut self, given: &mut Given) -> Result<()> {
        while !given.is_empty() {
            poll_fn(|cx| {
                // The item of a sink or of a cancelled read came first.
                ready!(self.poll_item(cx))?;
                self.poll_given(cx, given)
            })
            .await?;
        }
        poll_fn(|cx| self.side.poll_written(cx)).await
    }

    /// Takes some of `given`.
    fn poll_given(&mut self, cx: &mut Context<'_>, given: &mut Given) -> Poll<Result<()>> {
        let turn = ready!(poll_proceed(cx));
        let taken = self.side.poll_take(cx, given);
        if taken.is_ready() {
            turn.made_progress();
        }
        taken
    }

    /// Makes all bytes taken so far survive the end of the process and a loss of power; returns how many
    /// bytes of the object that is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the strategy is not [`Strategy::Journal`].
    pub async fn sync(&mut self) -> Result<u64> {
        self.check_owner(Operation::Write)?;
        poll_fn(|cx| self.poll_item(cx)).await?;
        match &mut self.side {
            Side::Journaled(journaled) => journaled.sync().await,
            Side::Direct(direct) => {
                let message = "only the strategy `journal` keeps bytes before `finish`";
                Err(direct.upload().error(ErrorKind::Unsupported, Operation::Write, message))
            }
        }
    }

    /// Reads `source` to its end, straight into this writer's buffers; returns how many bytes that was. An
    /// error of the source aborts the upload.
    pub async fn read_from(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<u64> {
        self.check_owner(Operation::Write)?;
        let began = self.given();
        self.interrupted.begin(began);
        let read = async {
            while poll_fn(|cx| self.poll_read_from(cx, source)).await? {}
            poll_fn(|cx| self.side.poll_written(cx)).await
        };
        let read = read.await;
        self.interrupted.end();
        read.map(|()| self.given() - began)
    }

    /// Bytes taken so far. After a cancelled write, call this before you continue or finish.
    pub fn position(&self) -> u64 {
        self.interrupted.was_asked();
        self.given()
    }

    /// Bytes taken, plus those of an item that waits for room: a sink's item, or the byte with which a
    /// cancelled read probed whether its source continues.
    pub(super) fn given(&self) -> u64 {
        self.side.position() + self.item.len() as u64
    }

    /// Sets the exact size of the object, as [`WriterBuilder::exact_size`](crate::upload::WriterBuilder::exact_size)
    /// does: for a resumed upload, whose journal does not keep the exact size.
    pub fn set_exact_size(&mut self, bytes: u64) {
        self.exact = Some(bytes);
    }

    /// The largest object, in bytes, that this writer takes: the store's limit or, without a spool, the size
    /// that parts which fit in half of the memory budget add up to, if that is less. With 64 MiB of memory
    /// and S3's 10,000 parts that is 243 GiB, and a little more where parts have not become smaller for want
    /// of memory. A byte past the limit is refused with [`ErrorKind::TooLarge`]. A size hint makes parts
    /// larger from the beginning, and so raises the limit.
    pub fn reach(&self) -> u64 {
        self.side.reach()
    }

    /// The strategy in use; never `Auto`.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The progress figures; they can be watched during the write and after the writer is gone.
    pub fn progress(&self) -> Progress {
        self.side.upload().requests.progress.clone()
    }

    /// Publishes the object: when this returns, the whole object is visible, or nothing is.
    pub fn finish(mut self) -> impl Future<Output = Result<Object>> + Send {
        // Not an `async fn`: its future would hold the writer twice.
        poll_fn(move |cx| self.poll_finish(cx))
    }

    /// Aborts the upload: publishes nothing, and waits until the store has released the session.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] where `shutdown` or `close` has already published the object: the object stays.
    pub async fn abort(self) -> Result<()> {
        self.check_owner(Operation::Abort)?;
        if self.side.is_published() {
            let message = "the object was published before, and is there";
            return Err(self.side.upload().error(ErrorKind::Closed, Operation::Abort, message));
        }
        match self.side {
            Side::Direct(mut direct) => direct.abort().await,
            Side::Journaled(journaled) => journaled.abort().await,
        }
    }

    /// Like `abort`, without consuming the writer: may be called again, also after the writer has failed.
    #[cfg(feature = "object_store")]
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.check_owner(Operation::Abort)?;
        match &mut self.side {
            Side::Direct(direct) => direct.abort().await,
            Side::Journaled(journaled) => journaled.abort_now().await,
        }
    }

    /// Makes one read; `false` at the end of the source.
    fn poll_read_from(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Result<bool>> {
        ready!(self.poll_item(cx))?;
        let turn = ready!(poll_proceed(cx));
        let missing = self.missing();
        if self.side.is_at_cut() || missing == Some(0) {
            // The part is exactly full, or the exact size is reached: the object may end here. One byte is
            // read to see whether it does, before room is made for more.
            self.side.check_open()?;
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            let read = self.interrupted.poll_source(|| Pin::new(&mut *source).poll_read(cx, &mut buffer));
            if let Err(error) = ready!(read) {
                return Poll::Ready(Err(self.side.source_failed(error)));
            }
            turn.made_progress();
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            self.check_more(1)?;
            self.item = Given::new(Bytes::copy_from_slice(buffer.filled()));
            return Poll::Ready(Ok(true));
        }
        let most = missing.map_or(usize::MAX, |missing| usize::try_from(missing).unwrap_or(usize::MAX));
        let interrupted = &mut self.interrupted;
        let mut reading = Context::from_waker(cx.waker());
        let read = ready!(self.side.poll_fill(cx, 0, &mut |spare| {
            let most = spare.len().min(most);
            let mut buffer = ReadBuf::new(&mut spare[..most]);
            let poll = || Pin::new(&mut *source).poll_read(&mut reading, &mut buffer);
            ready!(interrupted.poll_source(poll))?;
            Poll::Ready(Ok(buffer.filled().len()))
        }))?;
        turn.made_progress();
        self.side.set_off();
        Poll::Ready(Ok(read > 0))
    }

    /// Fails in a process that has inherited the writer.
    pub(super) fn check_owner(&self, operation: Operation) -> Result<()> {
        self.side.upload().check_owner(operation)
    }

    /// Takes the rest of the waiting item.
    pub(super) fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.item.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut item = std::mem::take(&mut self.item);
        let mut taken = Poll::Ready(Ok(()));
        while !item.is_empty() && matches!(taken, Poll::Ready(Ok(()))) {
            taken = self.poll_given(cx, &mut item);
        }
        if !item.is_empty() {
            self.item = item; // an empty rest would keep its buffer alive
        }
        ready!(taken)?;
        self.side.set_off();
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        self.check_known()?;
        ready!(self.poll_item(cx))?;
        self.check_all()?;
        let object = ready!(self.side.poll_finish(cx))?;
        let key = self.key.take();
        Poll::Ready(Ok(Object { key: key.unwrap_or(object.key), ..object }))
    }

    /// Fails where the producer cannot know that all its bytes were taken.
    pub(super) fn check_known(&mut self) -> Result<()> {
        self.check_owner(Operation::Complete)?;
        let at = self.given();
        let Err(unknown) = self.interrupted.check(at) else { return Ok(()) };
        // A writer that has failed before reports that instead.
        self.side.check_open()?;
        let upload = self.side.upload();
        Err(match unknown {
            Unknown::HalfTaken => {
                let message = format!(
                    "a write was cancelled when some of its bytes were taken: the writer has {at} bytes (call \
                     `position` and go on from there, or abort)"
                );
                upload.error(ErrorKind::InvalidInput, Operation::Write, message)
            }
            Unknown::Panicked => {
                let message = format!("the source panicked at byte {at}, and nothing is published");
                let error = upload.error(ErrorKind::Source, Operation::Write, message);
                self.side.fail(error)
            }
        })
    }
}
