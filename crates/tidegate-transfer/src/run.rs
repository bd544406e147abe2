//! An operation that runs: a stream of events, then a report.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::error::{Error, Result};
use crate::event::{Event, Events, Report, RunProgress};

/// An operation that runs from the moment when its first event is asked for, or it is awaited.
///
/// As a stream it yields [`Event`]s and then ends; [`result`](Self::result) then has its outcome. Awaited, it yields the
/// [`Report`]. It runs in a task of its own on the runtime that it is first polled on, and pauses while a thousand events
/// wait to be taken.
///
/// Dropping it stops the operation before the drop returns: what is in flight is cut, nothing is half-published, and
/// nothing more is removed. [`RunHandle::stop`] does the same soon, and the stream then ends.
///
/// # Errors
/// An error that ended the operation before anything was done, [`Error::Incomplete`] with the report if a part of it was
/// done or has failed, or [`Error::Stopped`].
#[must_use = "an operation does nothing unless its events are asked for, or it is awaited"]
pub struct Run {
    work: SharedWork,
    driver: Driver,
    events: Events,
    result: Option<Result>,
    progress: ProgressTicks,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("result", &self.result).finish_non_exhaustive()
    }
}

/// When the next [`Event::Progress`] is due.
enum ProgressTicks {
    Never,
    /// From the first poll on, which is on a runtime.
    Every(Duration),
    Ticking(Interval),
}

impl ProgressTicks {
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        if let Self::Every(period) = *self {
            let mut ticks = interval_at(Instant::now() + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            *self = Self::Ticking(ticks);
        }
        match self {
            Self::Ticking(ticks) => ticks.poll_tick(cx).is_ready(),
            Self::Never | Self::Every(_) => false,
        }
    }
}

/// What polls the work of an operation.
enum Driver {
    /// Nothing yet: a task, from the first poll on.
    NotStarted,
    /// A task of its own.
    Task(JoinSet<Result>),
    /// The caller, whenever the caller asks for an event.
    Caller,
}

/// The work of an operation. Its task polls it, and a drop of the [`Run`] drops it, also while the task is waiting.
#[derive(Clone)]
struct SharedWork(Arc<Mutex<Option<BoxFuture<'static, Result>>>>);

impl SharedWork {
    fn lock(&self) -> MutexGuard<'_, Option<BoxFuture<'static, Result>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result> {
        let mut work = self.lock();
        let Some(running) = work.as_mut() else { return Poll::Ready(Err(Error::Stopped)) };
        let polled = running.as_mut().poll(cx);
        if polled.is_ready() {
            *work = None;
        }
        polled
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let work = self.work.lock().take();
        drop(work);
    }
}

/// Looks at an operation that runs, and stops it, from anywhere.
#[derive(Clone, Debug)]
pub struct RunHandle(Events);

impl RunHandle {
    /// How far the operation is.
    pub fn progress(&self) -> RunProgress {
        self.0.progress()
    }

    /// Stops the operation. Its events end when all that was in flight is cut, and its result is [`Error::Stopped`],
    /// unless it was over before.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Run {
    pub(crate) fn new(events: Events, work: impl Future<Output = Result> + Send + 'static) -> Self {
        let stopped = events.clone();
        let work = async move {
            tokio::select! {
                biased;
                () = stopped.stopped() => Err(Error::Stopped),
                result = work => result,
            }
        };
        let work = SharedWork(Arc::new(Mutex::new(Some(Box::pin(work)))));
        Self { work, driver: Driver::NotStarted, events, result: None, progress: ProgressTicks::Never }
    }

    /// Runs only while its events are asked for, without a task of its own, which costs less. Between two events it is
    /// paused, and may hold the only request that the engine allows: do not wait for another request then.
    pub fn without_task(mut self) -> Self {
        self.driver = Driver::Caller;
        self
    }

    /// Adds an [`Event::Progress`] to the stream at this interval, for a progress bar. Needs a runtime with a timer.
    ///
    /// # Panics
    /// The first poll panics without one, and if `period` is zero.
    pub fn progress_every(mut self, period: Duration) -> Self {
        self.progress = ProgressTicks::Every(period);
        self
    }

    /// Looks at it from elsewhere.
    pub fn handle(&self) -> RunHandle {
        RunHandle(self.events.clone())
    }

    /// What the operation came to, after its last event. Of failures and warnings, the report counts all and has those
    /// that came after the last event that was taken.
    ///
    /// # Errors
    /// As [`Run`].
    pub fn result(self) -> Result<Report> {
        match self.into_parts() {
            (report, Ok(())) if report.failed == 0 => Ok(report),
            (report, Ok(())) => Err(Error::Incomplete { report: Box::new(report), cause: None }),
            (report, Err(error)) if report.done() == 0 && report.failed <= 1 => Err(error),
            (report, Err(cause)) => {
                Err(Error::Incomplete { report: Box::new(report), cause: Some(Box::new(cause)) })
            }
        }
    }

    /// How far the operation is.
    pub fn progress(&self) -> RunProgress {
        self.events.progress()
    }

    /// How many objects needed no copy, and how many were removed, so far.
    pub fn counts(&self) -> (u64, u64) {
        self.events.counts()
    }

    /// The report so far, and the error that ended the operation early. For a caller that tells partial success in
    /// words of its own.
    pub fn into_parts(mut self) -> (Report, Result) {
        (self.events.report(), self.result.take().unwrap_or(Err(Error::Stopped)))
    }

    /// Ready when the work is done; its result is then in `result`.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.result.is_some() {
            return Poll::Ready(());
        }
        if matches!(self.driver, Driver::NotStarted) {
            let (mut task, work) = (JoinSet::new(), self.work.clone());
            task.spawn(poll_fn(move |cx| work.poll(cx)));
            self.driver = Driver::Task(task);
        }
        let result = match &mut self.driver {
            Driver::Task(task) => match ready!(task.poll_join_next(cx)) {
                Some(Ok(result)) => result,
                Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
                // The runtime has ended.
                Some(Err(_)) | None => Err(Error::Stopped),
            },
            Driver::NotStarted | Driver::Caller => ready!(self.work.poll(cx)),
        };
        self.result = Some(result);
        Poll::Ready(())
    }

    /// What an event wakes: the caller, unless the caller polls the work itself.
    fn woken<'a>(&self, cx: &'a Context<'_>) -> Option<&'a Waker> {
        (!matches!(self.driver, Driver::Caller)).then(|| cx.waker())
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.stream(true, self.woken(cx));
        if self.progress.is_due(cx) {
            return Poll::Ready(Some(Event::Progress(self.progress())));
        }
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
            poll_fn(|cx| {
                self.events.stream(false, None);
                self.poll_work(cx)
            })
            .await;
            self.result()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt;
    use tidegate::Tidegate;
    use tidegate::settings::{Concurrency, Credentials, S3Settings};
    use tidegate_dev::Server;
    use tokio::io::AsyncWriteExt;
    use tokio::time::timeout;

    use crate::{RemoveTrees, Source, Wildcards};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn tree(tide: &Tidegate, objects: usize) -> (tidegate::Store, RemoveTrees) {
        let store = tide.open("memory://runs").await.unwrap();
        for number in 0..objects {
            store.put(format!("t/{number:04}"), "1").await.unwrap();
        }
        let source = Source::parse("memory://runs/t/".as_ref(), Wildcards::Literal, true).unwrap();
        (store, RemoveTrees::new(tide, [source]).recursive(true))
    }

    #[tokio::test]
    async fn a_consumer_may_use_the_only_request_between_two_events() {
        let server = Server::builder().start().await.unwrap();
        server.create_bucket("runs").unwrap();
        let (access, secret) = server.credentials();
        let settings = S3Settings::default()
            .with_endpoint_url(server.endpoint())
            .with_region("us-east-1")
            .with_credentials(Credentials::fixed(access, secret, None));
        let tide = Tidegate::builder().s3(settings).concurrency(Concurrency::Fixed(1)).build().unwrap();
        let store = tide.open("s3://runs").await.unwrap();
        let url = |number: usize| format!("s3://runs/t/{number}");
        for number in 0..20 {
            store.put(format!("t/{number}"), "1").await.unwrap();
        }
        let named =
            (0..20).map(url).map(|url| Source::parse(url.as_ref(), Wildcards::Literal, false).unwrap());
        let mut run = RemoveTrees::new(&tide, named).start();
        while let Some(event) = timeout(PATIENCE, run.next()).await.unwrap() {
            if matches!(event, Event::Removed { .. }) {
                timeout(PATIENCE, store.put("log", "1")).await.unwrap().unwrap();
            }
        }
        assert_eq!(run.result().unwrap().removed, 20);
    }

    #[tokio::test]
    async fn a_run_that_is_stopped_says_so_and_is_no_success() {
        let tide = Tidegate::builder().build().unwrap();
        let (_, remove) = tree(&tide, 5000).await;
        let mut run = remove.start();
        let handle = run.handle();
        assert!(run.next().await.is_some());
        handle.stop();
        while timeout(PATIENCE, run.next()).await.unwrap().is_some() {}
        let (report, result) = run.into_parts();
        assert!(matches!(result, Err(Error::Stopped)) && report.removed < 5000, "{result:?} {report:?}");
    }

    #[tokio::test]
    async fn a_drop_ends_what_is_in_flight_before_it_returns() {
        let tide = Tidegate::builder().build().unwrap();
        let (store, _) = tree(&tide, 0).await;
        let (input, mut end) = tokio::io::duplex(64);
        let mut run =
            crate::CopyTrees::input(&tide, "-", input, "memory://runs/copy".parse().unwrap()).start();
        assert!(matches!(run.next().await, Some(Event::Started(_))));
        end.write_all(b"some bytes").await.unwrap();
        while tide.usage().held == 0 {
            tokio::task::yield_now().await;
        }
        drop(run);
        assert_eq!(tide.usage().held, 0);
        assert!(!store.exists("copy").await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_an_event_as_often_as_it_is_asked_for() {
        let tide = Tidegate::builder().build().unwrap();
        let (_, _) = tree(&tide, 0).await;
        let (input, mut end) = tokio::io::duplex(64);
        let copy = crate::CopyTrees::input(&tide, "-", input, "memory://runs/copy".parse().unwrap());
        let mut run = copy.start().progress_every(Duration::from_millis(100));
        let (mut told, began) = (Vec::new(), Instant::now());
        while let Some(event) = run.next().await {
            let Event::Progress(progress) = event else { continue };
            told.push(progress.in_flight);
            match told.len() {
                3 => end.write_all(b"some bytes").await.unwrap(),
                5 => end.shutdown().await.unwrap(),
                _ => {}
            }
        }
        assert_eq!((&told[..5], began.elapsed().as_millis() / 100), (&[1; 5][..], 5));
        assert_eq!(run.result().unwrap().copied, 1);
    }

    #[tokio::test]
    async fn an_operation_waits_for_a_slow_consumer() {
        let tide = Tidegate::builder().build().unwrap();
        let (store, remove) = tree(&tide, 6000).await;
        let mut run = remove.dry_run(true).start();
        assert!(run.next().await.is_some());
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(run.events.waiting_events() <= 2048, "{}", run.events.waiting_events());
        let report = run.await.unwrap();
        assert_eq!((report.removed, store.exists("t/0000").await.unwrap()), (6000, true));
    }
}
