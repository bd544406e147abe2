//! Moving objects from where the older layout has them to where the current one does.
//!
//! In steps, with a record after each, so that whoever looks finds every object at any time: all objects are
//! copied, then the record says that nobody need look at the older places, and only then are those emptied. Only
//! when whoever was removing there has had time to end may they be used again. Each step may be cut off and gone on
//! with by anybody, also by two at once; one who was held up stops when the record is another.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::PrefixedStore;
use super::layout::Layout;
use super::list::{Listed, listed};
use super::places::{Known, Place, Places};
use super::record::Record;
use crate::api::Store;
use crate::backend::Entry;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;

/// Objects that are moved, and prefixes that are listed, at once.
const MOVES: usize = 16;
/// Objects that are removed at once.
const REMOVALS: usize = 64;
/// How old what is known of the record may be when something is removed or copied.
const LOOK: Duration = Duration::from_secs(1);

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
    /// Moves all objects from where the older layout has them to where the current one does, and records that
    /// the older one is no more. Where there is none it does nothing.
    ///
    /// It may run beside readers and writers, and beside itself. Before objects are copied, again before what they
    /// were copied from is removed, and once more before the layout may be changed again, it waits for `notice`:
    /// until then clients, and migrations that were held up, may go by the record before. Give it twice what they
    /// [refresh](Self::open_with) after, or nothing where there are no others. What is written meanwhile stays as
    /// it is. Dropping the future leaves the rest to the next call.
    ///
    /// One thing may be undone: an object that is deleted during the request that publishes its copy may be there
    /// again.
    ///
    /// # Errors
    /// The first of any request ends it.
    pub async fn migrate(&self, notice: Duration) -> Result<Migrated> {
        let mut done = Migrated::default();
        loop {
            let Known { number, record, .. } = self.places.latest().await?;
            let Some(before) = record.before() else { return Ok(done) };
            tokio::time::sleep(notice).await;
            let step = Step { places: self.places.clone(), number, record };
            let next = if record.older.is_some() {
                while step.is_due().await? && done.moved_all(step.moves()).await? > 0 {}
                Record { emptying: Some(before), ..Record::new(record.current) }
            } else if record.emptying.is_some() {
                let mut removals = step.removals(before);
                while removals.try_next().await? == Some(true) {
                    done.removed += 1;
                }
                Record { emptied: Some(before), ..Record::new(record.current) }
            } else {
                Record::new(record.current)
            };
            // Where somebody else was first, it is gone on with from there.
            self.places.succeed(number + 1, next).await?;
        }
    }
}

/// What is done while one record is in force, and no longer: whoever was held up finds another layout, and
/// would do harm there.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) places: Arc<Places>,
    pub(super) number: u64,
    pub(super) record: Record,
}

impl Step {
    /// Whether its record is in force.
    async fn is_due(&self) -> Result<bool> {
        match self.places.look(LOOK).await {
            Ok(now) => Ok(now.number == self.number),
            Err(failure) => Err(failure.into_error(Operation::Layout, &self.places.store().location())),
        }
    }

    /// Moves each object that is only where the older layout has it: the copy, where one was made.
    pub(super) fn moves(&self) -> BoxStream<'static, Result<Option<Object>>> {
        let requests = self.places.store().context().list_requests("");
        let older = listed(self.places.clone(), requests.clone(), String::new(), true);
        let older = older.try_filter_map(|listed| {
            ready(Ok(match listed {
                Listed { entry: Entry::Object(object), is_older: true } => Some(object),
                _ => None,
            }))
        });
        let (step, whole) = (self.clone(), self.places.whole());
        let moves = older.map(move |object| {
            let (step, whole, requests) = (step.clone(), whole.clone(), requests.clone());
            async move {
                let object =
                    object.map_err(|failure| failure.into_error(Operation::List, &requests.object))?;
                // Without a size it may be larger than what is copied in one request.
                let (size, key) = (object.known_size().unwrap_or(u64::MAX), object.key);
                match step.places.by(step.record, &key) {
                    Place { current, older: Some(older), .. } => {
                        move_object(&whole, &older, &current, size, &step).await
                    }
                    // It is listed by a later record.
                    Place { older: None, .. } => Ok(None),
                }
            }
        });
        moves.buffer_unordered(MOVES).boxed()
    }

    /// Removes what is left where the layout `before` has it and the current one does not. `false` for what
    /// stays since another record is in force.
    fn removals(&self, before: Layout) -> BoxStream<'static, Result<bool>> {
        let (below, current) = (self.places.store().clone(), self.record.current);
        let left = stream::iter(before.names())
            .flat_map_unordered(MOVES, move |name| below.list(&format!("{name}/"), true))
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

    /// Removes the object at `place`, a key of the root's own store. The record is looked at before each attempt,
    /// for stores have no condition that a removal could be bound to.
    async fn remove(&self, place: &str) -> Result<bool> {
        let store = self.places.store();
        let full = store.context().full_key(place);
        let attempt = || async {
            let is_due = self.places.known_within(LOOK).await?.number == self.number;
            if is_due {
                store.context().backend().delete(&full).await?;
            }
            Ok(is_due)
        };
        let requests =
            self.places.whole().context().requests(&full, store.context().engine().progress.clone());
        let removed = requests.send(Operation::Delete, None, None, attempt).await;
        removed.map_err(|failure| failure.into_error(Operation::Delete, &store.context().url(place)))
    }
}

/// Copies the object of `size` bytes at `from` to `to`, whole keys of `store`, with what it carries, where there is
/// none yet; its size and checksum are compared. `None` where there is one, where `from` is gone or another by now,
/// and where `step` is over: nobody may look at `to` any more.
async fn move_object(store: &Store, from: &str, to: &str, size: u64, step: &Step) -> Result<Option<Object>> {
    let or_none = |error: crate::Error, kinds: &[ErrorKind]| {
        if kinds.contains(&error.kind()) { Ok(None) } else { Err(error) }
    };
    let capabilities = store.context().backend().capabilities();
    if capabilities.create_only_copy && size <= capabilities.max_copy {
        let found = match store.head(from).await {
            Ok(found) => found,
            Err(error) => return or_none(error, &[ErrorKind::NotFound]),
        };
        // Between this look and the request that copies there is no other.
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
    attributes.tags = store.context().tags(from, &store.context().engine().progress).await?;
    let writer = store.writer(to).create_only().attributes(attributes).size_hint(object.size);
    let mut writer = writer.start().await?;
    writer.read_from(&mut reader).await?;
    if !step.is_due().await? {
        return Ok(None);
    }
    // Deleted meanwhile, it must not come back.
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
