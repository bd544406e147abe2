//! Keys spread over prefixes, for stores that limit the requests to each prefix.
//!
//! `<root>/<key>` becomes `<root>/<hash>/<key>`. docs/PREFIXES.md specifies the hash, the names of the prefixes, and
//! the record that the store keeps of them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::api::Store;
use crate::types::error::{Error, ErrorKind, Operation, Result};

mod layer;
mod layout;
mod list;
mod migrate;
mod places;
mod record;
#[cfg(test)]
mod tests;

pub use layout::{Layout, Naming};
pub(crate) use list::list;
pub use migrate::Migrated;
pub(crate) use places::Places;

use layer::Spread;
use places::Known;
use record::LayoutRecord;

/// A store whose keys are spread over prefixes. A clone is the same store.
///
/// The layout is recorded in the store, so that all clients agree. Each client reads the record again once its copy
/// is older than [`REFRESH`](Self::REFRESH); that costs one listing request. While an older layout is in use, an
/// object is looked for at its current place, then at its older one.
///
/// It derefs to a [`Store`] of the keys, which differs from other stores in this:
/// - [`Store::head`] takes up to three requests while an older layout is in use, and [`Store::delete`] removes
///   the object at all its places.
/// - If the layout changes during an upload in parts, publishing the object fails with [`ErrorKind::SessionLost`],
///   because nobody would look for it at its old place. `create_only` holds across both layouts. A write that replaces
///   an object which is not [moved](Self::migrate) yet fails with [`ErrorKind::Unsupported`].
/// - [`Store::list`] lists all prefixes as one, in key order, and all at the same time. So the first entry takes at
///   least one request for each prefix, 64 at a time, and the listing holds a page of entries for each prefix (1,000 on
///   S3, about 800 bytes per entry). It misses no object that is [moved](Self::migrate) meanwhile: if the layout
///   changes, it lists all prefixes again and continues after the last key that it returned.
/// - Operations on places instead of keys (unfinished uploads, lifecycle rules) are refused: use the root's own store.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate::prefix::{Layout, Naming, PrefixedStore};
/// use tidegate::Tidegate;
/// let tide = Tidegate::builder().build()?;
/// let root = tide.open("memory://demo/tables").await?;
/// let store = PrefixedStore::init(&root, Layout::new(Naming::Base2, 64)?).await?;
/// let mut writer = store.writer("t/part-0").create_only().await?;
/// writer.write_bytes("some bytes".into()).await?;
/// writer.finish().await?; // it is tables/011110/t/part-0 in the store
/// assert_eq!(store.head("t/part-0").await?.size, 10);
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrefixedStore {
    store: Store,
    places: Arc<Places>,
}

impl PrefixedStore {
    /// Longest time that a client uses its copy of the record: all clients see a change of the layout within this
    /// time.
    pub const REFRESH: Duration = Duration::from_secs(30);

    /// Opens the root `store`, whose layout was recorded by [`init`](Self::init).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no layout is recorded; [`ErrorKind::Unsupported`] if a newer version recorded it in
    /// a format that this version does not know; [`ErrorKind::InvalidInput`] if the record is damaged.
    pub async fn open(store: &Store) -> Result<Self> {
        Self::open_with(store, Self::REFRESH).await
    }

    /// As [`open`](Self::open), with another limit than [`REFRESH`](Self::REFRESH) for the age of the client's copy
    /// of the record. With zero, every request and every entry of a listing first asks the store. A
    /// [migration](Self::migrate) must wait for the slowest client.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn open_with(store: &Store, refresh: Duration) -> Result<Self> {
        refuse_spread(store, "is opened")?;
        let places = Places::open(store, refresh).await?;
        Ok(Self::of(places.ok_or_else(|| places::no_record(store))?))
    }

    /// Records the layout of the root `store`, which has none yet. Succeeds if the same layout is already recorded,
    /// by anyone. Existing objects below the root stay where they are: those at the places that the layout gives
    /// their keys can be read from now on, others cannot.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if another layout is recorded; those of [`open`](Self::open).
    pub async fn init(store: &Store, layout: Layout) -> Result<Self> {
        refuse_spread(store, "is set up")?;
        let is_ours = places::create(store, 1, LayoutRecord::new(layout)).await?;
        let prefixed = Self::open(store).await?;
        let found = prefixed.places.record();
        if is_ours || found.current == layout {
            return Ok(prefixed);
        }
        let message = format!(
            "its keys are spread over {} already: to change that, run `tidegate prefix migrate` with the new count",
            found.current
        );
        Err(Error::new(ErrorKind::InvalidInput, Operation::Layout, store.location(), message))
    }

    fn of(places: Places) -> Self {
        let places = Arc::new(places);
        let context = places.store().context();
        let context = context.spread(places.clone(), Arc::new(Spread::new(places.clone())));
        let store = places.store().with(context);
        Self { store, places }
    }

    /// The layout that writes use, as last read from the record.
    pub fn layout(&self) -> Layout {
        self.places.record().current
    }

    /// The previous layout, while a [migration](Self::migrate) still has work to do: objects to move, old copies to
    /// remove, or removals that may be in flight.
    pub fn older(&self) -> Option<Layout> {
        self.places.record().before()
    }

    /// The key below the root that `key` is written to: `010110/KEY`.
    pub fn place(&self, key: &str) -> String {
        format!("{}/{key}", self.layout().name(key))
    }

    /// The same as a [`Store`], for code that takes one.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Records another layout, which writes use from now on. Objects stay where they are until they are
    /// [moved](Self::migrate). Other clients see the change within [`REFRESH`](Self::REFRESH). Until then, do not
    /// overwrite one key from several clients: an object written by a client that has not seen the change counts as
    /// the older one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] while the previous change is not fully migrated, and if someone else changes the
    /// layout at the same time.
    pub async fn change(&self, layout: Layout) -> Result<()> {
        let Known { number, record, .. } = self.places.latest().await?;
        let refused = |message: String| {
            Err(Error::new(ErrorKind::InvalidInput, Operation::Layout, self.location(), message))
        };
        if record.current == layout {
            return Ok(());
        }
        if let Some(before) = record.before() {
            return refused(format!(
                "objects are still being moved from {before} to {}: run `tidegate prefix migrate` first, which moves \
                 the rest",
                record.current
            ));
        }
        let changed = LayoutRecord { older: Some(record.current), ..LayoutRecord::new(layout) };
        if !self.places.succeed(number + 1, changed).await? {
            let record = self.places.latest().await?.record;
            if record.current != layout {
                return refused(format!(
                    "somebody else has spread its keys over {} meanwhile",
                    record.current
                ));
            }
        }
        Ok(())
    }
}

impl Deref for PrefixedStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// A layout inside a spread store would not be found by clients that open the root.
fn refuse_spread(store: &Store, what: &str) -> Result<()> {
    if store.context().keys().is_none() {
        return Ok(());
    }
    let message = format!("a layout {what} on the root's own store, and this one's keys are spread already");
    Err(Error::new(ErrorKind::InvalidInput, Operation::Layout, store.location(), message))
}
