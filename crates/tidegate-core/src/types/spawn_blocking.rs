//! Runs work that waits for a disk away from the threads that drive requests.

use std::sync::{Arc, Mutex, PoisonError};

/// Runs `work` on a thread that may block. The work runs to its end even if nobody waits for it any more.
pub async fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = Arc::new(Mutex::new(Some(work)));
    let taken = work.clone();
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ended = match tokio::task::spawn_blocking(move || take(&taken).map(|work| work())).await {
        Ok(done) => return done.unwrap_or_else(|| unreachable!("only this task takes the work")),
        Err(ended) => ended,
    };
    match (ended.try_into_panic(), take(&work)) {
        (Ok(panic), _) => std::panic::resume_unwind(panic),
        // The runtime was shut down before the work began; this future is polled elsewhere. Work that has begun is not
        // cancelled.
        (Err(_), Some(work)) => work(),
        (Err(_), None) => unreachable!("work that has begun is not cancelled"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::Poll;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    #[allow(clippy::async_yields_async)] // the outer future is awaited elsewhere
    fn work_whose_runtime_has_ended_before_it_began_is_done_elsewhere() {
        let first = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (end, is_over) = std::sync::mpsc::channel::<()>();
        let work = first.block_on(async {
            // The only thread is busy, so the work waits in the queue.
            tokio::task::spawn_blocking(move || is_over.recv());
            let mut work: Pin<Box<dyn Future<Output = u32>>> = Box::pin(spawn_blocking(|| 7));
            poll_fn(|cx| {
                assert!(work.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            work
        });
        first.shutdown_background();
        drop(end);
        let second = Builder::new_current_thread().enable_time().build().unwrap();
        let done =
            second.block_on(async { tokio::time::timeout(std::time::Duration::from_secs(20), work).await });
        assert_eq!(done.unwrap(), 7);
    }
}
