//! A listing of all prefixes as one, in key order.

use std::cmp::Ordering;
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::layout::Layout;
use super::places::{Known, Places};
use super::record::LayoutRecord;
use crate::api::merge::{MergeStream, Merged};
use crate::backend::Entry;
use crate::engine::KeyMap as _;
use crate::engine::listing;
use crate::engine::request::{Failure, Requests};

/// Most listings that are started at the same time.
const AT_ONCE: usize = 64;

/// An entry with its original key, without the prefix.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlacedEntry {
    pub(super) entry: Entry,
    /// Whether the object is at its older place. If it is at the current one too, that entry comes first and this one
    /// is skipped.
    pub(super) is_older: bool,
}

/// Lists the keys of a root that begin with `prefix`, in key order. If a key has objects at both places, gives the
/// current one. Unless `recursive`, gives keys with a further `/` only as prefixes. Where `after` is set, entries up to
/// that key may be left out.
pub(crate) fn list(
    places: Arc<Places>,
    requests: Arc<Requests>,
    prefix: String,
    recursive: bool,
    after: Option<String>,
) -> BoxStream<'static, Result<Entry, Failure>> {
    listed(places, requests, prefix, recursive, after).map_ok(|listed| listed.entry).boxed()
}

/// As [`list`], with the place of each entry.
pub(super) fn listed(
    places: Arc<Places>,
    requests: Arc<Requests>,
    prefix: String,
    recursive: bool,
    after: Option<String>,
) -> BoxStream<'static, Result<PlacedEntry, Failure>> {
    let merge = Merge { places, requests, prefix, recursive, after, by: None, entries: None, last: None };
    stream::try_unfold(
        merge,
        |mut merge| async move { Ok(merge.next().await?.map(|listed| (listed, merge))) },
    )
    .boxed()
}

/// The listings of all prefixes, merged into one.
///
/// The record is checked after each fetch and before the entry is returned. If the layout has changed, an object may
/// have moved from a place that the listing has not reached to one that it has passed. Then all prefixes are listed
/// again by the new record, and entries up to the last key returned are skipped. Entries that were already returned
/// stay valid, because nothing is removed from a place before every client has had time to see the change.
struct Merge {
    places: Arc<Places>,
    requests: Arc<Requests>,
    prefix: String,
    recursive: bool,
    /// Entries up to this key are not needed.
    after: Option<String>,
    /// The record that the listing uses.
    by: Option<Known>,
    entries: Option<Entries>,
    /// The key returned last, and whether it is a prefix.
    last: Option<(String, bool)>,
}

type Entries = MergeStream<One, fn(&PlacedEntry, &PlacedEntry) -> Ordering>;

/// The listing of one prefix.
type One = BoxStream<'static, Result<PlacedEntry, Failure>>;

impl Merge {
    async fn next(&mut self) -> Result<Option<PlacedEntry>, Failure> {
        loop {
            let next = match &mut self.entries {
                Some(entries) => entries.try_next().await.map_err(|ended| ended.error)?,
                None => None,
            };
            let now = self.places.look(self.places.refresh()).await?;
            if !self.by.is_some_and(|by| by.lists_as(&now)) {
                self.begin(now).await?;
                continue;
            }
            let Some(Merged { item: listed, .. }) = next else { return Ok(None) };
            let (key, is_prefix) = listed.key();
            if self.last.as_ref().is_none_or(|last| (&*last.0, last.1) < (key, is_prefix)) {
                self.last = Some((key.to_owned(), is_prefix));
                return Ok(Some(listed));
            }
        }
    }

    /// Starts to list all prefixes, by this record.
    async fn begin(&mut self, by: Known) -> Result<(), Failure> {
        // Drop the old listing first, so that two pages of each prefix are never held at once.
        self.entries = None;
        let (places, requests) = (self.places.clone(), self.requests.clone());
        let (prefix, recursive) = (self.prefix.clone(), self.recursive);
        // A store may leave out a prefix that it is asked to begin behind, also where the last key was an object's.
        let last = self.last.as_ref().filter(|_| self.recursive).map(|(key, _)| key);
        let after = last.or(self.after.as_ref()).cloned();
        let begun = stream::iter(names(by.record))
            .map(|name| {
                begun(one(&places, &requests, by.record, &name, &prefix, recursive, after.as_deref()))
            })
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |begun| Ok(begun));
        let begun: Vec<One> = begun.try_collect().await?;
        self.entries = Some(MergeStream::new(begun, PlacedEntry::order));
        self.by = Some(by);
        Ok(())
    }
}

/// The listing with its first entry fetched. `None` if it is empty; its memory is freed then.
async fn begun(mut listing: One) -> Result<Option<One>, Failure> {
    let first = listing.try_next().await?;
    Ok(first.map(|first| stream::iter([Ok(first)]).chain(listing).boxed()))
}

/// The names of the prefixes of both layouts, each once.
fn names(record: LayoutRecord) -> impl Iterator<Item = String> + Send {
    let LayoutRecord { current, older, .. } = record;
    let older = older.into_iter().flat_map(Layout::names).filter(move |name| !current.has(name));
    current.names().chain(older)
}

/// The entries below one prefix whose keys belong there.
fn one(
    places: &Arc<Places>,
    requests: &Arc<Requests>,
    record: LayoutRecord,
    name: &str,
    prefix: &str,
    recursive: bool,
    after: Option<&str>,
) -> One {
    let below = format!("{}{name}/", places.root());
    let (of_current, of_older) = {
        let (name, older) = (name.to_owned(), record.older);
        let current = name.clone();
        (
            move |key: &str| record.current.name(key) == current,
            move |key: &str| older.is_some_and(|older| older.name(key) == name),
        )
    };
    let (prefix, after) = (format!("{below}{prefix}"), after.map(|after| format!("{below}{after}")));
    let entries = listing::entries(requests, places.backend(), &prefix, recursive, after.as_deref());
    let listed = move |entry| {
        Some(match entry {
            Entry::Object(mut object) => {
                object.key = object.key.strip_prefix(&below)?.to_owned();
                let is_current = of_current(&object.key);
                if !is_current && !of_older(&object.key) {
                    return None;
                }
                PlacedEntry { entry: Entry::Object(object), is_older: !is_current }
            }
            Entry::Prefix(prefix) => {
                let prefix = prefix.strip_prefix(&below)?.to_owned();
                PlacedEntry { entry: Entry::Prefix(prefix), is_older: false }
            }
            // Tidegate writes only files below a prefix.
            Entry::Other { .. } => return None,
        })
    };
    entries.try_filter_map(move |entry| std::future::ready(Ok(listed(entry)))).boxed()
}

impl PlacedEntry {
    /// The key, and whether it is a prefix.
    fn key(&self) -> (&str, bool) {
        match &self.entry {
            Entry::Object(object) => (&object.key, false),
            Entry::Prefix(prefix) => (prefix, true),
            Entry::Other { key, .. } => (key, false),
        }
    }
    /// By key; for equal keys the current object before the older one.
    fn order(&self, other: &Self) -> Ordering {
        (self.key(), self.is_older).cmp(&(other.key(), other.is_older))
    }
}
