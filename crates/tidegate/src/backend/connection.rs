//! Tells a backend to open a new connection for a request.

use std::future::Future;

tokio::task_local! {
    static NEW: ();
}

/// Whether the current request must use a new connection, to a freshly resolved address. This is so for a retry after
/// a connection broke or stalled, and for a hedge beside a request that is far slower than its peers. S3's guide asks
/// for both ("Timeouts and Retries for Latency-Sensitive Applications"). A [`Backend`](super::Backend) that keeps
/// connections asks this within its methods; other backends need not.
pub fn wants_new_connection() -> bool {
    NEW.try_with(|()| ()).is_ok()
}

/// Runs `request`, on a new connection if `new`.
pub(crate) async fn connected<F: Future>(new: bool, request: F) -> F::Output {
    if new { NEW.scope((), request).await } else { request.await }
}
