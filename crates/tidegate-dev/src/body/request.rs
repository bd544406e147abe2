//! The bodies of requests.

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

use super::{Broken, Pieces};
use crate::counts::LiveCounters;
use crate::exchange::Exchange;
use crate::shaping::BodyPace;

/// A request's body: counted and subject to knobs.
#[derive(Debug)]
pub(crate) struct CountedBody {
    body: Pieces<Incoming>,
    nap: Option<Pin<Box<Sleep>>>,
    has_stalled: bool,
    pace: BodyPace,
    exchange: Arc<Exchange>,
    counters: Arc<LiveCounters>,
}

impl CountedBody {
    pub(crate) fn new(
        incoming: Incoming,
        pace: BodyPace,
        exchange: Arc<Exchange>,
        counters: Arc<LiveCounters>,
    ) -> Self {
        Self { body: Pieces::new(incoming), nap: None, has_stalled: false, pace, exchange, counters }
    }

    /// Applies the knobs due at the current offset; returns the next offset where a knob is due.
    fn poll_knobs(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Broken>> {
        let mut next = u64::MAX;
        if let Some((after, time)) = self.exchange.stall().filter(|_| !self.has_stalled) {
            if self.body.at >= after {
                let nap = self.nap.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                ready!(nap.as_mut().poll(cx));
                self.has_stalled = true;
            } else {
                next = after;
            }
        }
        let refusal = self.exchange.refuse_after();
        let reset = self.exchange.reset_request_after.load(Ordering::Acquire);
        let after = refusal.min(reset);
        if self.body.at >= after {
            let is_refused = refusal <= reset;
            let what = if is_refused { &self.exchange.refused_late } else { &self.exchange.cut };
            what.store(true, Ordering::Release);
            return Poll::Ready(Err(Broken { after }));
        }
        Poll::Ready(Ok(next.min(after)))
    }

    /// The next bytes, never an empty piece. HTTP's own trailers are ignored.
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

impl Body for CountedBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        let next = ready!(this.poll_knobs(cx))?;
        ready!(this.pace.poll_ready(cx));
        let Some(frame) = ready!(this.body.poll_up_to(next, cx)?) else {
            return Poll::Ready(None);
        };
        if let Some(data) = frame.data_ref() {
            this.counters.received(data.len());
            this.pace.took(data.len());
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        if let Some(rest) = self.body.inner.take()
            && !rest.is_end_stream()
        {
            self.exchange.leave(rest);
        }
    }
}
