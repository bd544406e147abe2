//! A listing of all prefixes as one, in key order.

use std::cmp::Ordering;
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::layout::Layout;
use super::places::{Known, Places};
use super::record::Record;
use crate::api::merge::{MergeStream, Merged};
use crate::backend::Entry;
use crate::engine::KeyMap as _;
use crate::engine::listing;
use crate::engine::request::{Failure, Requests};

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
    requests: Arc<Requests>,
    prefix: String,
    recursive: bool,
) -> BoxStream<'static, Result<Entry, Failure>> {
    listed(places, requests, prefix, recursive).map_ok(|listed| listed.entry).boxed()
}

/// As [`list`]; each entry with what else is known of it.
pub(super) fn listed(
    places: Arc<Places>,
    requests: Arc<Requests>,
    prefix: String,
    recursive: bool,
) -> BoxStream<'static, Result<Listed, Failure>> {
    let merge = Merge { places, requests, prefix, recursive, by: None, entries: None, last: None };
    stream::try_unfold(
        merge,
        |mut merge| async move { Ok(merge.next().await?.map(|listed| (listed, merge))) },
    )
    .boxed()
}

/// The listings of all prefixes as one.
///
/// The record is looked at after whatever was fetched and before that is gone by. Where it has moved on, an
/// object may have come to where the listing has been already, and be gone from where it would be yet: all begins
/// again by the new record, behind what was given last. What was given is right all the same, for nothing is
/// removed from a place before every client has had time to see that.
struct Merge {
    places: Arc<Places>,
    requests: Arc<Requests>,
    prefix: String,
    recursive: bool,
    /// The record that it goes by.
    by: Option<Known>,
    entries: Option<Entries>,
    /// What was given last.
    last: Option<(String, bool)>,
}

type Entries = MergeStream<One, fn(&Listed, &Listed) -> Ordering>;

/// The listing of one prefix.
type One = BoxStream<'static, Result<Listed, Failure>>;

impl Merge {
    async fn next(&mut self) -> Result<Option<Listed>, Failure> {
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

    /// Lists all prefixes from their beginning, by this record.
    async fn begin(&mut self, by: Known) -> Result<(), Failure> {
        // Two pages of each prefix are not held at once.
        self.entries = None;
        let (places, requests) = (self.places.clone(), self.requests.clone());
        let (prefix, recursive) = (self.prefix.clone(), self.recursive);
        let begun = stream::iter(names(by.record))
            .map(|name| begun(one(&places, &requests, by.record, &name, &prefix, recursive)))
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |begun| Ok(begun));
        let begun: Vec<One> = begun.try_collect().await?;
        self.entries = Some(MergeStream::new(begun, Listed::order));
        self.by = Some(by);
        Ok(())
    }
}

/// The listing, its first entry fetched. `None` where nothing is left: it ends with that, and what it holds.
async fn begun(mut listing: One) -> Result<Option<One>, Failure> {
    let first = listing.try_next().await?;
    Ok(first.map(|first| stream::iter([Ok(first)]).chain(listing).boxed()))
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
    requests: &Arc<Requests>,
    record: Record,
    name: &str,
    prefix: &str,
    recursive: bool,
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
    let entries = listing::entries(requests, places.backend(), &format!("{below}{prefix}"), recursive);
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
            // Tidegate puts only files below a prefix.
            Entry::Other { .. } => return None,
        })
    };
    entries.try_filter_map(move |entry| std::future::ready(Ok(listed(entry)))).boxed()
}

impl Listed {
    /// Its key, and whether it is a prefix.
    fn key(&self) -> (&str, bool) {
        match &self.entry {
            Entry::Object(object) => (&object.key, false),
            Entry::Prefix(prefix) => (prefix, true),
            Entry::Other { key, .. } => (key, false),
        }
    }
    /// By key; of one key the current object before the older one.
    fn order(&self, other: &Self) -> Ordering {
        (self.key(), self.is_older).cmp(&(other.key(), other.is_older))
    }
}
