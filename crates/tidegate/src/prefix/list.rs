//! A listing of all prefixes as one, in key order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::layout::Layout;
use super::places::{Known, Places};
use super::record::Record;
use crate::backend::{Entry, Fault};

/// Listings that are begun at once.
const AT_ONCE: usize = 64;

/// An entry, its key as it was before it was spread.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) entry: Entry,
    /// Whether the object is where the older layout has it, and nowhere else.
    pub(super) is_older: bool,
}

/// What of a root begins with `prefix`, in key order: of two objects of one key the current one. Below the
/// next `/` only prefixes, unless `recursive`.
pub(crate) fn list(
    places: Arc<Places>,
    prefix: String,
    recursive: bool,
) -> BoxStream<'static, Result<Entry, Fault>> {
    listed(places, prefix, recursive).map_ok(|listed| listed.entry).boxed()
}

/// As [`list`]; each entry with what else is known of it.
pub(super) fn listed(
    places: Arc<Places>,
    prefix: String,
    recursive: bool,
) -> BoxStream<'static, Result<Listed, Fault>> {
    let merge = Merge { places, prefix, recursive, by: None, next: BinaryHeap::new(), last: None };
    stream::try_unfold(
        merge,
        |mut merge| async move { Ok(merge.next().await?.map(|listed| (listed, merge))) },
    )
    .boxed()
}

/// The listings of all prefixes, of each the entry that it has next.
///
/// The record is looked at after whatever was fetched and before that is gone by. Where it has moved on, an
/// object may have come to where the listing has been already, and be gone from where it would be yet: all begins
/// again by the new record, behind what was given last. What was given is right all the same, for nothing is
/// removed from a place before every client has had time to see that.
struct Merge {
    places: Arc<Places>,
    prefix: String,
    recursive: bool,
    /// The record that it goes by.
    by: Option<Known>,
    next: BinaryHeap<Reverse<Head>>,
    /// What was given last.
    last: Option<(String, bool)>,
}

/// A listing and its first entry.
struct Head {
    listed: Listed,
    rest: BoxStream<'static, Result<Listed, Fault>>,
}

impl Merge {
    async fn next(&mut self) -> Result<Option<Listed>, Fault> {
        loop {
            let now = self.places.look(self.places.refresh()).await.map_err(|failure| failure.fault)?;
            if !self.by.is_some_and(|by| by.lists_as(&now)) {
                self.begin(now).await?;
                continue;
            }
            let Some(Reverse(Head { listed, rest })) = self.next.pop() else { return Ok(None) };
            self.next.extend(Head::of(rest).await?.map(Reverse));
            let (key, is_prefix) = listed.key();
            if self.last.as_ref().is_none_or(|last| (&*last.0, last.1) < (key, is_prefix)) {
                self.last = Some((key.to_owned(), is_prefix));
                return Ok(Some(listed));
            }
        }
    }

    /// Lists all prefixes from their beginning, by this record.
    async fn begin(&mut self, by: Known) -> Result<(), Fault> {
        // Two pages of each prefix are not held at once.
        self.next.clear();
        let (places, prefix, recursive) = (self.places.clone(), self.prefix.clone(), self.recursive);
        let heads = stream::iter(names(by.record))
            .map(|name| Head::of(one(&places, by.record, &name, &prefix, recursive)))
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |head| Ok(head.map(Reverse)));
        self.next = heads.try_collect().await?;
        self.by = Some(by);
        Ok(())
    }
}

/// The names of the prefixes of both layouts, each once.
fn names(record: Record) -> impl Iterator<Item = String> + Send {
    let Record { current, older, .. } = record;
    let older = older.into_iter().flat_map(Layout::names).filter(move |name| !current.has(name));
    current.names().chain(older)
}

/// What is below one prefix, and belongs there.
fn one(
    places: &Arc<Places>,
    record: Record,
    name: &str,
    prefix: &str,
    recursive: bool,
) -> BoxStream<'static, Result<Listed, Fault>> {
    let below = format!("{}{name}/", places.root());
    let (of_current, of_older) = {
        let (name, older) = (name.to_owned(), record.older);
        let current = name.clone();
        (
            move |key: &str| record.current.name(key) == current,
            move |key: &str| older.is_some_and(|older| older.name(key) == name),
        )
    };
    let entries = places.backend().list(&format!("{below}{prefix}"), recursive);
    let listed = move |entry| {
        Some(match entry {
            Entry::Object(mut object) => {
                object.key = object.key.strip_prefix(&below)?.to_owned();
                let is_current = of_current(&object.key);
                if !is_current && !of_older(&object.key) {
                    return None;
                }
                Listed { entry: Entry::Object(object), is_older: !is_current }
            }
            Entry::Prefix(prefix) => {
                let prefix = prefix.strip_prefix(&below)?.to_owned();
                Listed { entry: Entry::Prefix(prefix), is_older: false }
            }
        })
    };
    entries.try_filter_map(move |entry| std::future::ready(Ok(listed(entry)))).boxed()
}

impl Head {
    /// `None` where nothing is left. The listing ends with that, and what it holds.
    async fn of(mut rest: BoxStream<'static, Result<Listed, Fault>>) -> Result<Option<Self>, Fault> {
        Ok(rest.try_next().await?.map(|listed| Self { listed, rest }))
    }

    /// By key; of one key the current object before the older one.
    fn order(&self) -> ((&str, bool), bool) {
        (self.listed.key(), self.listed.is_older)
    }
}

impl Listed {
    /// Its key, and whether it is a prefix.
    fn key(&self) -> (&str, bool) {
        match &self.entry {
            Entry::Object(object) => (&object.key, false),
            Entry::Prefix(prefix) => (prefix, true),
        }
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}
