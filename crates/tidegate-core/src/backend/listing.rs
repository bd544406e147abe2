//! What a backend lists: pages that are requests, or items that no request brings.

use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::{Attempt, Fault};

/// The pages of one listing.
#[async_trait]
pub trait Pages<T>: Send {
    /// Fetches the next page, in one request; `None` behind the last page. After a fault the next call fetches the same
    /// page again.
    async fn next(&mut self, attempt: Attempt) -> Result<Option<Vec<T>>, Fault>;
}

/// A listing that has begun, from [`Backend::list`](super::Backend::list) or
/// [`Admin::sessions`](super::Admin::sessions).
///
/// As a [`Stream`] it gives the items one by one. Each page is then requested once: a fault ends the listing. The
/// engine takes the pages instead, and retries each.
pub enum Listing<T> {
    /// Each page is a request.
    Pages(Box<dyn Pages<T>>),
    /// No request brings these items: a directory or memory has them. The items behind a fault may be good.
    Items(BoxStream<'static, Result<T, Fault>>),
}

impl<T: Send + 'static> Listing<T> {
    /// A listing of nothing.
    pub fn empty() -> Self {
        Self::Items(stream::empty().boxed())
    }

    /// The items one by one. Each page is requested once, by `attempt`: a fault ends the listing.
    pub fn items(self, attempt: Attempt) -> BoxStream<'static, Result<T, Fault>> {
        let pages = match self {
            Self::Items(items) => return items,
            Self::Pages(pages) => pages,
        };
        let pages = stream::try_unfold(pages, move |mut pages| async move {
            let page = pages.next(attempt).await?;
            Ok(page.map(|items| (stream::iter(items.into_iter().map(Ok)), pages)))
        });
        pages.try_flatten().boxed()
    }
}

impl<T> From<BoxStream<'static, Result<T, Fault>>> for Listing<T> {
    fn from(items: BoxStream<'static, Result<T, Fault>>) -> Self {
        Self::Items(items)
    }
}

impl<T: Send + 'static> Stream for Listing<T> {
    type Item = Result<T, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut *self {
                Self::Items(items) => return items.as_mut().poll_next(cx),
                Self::Pages(_) => {
                    let pages = std::mem::replace(&mut *self, Self::empty());
                    *self = Self::Items(pages.items(Attempt::FIRST));
                }
            }
        }
    }
}
