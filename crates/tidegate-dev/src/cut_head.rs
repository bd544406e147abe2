//! Sends only the first byte of an answer, then resets the connection. The cut is above TLS: below TLS that
//! byte would be part of a record, and the client would see nothing of it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::shaping::{BEFORE_RESET, ConnectionLink};

/// A stream that cuts an answer when its [`ConnectionLink`] demands it.
#[derive(Debug)]
pub(crate) struct CutHead<S> {
    stream: S,
    link: Arc<ConnectionLink>,
    nap: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> CutHead<S> {
    pub(crate) fn new(stream: S, link: Arc<ConnectionLink>) -> Self {
        Self { stream, link, nap: None }
    }

    fn is_due(&self) -> bool {
        self.link.cut_head.load(Ordering::Relaxed)
    }

    /// Sends one byte, then fails; the reset follows when the stream is dropped.
    fn poll_cut(&mut self, cx: &mut Context<'_>, byte: &[u8]) -> Poll<io::Result<usize>> {
        if self.link.cut.load(Ordering::Relaxed) {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            // A reset would discard bytes that are still buffered.
            let nap = self.nap.get_or_insert_with(|| Box::pin(tokio::time::sleep(BEFORE_RESET)));
            ready!(nap.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, byte));
        self.link.cut.store(true, Ordering::Relaxed);
        Poll::Ready(written)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CutHead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CutHead<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_due() && !buf.is_empty() {
            return self.poll_cut(cx, &buf[..1]);
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_due()
            && let Some(first) = bufs.iter().find(|buf| !buf.is_empty())
        {
            return self.poll_cut(cx, &first[..1]);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
