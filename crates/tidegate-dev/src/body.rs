//! The bodies of requests and answers: counted, and broken off where a knob says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use s3s::StdError;
use tokio::time::Sleep;

use crate::counts::Counters;
use crate::exchange::Exchange;
use crate::shaping::{BEFORE_RESET, Link};

/// A body that a knob has broken off.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by a knob after {after} bytes of the body")]
pub(crate) struct Broken {
    after: u64,
}

/// A request's body as it comes from the wire.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Option<Incoming>,
    received: u64,
    exchange: Arc<Exchange>,
    counters: Arc<Counters>,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, exchange: Arc<Exchange>, counters: Arc<Counters>) -> Self {
        Self { incoming: Some(incoming), received: 0, exchange, counters }
    }

    /// The next bytes, never none of them; trailers of HTTP itself are of no interest.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, StdError>> {
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await?;
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) if !data.is_empty() => return Some(Ok(data)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        let limit = this.exchange.reset_request_after.load(Ordering::Acquire);
        if this.received >= limit {
            this.exchange.cut.store(true, Ordering::Release);
            return Poll::Ready(Some(Err(Box::new(Broken { after: limit }))));
        }
        let Some(incoming) = &mut this.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.received += data.len() as u64;
                    this.counters.received(data.len());
                }
            }
            Some(Err(_)) | None => this.incoming = None,
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(rest) = self.incoming.take()
            && !rest.is_end_stream()
        {
            self.exchange.leave(rest);
        }
    }
}

/// An answer's body on its way to the wire.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    inner: s3s::Body,
    sent: u64,
    reset_after: u64,
    nap: Option<Pin<Box<Sleep>>>,
    link: Arc<Link>,
    counters: Option<Arc<Counters>>,
}

impl AnswerBody {
    /// The body of an operation's answer.
    pub(crate) fn new(
        inner: s3s::Body,
        exchange: &Exchange,
        link: Arc<Link>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            inner,
            sent: 0,
            reset_after: exchange.reset_response_after.load(Ordering::Acquire),
            nap: None,
            link,
            counters: Some(counters),
        }
    }

    /// A body outside of counts and knobs.
    pub(crate) fn plain(bytes: Bytes, link: Arc<Link>) -> Self {
        Self {
            inner: s3s::Body::from(bytes),
            sent: 0,
            reset_after: u64::MAX,
            nap: None,
            link,
            counters: None,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        if this.sent >= this.reset_after {
            let nap = this.nap.get_or_insert_with(|| Box::pin(tokio::time::sleep(BEFORE_RESET)));
            ready!(nap.as_mut().poll(cx));
            this.link.cut.store(true, Ordering::Relaxed);
            let after = this.reset_after;
            return Poll::Ready(Some(Err(Box::new(Broken { after }))));
        }
        let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(cx)?) else {
            return Poll::Ready(None);
        };
        let frame = match frame.into_data() {
            Ok(mut data) => {
                let left = this.reset_after - this.sent;
                if data.len() as u64 > left {
                    data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                }
                this.sent += data.len() as u64;
                if let Some(counters) = &this.counters {
                    counters.sent(data.len());
                }
                Frame::data(data)
            }
            Err(other) => other,
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        // A body that is to be broken off does not end.
        self.reset_after == u64::MAX && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
