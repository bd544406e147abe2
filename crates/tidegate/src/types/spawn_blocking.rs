//! Runs work that waits for a disk away from the threads that drive requests.

/// Runs `work` on a thread that may block. The work runs to its end even if nobody waits for it any more.
pub(crate) async fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and never returns a result.
            Err(_) => std::future::pending().await,
        },
    }
}
