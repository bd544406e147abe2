//! The bodies of answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use s3s::StdError;
use tokio::time::Sleep;

use super::{Broken, Pieces};
use crate::counts::LiveCounters;
use crate::exchange::Exchange;
use crate::faults::Answering;
use crate::shaping::{BEFORE_RESET, ConnectionLink};

/// An answer's body: counted and subject to knobs.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    body: Pieces<s3s::Body>,
    reset_after: u64,
    answering: Answering,
    nap: Option<Pin<Box<Sleep>>>,
    link: Arc<ConnectionLink>,
    counters: Option<Arc<LiveCounters>>,
}

impl AnswerBody {
    /// Wraps the body of an operation's answer.
    pub(crate) fn new(
        inner: s3s::Body,
        exchange: &Exchange,
        link: Arc<ConnectionLink>,
        counters: Arc<LiveCounters>,
    ) -> Self {
        Self {
            body: Pieces::new(inner),
            answering: exchange.answering(),
            reset_after: exchange.reset_response_after.load(Ordering::Acquire),
            nap: None,
            link,
            counters: Some(counters),
        }
    }

    /// Wraps a body that is neither counted nor subject to knobs.
    pub(crate) fn plain(bytes: Bytes, link: Arc<ConnectionLink>) -> Self {
        Self {
            body: Pieces::new(s3s::Body::from(bytes)),
            answering: Answering::default(),
            reset_after: u64::MAX,
            nap: None,
            link,
            counters: None,
        }
    }

    /// Applies the knobs due at the current offset; returns the next offset where a knob is due, or `None` if
    /// the body ends here.
    fn poll_knobs(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, Broken>> {
        let mut next = u64::MAX;
        if let Some((after, time)) = self.answering.stall {
            if self.body.at >= after {
                ready!(self.poll_nap(time, cx));
                (self.answering.stall, self.nap) = (None, None);
            } else {
                next = after;
            }
        }
        let end = self.answering.end_after.unwrap_or(u64::MAX);
        let after = self.reset_after.min(end);
        if self.body.at >= after {
            // Lets the bytes already sent leave first.
            ready!(self.poll_nap(BEFORE_RESET, cx));
            if end <= self.reset_after {
                return Poll::Ready(Ok(None));
            }
            self.link.cut.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(Broken { after }));
        }
        Poll::Ready(Ok(Some(next.min(after))))
    }

    fn poll_nap(&mut self, time: Duration, cx: &mut Context<'_>) -> Poll<()> {
        self.nap.get_or_insert_with(|| Box::pin(tokio::time::sleep(time))).as_mut().poll(cx)
    }

    /// Flips a bit in these bytes, the last ones taken from the body, if the knobs' offset lies in them.
    fn corrupted(&self, data: Bytes) -> Bytes {
        let from = self.body.at - data.len() as u64;
        let at = self.answering.corrupt.and_then(|at| usize::try_from(at.checked_sub(from)?).ok());
        let Some(at) = at.filter(|at| *at < data.len()) else { return data };
        let mut bytes = Vec::from(data);
        bytes[at] ^= 1;
        bytes.into()
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
        let Some(next) = ready!(this.poll_knobs(cx))? else {
            return Poll::Ready(None);
        };
        let Some(frame) = ready!(this.body.poll_up_to(next, cx)?) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_data(|data| this.corrupted(data));
        if let (Some(data), Some(counters)) = (frame.data_ref(), &this.counters) {
            counters.sent(data.len());
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        // A body that will be broken off must not report its end.
        self.reset_after == u64::MAX && self.body.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
