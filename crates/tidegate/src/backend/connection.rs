//! Which connection a request goes out on.

use std::future::Future;

tokio::task_local! {
    static NEW: ();
}

/// Whether the request that is being made is to go out on a connection that is opened for it, to an
/// address that is looked up for it: it is made again after one whose connection broke or stood still,
/// or beside one that is far slower than its peers. S3 asks for both ("Timeouts and Retries for
/// Latency-Sensitive Applications"). A [`Backend`](super::Backend) that keeps connections asks this
/// within its methods; one that keeps none need not.
pub fn wants_new_connection() -> bool {
    NEW.try_with(|()| ()).is_ok()
}

/// Makes `request` on a new connection, if `new` says so.
pub(crate) async fn connected<F: Future>(new: bool, request: F) -> F::Output {
    if new { NEW.scope((), request).await } else { request.await }
}
