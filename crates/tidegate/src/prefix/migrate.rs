//! Moving objects from where the older layout has them to where the current one does.
//!
//! In two steps, with a record in between, so that whoever looks finds every object at any time: all objects
//! are copied, then the record says that nobody need look at the older places, and only then are those emptied.
//! Each step may be cut off and gone on with by anybody, also by two at once.

use std::future::ready;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::PrefixedStore;
use super::layout::Layout;
use super::list::{Listed, listed};
use super::places::Place;
use super::record::Record;
use crate::backend::Entry;
use crate::client::Store;
use crate::error::{ErrorKind, Result};
use crate::object::Object;

/// Objects that are moved, and prefixes that are listed, at once.
const MOVES: usize = 16;
/// Objects that are removed at once.
const REMOVALS: usize = 64;

/// What a migration has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// Objects that were copied to where the current layout has them.
    pub moved: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were removed from where the older layout had them.
    pub removed: u64,
}

impl Migrated {
    /// Takes in one pass of moves; how many objects there were to be moved.
    async fn moved_all(&mut self, mut moves: BoxStream<'static, Result<Option<Object>>>) -> Result<u64> {
        let mut found = 0;
        while let Some(moved) = moves.try_next().await? {
            found += 1;
            if let Some(object) = moved {
                self.moved += 1;
                self.bytes += object.size;
            }
        }
        Ok(found)
    }
}

impl PrefixedStore {
    /// Moves all objects from where the older layout has them to where the current one does, and records that
    /// the older one is no more. Where there is none it does nothing.
    ///
    /// It may run beside readers and writers. Before objects are copied, and again before what they were copied
    /// from is removed, it waits for `notice`: until then clients may go by the record before. Give it twice
    /// what they [refresh](Self::open_with) after, or nothing where there are no others. What is written
    /// meanwhile stays as it is. Dropping the future leaves the rest to the next call.
    ///
    /// One thing may be undone: an object that is deleted during the request that publishes its copy may be there
    /// again.
    ///
    /// # Errors
    /// The first of any request ends it.
    pub async fn migrate(&self, notice: Duration) -> Result<Migrated> {
        let mut done = Migrated::default();
        loop {
            let (number, record) = self.places.latest().await?;
            let Some(before) = record.before() else { return Ok(done) };
            tokio::time::sleep(notice).await;
            let next = if record.older.is_some() {
                while done.moved_all(self.moves()).await? > 0 {}
                Record { emptying: Some(before), ..Record::new(record.current) }
            } else {
                let mut removals = self.removals(record, before);
                while removals.try_next().await?.is_some() {
                    done.removed += 1;
                }
                Record::new(record.current)
            };
            // Where somebody else was first with the same, it is gone on with from there.
            self.places.succeed(number + 1, next).await?;
        }
    }

    /// Moves each object that is only where the older layout has it: the copy, where one was made.
    pub(super) fn moves(&self) -> BoxStream<'static, Result<Option<Object>>> {
        let older = listed(self.places.clone(), String::new(), true).try_filter_map(|listed| {
            ready(Ok(match listed {
                Listed { entry: Entry::Object(object), is_older: true } => Some(object.key),
                _ => None,
            }))
        });
        let (places, whole) = (self.places.clone(), self.places.whole());
        let moves = older.map(move |key| {
            let (places, whole) = (places.clone(), whole.clone());
            async move {
                let key = key.map_err(|fault| places.listing_failed(fault))?;
                match places.by(places.record(), &key) {
                    Place { current, older: Some(older), .. } => move_object(&whole, &older, &current).await,
                    // Somebody else has moved them all by now.
                    Place { older: None, .. } => Ok(None),
                }
            }
        });
        moves.buffer_unordered(MOVES).boxed()
    }

    /// Removes what is left where the layout `before` has it and the current one does not.
    fn removals(&self, record: Record, before: Layout) -> BoxStream<'static, Result<()>> {
        let root = self.places.store().clone();
        let below = root.clone();
        let left = stream::iter(before.names())
            .flat_map_unordered(MOVES, move |name| below.list(&format!("{name}/"), true))
            .try_filter_map(move |entry| {
                ready(Ok(match entry {
                    Entry::Object(object) => Some(object.key).filter(|place| {
                        let (name, key) = place.split_once('/').unwrap_or_default();
                        before.name(key) == name && record.current.name(key) != name
                    }),
                    Entry::Prefix(_) => None,
                }))
            });
        let removals = left.map(move |place| {
            let root = root.clone();
            async move { root.delete(&place?).await }
        });
        removals.buffer_unordered(REMOVALS).boxed()
    }
}

/// Copies the object at `from` to `to`, whole keys of `store`, with what it carries, where there is none yet; its
/// size and checksum are compared. `None` where there is one, or `from` is gone or another by now.
async fn move_object(store: &Store, from: &str, to: &str) -> Result<Option<Object>> {
    let or_none = |error: crate::Error, kinds: &[ErrorKind]| {
        if kinds.contains(&error.kind()) { Ok(None) } else { Err(error) }
    };
    let capabilities = store.backend().capabilities();
    let found = match store.head(from).await {
        Ok(found) => found,
        Err(error) => return or_none(error, &[ErrorKind::NotFound]),
    };
    if capabilities.create_only_copy && found.size <= capabilities.max_copy {
        return match store.copy(from, store, to).create_only().run().await {
            Ok(copied) => Ok(Some(copied)),
            Err(error) => {
                or_none(error, &[ErrorKind::NotFound, ErrorKind::Replaced, ErrorKind::AlreadyExists])
            }
        };
    }
    let mut reader = match store.reader(from).start().await {
        Ok(reader) => reader,
        Err(error) => return or_none(error, &[ErrorKind::NotFound]),
    };
    let object = reader.object().clone();
    let mut attributes = object.attributes.clone();
    attributes.tags = crate::copy::tags(store, from, &store.engine().progress).await?;
    let writer = store.writer(to).create_only().attributes(attributes).size_hint(object.size);
    let mut writer = writer.start().await?;
    writer.read_from(&mut reader).await?;
    // Deleted meanwhile, it must not come back.
    match store.head(from).await {
        Ok(now) if now.is_same(&object) => {}
        Ok(_) => return Ok(None),
        Err(error) => return or_none(error, &[ErrorKind::NotFound]),
    }
    match writer.finish().await {
        Ok(moved) => Ok(Some(moved)),
        Err(error) => or_none(error, &[ErrorKind::AlreadyExists]),
    }
}
