//! Work that waits for a disk, off the threads that requests are on.

/// Does what waits for a disk where that is allowed. It runs to its end even where nobody waits any more.
pub(crate) async fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shut down: nothing that is asked of it is answered any more.
            Err(_) => std::future::pending().await,
        },
    }
}
