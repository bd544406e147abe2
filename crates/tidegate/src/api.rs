//! The public API: `Tidegate` and its stores, writers, readers and sweeps.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use crate::backend::Backend;
use crate::engine::aborts::Unsettled;
use crate::engine::{Context, Engine};
use crate::memory::budget::Usage;
use crate::memory::spool::Spool;
use crate::types::error::Error;
use crate::types::progress::Progress;

pub mod blocking;
mod buckets;
mod builder;
mod delete;
mod empty_names;
#[cfg(all(test, feature = "s3", feature = "gcs", feature = "azure"))]
mod every_future_is_send;
pub mod examine;
mod list;
mod manifest;
pub mod merge;
#[cfg(feature = "object_store")]
pub mod object_store;
mod open;
pub mod options;
#[cfg(feature = "prefix")]
pub mod prefix;
mod presign;
mod recover;
mod rename;
mod schemes;
mod store;
pub mod sweep;
mod versioning;

pub use builder::TidegateBuilder;
pub use delete::{DeleteReport, DeleteStream, Deletion};
pub use list::ListStream;
pub use manifest::{AbandonedSet, Manifest, PointedObject, SetProgress};
pub use open::OpenBuilder;
pub use recover::LeftUpload;
pub use rename::RenameBuilder;
pub use store::Store;

use schemes::Schemes;

/// The engine: one memory budget and one limiter per endpoint, shared by every store, writer and reader that comes
/// from it. A clone is the same engine.
///
/// Its tasks run on the tokio runtime that calls it, which must have the time and I/O drivers enabled. Aborts of
/// dropped writers run on a thread of the engine, so that they outlive that runtime, and the last drop of an engine,
/// its stores and writers waits for them, for two seconds at most. In a task, that drop returns at once, and a blocking
/// thread of the task's runtime waits instead: who ends the runtime then waits for that thread. (The engine's thread
/// starts with the first abort, on a runtime of one thread with the first session, and ends when it is idle.)
///
/// A runtime whose clock is paused (`tokio::time::pause`) jumps to the next deadline whenever nothing but the network is
/// waited for, so requests over a network time out at once there. Stores without a network work: `memory://`, and backends
/// of a test.
///
/// After a fork, the child must not use the engine that it inherits: every call fails with
/// [`ErrorKind::Closed`](crate::ErrorKind::Closed) and sends nothing. Writers, readers and downloads that the child drops
/// go on in its parent, with their files, locks, spools and journals.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let tide = tidegate::Tidegate::builder().memory(64 << 20).build()?;
/// let store = tide.open("memory://demo").await?;
/// let mut writer = store.writer("greeting.txt").create_only().await?;
/// writer.write_bytes("hello, tide".into()).await?;
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
    pub fn builder() -> TidegateBuilder {
        TidegateBuilder::default()
    }

    /// Opens a store: `s3://bucket/prefix`, `gs://bucket/prefix`, a directory as `file:///path` or a plain path,
    /// `memory://name`, or a scheme of the caller's own ([`TidegateBuilder::scheme`]). All stores of this engine with
    /// the same `memory://` name share their objects. Keys are relative to the prefix. Sends nothing to the store.
    ///
    /// The store is reached as the engine's settings say, or as the [builder](OpenBuilder) says that this returns.
    pub fn open(&self, location: impl Into<String>) -> OpenBuilder {
        OpenBuilder::new(self.clone(), location.into())
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
        usage.spooled = self.engine.relief.spool().map_or(0, Spool::used);
        usage
    }

    /// Waits until the sessions of all writers that failed or were dropped so far are aborted, however long that takes.
    ///
    /// Returns the errors of sessions that could not be aborted. The store may hold their parts until a sweep removes
    /// them. Each error is returned once; only the latest 1,000 since the last call are kept.
    pub async fn settled(&self) -> Vec<Error> {
        self.engine.aborts.settled().await
    }

    /// Runs `work` to its end, even if the caller is cancelled: a store may still carry out a request whose caller is gone. In
    /// that case `undo` runs in the background, as aborts do: it waits for `work`, and undoes what `work` has done.
    /// [`settled`](Self::settled) waits for `undo`.
    ///
    /// Fails if the runtime ends first. A panic of `work` goes on in the caller.
    #[doc(hidden)]
    pub async fn run_to_end<T: Send + 'static, U: Future<Output = Result<(), Error>> + Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        undo: impl FnOnce(JoinHandle<T>) -> U + Send + 'static,
    ) -> Result<T, JoinError> {
        self.engine.aborts.run_to_end(work, undo, &Handle::current()).await
    }

    /// Lists the uploads whose writers failed or were dropped and whose outcome is not certain: the abort is in
    /// flight or failed, or the object was being published and may exist. For a program that must exit now and wants
    /// to report what it leaves behind. Does not wait. Lists every abort that is in flight, and at most 1,000 uploads
    /// whose abort has ended without certainty.
    pub fn unsettled(&self) -> Vec<Unsettled> {
        self.engine.aborts.unsettled()
    }
}
