//! The same API for callers without tokio: every call blocks until it is done.
//!
//! ```
//! use std::io::{Read, Write};
//! use tidegate::blocking::Tidegate;
//!
//! let tide = Tidegate::new(tidegate::Tidegate::builder().memory(64 << 20))?;
//! let store = tide.open("memory://demo")?;
//! let mut writer = store.writer("greeting.txt", |writer| writer.create_only())?;
//! writer.write_all(b"hello, tide")?;
//! let object = writer.finish()?; // visible from here on
//! assert_eq!(object.size, 11);
//!
//! let mut text = String::new();
//! store.reader("greeting.txt", |reader| reader.range(..5))?.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One [`Tidegate`] has one runtime with two threads, whatever the number of stores and writers. Do not call these
//! methods from a task of a tokio runtime: they would block it, so they panic there. Dropping the values there is
//! fine.

use std::future::IntoFuture;
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder as RuntimeBuilder, Handle, Runtime};

use crate::api::TidegateBuilder;
use crate::api::delete::DeleteReport;
use crate::api::list::ListStream;
use crate::api::recover::LeftUpload;
use crate::api::rename::RenameBuilder;
use crate::api::sweep::{LifecycleOutcome, Sweep, SweepReport};
use crate::backend::{BucketEntry, Entry, Versioning};
use crate::download::{DownloadBuilder, ReaderBuilder};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;
use crate::upload::CopyBuilder;
use crate::upload::WriterBuilder;

/// The engine, with its own runtime. A clone is the same engine.
///
/// When the last clone and everything that came from it is dropped, the drop waits until the sessions of dropped
/// writers are aborted, for two seconds at most. It may be dropped anywhere, and never panics.
#[derive(Clone, Debug)]
pub struct Tidegate {
    engine: Arc<Engine>,
}

#[derive(Debug)]
struct Engine {
    /// Declared before the runtime: its drop waits for aborts, which may wait for requests on the runtime.
    tide: crate::Tidegate,
    /// Runs every blocking call.
    runtime: Handle,
    _owned: Owned,
}

/// A runtime that may be dropped in a task: its drop waits for nothing.
#[derive(Debug)]
struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Tidegate {
    /// Builds an engine from these settings and starts its runtime.
    pub fn new(builder: TidegateBuilder) -> Result<Self> {
        let tide = builder.build()?;
        let runtime =
            RuntimeBuilder::new_multi_thread().worker_threads(2).thread_name("tidegate").enable_all().build();
        let runtime = runtime.map_err(|error| {
            let message = format!("the system gives no threads: {error}");
            Error::new(ErrorKind::Unsupported, Operation::Connect, "tidegate", message).with_source(error)
        })?;
        let engine = Engine { tide, runtime: runtime.handle().clone(), _owned: Owned(Some(runtime)) };
        Ok(Self { engine: Arc::new(engine) })
    }

    /// Waits until the sessions of all writers that failed or were dropped so far are aborted. Returns the errors of
    /// sessions that could not be aborted; see [`crate::Tidegate::settled`].
    pub fn settled(&self) -> Vec<Error> {
        self.engine.runtime.block_on(self.engine.tide.settled())
    }

    /// Opens a store; see [`crate::Tidegate::open`].
    pub fn open(&self, location: &str) -> Result<Store> {
        let store = self.engine.runtime.block_on(self.engine.tide.open(location).into_future())?;
        Ok(Store { engine: self.engine.clone(), store })
    }

    /// Lists the buckets of a store; see [`crate::Tidegate::buckets`].
    pub fn buckets(&self, scheme: &str) -> Result<Vec<BucketEntry>> {
        self.engine.runtime.block_on(self.engine.tide.buckets(scheme).try_collect())
    }

    /// Creates a bucket; see [`crate::Tidegate::create_bucket`].
    pub fn create_bucket(&self, location: &str) -> Result<()> {
        self.engine.runtime.block_on(self.engine.tide.create_bucket(location))
    }

    /// Removes an empty bucket; see [`crate::Tidegate::remove_bucket`].
    pub fn remove_bucket(&self, location: &str) -> Result<()> {
        self.engine.runtime.block_on(self.engine.tide.remove_bucket(location))
    }

    /// Lists the uploads in the journal directories; see [`crate::Tidegate::recover`].
    pub fn recover(&self) -> Result<Vec<LeftUpload>> {
        self.engine.runtime.block_on(self.engine.tide.recover())
    }

    /// Resumes one of them; see [`LeftUpload::resume`].
    pub fn resume(&self, left: &LeftUpload) -> Result<Resumed> {
        Ok(match self.engine.runtime.block_on(left.resume())? {
            crate::recover::Resumed::Object(object) => Resumed::Object(object),
            crate::recover::Resumed::Writer(writer) => {
                Resumed::Writer(Writer { engine: self.engine.clone(), writer })
            }
        })
    }

    /// The async engine, for its figures.
    pub fn tide(&self) -> &crate::Tidegate {
        &self.engine.tide
    }
}

/// One bucket or root, or a prefix of it. A clone is the same store.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Arc<Engine>,
    store: crate::Store,
}

impl Store {
    /// The same root with its keys spread over prefixes; see [`crate::prefix::PrefixedStore::open`].
    #[cfg(feature = "prefix")]
    pub fn prefixed(&self) -> Result<Self> {
        let prefixed = self.engine.runtime.block_on(crate::prefix::PrefixedStore::open(&self.store))?;
        Ok(Self { engine: self.engine.clone(), store: prefixed.store().clone() })
    }

    /// Starts an upload to `key`, set up by `with`; see [`WriterBuilder`].
    pub fn writer(&self, key: &str, with: impl FnOnce(WriterBuilder) -> WriterBuilder) -> Result<Writer> {
        let writer = self.engine.runtime.block_on(with(self.store.writer(key)).start())?;
        Ok(Writer { engine: self.engine.clone(), writer })
    }

    /// Uploads the file at `path` as `key`, set up by `with`; see [`WriterBuilder::upload`].
    pub fn upload(
        &self,
        path: impl AsRef<Path>,
        key: &str,
        with: impl FnOnce(WriterBuilder) -> WriterBuilder,
    ) -> Result<Object> {
        self.engine.runtime.block_on(with(self.store.writer(key)).upload(path))
    }

    /// Starts to read `key`, set up by `with`; see [`ReaderBuilder`].
    pub fn reader(&self, key: &str, with: impl FnOnce(ReaderBuilder) -> ReaderBuilder) -> Result<Reader> {
        let reader = self.engine.runtime.block_on(with(self.store.reader(key)).start())?;
        Ok(Reader { engine: self.engine.clone(), reader })
    }

    /// Downloads `key` to the file at `path`, set up by `with`; see [`DownloadBuilder`].
    pub fn download(
        &self,
        key: &str,
        path: impl Into<PathBuf>,
        with: impl FnOnce(DownloadBuilder) -> DownloadBuilder,
    ) -> Result<Object> {
        self.engine.runtime.block_on(with(self.store.download(key, path)).run())
    }

    /// Has the store copy `key` to `to_key` of `to`, set up by `with`; see [`crate::Store::copy`].
    pub fn copy(
        &self,
        key: &str,
        to: &Self,
        to_key: &str,
        with: impl FnOnce(CopyBuilder) -> CopyBuilder,
    ) -> Result<Object> {
        self.engine.runtime.block_on(with(self.store.copy(key, &to.store, to_key)).run())
    }

    /// Writes `bytes` as the object `key`, set up by `with`; see [`crate::Store::put`].
    pub fn put(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        with: impl FnOnce(WriterBuilder<Bytes>) -> WriterBuilder<Bytes>,
    ) -> Result<Object> {
        self.engine.runtime.block_on(with(self.store.put(key, bytes)).into_future())
    }

    /// Reads the whole object `key`; see [`crate::Store::get`].
    pub fn get(&self, key: &str) -> Result<Bytes> {
        self.engine.runtime.block_on(self.store.get(key))
    }

    /// Reads a range of the object `key`; see [`crate::Store::get_range`].
    pub fn get_range(&self, key: &str, range: impl RangeBounds<u64>) -> Result<Bytes> {
        self.engine.runtime.block_on(self.store.get_range(key, range))
    }

    /// Describes an object; `None` if the key has no object.
    pub fn find(&self, key: &str) -> Result<Option<Object>> {
        self.engine.runtime.block_on(self.store.find(key))
    }

    /// Whether the key has an object.
    pub fn exists(&self, key: &str) -> Result<bool> {
        self.engine.runtime.block_on(self.store.exists(key))
    }

    /// Removes many objects; see [`crate::Store::delete_many`].
    pub fn delete_many(&self, keys: impl IntoIterator<Item = impl Into<String>>) -> DeleteReport {
        self.engine.runtime.block_on(IntoFuture::into_future(self.store.delete_many(keys)))
    }

    /// A URL from which anyone can read the object `key` until it expires; see [`crate::Store::presign_get`].
    pub fn presign_get(&self, key: &str, expires: Duration) -> Result<String> {
        self.engine.runtime.block_on(self.store.presign_get(key, expires))
    }

    /// A URL to which anyone can write the object `key` until it expires; see [`crate::Store::presign_put`].
    pub fn presign_put(&self, key: &str, expires: Duration) -> Result<String> {
        self.engine.runtime.block_on(self.store.presign_put(key, expires))
    }

    /// Renames an object, set up by `with`; see [`crate::Store::rename`].
    pub fn rename(
        &self,
        from: &str,
        to: &str,
        with: impl FnOnce(RenameBuilder) -> RenameBuilder,
    ) -> Result<Object> {
        self.engine.runtime.block_on(with(self.store.rename(from, to)).into_future())
    }

    /// Describes an object. `ErrorKind::NotFound` if the key has no object.
    pub fn head(&self, key: &str) -> Result<Object> {
        self.engine.runtime.block_on(self.store.head(key))
    }

    /// Removes an object. Succeeds if the key has no object.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.engine.runtime.block_on(self.store.delete(key))
    }

    /// Removes the object `key` if it is still `object`; see [`crate::Store::delete_if_unchanged`].
    pub fn delete_if_unchanged(&self, key: &str, object: &Object) -> Result<()> {
        self.engine.runtime.block_on(self.store.delete_if_unchanged(key, object))
    }

    /// Sweeps unfinished uploads below `prefix`, set up by `with`; see [`crate::Store::sweep`].
    pub fn sweep(&self, prefix: &str, with: impl FnOnce(Sweep) -> Sweep) -> Result<SweepReport> {
        self.engine.runtime.block_on(with(self.store.sweep(prefix)).run())
    }

    /// Makes the bucket abort incomplete uploads itself; see [`crate::Store::ensure_lifecycle`].
    pub fn ensure_lifecycle(&self) -> Result<LifecycleOutcome> {
        self.engine.runtime.block_on(self.store.ensure_lifecycle())
    }

    /// Whether the bucket keeps versions; see [`crate::Store::versioning`].
    pub fn versioning(&self) -> Result<Versioning> {
        self.engine.runtime.block_on(self.store.versioning())
    }

    /// Lists objects, set up by `with`, page by page as the iterator is advanced; see [`crate::Store::list`].
    pub fn list<F: FnOnce(ListStream) -> ListStream>(
        &self,
        prefix: &str,
        with: F,
    ) -> impl Iterator<Item = Result<Entry>> + use<F> {
        let mut entries = with(self.store.list(prefix));
        let engine = self.engine.clone();
        std::iter::from_fn(move || engine.runtime.block_on(entries.next()))
    }
}

/// An upload that was resumed; see [`crate::recover::Resumed`].
#[derive(Debug)]
pub enum Resumed {
    /// Its producer had not finished: this writer continues where the journal ends.
    Writer(Writer),
    /// Its producer had finished: the object is published now.
    Object(Object),
}

/// Writes one object; see [`crate::Writer`]. Dropping the writer aborts the upload, unless it has a journal.
#[derive(Debug)]
pub struct Writer {
    // Declared before the engine, so that it is dropped first: the engine's drop waits for the abort.
    writer: crate::Writer,
    engine: Arc<Engine>,
}

impl Writer {
    /// Takes all of `bytes`. From 1 MiB on they are shared, not copied; see [`crate::Writer::write_bytes`].
    pub fn write_bytes(&mut self, bytes: Bytes) -> Result<()> {
        self.engine.runtime.block_on(self.writer.write_bytes(bytes))
    }

    /// As `write_bytes`, for callers that know their buffers: shares from 64 KiB on; see
    /// [`crate::Writer::write_shared`].
    pub fn write_shared(&mut self, bytes: Bytes) -> Result<()> {
        self.engine.runtime.block_on(self.writer.write_shared(bytes))
    }

    /// Publishes the object: it is visible as a whole when this returns, or not at all.
    pub fn finish(self) -> Result<Object> {
        self.engine.runtime.block_on(self.writer.finish())
    }

    /// Makes all bytes taken so far survive the process and a power loss, with
    /// [`Strategy::Journal`](crate::Strategy::Journal); see [`crate::Writer::sync`].
    pub fn sync(&mut self) -> Result<u64> {
        self.engine.runtime.block_on(self.writer.sync())
    }

    /// Bytes taken so far, with those that the journal of a resumed upload already has.
    pub fn position(&self) -> u64 {
        self.writer.position()
    }

    /// Ends the upload without an object. Waits until the store has aborted the session.
    pub fn abort(self) -> Result<()> {
        self.engine.runtime.block_on(self.writer.abort())
    }

    /// Progress of this upload.
    pub fn progress(&self) -> Progress {
        self.writer.progress()
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.engine.runtime.block_on(AsyncWriteExt::write(&mut self.writer, bytes))
    }

    /// With [`Strategy::Journal`](crate::Strategy::Journal), waits until all written bytes are in the journal.
    /// Otherwise does nothing, because nothing is durable before [`finish`](Writer::finish).
    fn flush(&mut self) -> io::Result<()> {
        self.engine.runtime.block_on(AsyncWriteExt::flush(&mut self.writer))
    }
}

/// Reads one object; see [`crate::Reader`].
#[derive(Debug)]
pub struct Reader {
    reader: crate::Reader,
    engine: Arc<Engine>,
}

impl Reader {
    /// The object that is being read, as the store described it.
    pub fn object(&self) -> &Object {
        self.reader.object()
    }
}

impl io::Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.engine.runtime.block_on(self.reader.read(buffer))
    }
}

#[cfg(test)]
mod tests;
