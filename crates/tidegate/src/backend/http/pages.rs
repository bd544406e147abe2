//! Listings that come page by page.

use std::collections::VecDeque;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::backend::{Fault, FaultKind};
use crate::listing;

/// Where a listing stands.
pub(in crate::backend) enum Page<Marker> {
    At(Marker),
    End,
}

/// The items of all pages, each page fetched when it is asked for.
pub(in crate::backend) fn paged<Marker, Item, Fetch, Answer>(
    first: Marker,
    fetch: Fetch,
) -> BoxStream<'static, Result<Item, Fault>>
where
    Marker: Clone + Send + Sync + 'static,
    Item: Send + 'static,
    Fetch: Fn(Marker) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(VecDeque<Item>, Page<Marker>), Fault>> + Send + 'static,
{
    let pages = stream::try_unfold((Page::At(first), fetch), |(page, fetch)| async move {
        let Page::At(marker) = page else {
            return Ok(None);
        };
        let (items, next) = listing::page(|| fetch(marker.clone())).await?;
        Ok(Some((stream::iter(items.into_iter().map(Ok)), (next, fetch))))
    });
    pages.try_flatten().boxed()
}

/// Of a page that is not the last and names no next one.
pub(in crate::backend) fn stuck() -> Fault {
    Fault::new(FaultKind::Unsupported, "the store says that the listing goes on, and not where")
}
