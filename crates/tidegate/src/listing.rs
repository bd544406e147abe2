//! Listings, each page of which is a request among others: in its turn, with its deadline, made again where that can
//! help. Backends list by themselves, page by page; who asks for a listing lends it its requests.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::stream::BoxStream;

use crate::backend::Fault;
use crate::error::{Error, Operation};
use crate::request::Requests;

tokio::task_local! {
    static PAGES: Option<Arc<Pages>>;
}

/// How the pages of one listing are asked for.
#[derive(Debug)]
struct Pages {
    requests: Requests,
    /// The attempts and the time that a page took which failed for good.
    failed: Mutex<Option<(u32, Duration)>>,
}

/// A listing whose pages are asked for by requests of the engine.
pub(crate) struct Listing<T> {
    pages: Arc<Pages>,
    items: BoxStream<'static, Result<T, Fault>>,
}

impl<T> Listing<T> {
    pub(crate) fn new(requests: Requests, items: BoxStream<'static, Result<T, Fault>>) -> Self {
        Self { pages: Arc::new(Pages { requests, failed: Mutex::default() }), items }
    }
}

impl<T> Stream for Listing<T> {
    type Item = crate::Result<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { pages, items } = self.get_mut();
        let next = PAGES.sync_scope(Some(pages.clone()), || items.as_mut().poll_next(cx));
        next.map_err(|fault| {
            let failed = pages.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (attempts, elapsed) = failed.unwrap_or((1, Duration::ZERO));
            Error::from_fault(fault, Operation::List, pages.requests.object.as_str(), attempts, elapsed)
        })
    }
}

/// Fetches a page; `fetch` is called for each attempt.
pub(crate) async fn page<T, F>(fetch: impl FnMut() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut fetch = fetch;
    let Some(pages) = PAGES.try_with(Option::clone).ok().flatten() else { return fetch().await };
    let fetched = pages.requests.send(Operation::List, None, None, fetch).await;
    fetched.map_err(|failure| {
        let mut failed = pages.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some((failure.attempts, failure.elapsed));
        failure.fault
    })
}

/// Makes a request that lists by itself: it has its turn, and must not wait for others beside it.
pub(crate) async fn as_one_request<F: Future>(request: F) -> F::Output {
    PAGES.scope(None, request).await
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use tidegate_dev::{Action, Fault as Rule, Knobs};

    use super::*;
    use crate::backend::Entry;
    use crate::backend::s3::{Credentials, S3Settings};
    use crate::{Concurrency, ErrorKind, RetryPolicy, Tidegate};

    #[tokio::test]
    async fn each_page_is_asked_for_again_and_waited_for_no_longer_than_others() {
        let server = tidegate_dev::Server::builder().start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let (access, secret) = server.credentials();
        let settings = S3Settings::default()
            .with_endpoint_url(server.endpoint())
            .with_region("us-east-1")
            .with_credentials(Credentials::fixed(access, secret, None));
        let retry = RetryPolicy {
            attempts: 3,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(2),
            patience: Duration::from_millis(500),
            least_patience: Duration::from_millis(500),
            ..RetryPolicy::default()
        };
        let tide = Tidegate::builder().s3(settings).retry(retry).concurrency(Concurrency::Fixed(1));
        let store = tide.build().unwrap().open("s3://bucket").await.unwrap();
        for key in ["a", "b", "c"] {
            store.writer(key).start().await.unwrap().finish().await.unwrap();
        }
        let list = "ListObjectsV2";
        let fails = Rule::error(list, 503, "SlowDown");
        let hangs = Rule::new(list, Action::HoldAnswer).times(1);
        for faults in [vec![fails.clone().times(2)], vec![hangs, fails.clone().times(1).skip(1)]] {
            server.set_knobs(Knobs { faults, ..Knobs::default() });
            let listed: Vec<Entry> = store.list("", true).try_collect().await.unwrap();
            assert_eq!(listed.len(), 3);
        }
        server.set_knobs(Knobs { faults: vec![fails], ..Knobs::default() });
        let error = store.list("", true).try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Throttled, 3), "{error}");
    }
}
