//! Listings, each page of which is a request among others: in its turn, with its deadline, made again where that can
//! help. Backends list by themselves, page by page; who asks for a listing lends it its requests.
//!
//! Whatever a store lists is compared with what was asked for, here and once for all stores: what lies outside of the
//! prefix could be removed, copied or swept by whoever reads the listing.

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

/// Lists objects as [`Backend::list`] does. A key outside of `prefix`, and a prefix that is not the next one below it,
/// end the listing with a fault. Keys out of order are let through, as S3's directory buckets have them; a prefix that a
/// store repeats from one page to the next is given once.
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

/// Lists unfinished uploads as [`Backend::sessions`] does; one of a key outside of `prefix` ends the listing with a fault.
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

/// The items for which `keep` says yes; nothing follows where it faults. A fault among the items is passed on: a store's
/// listing ends with it, and that of a directory goes on, where one name could not be looked at.
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
    // On the heap: the futures of attempts are nested deeply, and workers may have small stacks.
    let fetched = pages.requests.send(Operation::List, None, None, || Box::pin(fetch())).await;
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
mod tests;
