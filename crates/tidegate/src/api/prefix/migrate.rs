//! Moves objects from the places of the older layout to those of the current one.
//!
//! A migration works in steps, with a record after each, so that every object can be found at any time. First all
//! objects are copied. Then a record says that nobody needs the older places any more, and only then are those
//! emptied. The older places may be used again only after delayed removals have had time to end. Each step may be
//! interrupted and resumed by anybody, also by two at once; a delayed migration stops when the record has changed.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::PrefixedStore;
use super::layout::Layout;
use super::list::{PlacedEntry, listed};
use super::places::{Known, ObjectPlaces, Places};
use super::record::LayoutRecord;
use crate::api::Store;
use crate::backend::Entry;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// Objects that are moved, and prefixes that are listed, at the same time.
const MOVES: usize = 16;
/// Removals in flight.
const REMOVALS: usize = 64;
/// Longest age of the record when an object is removed or copied.
const LOOK: Duration = Duration::from_secs(1);

/// The work that a migration has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// Objects that were copied to their current places.
    pub moved: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Objects that were removed from their older places.
    pub removed: u64,
}

impl Migrated {
    /// Runs one pass of moves and counts it. Returns how many objects the pass found to move.
    pub(super) async fn moved_all(
        &mut self,
        mut moves: BoxStream<'static, Result<Option<Object>>>,
    ) -> Result<u64> {
        let mut found = 0;
        while let Some(moved) = moves.try_next().await? {
            found += 1;
            if let Some(object) = moved {
                self.moved += 1;
                self.bytes = self.bytes.saturating_add(object.size);
            }
        }
        Ok(found)
    }
}

impl PrefixedStore {
    /// Moves all objects from their older places to the current ones, and records that the older layout is gone. Does
    /// nothing if there is no older layout.
    ///
    /// Other readers, writers and migrations may run at the same time. Three times the migration waits for `notice`:
    /// before it copies objects, before it removes the originals, and before the layout may be changed again. During
    /// that time other clients, and delayed migrations, may still use the previous record. Pass twice their
    /// [refresh](Self::open_with) interval, or zero if there are none. Objects that are written meanwhile stay as
    /// they are. Dropping the future leaves the rest of the work to the next call.
    ///
    /// Known limit: an object that is deleted during the request that publishes its copy may reappear.
    ///
    /// # Errors
    /// The first error of any request ends the migration.
    pub async fn migrate(&self, notice: Duration) -> Result<Migrated> {
        let mut done = Migrated::default();
        loop {
            let Known { number, record, .. } = self.places.latest().await?;
            let Some(before) = record.before() else { return Ok(done) };
            tokio::time::sleep(notice).await;
            let step = MigrationStep { places: self.places.clone(), number, record };
            let next = if record.older.is_some() {
                while step.is_due().await? && done.moved_all(step.moves()).await? > 0 {}
                LayoutRecord { emptying: Some(before), ..LayoutRecord::new(record.current) }
            } else if record.emptying.is_some() {
                let mut removals = step.removals(before);
                while removals.try_next().await? == Some(true) {
                    done.removed += 1;
                }
                LayoutRecord { emptied: Some(before), ..LayoutRecord::new(record.current) }
            } else {
                LayoutRecord::new(record.current)
            };
            // If somebody else recorded this step first, continue from that record.
            self.places.succeed(number + 1, next).await?;
        }
    }
}

/// Work that may be done only while one record is in force. A delayed migration must stop under another layout, where
/// it would do harm.
#[derive(Clone, Debug)]
pub(super) struct MigrationStep {
    pub(super) places: Arc<Places>,
    pub(super) number: u64,
    pub(super) record: LayoutRecord,
}

impl MigrationStep {
    /// Whether this step's record is still in force.
    async fn is_due(&self) -> Result<bool> {
        match self.places.look(LOOK).await {
            Ok(now) => Ok(now.number == self.number),
            Err(failure) => Err(failure.into_error(Operation::Layout, &self.places.store().location())),
        }
    }

    /// Moves each object that is only at its older place. Gives the copy, or `None` if none was made.
    pub(super) fn moves(&self) -> BoxStream<'static, Result<Option<Object>>> {
        let requests = self.places.store().context().list_requests("");
        let older = listed(self.places.clone(), requests.clone(), String::new(), true, None);
        let older = older.try_filter_map(|listed| {
            ready(Ok(match listed {
                PlacedEntry { entry: Entry::Object(object), is_older: true } => Some(object),
                _ => None,
            }))
        });
        let (step, whole) = (self.clone(), self.places.whole());
        let moves = older.map(move |object| {
            let (step, whole, requests) = (step.clone(), whole.clone(), requests.clone());
            async move {
                let object =
                    object.map_err(|failure| failure.into_error(Operation::List, &requests.object))?;
                // An object of unknown size may be larger than one copy request allows.
                let (size, key) = (object.known_size().unwrap_or(u64::MAX), object.key);
                match step.places.by(step.record, &key) {
                    ObjectPlaces { current, older: Some(older), .. } => {
                        move_object(&whole, &older, &current, size, &step).await
                    }
                    // A later record lists it, and there is no older place.
                    ObjectPlaces { older: None, .. } => Ok(None),
                }
            }
        });
        moves.buffer_unordered(MOVES).boxed()
    }

    /// Removes what is left at places of the layout `before` that the current layout does not use. Gives `false` for
    /// an object that stays because another record is in force.
    fn removals(&self, before: Layout) -> BoxStream<'static, Result<bool>> {
        let (below, current) = (self.places.store().clone(), self.record.current);
        let left = stream::iter(before.names())
            .flat_map_unordered(MOVES, move |name| below.list(format!("{name}/")))
            .try_filter_map(move |entry| {
                ready(Ok(match entry {
                    Entry::Object(object) => Some(object.key).filter(|place| {
                        let (name, key) = place.split_once('/').unwrap_or_default();
                        before.name(key) == name && current.name(key) != name
                    }),
                    Entry::Prefix(_) | Entry::Other { .. } => None,
                }))
            });
        let step = self.clone();
        let removals = left.map(move |place| {
            let step = step.clone();
            async move { step.remove(&place?).await }
        });
        removals.buffer_unordered(REMOVALS).boxed()
    }

    /// Removes the object at `place`, a key of the root's own store. Checks the record before each attempt, because
    /// stores cannot make a removal depend on a condition.
    async fn remove(&self, place: &str) -> Result<bool> {
        let store = self.places.store();
        let full = store.context().full_key(place);
        let full = &full;
        let remove = |attempt| async move {
            let is_due = self.places.known_within(LOOK, attempt).await?.number == self.number;
            if is_due {
                store.context().backend().delete(full, None, attempt).await?;
            }
            Ok(is_due)
        };
        let requests =
            self.places.whole().context().requests(full, store.context().engine().progress.clone());
        let removed = requests.send(Operation::Delete, None, None, remove).await;
        removed.map_err(|failure| failure.into_error(Operation::Delete, &store.context().url(place)))
    }
}

/// Copies the object of `size` bytes at `from` to `to`, both whole keys of `store`, with its attributes, if `to` is
/// empty; compares size and checksum. `None` if `to` has an object, if `from` is gone or was replaced, or if `step`
/// is no longer in force, because then nobody may look at `to`.
async fn move_object(
    store: &Store,
    from: &str,
    to: &str,
    size: u64,
    step: &MigrationStep,
) -> Result<Option<Object>> {
    let or_none = |error: crate::Error, kinds: &[ErrorKind]| {
        if kinds.contains(&error.kind()) { Ok(None) } else { Err(error) }
    };
    let capabilities = store.context().backend().capabilities();
    if capabilities.create_only_copy && size <= capabilities.max_copy {
        let found = match store.head(from).await {
            Ok(found) => found,
            Err(error) => return or_none(error, &[ErrorKind::NotFound]),
        };
        // No request comes between this check and the copy request.
        if !step.is_due().await? {
            return Ok(None);
        }
        return match store.copy(from, store, to).described(found).create_only().run().await {
            Ok(copied) => Ok(Some(copied)),
            Err(error) => {
                or_none(error, &[ErrorKind::NotFound, ErrorKind::Replaced, ErrorKind::AlreadyExists])
            }
        };
    }
    if !step.is_due().await? {
        return Ok(None);
    }
    let mut reader = match store.reader(from).start().await {
        Ok(reader) => reader,
        Err(error) => return or_none(error, &[ErrorKind::NotFound]),
    };
    let object = reader.object().clone();
    let mut attributes = object.attributes.clone();
    attributes.tags = store.context().tags(from, Operation::Copy, &store.context().engine().progress).await?;
    let writer = store.writer(to).create_only().attributes(attributes).size_hint(object.size);
    let mut writer = writer.start().await?;
    writer.read_from(&mut reader).await?;
    if !step.is_due().await? {
        return Ok(None);
    }
    // If the object was deleted meanwhile, it must not reappear.
    match store.head(from).await {
        Ok(now) if now.is_same(&object) => {}
        Ok(now) if !now.has_identity() => {
            let message = "the store gives neither an ETag nor a version, so nothing tells whether the object is still \
                           the one that was read";
            return Err(Error::new(
                ErrorKind::Unsupported,
                Operation::Layout,
                store.context().url(from),
                message,
            ));
        }
        Ok(_) => return Ok(None),
        Err(error) => return or_none(error, &[ErrorKind::NotFound]),
    }
    match writer.finish().await {
        Ok(moved) => Ok(Some(moved)),
        Err(error) => or_none(error, &[ErrorKind::AlreadyExists]),
    }
}
