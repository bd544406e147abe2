//! Listings that run ahead of the work on their entries.

use std::panic::resume_unwind;
use std::pin::pin;
use std::task::{Poll, ready};

use futures::stream::poll_fn;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The most listed entries that wait, not counting the page that is being fetched: as many as one page of S3's.
const WAITING: usize = 1000;

/// Lists the same entries ahead of the consumer. A separate task lists, so that a page in flight is not held up while
/// the consumer is busy.
pub fn ahead<T: Send + 'static>(entries: impl Stream<Item = T> + Send + 'static) -> impl Stream<Item = T> {
    let (listed, waiting) = mpsc::channel(WAITING);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut entries = pin!(entries);
        while let Some(entry) = entries.next().await {
            if listed.send(entry).await.is_err() {
                return; // the consumer has gone
            }
        }
    });
    found(waiting, task)
}

/// The entries that a task finds. The set must hold that task only. The task is aborted when the stream is dropped,
/// if it can be.
pub(crate) fn found<T>(mut waiting: mpsc::Receiver<T>, mut task: JoinSet<()>) -> impl Stream<Item = T> {
    poll_fn(move |cx| {
        if let Some(entry) = ready!(waiting.poll_recv(cx)) {
            return Poll::Ready(Some(entry));
        }
        match ready!(task.poll_join_next(cx)) {
            // A panic is not an end: entries would be missing without an error.
            Some(Err(error)) => resume_unwind(error.try_into_panic().unwrap_or_else(|ended| Box::new(ended))),
            Some(Ok(())) | None => Poll::Ready(None),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use futures::{FutureExt, stream};
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_page_is_listed_ahead_and_no_more() {
        let listed = Arc::new(AtomicUsize::new(0));
        let counted = listed.clone();
        let entries = stream::iter(0..10 * WAITING).inspect(move |_| {
            counted.fetch_add(1, Relaxed);
        });
        let mut entries = pin!(ahead(entries));
        assert_eq!(entries.next().await, Some(0));
        // One more entry is with the task that would send it.
        let ahead = async {
            while listed.load(Relaxed) < WAITING + 2 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, ahead).await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(listed.load(Relaxed), WAITING + 2);
        let rest: Vec<_> = entries.collect().await;
        assert_eq!(rest, (1..10 * WAITING).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn it_ends_with_who_takes_it() {
        let held = Arc::new(());
        let holds = held.clone();
        let entries = ahead(stream::once(async { 0 }).chain(stream::pending()).inspect(move |_| {
            let _ = &holds;
        }));
        let mut entries = Box::pin(entries);
        assert_eq!(entries.next().await, Some(0));
        drop(entries);
        let ended = async {
            while Arc::strong_count(&held) > 1 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, ended).await.unwrap();
    }

    #[tokio::test]
    async fn a_listing_that_panics_has_not_ended() {
        let entries =
            stream::iter(0..3).map(|entry| if entry < 2 { entry } else { panic!("a page is broken") });
        let mut entries = pin!(ahead(entries));
        assert_eq!(entries.next().await, Some(0));
        assert_eq!(entries.next().await, Some(1));
        assert!(AssertUnwindSafe(entries.next()).catch_unwind().await.is_err());
    }
}
