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

use super::Broken;
use crate::counts::Counters;
use crate::exchange::Exchange;
use crate::shaping::BodyPace;

/// A request's body as it comes from the wire.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Option<Incoming>,
    /// What has come behind a place where a knob has something to do.
    rest: Bytes,
    received: u64,
    nap: Option<Pin<Box<Sleep>>>,
    has_stalled: bool,
    pace: BodyPace,
    exchange: Arc<Exchange>,
    counters: Arc<Counters>,
}

impl RequestBody {
    pub(crate) fn new(
        incoming: Incoming,
        pace: BodyPace,
        exchange: Arc<Exchange>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            incoming: Some(incoming),
            rest: Bytes::new(),
            received: 0,
            nap: None,
            has_stalled: false,
            pace,
            exchange,
            counters,
        }
    }

    /// Does what a knob wants at this place of the body; says at which place the next one wants it.
    fn poll_knobs(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Broken>> {
        let mut next = u64::MAX;
        if let Some((after, time)) = self.exchange.stall().filter(|_| !self.has_stalled) {
            if self.received >= after {
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
        if self.received >= after {
            let is_refused = refusal <= reset;
            let what = if is_refused { &self.exchange.refused_late } else { &self.exchange.cut };
            what.store(true, Ordering::Release);
            return Poll::Ready(Err(Broken { after }));
        }
        Poll::Ready(Ok(next.min(after)))
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))));
        }
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
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
        let next = ready!(this.poll_knobs(cx))?;
        ready!(this.pace.poll_ready(cx));
        let Some(frame) = ready!(this.poll_incoming(cx)?) else {
            return Poll::Ready(None);
        };
        let frame = match frame.into_data() {
            Ok(mut data) => {
                let left = usize::try_from(next - this.received).unwrap_or(usize::MAX);
                if data.len() > left {
                    this.rest = data.split_off(left);
                }
                this.received += data.len() as u64;
                this.counters.received(data.len());
                this.pace.took(data.len());
                Frame::data(data)
            }
            Err(other) => other,
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let incoming = self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let rest = self.rest.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(incoming.lower() + rest);
        if let Some(upper) = incoming.upper() {
            hint.set_upper(upper + rest);
        }
        hint
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
