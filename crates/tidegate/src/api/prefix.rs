//! Keys spread over prefixes, for stores that limit how many requests each prefix takes.
//!
//! `<root>/<key>` becomes `<root>/<hash>/<key>`. Which hash, how prefixes are named, and what a store keeps of
//! it is specified in docs/PREFIXES.md.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;

use crate::api::Store;
use crate::backend::Entry;
use crate::download::ReaderBuilder;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::upload::WriterBuilder;

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
use record::Record;

/// A store whose keys are spread over prefixes. A clone is the same store.
///
/// The layout is recorded in the store, so that every client agrees; each reads it again once it is older than
/// [`REFRESH`](Self::REFRESH), with one request for a listing. While there is an older layout an object is looked
/// for where the current one has it, then where the older one has it.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate::{Layout, Naming, PrefixedStore, Tidegate};
/// let tide = Tidegate::builder().build()?;
/// let root = tide.open("memory://demo/tables").await?;
/// let store = PrefixedStore::init(&root, Layout::new(Naming::Base2, 64)?).await?;
/// let mut writer = store.writer("t/part-0").create_only().start().await?;
/// writer.write("some bytes".into()).await?;
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
    /// How old what a client knows of the layout may be: within this every client sees a change.
    pub const REFRESH: Duration = Duration::from_secs(30);

    /// Opens the root `store`, whose layout was [set](Self::init) before.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where no layout is recorded; [`ErrorKind::Unsupported`] where it was recorded by a
    /// newer version, in a way that this one does not know; [`ErrorKind::InvalidInput`] where the record is damaged.
    pub async fn open(store: &Store) -> Result<Self> {
        Self::open_with(store, Self::REFRESH).await
    }

    /// As [`open`](Self::open), with another bound than [`REFRESH`](Self::REFRESH) on how old what is known of the
    /// layout may be; at zero each request asks first, and each entry of a listing. A [migration](Self::migrate) must give all clients time.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn open_with(store: &Store, refresh: Duration) -> Result<Self> {
        refuse_spread(store, "is opened")?;
        let places = Places::open(store, refresh).await?;
        Ok(Self::of(places.ok_or_else(|| places::no_record(store))?))
    }

    /// Records the layout of the root `store`, which has none yet. Where the same layout is recorded already,
    /// by whomever, that is as good. What is below the root already is left where it is: keys that are where
    /// the layout has them can be read from here on, others can't.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where another layout is recorded; those of [`open`](Self::open).
    pub async fn init(store: &Store, layout: Layout) -> Result<Self> {
        refuse_spread(store, "is set up")?;
        let is_ours = places::create(store, 1, Record::new(layout)).await?;
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

    /// The layout that writes go by, as it was last read.
    pub fn layout(&self) -> Layout {
        self.places.record().current
    }

    /// The layout before, as long as objects are to be moved from its places, copies to be removed there, or
    /// removals may be on their way: a [migration](Self::migrate) has work to do.
    pub fn older(&self) -> Option<Layout> {
        self.places.record().before()
    }

    /// Where `key` is written, as a key below the root: `010110/KEY`.
    pub fn place(&self, key: &str) -> String {
        format!("{}/{key}", self.layout().name(key))
    }

    /// The same as a [`Store`], for whatever takes one. What is about places and not about keys (unfinished
    /// uploads, lifecycle rules) is refused there: the root's own store has it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The root, without the prefixes, as a URL without a slash at its end.
    pub fn location(&self) -> String {
        self.store.location()
    }

    /// Writes `key`; as [`Store::writer`]. An upload in many parts that began before a change of the layout
    /// fails with [`ErrorKind::SessionLost`] when it is to be published: it would be where nobody looks.
    ///
    /// `create_only` holds across both layouts. A write that replaces an object which is yet to be
    /// [moved](Self::migrate) fails with [`ErrorKind::Unsupported`] until it is.
    pub fn writer(&self, key: impl Into<String>) -> WriterBuilder {
        self.store.writer(key)
    }

    /// Reads `key`; as [`Store::reader`].
    pub fn reader(&self, key: impl Into<String>) -> ReaderBuilder {
        self.store.reader(key)
    }

    /// Sends the file at `path` as `key`; as [`Store::upload`].
    pub async fn upload(&self, path: impl AsRef<Path>, key: impl Into<String>) -> Result<Object> {
        self.store.upload(path, key).await
    }

    /// Describes an object; as [`Store::head`]. While there is an older layout, one that is not there takes three
    /// requests.
    pub async fn head(&self, key: &str) -> Result<Object> {
        self.store.head(key).await
    }

    /// Removes an object wherever it is; as [`Store::delete`].
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.store.delete(key).await
    }

    /// Lists all prefixes as one, in key order; as [`Store::list`]. A failed request ends it with an error.
    ///
    /// Each prefix is listed by itself, from the beginning to the end together: it takes at least as many
    /// requests as there are prefixes before the first entry, 64 at a time, and holds a page of entries for each
    /// (1,000 at S3, some 800 bytes an entry).
    ///
    /// It misses nothing that is [moved](Self::migrate) while it is under way: where the layout is another, it lists
    /// all prefixes again and goes on behind what it has given.
    pub fn list(&self, prefix: &str, recursive: bool) -> BoxStream<'static, Result<Entry>> {
        self.store.list(prefix, recursive)
    }

    /// Records another layout, by which writes go from here on; objects stay where they are until they are
    /// [moved](Self::migrate). Other clients see it within [`REFRESH`](Self::REFRESH); one key should not be
    /// overwritten by two of them meanwhile, for what one who has not seen it writes counts as older.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] while anything is left of the layout before that, and where somebody else
    /// changes it at the same time.
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
        let changed = Record { older: Some(record.current), ..Record::new(layout) };
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

/// Prefixes below prefixes would be found by nobody who opens the root.
fn refuse_spread(store: &Store, what: &str) -> Result<()> {
    if store.context().keys().is_none() {
        return Ok(());
    }
    let message = format!("a layout {what} on the root's own store, and this one's keys are spread already");
    Err(Error::new(ErrorKind::InvalidInput, Operation::Layout, store.location(), message))
}
