//! A listing whose order is checked.

use std::fmt;
use std::pin::Pin;

use futures::stream::Peekable;
use futures::{Stream, StreamExt};
use tidegate::Object;
use tidegate::text::printable;

use crate::walk::Missed;

pub(crate) mod sorted;

/// An object of a tree.
#[derive(Clone, Debug)]
pub(crate) struct TreeObject {
    /// The key below the tree's root.
    pub(crate) key: String,
    /// Its description, with its whole key.
    pub(crate) object: Object,
}

/// A listing in the ascending order of its keys' bytes (`a-b` before `a/b`), which S3, Google and the walk of a directory
/// promise, and which the listings of other stores are sorted into. Every object that it gives has a greater key than
/// the one before.
///
/// Two listings are compared only in this form. In a listing of another order, objects would look as if they were missing,
/// and be removed from the other side.
pub(crate) struct OrderedListing<L: Stream> {
    listing: Peekable<L>,
    last: Option<String>,
}

impl<L: Stream> fmt::Debug for OrderedListing<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedListing").field("last", &self.last).finish_non_exhaustive()
    }
}

/// A listing is not in the order of its keys: this key came after a greater one, or twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// The key below the tree's root.
    pub key: String,
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: the store promises to list keys in order and does not, so the trees can't be compared: copy the whole \
             tree instead",
            printable(&self.key)
        )
    }
}

impl std::error::Error for Disorder {}

impl<L: Stream<Item = Result<TreeObject, Missed>> + Unpin> OrderedListing<L> {
    /// A listing that is checked as it is read.
    pub(crate) fn new(listing: L) -> Self {
        Self { listing: listing.peekable(), last: None }
    }

    /// What [`take`](Self::take) looks at next.
    pub(crate) async fn peek(&mut self) -> Option<&Result<TreeObject, Missed>> {
        Pin::new(&mut self.listing).peek().await
    }

    /// Takes what comes next; fails if that is an object whose key is not greater than the last.
    pub(crate) async fn take(&mut self) -> Option<Result<Result<TreeObject, Missed>, Disorder>> {
        let next = self.listing.next().await?;
        if let Ok(object) = &next {
            if self.last.as_ref().is_some_and(|last| *last >= object.key) {
                return Some(Err(Disorder { key: object.key.clone() }));
            }
            self.last = Some(object.key.clone());
        }
        Some(Ok(next))
    }
}
