//! Downloads an object into a file: ranges are written to their places as they arrive, and the file gets its name
//! when all bytes are there. A note records the bytes that have arrived, so that a download that is cut off can be
//! resumed.

use std::fmt;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::source::{ObjectSource, OpenObject, Pieces};
use crate::backend::local::{
    Arrival, Condition, Destination, NotedTarget, Publish, WaitedWork, Waiter, within_drop_limit,
};
use crate::backend::{Fault, FaultKind};
use crate::engine::Context;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Progress;
use crate::types::spawn_blocking::spawn_blocking;

mod arriving;
mod attributes;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod kept_bytes;
mod lets_go;
mod note;
mod small;
mod width;

use arriving::Arriving;
use attributes::GivenAttributes;
use kept_bytes::{DownloadStart, Opened};
use small::{Small, SmallDownload};
use width::Width;

/// The most chunks that are in flight or wait for a permit.
const AT_ONCE: u64 = 64;

/// How often to note the bytes that have arrived. A byte is written for the first note after it came, and in the next:
/// so each is noted within a second.
const NOTED: Duration = Duration::from_millis(300);

/// Sets up a download into a file. Awaiting the builder downloads the object and returns the store's description of it.
/// The file appears, or replaces an existing file as a whole, once every byte has arrived and agrees with the store's
/// checksum. Missing directories are created.
///
/// Until then the bytes are in a file `.tidegate-….part` beside it, which only its owner can read. For an object
/// larger than 256 KiB that file stays when the download fails (except with [`ErrorKind::Integrity`]), is dropped
/// or is killed, and a later download of the same object to the same path resumes: it reads the kept bytes,
/// compares them with the checksums in the note, and asks for the rest. If the process is killed outright, the
/// bytes of its last second are lost. A sweep of the directory removes the file and its note.
///
/// A slow disk slows the download, and is no reason to fail: the time that bytes wait for the disk counts against no
/// deadline. If the disk has not completed a write (of at most 1.25 MiB) in two minutes, it is stuck, and the download
/// of an object of more than 256 KiB fails with [`ErrorKind::Source`]; there is no such limit before its first byte and
/// while the finished file is synced and named. A download that fails or is dropped waits for the disk for two
/// seconds at most. The system cannot cancel the write: its thread is one of the runtime's, so end such a runtime with
/// `shutdown_timeout` or `shutdown_background`.
///
/// The download holds 2.5 MiB of the memory budget for each request that is in flight or waits for a permit: at
/// most 64 requests, and at most half of the budget. For an object that is small according to
/// [`size_hint`](Self::size_hint) it holds twice the object's size, and there is no file until the bytes are
/// written.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] with [`create_only`](Self::create_only); [`ErrorKind::NoSpace`] where the disk
/// has no room, before the bytes of a large object are received; [`ErrorKind::Replaced`] where the object is
/// replaced meanwhile; [`ErrorKind::Integrity`] where the bytes do not match the store's checksum.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("greeting.txt");
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// store.put("greeting", "hello, tide").await?;
///
/// let object = store.download("greeting", &path).await?;
/// assert_eq!((object.size, std::fs::read(&path)?.as_slice()), (11, &b"hello, tide"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is downloaded before the builder is awaited"]
pub struct DownloadBuilder {
    context: Context,
    key: String,
    path: PathBuf,
    how: Publish,
    without_links_below: Option<PathBuf>,
    gives: GivenAttributes,
    size_hint: Option<u64>,
    progress: Progress,
    warn: Warn,
}

/// Called with warnings that do not end the download.
#[derive(Clone, Default)]
struct Warn(Option<Arc<OnWarning>>);

type OnWarning = dyn Fn(&str) + Send + Sync;

impl fmt::Debug for Warn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Warn").field(&self.0.as_ref().map(|_| ())).finish()
    }
}

impl IntoFuture for DownloadBuilder {
    type Output = Result<Object>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl DownloadBuilder {
    pub(crate) fn new(context: Context, key: String, path: PathBuf) -> Self {
        let progress = context.engine().progress.part();
        Self {
            context,
            key,
            path,
            how: Publish::default(),
            without_links_below: None,
            gives: GivenAttributes::default(),
            size_hint: None,
            progress,
            warn: Warn::default(),
        }
    }

    /// Fails where there is a file already, and leaves that file as it is.
    pub fn create_only(mut self) -> Self {
        self.how.condition = Condition::NoFile;
        self
    }

    /// Syncs the file and its name to disk before the download ends, so that it survives a loss of power. Without
    /// this the system syncs later, and after a loss of power the file may be there without all of its bytes.
    pub fn sync(mut self, sync: bool) -> Self {
        self.how.sync = sync;
        self
    }

    /// Gives the file the time at which the store last changed the object, instead of the time of the download. Where
    /// the store reports none, the file has the time of the download.
    pub fn keep_modified(mut self, keep: bool) -> Self {
        self.gives.modified = keep;
        self
    }

    /// The object's time in a listing. Listings of some stores have fractions of a second where the answer to a download
    /// has whole seconds. With [`keep_modified`](Self::keep_modified), the file gets this time if it lies in the second
    /// of the answer's.
    pub fn listed_time(mut self, time: SystemTime) -> Self {
        self.gives.listed = Some(time);
        self
    }

    /// Gives the file the modification time and the permission bits that the object's user metadata has, as Tidegate,
    /// rclone, s3cmd or s3fs wrote them ([`FileAttributes`]), whatever the umask. What the metadata lacks, or what
    /// makes no sense there, is left as without this; a time of [`keep_modified`](Self::keep_modified) then counts.
    /// Takes one more request where the store sends no metadata with the bytes (Google over HTTP).
    ///
    /// [`FileAttributes`]: crate::object::FileAttributes
    pub fn preserve(mut self, preserve: bool) -> Self {
        self.gives.preserved = preserve;
        self
    }

    /// Fails with [`ErrorKind::InvalidInput`] if there is a symbolic link in the file's place, or on the way from
    /// `root`, a directory above the file, to it. Without this, a file behind a link is replaced. The way is looked at
    /// before the first byte is received.
    pub fn refuse_links_below(mut self, root: impl Into<PathBuf>) -> Self {
        self.without_links_below = Some(root.into());
        self
    }

    /// The object's size in bytes, for example from a listing; it may be wrong. A small object (up to 256 KiB) is
    /// received before its file is created, and the file is then written and named in one go, which saves processor
    /// time ("profiles" in crates/tidegate-bench/results/BENCHMARKS.md). No effect with
    /// [`create_only`](Self::create_only), which looks for a file first.
    pub fn size_hint(mut self, bytes: u64) -> Self {
        self.size_hint = Some(bytes);
        self
    }

    /// Calls `warn` if an earlier download to the same path is not resumed although it may have left bytes, with the
    /// reason: its remains are damaged, or are a file that another user may have put there.
    pub fn on_warning(mut self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warn = Warn(Some(Arc::new(warn)));
        self
    }

    /// The progress of this download. Bytes kept from an earlier download count as acknowledged.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub(crate) async fn run(self) -> Result<Object> {
        let small = self.size_hint.filter(|size| *size <= small::MOST);
        let mut source = ObjectSource::new(&self.context, &self.key, self.progress.clone());
        source.requests.brings = small.unwrap_or(0);
        let source = Arc::new(source);
        self.context.check(Operation::Get, &self.key, None)?;
        let began = Instant::now();
        let at_file = |fault: Fault| at_file(fault, &self.path, began);
        let algorithm = self.context.backend().capabilities().checksum;
        let mut large = None;
        // With `create_only`, look for an existing file before requesting a byte.
        if small.is_some() && self.how.condition != Condition::NoFile {
            match self.small(source.clone(), algorithm, began).await? {
                SmallDownload::InFile(object) => return Ok(self.context.relative(object)),
                SmallDownload::IsLarge(body) => large = Some(body),
            }
        }
        let begun = self.begin(&source, algorithm).await.map_err(at_file)?;
        if let Some(warning) = &begun.warning {
            self.warn(warning);
        }
        let mut leaving = UnfinishedDownload::of(&begun, &self.progress);
        let opened = match begun.kept {
            Some(kept) => {
                drop(large.take());
                kept.opened(&source).await?
            }
            None => None,
        };
        let (opened, stream) = match opened {
            Some(there) => there,
            None => {
                let OpenObject { object, pieces, .. } = match large {
                    Some(body) => body,
                    None => whole(&source).await?,
                };
                let opened = leaving.anew(object, source.url(), algorithm).await.map_err(at_file)?;
                (opened, Some(pieces))
            }
        };
        let (engine, arrival) = (self.context.engine(), leaving.arrival.clone());
        let arriving = Arriving::new(source.clone(), arrival.clone(), opened, engine.budget.clone());
        let arriving = leaving.arriving.insert(Arc::new(arriving)).clone();
        self.arrive(&arriving, stream, began).await?;
        let (object, checksum) = (arriving.object(), arriving.checksum(algorithm));
        source.check(object, &checksum, began).inspect_err(|_| arrival.give_up())?;
        let object = self.gives.described(&source, object.clone()).await?;
        let how = self.gives.publish(self.how, &object);
        arrival.publish(object.size, how).await.map_err(at_file)?;
        leaving.is_done = true;
        Ok(self.context.relative(object))
    }

    /// The file, and the bytes that an earlier download has left in it.
    async fn begin(&self, source: &ObjectSource, algorithm: Algorithm) -> Result<DownloadStart, Fault> {
        let (destination, url, how) = (self.destination(source), source.url().to_owned(), self.how);
        // If dropped, stops the reading of the kept bytes, and leaves them to the next download.
        lets_go::or_let_go(move |waiting| begin(destination, &url, how, algorithm, waiting)).await
    }

    fn destination(&self, source: &ObjectSource) -> Destination {
        let owners = self.context.engine().owners.clone();
        let without_links_below = self.without_links_below.clone();
        Destination {
            path: self.path.clone(),
            mark: mark(source.url(), &self.path),
            owners,
            without_links_below,
            parents: self.context.engine().parents.clone(),
        }
    }

    fn warn(&self, warning: &str) {
        tracing::warn!(file = %self.path.display(), "{warning}");
        if let Warn(Some(warn)) = &self.warn {
            warn(&format!("{}: {warning}", self.path.display()));
        }
    }

    /// Downloads an object that is said to be small in a task of its own, so that it progresses without being polled.
    async fn small(
        &self,
        source: Arc<ObjectSource>,
        algorithm: Algorithm,
        began: Instant,
    ) -> Result<SmallDownload> {
        // If dropped, removes the file at once; the task ends when it can.
        let waiter = Waiter::default();
        let (destination, how, waiting) = (self.destination(&source), self.how, waiter.waiting());
        let batch = self.context.engine().batches.here();
        let gives = self.gives;
        let small = Small { source, destination, how, gives, algorithm, began, batch, waiting };
        // Boxed, because a task moves its future several times.
        let ended = AbortOnDropHandle::new(tokio::spawn(Box::pin(small.run()))).await;
        if ended.is_ok() {
            waiter.done();
        } // else the runtime is shutting down, and the work may still be in flight
        self.joined(ended)
    }

    /// Receives all missing bytes, unless the disk is stuck.
    async fn arrive(&self, arriving: &Arc<Arriving>, stream: Option<Pieces>, began: Instant) -> Result<()> {
        let _noting = AbortOnDropHandle::new(tokio::spawn(arriving.clone().keep_noted(NOTED)));
        tokio::select! {
            biased;
            received = self.receive(arriving, stream) => received,
            stuck = arriving.disk_is_stuck() => Err(at_file(stuck, &self.path, began)),
        }
    }

    /// Receives all missing bytes: in ranges, or over one stream where the store ignores ranges.
    async fn receive(&self, arriving: &Arc<Arriving>, mut stream: Option<Pieces>) -> Result<()> {
        if arriving.missing().is_empty() {
            // The object is empty, and so is its body.
            if let Some(Pieces { figures, .. }) = stream {
                figures.succeeded();
            }
            return Ok(());
        }
        if !arriving.is_one_stream() {
            let mut tasks = JoinSet::new();
            let arrived = self.arrive_in_ranges(arriving, stream.take(), &mut tasks).await;
            match arrived {
                Err(error) if error.kind() == ErrorKind::Unsupported && arriving.is_one_stream() => {}
                arrived => return arrived,
            }
            tasks.shutdown().await;
            arriving.gather().await?;
        }
        // In a task of its own, so that it progresses without being polled.
        let received = tokio::spawn(arriving.clone().receive_one_stream(stream));
        self.joined(AbortOnDropHandle::new(received).await)
    }

    /// Receives each missing chunk in a request of its own.
    async fn arrive_in_ranges(
        &self,
        arriving: &Arc<Arriving>,
        mut stream: Option<Pieces>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        let most = arriving.at_once(AT_ONCE);
        // A fixed number of requests, set by the user, is kept.
        let mut width = arriving.adapts().then(|| Width::new(most, note::CHUNK, Instant::now()));
        let mut missing = arriving.missing().into_iter();
        loop {
            while tasks.len() < width.as_ref().map_or(most, Width::now)
                && let Some(chunk) = missing.next()
            {
                tasks.spawn(Box::pin(arriving.clone().receive(chunk, stream.take())));
            }
            let next_look = async {
                match &width {
                    Some(width) if missing.len() > 0 => sleep(width.next_look(Instant::now())).await,
                    _ => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                biased;
                ended = tasks.join_next() => Some(ended),
                () = next_look => None,
            };
            if let Some(width) = &mut width {
                width.look(arriving.received(), tasks.len() + usize::from(ended.is_some()), Instant::now());
            }
            match ended {
                None => {}
                Some(None) => return Ok(()),
                Some(Some(received)) => self.joined(received)?,
            }
        }
    }

    /// The result of a task.
    fn joined<T>(&self, ended: std::result::Result<Result<T>, JoinError>) -> Result<T> {
        ended.unwrap_or_else(|ended| match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => {
                let (url, message) = (self.context.url(&self.key), "the runtime is shutting down");
                Err(Error::new(ErrorKind::Closed, Operation::Get, url, message))
            }
        })
    }
}

/// A download that is not finished: on drop, keeps the received bytes for the next download.
struct UnfinishedDownload {
    arrival: Arc<Arrival>,
    arriving: Option<Arc<Arriving>>,
    /// How many bytes an earlier download has left, and of how many.
    left: Option<(u64, u64)>,
    progress: Progress,
    is_done: bool,
}

impl UnfinishedDownload {
    fn of(begun: &DownloadStart, progress: &Progress) -> Self {
        let left = begun.kept.as_ref().map(kept_bytes::KeptBytes::bytes);
        let (arrival, progress) = (begun.arrival.clone(), progress.clone());
        Self { arrival, arriving: None, left, progress, is_done: false }
    }

    /// Begins an object without any kept bytes: makes room for it, in a new file if this one has bytes of
    /// another object. Writes the note first, so that the file is found again even if the process is killed at once.
    async fn anew(&mut self, object: Object, url: &str, algorithm: Algorithm) -> Result<Opened, Fault> {
        let (before, is_of_another) = (self.arrival.clone(), self.left.take().is_some());
        let url = url.to_owned();
        let (arrival, opened) = spawn_blocking(move || {
            let arrival = if is_of_another { Arc::new(before.begin_again()?) } else { before };
            arrival.reserve(object.size)?;
            let opened = Opened::anew(object, &url, &arrival.token(), algorithm);
            if let Some(note) = &opened.note {
                arrival.note(note.head(), note.len(), &[]);
            }
            Ok::<_, Fault>((arrival, opened))
        })
        .await?;
        self.arrival = arrival;
        Ok(opened)
    }
}

impl Drop for UnfinishedDownload {
    fn drop(&mut self) {
        if self.arrival.is_inherited() {
            return;
        }
        if self.is_done {
            return self.arrival.release();
        }
        let kept = match &self.arriving {
            Some(arriving) => Some((arriving.cut(), arriving.object().size)),
            None => {
                let arrival = self.arrival.clone();
                within_drop_limit(move || arrival.leave());
                self.left
            }
        };
        if let Some((bytes, of)) = kept.filter(|_| self.arrival.is_kept()) {
            self.progress.kept(bytes, of);
        }
    }
}

/// An error of the local file.
fn at_file(fault: Fault, path: &Path, began: Instant) -> Error {
    Error::from_fault(fault, Operation::Get, path.display().to_string(), 0, began.elapsed())
}

/// Opens the whole object.
async fn whole(source: &ObjectSource) -> Result<OpenObject> {
    source.open(None, None).await.map_err(|failure| source.failed(failure, 0))
}

/// The name of the note for a download of that object to this path.
fn mark(url: &str, path: &Path) -> String {
    let named = format!("{url}\0{}", path.display());
    format!("{:016x}", Checksum::of(Algorithm::Crc64Nvme, named.as_bytes()).value())
}

fn begin(
    destination: Destination,
    url: &str,
    how: Publish,
    algorithm: Algorithm,
    waiting: &WaitedWork,
) -> Result<DownloadStart, Fault> {
    if how.condition == Condition::NoFile && destination.path.symlink_metadata().is_ok() {
        return Err(Fault::new(FaultKind::Exists, "there is a file already"));
    }
    let (place, warning) = NotedTarget::at(destination)?;
    DownloadStart::at(place, warning, url, algorithm, waiting)
}
