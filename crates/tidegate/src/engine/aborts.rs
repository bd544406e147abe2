//! Aborts that outlive their writers and their writers' runtimes, and the errors of aborts that failed.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::warn;

use crate::types::error::{Error, Operation, Result};
use crate::types::owner_process::OwnerProcess;

#[cfg(test)]
mod tests;
mod thread;

use thread::OwnThread;

/// How long an abort waits for the end of its upload's requests, which a blocked runtime never brings.
const PATIENCE: Duration = Duration::from_millis(250);

/// Most errors of failed aborts that are kept until they are asked for; the earliest are dropped first.
const KEPT: usize = 1000;

/// Where the aborts of an engine run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AbortsOn {
    #[cfg_attr(not(test), default)]
    OwnThread,
    /// The runtime that the writer was started on. Many tests of this crate pause the clock of that runtime. The stores' own
    /// tests do not.
    #[cfg_attr(test, default)]
    WritersRuntime,
}

/// The aborts of one engine.
#[derive(Debug)]
pub(crate) struct Aborts {
    /// `None` where aborts run on the writer's runtime.
    thread: Option<Arc<OwnThread>>,
    /// The process that the uploads are of.
    pub(crate) owner: OwnerProcess,
    tasks: TaskTracker,
    /// Counts the aborts that the engine's last drop waits for.
    awaited: TaskTracker,
    failed: Arc<Mutex<Vec<Error>>>,
    given_up: Arc<AbandonedUploads>,
}

/// An abandoned upload that may still have left a session or an object in the store.
pub(crate) trait Settling: fmt::Debug + Send + Sync {
    /// The session or object that would be left if the process ended now.
    fn unsettled(&self) -> Unsettled;
}

/// An abandoned upload that may have left a session or an object in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsettled {
    /// The object, as a URL.
    pub object: String,
    /// The id of the upload session that the store may still hold.
    pub session: Option<String>,
    /// Whether the request that publishes the object was in flight, so that the object may exist.
    pub may_be_there: bool,
}

/// The abandoned uploads of one engine.
#[derive(Debug, Default)]
struct AbandonedUploads {
    next: AtomicU64,
    /// Uploads whose abort is in flight.
    under_way: Mutex<BTreeMap<u64, Arc<dyn Settling>>>,
    /// Uploads whose abort failed or left the result uncertain; at most [`KEPT`].
    uncertain: Mutex<Vec<Unsettled>>,
}

impl AbandonedUploads {
    fn under_way(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn Settling>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uncertain(&self) -> MutexGuard<'_, Vec<Unsettled>> {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Aborts {
    pub(crate) fn new(on: AbortsOn) -> Self {
        let (tasks, awaited) = (TaskTracker::new(), TaskTracker::new());
        // A closed tracker still takes tasks; `wait` needs it closed to return once there are none.
        tasks.close();
        awaited.close();
        let thread = (on == AbortsOn::OwnThread).then(Arc::default);
        let owner = OwnerProcess::this();
        Self { thread, owner, tasks, awaited, failed: Arc::default(), given_up: Arc::default() }
    }

    /// Runs an abort, whether or not a caller waits for it, and keeps its error. `lost` is the error to keep where
    /// there is something to abort and the runtime ends first. `runtime` is the writer's. Returns `None`, and runs
    /// nothing, in a forked process: the session is its parent's.
    pub(crate) fn spawn(
        &self,
        abort: impl Future<Output = Result<()>> + Send + 'static,
        lost: Option<Error>,
        runtime: &Handle,
    ) -> Option<JoinHandle<Result<()>>> {
        if self.is_inherited() {
            return None;
        }
        let mut outcome = AbortResult { failed: self.failed.clone(), error: lost };
        let abort = self.tasks.track_future(async move {
            let aborted = abort.await;
            outcome.error = aborted.as_ref().err().map(Error::again);
            drop(outcome);
            aborted
        });
        Some(self.on_thread(abort, runtime))
    }

    /// Runs an abort that may wait for as long as its store is down, so that [`settled`](Self::settled) does not wait
    /// for it.
    pub(crate) fn spawn_late(&self, abort: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
        if !self.is_inherited() {
            drop(self.on_thread(abort, runtime));
        }
    }

    /// Whether this is a forked process, which has none of its parent's threads.
    pub(crate) fn is_inherited(&self) -> bool {
        self.owner.is_parent()
    }

    /// Runs the request that opens a session, so that its answer is not lost. A runtime of one thread stands still
    /// while that thread drops the engine, and may end right after.
    pub(crate) fn spawn_opening<T: Send + 'static>(
        &self,
        opening: impl Future<Output = T> + Send + 'static,
        runtime: &Handle,
    ) -> JoinHandle<T> {
        if runtime.metrics().num_workers() == 1 {
            self.on_thread(opening, runtime)
        } else {
            runtime.spawn(opening)
        }
    }

    /// See [`Tidegate::run_to_end`](crate::Tidegate::run_to_end).
    pub(crate) async fn run_to_end<T: Send + 'static, U: Future<Output = Result<()>> + Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
        undo: impl FnOnce(JoinHandle<T>) -> U + Send + 'static,
        runtime: &Handle,
    ) -> Result<T, JoinError> {
        let work = self.spawn_opening(work, runtime);
        let undo: Undo<T> = Box::new(|work| undo(work).boxed());
        let ended =
            Undoable { work: Some((work, undo)), aborts: self.clone(), runtime: runtime.clone() }.await;
        match ended.map_err(JoinError::try_into_panic) {
            Ok(done) => Ok(done),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(shut_down)) => Err(shut_down),
        }
    }

    fn on_thread<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
        runtime: &Handle,
    ) -> JoinHandle<T> {
        match &self.thread {
            Some(thread) => thread.spawn(task, runtime),
            None => runtime.spawn(task),
        }
    }

    /// How long an abort waits for its upload's runtime; `None` where it runs there itself.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.thread.as_ref().map(|_| PATIENCE)
    }

    /// While the token is held, the engine's last drop waits.
    pub(crate) fn awaited(&self) -> TaskTrackerToken {
        self.awaited.token()
    }

    /// Waits until the aborts that are in flight have ended, for `longest` at most. In a task this returns at once, and one
    /// of the runtime's blocking threads waits instead: a program that ends its runtime next waits for that thread. Does
    /// not wait where aborts run on their writers' runtimes: this may be such a runtime's only thread.
    pub(crate) fn end_with_engine(&self, longest: Duration) {
        let Some(aborted) = self.all_aborted() else { return };
        let wait = WaitOnDrop { aborted, until: Instant::now() + longest };
        match Handle::try_current() {
            // A runtime that shuts down drops what has not begun, and that drop waits: in a blocking thread, or here where
            // the runtime runs no task any more.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(wait))),
            Err(_) => drop(wait),
        }
    }

    /// A channel that closes when the last abort in flight has ended; `None` if no abort is in flight, or if this
    /// process cannot wait for aborts.
    fn all_aborted(&self) -> Option<mpsc::Receiver<()>> {
        if self.is_inherited() || self.awaited.is_empty() {
            return None;
        }
        let runtime = self.thread.as_ref()?.elsewhere()?;
        let (awaited, (done, is_done)) = (self.awaited.clone(), mpsc::channel());
        runtime.spawn(async move {
            awaited.wait().await;
            drop(done);
        });
        Some(is_done)
    }

    /// Counts the abort of `upload` as in flight until the guard is dropped.
    pub(crate) fn begin(&self, upload: Arc<dyn Settling>) -> UnderWay {
        let id = self.given_up.next.fetch_add(1, Ordering::Relaxed);
        self.given_up.under_way().insert(id, upload);
        UnderWay { given_up: self.given_up.clone(), id, is_certain: false }
    }

    /// The abandoned uploads that may (still) have left a session or an object. A forked process has none.
    pub(crate) fn unsettled(&self) -> Vec<Unsettled> {
        if self.is_inherited() {
            return Vec::new();
        }
        let mut all = self.given_up.uncertain().clone();
        all.extend(self.given_up.under_way().values().map(|upload| upload.unsettled()));
        all
    }

    /// Waits until no abort is in flight; returns the errors of failed aborts, each error once. In a forked process, which
    /// has aborted nothing, the error says so.
    pub(crate) async fn settled(&self) -> Vec<Error> {
        if let Err(inherited) = self.owner.check(Operation::Abort, || "uploads".to_owned()) {
            return vec![inherited];
        }
        self.tasks.wait().await;
        std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Undo<T> = Box<dyn FnOnce(JoinHandle<T>) -> BoxFuture<'static, Result<()>> + Send>;

/// Work in a task of its own; see [`Aborts::run_to_end`]. A drop before the end of the work has it undone.
struct Undoable<T> {
    /// `None` once the work has ended.
    work: Option<(JoinHandle<T>, Undo<T>)>,
    aborts: Arc<Aborts>,
    runtime: Handle,
}

impl<T> Future for Undoable<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((work, _)) = &mut self.work else { return Poll::Pending };
        let ended = ready!(Pin::new(work).poll(cx));
        self.work = None;
        Poll::Ready(ended)
    }
}

impl<T> Drop for Undoable<T> {
    fn drop(&mut self) {
        let Some((work, undo)) = self.work.take() else { return };
        let (undo, awaited) = (undo(work), self.aborts.awaited());
        let undo = async move {
            let undone = undo.await;
            drop(awaited);
            undone
        };
        drop(self.aborts.spawn(undo, None, &self.runtime));
    }
}

/// Waits when it is dropped: for all aborts, or until a time.
struct WaitOnDrop {
    /// Closed when the last abort has ended.
    aborted: mpsc::Receiver<()>,
    until: Instant,
}

impl Drop for WaitOnDrop {
    fn drop(&mut self) {
        // Nothing is sent: the wait ends when the sender is dropped.
        let _ = self.aborted.recv_timeout(self.until.saturating_duration_since(Instant::now()));
    }
}

/// An abort in flight.
pub(crate) struct UnderWay {
    given_up: Arc<AbandonedUploads>,
    id: u64,
    is_certain: bool,
}

impl UnderWay {
    /// The session is gone and has published nothing.
    pub(crate) fn end_certain(mut self) {
        self.is_certain = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let upload = self.given_up.under_way().remove(&self.id);
        let Some(upload) = upload.filter(|_| !self.is_certain) else { return };
        let mut uncertain = self.given_up.uncertain();
        if uncertain.len() < KEPT {
            uncertain.push(upload.unsettled());
        }
    }
}

/// The result of an abort; its error, if any, is recorded on drop.
struct AbortResult {
    failed: Arc<Mutex<Vec<Error>>>,
    error: Option<Error>,
}

impl Drop for AbortResult {
    fn drop(&mut self) {
        let Some(error) = self.error.take() else { return };
        warn!(%error, "the session could not be aborted; a sweep will find it");
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() == KEPT {
            failed.remove(0);
        }
        failed.push(error);
    }
}
