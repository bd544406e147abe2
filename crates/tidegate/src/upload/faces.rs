//! The writer as `AsyncWrite` and as `Sink<Bytes>`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Sink;
use tokio::io::AsyncWrite;
use tokio::task::coop::poll_proceed;

use super::given::Given;
use super::writer::Writer;
use crate::types::error::{Error, ErrorKind, Operation, Result};

impl Writer {
    fn poll_copy(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        ready!(self.poll_item(cx))?;
        self.check_more(bytes.len())?;
        let turn = ready!(poll_proceed(cx));
        let copied = self.side.poll_copy(cx, bytes);
        if copied.is_ready() {
            turn.made_progress();
        }
        self.side.set_off();
        copied
    }
}

impl AsyncWrite for Writer {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let copied = self.poll_copy(cx, bytes);
        // A `write_all` that is dropped here has had some of its bytes taken by earlier calls.
        self.interrupted.write_waits(copied.is_pending());
        copied.map_err(io::Error::from)
    }

    /// With [`Strategy::Journal`](crate::Strategy::Journal), waits until all bytes taken so far are in the
    /// journal, as durable as [`Writer::write_bytes`] makes them. Otherwise ready at once: nothing is durable
    /// before [`finish`](Writer::finish).
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_owner(Operation::Write)?;
        ready!(self.poll_item(cx))?;
        self.side.poll_flush(cx).map_err(io::Error::from)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.side.is_published() {
            return Poll::Ready(Ok(()));
        }
        self.poll_finish(cx).map_ok(|_| ()).map_err(io::Error::from)
    }
}

/// An item is held until there is room for all of it; `poll_ready` waits for that. An item that is sent
/// before then, or after the end, is an error: no object is published without it.
impl Sink<Bytes> for Writer {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_item(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, item: Bytes) -> Result<()> {
        self.side.check_open()?;
        if !self.item.is_empty() {
            let message = "an item was sent before `poll_ready` had taken the one before it";
            let error = self.side.upload().error(ErrorKind::InvalidInput, Operation::Write, message);
            return Err(self.side.fail(error));
        }
        self.check_more(item.len())?;
        self.item = Given::new(item);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.check_owner(Operation::Write)?;
        ready!(self.poll_item(cx))?;
        self.side.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.side.is_published() {
            return Poll::Ready(Ok(()));
        }
        self.poll_finish(cx).map_ok(|_| ())
    }
}
