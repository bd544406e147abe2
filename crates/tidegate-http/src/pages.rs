//! Fetches listings page by page, for as long as they make progress.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use async_trait::async_trait;

use tidegate_core::backend::{Attempt, BucketEntry, Entry, Fault, FaultKind, Listing, OpenSession, Pages};

#[cfg(test)]
mod tests;

/// The most entries of one page. No store promises more than 1,000; some can be set to give more.
pub(crate) const MOST_ENTRIES: usize = 10_000;

/// The longest text (a key, a tag, a token) of a page, in bytes. A key has at most 1,024, and three times as many
/// when it is encoded.
pub const LONGEST_TEXT: usize = 8 << 10;

/// Empty pages in a row after which a listing fails. Some are normal: S3 sends them where it skips deleted versions,
/// Google where it skips keys that a delimiter folds.
const MOST_EMPTY: u32 = 1_000;

/// Pages in a row without a key beyond those already listed, after which a listing in key order fails.
const MOST_BEHIND: u32 = 100;

/// The position in a listing.
pub enum PagePosition<Marker> {
    /// Asks for the page at this marker.
    At(Marker),
    /// The listing has ended.
    End,
}

/// Whether a store lists keys in ascending order. S3's directory buckets do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of keys.
    ByKey,
    /// In no known order.
    None,
}

/// The entries of a page that is being read.
#[derive(Debug)]
pub struct Entries<T>(Vec<T>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Entries<T> {
    /// Adds an entry; fails after the most that a page has (`MOST_ENTRIES`).
    pub fn push(&mut self, entry: T) -> Result<(), String> {
        if self.0.len() == MOST_ENTRIES {
            return Err(format!("one page has more than {MOST_ENTRIES} entries"));
        }
        self.0.push(entry);
        Ok(())
    }

    /// The entry that was added last.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.0.last_mut()
    }

    /// The entries, in the order of the page.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

/// An item of a listing.
pub trait Keyed {
    /// The key that the listing is ordered by.
    fn key(&self) -> &str;

    /// The upload id, which distinguishes several uploads of one key.
    fn id(&self) -> &str {
        ""
    }
}

impl Keyed for Entry {
    fn key(&self) -> &str {
        Entry::key(self)
    }
}

impl Keyed for BucketEntry {
    fn key(&self) -> &str {
        &self.name
    }
}

impl Keyed for OpenSession {
    fn key(&self) -> &str {
        &self.session.key
    }

    fn id(&self) -> &str {
        &self.session.id
    }
}

/// The items of all pages; each page is fetched when it is needed. A listing that makes no progress ends with a
/// fault: its markers repeat, its pages stay empty, or it lists the same items again and again.
pub fn paged<Marker, Item, Fetch, Answer>(first: Marker, order: Order, fetch: Fetch) -> Listing<Item>
where
    Marker: Clone + PartialEq + Send + Sync + 'static,
    Item: Keyed + Send + 'static,
    Fetch: Fn(Marker, Attempt) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(VecDeque<Item>, PagePosition<Marker>), Fault>> + Send + 'static,
{
    Listing::Pages(Box::new(Paged {
        watch: Watch::new(first.clone(), order),
        at: PagePosition::At(first),
        fetch,
    }))
}

/// A listing of a store that gives a marker with each page but the last.
struct Paged<Marker, Fetch> {
    at: PagePosition<Marker>,
    watch: Watch<Marker>,
    fetch: Fetch,
}

#[async_trait]
impl<Marker, Item, Fetch, Answer> Pages<Item> for Paged<Marker, Fetch>
where
    Marker: Clone + PartialEq + Send + Sync + 'static,
    Item: Keyed + Send + 'static,
    Fetch: Fn(Marker, Attempt) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(VecDeque<Item>, PagePosition<Marker>), Fault>> + Send + 'static,
{
    async fn next(&mut self, attempt: Attempt) -> Result<Option<Vec<Item>>, Fault> {
        let PagePosition::At(marker) = &self.at else { return Ok(None) };
        let (items, next) = (self.fetch)(marker.clone(), attempt).await?;
        if let PagePosition::At(next) = &next {
            self.watch.page(&items, next)?;
        }
        self.at = next;
        Ok(Some(items.into()))
    }
}

/// Checks in constant memory that a listing makes progress.
#[derive(Debug)]
pub struct Watch<Marker> {
    order: Order,
    pages: u64,
    markers: Circle<Marker>,
    contents: Circle<u64>,
    hasher: RandomState,
    empty: u32,
    behind: u32,
    furthest: String,
}

impl<Marker: Clone + PartialEq> Watch<Marker> {
    /// A listing that begins at this marker.
    pub fn new(first: Marker, order: Order) -> Self {
        Self {
            order,
            pages: 0,
            markers: Circle::at(first),
            contents: Circle::at(0),
            hasher: RandomState::new(),
            empty: 0,
            behind: 0,
            furthest: String::new(),
        }
    }

    /// Checks a page that is followed by another one at `next`.
    pub fn page<Item: Keyed>(&mut self, items: &VecDeque<Item>, next: &Marker) -> Result<(), Fault> {
        self.pages += 1;
        if self.markers.closes(next) {
            return Err(self.stuck("its next page is one that was read before"));
        }
        let Some(last) = items.iter().map(Keyed::key).max() else {
            self.empty += 1;
            let is_over = self.empty >= MOST_EMPTY;
            return if is_over { Err(self.stuck("so many pages in a row were empty")) } else { Ok(()) };
        };
        self.empty = 0;
        match self.order {
            Order::ByKey if last > self.furthest.as_str() => {
                (self.behind, self.furthest) = (0, last.to_owned());
                Ok(())
            }
            Order::ByKey => {
                self.behind += 1;
                let is_over = self.behind >= MOST_BEHIND;
                let why = "the last pages list nothing but keys that were listed before";
                if is_over { Err(self.stuck(why)) } else { Ok(()) }
            }
            Order::None => {
                let listed: Vec<_> = items.iter().map(|item| (item.key(), item.id())).collect();
                let is_repeated = self.contents.closes(&self.hasher.hash_one(&listed));
                if is_repeated { Err(self.stuck("a page lists what one before it did")) } else { Ok(()) }
            }
        }
    }

    fn stuck(&self, why: &str) -> Fault {
        let message = format!("the store's listing makes no progress after {} pages: {why}", self.pages);
        Fault::new(FaultKind::NotAStore, message)
    }
}

/// Detects that a sequence repeats: each value is compared with one kept value, which is replaced after 1, 2, 4, …
/// others (R. P. Brent, "An improved Monte Carlo factorization algorithm", 1980).
#[derive(Debug)]
struct Circle<T> {
    kept: T,
    since: u64,
    until: u64,
}

impl<T: Clone + PartialEq> Circle<T> {
    fn at(first: T) -> Self {
        Self { kept: first, since: 0, until: 1 }
    }

    /// Whether `next` equals the kept value.
    fn closes(&mut self, next: &T) -> bool {
        if *next == self.kept {
            return true;
        }
        self.since += 1;
        if self.since == self.until {
            *self = Self { kept: next.clone(), since: 0, until: self.until.saturating_mul(2) };
        }
        false
    }
}

/// The fault for a page that is not the last but does not say where the next one is.
pub fn stuck() -> Fault {
    Fault::new(FaultKind::NotAStore, "the store says that the listing goes on, and not where")
}
