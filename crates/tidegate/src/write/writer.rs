//! The writer: what a producer gives its bytes to, whatever becomes of them (`direct.rs`, `journal.rs`).

use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::direct::Direct;
use super::journal::Journaled;
use super::strategy::Strategy;
use super::taking::Taking;
use crate::error::{ErrorKind, Operation, Result};
use crate::object::Object;
use crate::progress::Progress;

/// Writes one object.
///
/// Bytes go in by [`write`](Self::write) (shared, not copied, where they are large), as a
/// [`tokio::io::AsyncWrite`], as a [`futures::Sink`] of [`Bytes`], or by
/// [`read_from`](Self::read_from). Each waits while the memory budget is used up or the strategy's
/// parts are in flight.
///
/// The object becomes visible by [`finish`](Self::finish) (which `shutdown` and `close` are as well)
/// and by nothing else. [`abort`](Self::abort) ends the session and waits until it is gone. Dropping
/// the writer does so as well, in a task on the runtime that the writer was started on;
/// [`Tidegate::settled`](crate::Tidegate::settled) waits for these tasks.
///
/// With [`Strategy::Journal`] nothing but a successful `finish` and [`abort`](Self::abort) ends the upload:
/// where the writer fails or is dropped, its journal and its session stay, to be gone on with by
/// [`Tidegate::recover`](crate::Tidegate::recover). As a `Sink` or an `AsyncWrite` it has bytes in the
/// journal when a flush returns.
///
/// # Cancellation
/// A cancelled `write` may have taken a beginning of its bytes; go on only where
/// [`position`](Self::position) is looked at. A cancelled `finish` is an abort, unless the store has
/// carried out the commit already.
///
/// Where the engine has spool directories, what the budget has no room for goes there and leaves from
/// there; nothing else changes. Without, a wait that nothing in flight can end becomes an error of the
/// kind [`ErrorKind::Starved`].
///
/// # Errors
/// After an error the upload is aborted (with [`Strategy::Journal`] it is left as it is, as where the writer is
/// dropped), and every further call that takes bytes, flushes, syncs or finishes gives an error of the kind
/// [`ErrorKind::Closed`].
#[derive(Debug)]
pub struct Writer {
    strategy: Strategy,
    pub(super) side: Side,
    /// An item of the sink that is not taken yet.
    pub(super) item: Bytes,
    /// The object's key in the store that it is written through; `None` where that is the backend's.
    pub(super) key: Option<String>,
}

/// Where its bytes are until the store has them.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all writers are the large one")]
pub(super) enum Side {
    Direct(Direct),
    Journaled(Box<Journaled>),
}

impl Deref for Side {
    type Target = dyn Taking;

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
    pub(super) fn direct(strategy: Strategy, direct: Direct) -> Self {
        Self { strategy, side: Side::Direct(direct), item: Bytes::new(), key: None }
    }

    pub(super) fn journaled(journaled: Journaled) -> Self {
        let side = Side::Journaled(Box::new(journaled));
        Self { strategy: Strategy::Journal, side, item: Bytes::new(), key: None }
    }

    /// Takes all of `bytes`.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            poll_fn(|cx| {
                // What a sink or a cancelled read holds came first.
                ready!(self.poll_item(cx))?;
                self.side.poll_take(cx, &mut bytes)
            })
            .await?;
        }
        poll_fn(|cx| self.side.poll_written(cx)).await
    }

    /// Makes everything that was taken survive the process and a loss of power; gives how many bytes of
    /// the object that is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where its strategy is not [`Strategy::Journal`].
    pub async fn sync(&mut self) -> Result<u64> {
        poll_fn(|cx| self.poll_item(cx)).await?;
        match &mut self.side {
            Side::Journaled(journaled) => journaled.sync().await,
            Side::Direct(direct) => {
                let message = "only the strategy `journal` keeps bytes before `finish`";
                Err(direct.upload.error(ErrorKind::Unsupported, Operation::Write, message))
            }
        }
    }

    /// Takes everything that `source` gives, read straight into this writer's buffers; says how many
    /// bytes that was. An error of the source aborts the upload.
    pub async fn read_from(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<u64> {
        let began = self.position();
        while poll_fn(|cx| self.poll_read_from(cx, source)).await? {}
        poll_fn(|cx| self.side.poll_written(cx)).await?;
        Ok(self.position() - began)
    }

    /// Bytes taken so far.
    pub fn position(&self) -> u64 {
        self.side.position()
    }

    /// The largest object that this writer takes, in bytes: what the store takes and, where there is no
    /// spool, what parts that fit in half of the memory budget reach. With 64 MiB of memory and S3's
    /// 10,000 parts that is 243 GiB, and a little more where parts have not become smaller for want of memory.
    /// A byte past that is refused with [`ErrorKind::TooLarge`]; a size hint makes parts larger from the
    /// beginning, and so reaches further.
    pub fn reach(&self) -> u64 {
        self.side.reach()
    }

    /// The strategy that carries it; never `Auto`.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Its figures; they can be watched while it works and after it is gone.
    pub fn progress(&self) -> Progress {
        self.side.upload().requests.progress.clone()
    }

    /// Publishes the object: visible when this returns, whole, or not at all.
    pub fn finish(mut self) -> impl Future<Output = Result<Object>> + Send {
        // No `async fn`: that would hold the writer twice.
        poll_fn(move |cx| self.poll_finish(cx))
    }

    /// Ends the upload without an object; waits until the store has let go of the session.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] where `shutdown` or `close` has published the object already: it stays.
    pub async fn abort(self) -> Result<()> {
        if self.side.is_published() {
            let message = "the object was published before, and is there";
            return Err(self.side.upload().error(ErrorKind::Closed, Operation::Abort, message));
        }
        match self.side {
            Side::Direct(direct) => direct.abort().await,
            Side::Journaled(journaled) => journaled.abort().await,
        }
    }

    /// One read; `false` at the source's end.
    fn poll_read_from(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Result<bool>> {
        ready!(self.poll_item(cx))?;
        if self.side.is_at_cut() {
            // An object that ends here is one request, so the part is not cut before another byte is
            // there to be seen.
            self.side.check_open()?;
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            if let Err(error) = ready!(Pin::new(&mut *source).poll_read(cx, &mut buffer)) {
                return Poll::Ready(Err(self.side.source_failed(error)));
            }
            self.item = Bytes::copy_from_slice(buffer.filled());
            if self.item.is_empty() {
                return Poll::Ready(Ok(false));
            }
            ready!(self.poll_item(cx))?;
        }
        let mut reading = Context::from_waker(cx.waker());
        let read = ready!(self.side.poll_fill(cx, &mut |spare| {
            let mut buffer = ReadBuf::new(spare);
            let read = ready!(Pin::new(&mut *source).poll_read(&mut reading, &mut buffer));
            Poll::Ready(read.map(|()| buffer.filled().len()))
        }))?;
        self.side.set_off();
        Poll::Ready(Ok(read > 0))
    }

    /// Takes the rest of the sink's item.
    pub(super) fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.item.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.item.is_empty() {
            ready!(self.side.poll_take(cx, &mut self.item))?;
        }
        self.side.set_off();
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<Object>> {
        ready!(self.poll_item(cx))?;
        let object = ready!(self.side.poll_finish(cx))?;
        let key = self.key.take();
        Poll::Ready(Ok(Object { key: key.unwrap_or(object.key), ..object }))
    }
}
