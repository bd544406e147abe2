//! Listings: each page is a request like any other, with its turn, its deadline and its retries.
//!
//! Every entry is compared with the prefix that was asked for, once for all stores: a caller might remove, copy or
//! sweep an object outside of the prefix.

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::Mutex;

#[cfg(feature = "prefix")]
use crate::backend::Attempt;
use crate::backend::{Backend, BucketEntry, Buckets, Entry, Fault, FaultKind, Listing, OpenSession};
use crate::engine::request::{Failure, Requests};
use crate::types::error::Operation;
use crate::types::object::Object;
use crate::types::printable::printable_bytes;

/// The longest key that a store is asked to begin a listing behind, in bytes: no store has longer ones.
const LONGEST_KEY: usize = 1024;

/// Lists objects as [`Backend::list`] does, or as [`Backend::list_after`] does. A key outside of `prefix` ends the listing with a fault, and so does a
/// prefix that is not directly below it. Keys may be out of order, as in S3's directory buckets. A prefix that a store
/// repeats on the next page is given once.
pub(crate) fn entries(
    requests: &Arc<Requests>,
    backend: &dyn Backend,
    prefix: &str,
    recursive: bool,
    after: Option<&str>,
) -> BoxStream<'static, Result<Entry, Failure>> {
    // The beginning of a key comes before the key, so nothing behind the key is left out.
    let after = after.map(|after| &after[..after.floor_char_boundary(LONGEST_KEY)]);
    let listing = match after.filter(|after| !after.is_empty()) {
        Some(after) => backend.list_after(prefix, recursive, after),
        None => backend.list(prefix, recursive),
    };
    checked(fetched(requests.clone(), listing), in_order_below(prefix, recursive))
}

/// Lists all objects for a caller that retries the whole listing: each page is requested once, in `attempt` of the
/// caller's request.
#[cfg(feature = "prefix")]
pub(crate) fn entries_once(
    backend: &dyn Backend,
    prefix: &str,
    attempt: Attempt,
) -> BoxStream<'static, Result<Entry, Fault>> {
    checked(backend.list(prefix, true).items(attempt), in_order_below(prefix, true))
}

/// Decides about each entry of a listing of `prefix`: an error if the entry does not belong there, false if it was
/// given before.
fn in_order_below(prefix: &str, recursive: bool) -> impl FnMut(&Entry) -> Result<bool, Fault> + use<> {
    let (asked, mut last) = (prefix.to_owned(), None);
    move |entry| {
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
    }
}

/// Lists the buckets of an endpoint.
pub(crate) fn buckets(
    requests: &Arc<Requests>,
    buckets: &dyn Buckets,
) -> BoxStream<'static, Result<BucketEntry, Failure>> {
    fetched(requests.clone(), buckets.list())
}

/// Lists unfinished uploads as [`Admin::sessions`](crate::backend::Admin::sessions) does; a store without such a
/// listing has none. A key outside of `prefix` ends the listing with a fault.
pub(crate) fn sessions(
    requests: &Arc<Requests>,
    backend: &dyn Backend,
    prefix: &str,
) -> BoxStream<'static, Result<OpenSession, Failure>> {
    let asked = prefix.to_owned();
    let Some(admin) = backend.admin() else { return stream::empty().boxed() };
    checked(fetched(requests.clone(), admin.sessions(prefix)), move |open| {
        within(&open.session.key, &asked).map(|()| true)
    })
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

/// The items that `keep` accepts; a fault of `keep` ends them. A fault among the items is passed on: a store's listing
/// ends with it, and a directory's continues behind the name that could not be read.
fn checked<T: Send + 'static, E: From<Fault> + Send + 'static>(
    items: BoxStream<'static, Result<T, E>>,
    keep: impl FnMut(&T) -> Result<bool, Fault> + Send + 'static,
) -> BoxStream<'static, Result<T, E>> {
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
                Err(fault) => return Some((Err(fault.into()), None)),
            }
        }
    })
    .boxed()
}

/// The items of a listing. Each page is one of `requests`, retried like any other request.
fn fetched<T: Send + 'static>(
    requests: Arc<Requests>,
    listing: Listing<T>,
) -> BoxStream<'static, Result<T, Failure>> {
    let pages = match listing {
        Listing::Items(items) => return items.map_err(Failure::at_once).boxed(),
        // Locked by one attempt at a time.
        Listing::Pages(pages) => Arc::new(Mutex::new(pages)),
    };
    let fetched = stream::try_unfold((requests, pages), |(requests, pages)| async move {
        let fetch = |attempt| {
            let pages = pages.clone();
            async move { pages.lock().await.next(attempt).await }
        };
        let page = requests.send(Operation::List, None, None, fetch).await?;
        Ok::<_, Failure>(page.map(|items| (stream::iter(items.into_iter().map(Ok)), (requests, pages))))
    });
    fetched.try_flatten().boxed()
}

#[cfg(test)]
mod tests;
