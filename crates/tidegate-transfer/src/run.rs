//! An operation that runs: a stream of events, then a report.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::event::{Event, Events, Report, RunProgress};

/// An operation that runs while its events are asked for, or while it is awaited.
///
/// As a stream it yields [`Event`]s and then ends; [`result`](Self::result) is what it came to. Awaited, it yields the
/// [`Report`].
///
/// Dropping it stops the operation: what is in flight is cut, nothing is half-published, and nothing more is removed.
///
/// # Errors
/// An error that ended the operation early; [`Error::Incomplete`] with the report if it came to its end and something
/// has failed.
#[must_use = "an operation does nothing unless its events are asked for, or it is awaited"]
pub struct Run {
    work: Option<BoxFuture<'static, Result>>,
    events: Events,
    result: Option<Result>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("result", &self.result).finish_non_exhaustive()
    }
}

impl Run {
    pub(crate) fn new(events: Events, work: impl Future<Output = Result> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), events, result: None }
    }

    /// What the operation came to, after its last event. The report has no failures if events were asked for: those have
    /// told them.
    ///
    /// # Errors
    /// As [`Run`]. If the operation has not ended, that it was stopped.
    pub fn result(self) -> Result<Report> {
        let report = self.events.report();
        match self.result {
            None => Err(Error::Failed("stopped before the end".to_owned())),
            Some(Err(error)) => Err(error),
            Some(Ok(())) if report.failed > 0 => Err(Error::Incomplete(Box::new(report))),
            Some(Ok(())) => Ok(report),
        }
    }

    /// How many objects needed no copy, and how many were removed, so far.
    pub fn counts(&self) -> (u64, u64) {
        self.events.counts()
    }

    /// The report so far, and the error that ended the operation early. For a caller that tells partial success in
    /// words of its own.
    pub fn into_parts(self) -> (Report, Result) {
        (self.events.report(), self.result.unwrap_or(Ok(())))
    }

    /// How far the operation is.
    pub fn progress(&self) -> RunProgress {
        self.events.progress()
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else { return Poll::Ready(()) };
        let Poll::Ready(result) = work.as_mut().poll(cx) else { return Poll::Pending };
        self.result = Some(result);
        // Dropping the work ends transfers, whose events come before the end.
        self.work = None;
        Poll::Ready(())
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.stream();
        if let Some(event) = self.events.next() {
            return Poll::Ready(Some(event));
        }
        let over = self.poll_work(cx);
        match (self.events.next(), over) {
            (Some(event), _) => Poll::Ready(Some(event)),
            (None, Poll::Ready(())) => Poll::Ready(None),
            (None, Poll::Pending) => Poll::Pending,
        }
    }
}

impl IntoFuture for Run {
    type Output = Result<Report>;
    type IntoFuture = BoxFuture<'static, Result<Report>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            std::future::poll_fn(|cx| self.poll_work(cx)).await;
            self.result()
        })
    }
}
