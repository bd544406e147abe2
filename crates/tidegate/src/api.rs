//! The public API: `Tidegate` and its stores, writers, readers and sweeps.

use std::sync::Arc;

use crate::backend::Backend;
use crate::backend::local::Local;
use crate::engine::aborts::Unsettled;
use crate::engine::{Context, Engine};
use crate::memory::budget::Usage;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::location::{Location, local_root};
use crate::types::progress::Progress;

pub mod blocking;
mod builder;
mod merge;
#[cfg(feature = "object_store")]
pub mod object_store;
mod prefix;
mod recover;
mod schemes;
mod store;
mod sweep;

pub use builder::Builder;
pub use merge::{MergeError, MergeStream, Merged};
pub use prefix::{Layout, Migrated, Naming, PrefixedStore};
pub use recover::Left;
pub use store::Store;
pub use sweep::{Fate, Kept, LifecycleOutcome, Process, Sweep, SweepReport, Swept, Unfinished};

use schemes::Schemes;

/// The engine: one memory budget and one limiter per endpoint, shared by every store, writer and reader that comes
/// from it. A clone is the same engine.
///
/// The engine has no threads of its own. Its tasks run on the tokio runtime that calls it, which must have the time
/// and I/O drivers enabled.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let tide = tidegate::Tidegate::builder().memory(64 << 20).build()?;
/// let store = tide.open("memory://demo").await?;
/// let mut writer = store.writer("greeting.txt").create_only().start().await?;
/// writer.write("hello, tide".into()).await?;
/// let object = writer.finish().await?; // visible from here on
/// assert_eq!(object.size, 11);
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tidegate {
    engine: Arc<Engine>,
    schemes: Arc<Schemes>,
}

impl Tidegate {
    /// Sets up an engine.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a store: `s3://bucket/prefix`, `gs://bucket/prefix`, a directory as `file:///path` or a plain path,
    /// `memory://name`, or a scheme of the caller's own ([`Builder::scheme`]). All stores of this engine with the same
    /// `memory://` name share their objects. Keys are relative to the prefix. Sends nothing to the store.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the location or its settings are wrong, and if its scheme is unknown: the message
    /// lists the known ones.
    pub async fn open(&self, location: &str) -> Result<Store> {
        let parsed: Location = location.parse().map_err(|error| {
            Error::new(ErrorKind::InvalidInput, Operation::Connect, location, format!("{error}"))
                .with_source(error)
        })?;
        let Some((scheme, bucket, key)) = parsed.in_store() else {
            return Ok(self.store(Arc::new(Local::new(local_root(location)))));
        };
        let opened = self.schemes.open(scheme, bucket, &self.engine.facts).await;
        let backend = opened
            .map_err(|fault| Error::from_fault(fault, Operation::Connect, location, 0, Default::default()))?;
        Ok(self.store(backend).within(key))
    }

    /// A store on the caller's own backend.
    pub fn store(&self, backend: Arc<dyn Backend>) -> Store {
        Store::new(self.clone(), Context::new(self.engine.clone(), backend))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Progress of everything that this engine does, summed up.
    pub fn progress(&self) -> Progress {
        self.engine.progress.clone()
    }

    /// Use of the memory budget and the spool, in bytes. Memory that is reserved for sending from the spool always
    /// counts as held; memory that is reserved for sending from journals counts as held only while requests use it.
    pub fn usage(&self) -> Usage {
        let mut usage = self.engine.budget.usage();
        let reserved = self.engine.reserved;
        usage.total += reserved;
        usage.held += reserved;
        usage.peak += reserved;
        // Without journal directories, requests that send from journals use the main budget, which is counted above.
        if !self.engine.journaling.directories.is_empty() {
            let sending = self.engine.journaling.memory.usage();
            usage.total += sending.total;
            usage.held += sending.held;
            usage.peak += sending.peak;
            usage.waiting += sending.waiting;
        }
        usage.spooled = self.engine.relief.spooling().map_or(0, |spooling| spooling.spool().used());
        usage
    }

    /// Waits until the sessions of all writers that failed or were dropped so far are aborted. Call this before the
    /// runtime shuts down.
    ///
    /// Returns the errors of sessions that could not be aborted. The store may hold their parts until a sweep removes
    /// them. Each error is returned once; only the latest 1,000 since the last call are kept.
    pub async fn settled(&self) -> Vec<Error> {
        self.engine.aborts.settled().await
    }

    /// Lists the uploads whose writers failed or were dropped and whose outcome is not certain: the abort is in
    /// flight or failed, or the object was being published and may exist. For a program that must exit now and wants
    /// to report what it leaves behind. Does not wait. Lists every abort that is in flight, and at most 1,000 uploads
    /// whose abort has ended without certainty.
    pub fn unsettled(&self) -> Vec<Unsettled> {
        self.engine.aborts.unsettled()
    }
}
