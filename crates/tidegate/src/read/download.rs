//! Into a file: ranges are written in their places as they come, and the file gets its name when all are there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::source::{Pieces, Source};
use crate::backend::local::{Arrival, Publish, Waiter};
use crate::backend::{Body, Fault, FaultKind};
use crate::checksum::{Algorithm, Checksum};
use crate::client::Store;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::object::Object;
use crate::off::off;
use crate::progress::Progress;

mod arriving;
mod left;
mod record;
mod small;

use arriving::Arriving;
use left::Left;
use record::Description;
use small::{Ended, Small};

/// A chunk; larger ones where there would be more than `MOST_CHUNKS`.
const CHUNK: u64 = 8 << 20;
const MOST_CHUNKS: u64 = 1 << 16;

/// How many chunks wait for their turn to be asked for, or are under way.
const AT_ONCE: u64 = 64;

/// Sets up a download into a file.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("greeting.txt");
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// let mut writer = store.writer("greeting").start().await?;
/// writer.write("hello, tide".into()).await?;
/// writer.finish().await?;
///
/// let object = store.download("greeting", &path).run().await?;
/// assert_eq!((object.size, std::fs::read(&path)?.as_slice()), (11, &b"hello, tide"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is downloaded before `run`"]
pub struct DownloadBuilder {
    store: Store,
    key: String,
    path: PathBuf,
    how: Publish,
    size_hint: Option<u64>,
    progress: Progress,
}

impl DownloadBuilder {
    pub(crate) fn new(store: Store, key: String, path: PathBuf) -> Self {
        let progress = store.engine().progress.part();
        let how = Publish { create_only: false, sync: false };
        Self { store, key, path, how, size_hint: None, progress }
    }

    /// Fails where there is a file already, and leaves it as it is.
    pub fn create_only(mut self) -> Self {
        self.how.create_only = true;
        self
    }

    /// Forces the file, and its name, to disk before it is done, so that it outlasts a loss of power. Without this
    /// the system does so when it likes, and after a loss of power the file may be there without all its bytes.
    pub fn sync(mut self, sync: bool) -> Self {
        self.how.sync = sync;
        self
    }

    /// The object's size in bytes, as a listing has it; it may be wrong. A small object (up to 256 KiB) is received
    /// before its file is made, written and named in one go, which spares the processor ("profiles" in docs/BENCHMARKS.md).
    /// Not with [`create_only`](Self::create_only), which looks for a file first.
    pub fn size_hint(mut self, bytes: u64) -> Self {
        self.size_hint = Some(bytes);
        self
    }

    /// The figures of the download to be. Bytes that were there from an earlier one count as acknowledged.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Downloads the object; describes it as the store does. The file, and directories that it needs, are made, and
    /// a file that is there is replaced as a whole, when every byte has arrived and agrees with the store's
    /// checksum.
    ///
    /// Until then the bytes are in a file `.tidegate-….part` beside it. Of an object that is larger than a request
    /// (8 MiB) it stays when the download fails, is dropped or killed, and a later one of the same object to the
    /// same path goes on with it: what is there is read again and compared with its checksums. A sweep of the
    /// directory removes it. It holds 2.5 MiB of the memory budget for each request in flight or waiting for its turn,
    /// of which there are 64 at most, and half of all at most;
    /// of an object that [`size_hint`](Self::size_hint) says is small, twice its size, and there is a file only when it
    /// is written.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] with [`create_only`](Self::create_only); [`ErrorKind::NoSpace`] where the disk has no
    /// room, before a byte of a large object is asked for; [`ErrorKind::Replaced`] where the object is replaced
    /// meanwhile; [`ErrorKind::Integrity`] where the bytes are not those that the store's checksum is of.
    pub async fn run(self) -> Result<Object> {
        let small = self.size_hint.filter(|size| *size <= small::MOST);
        let mut source = Source::new(&self.store, &self.key, self.progress.clone());
        source.requests.brings = small.unwrap_or(0);
        let source = Arc::new(source);
        self.store.check(Operation::Get, &self.key, None)?;
        let began = Instant::now();
        let at_file = |fault: Fault| at_file(fault, &self.path, began);
        let algorithm = self.store.backend().capabilities().checksum;
        let mut large = None;
        // Where a file that is there is an error, that is looked for before a byte is asked for.
        if small.is_some() && !self.how.create_only {
            match self.small(source.clone(), algorithm, began).await? {
                Ended::InFile(object) => return Ok(self.store.relative(object)),
                Ended::IsLarge(body) => large = Some(body),
            }
        }
        let (path, url, how) = (self.path.clone(), source.url().to_owned(), self.how);
        let begun = off(move || begin(&path, &url, how, algorithm)).await;
        let (arrival, left) = begun.map_err(at_file)?;
        let _waits = Waits(arrival.clone());
        let opened = match left {
            Some(left) => {
                drop(large.take());
                left.opened(&source).await?
            }
            None => None,
        };
        let (opened, stream) = match opened {
            Some(there) => there,
            None => {
                let Body { object, stream, .. } = match large {
                    Some(body) => body,
                    None => whole(&source).await?,
                };
                (Left::nothing(object, source.url(), algorithm), Some(stream))
            }
        };
        let (held, size) = (arrival.clone(), opened.object.size);
        let is_new = opened.is_new;
        let description = opened.description.clone();
        let prepared = off(move || if is_new { prepare(&held, size, description.as_ref()) } else { Ok(()) });
        prepared.await.map_err(at_file)?;
        let engine = self.store.engine();
        let arriving =
            Arriving::new(source.clone(), arrival.clone(), opened, engine.budget.clone(), algorithm);
        let (object, checksum) = self.arrive(Arc::new(arriving), stream).await?;
        source.check(&object, &checksum, began).inspect_err(|_| arrival.keep(false))?;
        arrival.publish(object.size, self.how).await.map_err(at_file)?;
        Ok(self.store.relative(object))
    }

    /// Downloads what is said to be small in a task of its own, so that it goes on where nobody polls this.
    async fn small(&self, source: Arc<Source>, algorithm: Algorithm, began: Instant) -> Result<Ended> {
        // Dropped, it takes the file away at once; the task ends when it may.
        let waiter = Waiter::default();
        let (path, how, waiting) = (self.path.clone(), self.how, waiter.waiting());
        let batch = self.store.engine().batches.here();
        let small = Small { source, path, how, algorithm, began, batch, waiting };
        let ended = AbortOnDropHandle::new(tokio::spawn(small.run())).await;
        if ended.is_ok() {
            waiter.done();
        } // else the runtime is shut down, and the work may be under way
        self.joined(ended)
    }

    /// Has all that is missing received; the object, and the checksum of its bytes.
    async fn arrive(
        &self,
        arriving: Arc<Arriving>,
        mut stream: Option<Pieces>,
    ) -> Result<(Object, Checksum)> {
        let at_once = arriving.at_once(AT_ONCE);
        let mut tasks = JoinSet::new();
        let mut missing = arriving.missing().into_iter();
        loop {
            while tasks.len() < at_once
                && let Some(chunk) = missing.next()
            {
                tasks.spawn(arriving.clone().receive(chunk, stream.take()));
            }
            match tasks.join_next().await {
                None => break,
                Some(received) => self.joined(received)?,
            }
        }
        Ok((arriving.object().clone(), arriving.checksum()))
    }

    /// What a task came to.
    fn joined<T>(&self, ended: std::result::Result<Result<T>, JoinError>) -> Result<T> {
        ended.unwrap_or_else(|ended| match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => {
                let (url, message) = (self.store.url(&self.key), "the runtime is shutting down");
                Err(Error::new(ErrorKind::Closed, Operation::Get, url, message))
            }
        })
    }
}

/// Somebody waits for the file.
struct Waits(Arc<Arrival>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What went wrong with the file.
fn at_file(fault: Fault, path: &Path, began: Instant) -> Error {
    Error::from_fault(fault, Operation::Get, path.display().to_string(), 0, began.elapsed())
}

/// The whole object.
async fn whole(source: &Source) -> Result<Body> {
    source.open(None, None).await.map_err(|failure| source.failed(failure, 0))
}

/// What a download of that object to this path leaves its file under.
fn mark(url: &str, path: &Path) -> String {
    let named = format!("{url}\0{}", path.display());
    format!("{:016x}", Checksum::of(Algorithm::Crc64Nvme, named.as_bytes()).value())
}

/// The file, and what an earlier download has left in it.
fn begin(
    path: &Path,
    url: &str,
    how: Publish,
    algorithm: Algorithm,
) -> Result<(Arc<Arrival>, Option<Left>), Fault> {
    if how.create_only && path.symlink_metadata().is_ok() {
        return Err(Fault::new(FaultKind::Exists, "there is a file already"));
    }
    let arrival = Arrival::begin(path, &mark(url, path))?;
    let left = Left::find(&arrival, url, algorithm)?;
    // What can be gone on with stays, whatever happens to this one.
    arrival.keep(left.is_some());
    Ok((Arc::new(arrival), left))
}

/// Makes room for the object, and writes down what is downloaded.
fn prepare(arrival: &Arrival, size: u64, description: Option<&Description>) -> Result<(), Fault> {
    arrival.keep(false);
    let Some(description) = description else { return arrival.reserve(size) };
    // What was there is nothing that this record tells of.
    arrival.reserve(0)?;
    arrival.reserve(description.file_size())?;
    let foot = description.foot().to_vec();
    let at = description.file_size() - foot.len() as u64;
    arrival.write(&[description.encode().into()], size)?;
    arrival.write(&[foot.into()], at)
}
