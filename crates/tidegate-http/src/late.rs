//! Reports to subscribers of `tidegate::answer` that a request was sent but its answer has not begun.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use super::client::Sending;

/// An answer that has not begun after this time is reported. A little longer than the time for a late connection, so
/// that one outage is not reported twice.
const LATE: Duration = Duration::from_millis(1600);
/// The same for requests on which the store works first, such as the completion of an upload, which may take minutes,
/// and for large bodies.
const LATE_WORK: Duration = Duration::from_secs(10);

/// A body of more bytes may sit in socket buffers long after the last byte was handed over: on a slow link the answer
/// to such a request is late although the store is well.
const IN_BUFFERS: u64 = 64 << 10;

/// The work that a store does before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A lookup, or storing the bytes of the request.
    Little,
    /// Assembling or copying stored bytes.
    Much,
}

/// How an endpoint has answered the requests of its clients so far.
#[derive(Debug, Default)]
pub struct Heard {
    /// Whether the endpoint has ever answered.
    has_answered: AtomicBool,
    /// Whether its silence was reported since its last answer.
    is_told: AtomicBool,
}

/// A body being sent, which records when it last moved.
pub struct WatchedBody {
    body: Sending,
    progress: Arc<BodyProgress>,
}

#[derive(Debug)]
struct BodyProgress {
    began: Instant,
    /// Milliseconds from the beginning to the last byte that was taken from the body.
    moved: AtomicU64,
    is_sent: AtomicBool,
    /// More than [`IN_BUFFERS`] bytes are sent.
    is_large: bool,
}

impl BodyProgress {
    fn moves(&self, is_sent: bool) {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(millis, Relaxed);
        self.is_sent.store(is_sent, Relaxed);
    }
}

/// Watches the body of a request that is sent now.
pub(crate) fn watched(body: Sending) -> (WatchedBody, AnswerWait) {
    let (began, is_sent) = (Instant::now(), AtomicBool::new(body.is_end_stream()));
    let is_large = body.size_hint().lower() > IN_BUFFERS;
    let progress = Arc::new(BodyProgress { began, moved: AtomicU64::new(0), is_sent, is_large });
    (WatchedBody { body, progress: progress.clone() }, AnswerWait(progress))
}

/// The wait for the answer to one request.
pub(crate) struct AnswerWait(Arc<BodyProgress>);

impl AnswerWait {
    /// Awaits the answer from `at`, and reports when it is late: either the whole request was sent, or the store has
    /// never answered and takes no more of the body.
    pub(crate) async fn answered<T, E>(
        self,
        answer: impl Future<Output = Result<T, E>>,
        heard: &Heard,
        at: &str,
        work: Work,
    ) -> Result<T, E> {
        let mut answer = pin!(answer);
        let mut told = pin!(self.late(heard, work));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            waited = &mut told => {
                if !heard.is_told.swap(true, Relaxed) {
                    let pause_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                    let is_work = work == Work::Much && heard.has_answered.load(Relaxed);
                    tracing::debug!(target: "tidegate::answer", at, pause_ms, is_work, "no answer yet");
                }
                answer.await
            }
        };
        if answer.is_ok() {
            heard.has_answered.store(true, Relaxed);
            heard.is_told.store(false, Relaxed);
        }
        answer
    }

    /// Completes when the answer is late; returns the time limit that passed.
    async fn late(&self, heard: &Heard, work: Work) -> Duration {
        let progress = &self.0;
        loop {
            let has_answered = heard.has_answered.load(Relaxed);
            let may_take_long = work == Work::Much || progress.is_large;
            let late = if has_answered && may_take_long { LATE_WORK } else { LATE };
            let moved = progress.began + Duration::from_millis(progress.moved.load(Relaxed));
            if moved.elapsed() >= late && (progress.is_sent.load(Relaxed) || !has_answered) {
                return late;
            }
            let (due, now) = (moved + late, Instant::now());
            // A long upload that stalls is checked again later.
            sleep_until(if due > now { due } else { now + LATE / 4 }).await;
        }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.progress.moves(frame.is_none() || self.body.is_end_stream());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::StreamExt;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::sending;

    /// The time until silence is reported for a request whose body is read at once.
    async fn told_after(heard: &Heard, work: Work, body: Sending) -> Option<Duration> {
        let (mut body, wait) = watched(body);
        let began = Instant::now();
        let taking = async {
            while body.frame().await.is_some() {}
            pending::<()>().await;
        };
        tokio::select! {
            _ = wait.late(heard, work) => Some(began.elapsed()),
            () = taking => None,
            () = tokio::time::sleep(Duration::from_secs(60)) => None,
        }
    }

    fn known() -> Heard {
        Heard { has_answered: AtomicBool::new(true), is_told: AtomicBool::default() }
    }

    fn seconds(told: Option<Duration>) -> Option<f64> {
        told.map(|told| (told.as_secs_f64() * 10.0).floor() / 10.0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_sent_and_is_not_answered_is_told_within_two_seconds() {
        for body in [Sending::default(), sending("x".into())] {
            assert_eq!(seconds(told_after(&known(), Work::Little, body).await), Some(1.6));
        }
        assert_eq!(seconds(told_after(&Heard::default(), Work::Much, sending("x".into())).await), Some(1.6));
        assert_eq!(seconds(told_after(&known(), Work::Much, sending("x".into())).await), Some(10.0));
    }

    /// On a slow link the bytes of a part leave the socket's buffers long after they were handed over.
    #[tokio::test(start_paused = true)]
    async fn a_large_body_may_be_in_the_sockets_buffers() {
        let part = || sending(Bytes::from(vec![0; 1 << 20]));
        assert_eq!(seconds(told_after(&known(), Work::Little, part()).await), Some(10.0));
        assert_eq!(seconds(told_after(&Heard::default(), Work::Little, part()).await), Some(1.6));
    }

    fn slow(pieces: u64, last: Duration) -> Sending {
        let pieces = futures::stream::iter(0..pieces).then(move |at| async move {
            tokio::time::sleep(if at == 0 { Duration::ZERO } else { last }).await;
            Ok(Frame::data(Bytes::from_static(b"x")))
        });
        StreamBody::new(pieces.chain(futures::stream::once(pending()))).boxed_unsync()
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_upload_is_no_silence_unless_the_store_has_never_answered() {
        // It moves each second, and then stands still without an end.
        let upload = || slow(20, Duration::from_secs(1));
        assert_eq!(told_after(&known(), Work::Little, upload()).await, None);
        assert_eq!(seconds(told_after(&Heard::default(), Work::Little, upload()).await), Some(20.6));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_once() {
        let heard = known();
        for is_told_before in [false, true] {
            assert_eq!(heard.is_told.load(Relaxed), is_told_before);
            let (_, wait) = watched(Sending::default());
            let slow = async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Err::<(), ()>(())
            };
            wait.answered(slow, &heard, "h:1", Work::Little).await.unwrap_err();
            assert!(heard.is_told.load(Relaxed));
        }
        let (_, wait) = watched(Sending::default());
        wait.answered(ready(Ok::<(), ()>(())), &heard, "h:1", Work::Little).await.unwrap();
        assert!(!heard.is_told.load(Relaxed));
    }
}
