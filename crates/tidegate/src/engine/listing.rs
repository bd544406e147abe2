//! Makes each page of a listing an ordinary request, with its permit, deadline and retries. Backends page through
//! listings themselves; the caller of a listing lends it its [`Requests`].
//!
//! Every listing is checked against what was asked for, here for all stores: a caller could remove, copy or sweep
//! what lies outside of the prefix.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};

use crate::backend::{Backend, Entry, Fault, FaultKind, OpenSession};
use crate::engine::request::Requests;
use crate::printable_bytes;
use crate::types::error::{Error, Operation};
use crate::types::object::Object;

tokio::task_local! {
    static PAGES: Option<Arc<Pages>>;
}

/// Lists objects as [`Backend::list`] does. A key outside of `prefix`, or a prefix that is not directly below it,
/// ends the listing with a fault. Keys may be out of order, as in S3's directory buckets; a prefix that the store
/// repeats from one page to the next is returned once.
pub(crate) fn entries(
    backend: &dyn Backend,
    prefix: &str,
    recursive: bool,
) -> BoxStream<'static, Result<Entry, Fault>> {
    let (asked, mut last) = (prefix.to_owned(), None);
    checked(backend.list(prefix, recursive), move |entry| {
        let listed = match entry {
            Entry::Object(Object { key, .. }) | Entry::Other { key, .. } => {
                return within(key, &asked).map(|()| true);
            }
            Entry::Prefix(listed) => listed,
        };
        within(listed, &asked)?;
        let below = &listed[asked.len()..];
        if recursive || below.is_empty() || below.find('/') != below.len().checked_sub(1) {
            let what = if recursive { "keys alone" } else { "what is directly" };
            return Err(unasked(
                &format!("{what} below `{}`", shown(&asked)),
                &format!("the prefix `{}`", shown(listed)),
            ));
        }
        let is_new = last.as_ref() != Some(listed);
        last = Some(listed.clone());
        Ok(is_new)
    })
}

/// Lists unfinished uploads as [`Backend::sessions`] does; a key outside of `prefix` ends the listing with a fault.
pub(crate) fn sessions(
    backend: &dyn Backend,
    prefix: &str,
) -> BoxStream<'static, Result<OpenSession, Fault>> {
    let asked = prefix.to_owned();
    checked(backend.sessions(prefix), move |open| within(&open.session.key, &asked).map(|()| true))
}

fn within(key: &str, prefix: &str) -> Result<(), Fault> {
    if key.starts_with(prefix) {
        return Ok(());
    }
    Err(unasked(&format!("keys that begin with `{}`", shown(prefix)), &format!("`{}`", shown(key))))
}

fn shown(key: &str) -> String {
    printable_bytes(key.as_bytes(), 200)
}

fn unasked(asked: &str, listed: &str) -> Fault {
    let message =
        format!("the store was asked for {asked} and lists {listed}: its listing cannot be relied on");
    Fault::new(FaultKind::NotAStore, message)
}

/// The items for which `keep` returns true; ends after `keep` returns a fault. A fault among the items is passed on,
/// and later items too: a directory's listing continues after a name that could not be examined, a store's ends.
fn checked<T: Send + 'static>(
    items: BoxStream<'static, Result<T, Fault>>,
    keep: impl FnMut(&T) -> Result<bool, Fault> + Send + 'static,
) -> BoxStream<'static, Result<T, Fault>> {
    stream::unfold(Some((items, keep)), |state| async move {
        let (mut items, mut keep) = state?;
        loop {
            let item = match items.next().await? {
                Ok(item) => item,
                Err(fault) => return Some((Err(fault), Some((items, keep)))),
            };
            match keep(&item) {
                Ok(true) => return Some((Ok(item), Some((items, keep)))),
                Ok(false) => {}
                Err(fault) => return Some((Err(fault), None)),
            }
        }
    })
    .boxed()
}

/// How to request the pages of one listing.
#[derive(Debug)]
struct Pages {
    requests: Requests,
    /// The attempts and the time of a page whose request failed for good.
    failed: Mutex<Option<(u32, Duration)>>,
}

/// A listing whose pages are requested through the engine.
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

/// Fetches a page; calls `fetch` for each attempt.
pub(crate) async fn page<T, F>(fetch: impl FnMut() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut fetch = fetch;
    let Some(pages) = PAGES.try_with(Option::clone).ok().flatten() else { return fetch().await };
    // On the heap: the futures of attempts are deeply nested, and workers may have small stacks.
    let fetched = pages.requests.send(Operation::List, None, None, || Box::pin(fetch())).await;
    fetched.map_err(|failure| {
        let mut failed = pages.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some((failure.attempts, failure.elapsed));
        failure.fault
    })
}

/// Runs a request that itself lists: it already holds a permit, so its pages are fetched without one.
pub(crate) async fn as_one_request<F: Future>(request: F) -> F::Output {
    PAGES.scope(None, request).await
}

#[cfg(test)]
mod tests;
