//! A writer. One call at a time has it; a finish or a discard takes it away.

use std::iter;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use tidegate::upload::PrepareBuilder;
use tokio::sync::Mutex;

use crate::borrowed_buffer::BorrowedBuffer;
use crate::engine::Shared;
use crate::errors;
use crate::objects::{Progress, object};
use crate::operation::{Operation, Outcome, Work, outcome, poll_once, wait};
use crate::pending::{pending, resumable};
use crate::process::OfProcess;
use crate::store::bytes_of;

/// From so many bytes on, the bytes of a Python `bytes` are shared until the store has them.
const SHARED_FROM: usize = 64 << 10;

/// Up to so many bytes, a write is tried at once, with the interpreter held: they take less time than another thread
/// takes to begin.
const AT_ONCE: usize = 256 << 10;

/// How often a progress callback is called.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Why a writer takes no more calls.
const HAS_FAILED: &str = "a call has failed before, and nothing was published";
const HAS_ENDED: &str = "I/O operation on a closed file";

/// Writes one object.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Writer {
    shared: Shared,
    open: OfProcess<Arc<OpenWriter>>,
    url: Arc<str>,
    strategy: &'static str,
    reports: OnceLock<Reports>,
}

struct OpenWriter {
    writer: Mutex<Option<tidegate::Writer>>,
    /// Whether the bytes of a write are missing: then nothing is published.
    has_failed: AtomicBool,
    /// The threads that wait in a write.
    waiting: std::sync::Mutex<Vec<ThreadId>>,
    /// Bytes of all writes that have returned.
    written: AtomicU64,
    progress: tidegate::Progress,
}

impl OpenWriter {
    fn waiting(&self) -> MutexGuard<'_, Vec<ThreadId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That this thread waits in a write, until this is dropped. Meanwhile the handler of a signal may use the file in the
/// same thread.
struct WaitingWrite<'a>(&'a OpenWriter);

impl<'a> WaitingWrite<'a> {
    fn begin(open: &'a OpenWriter) -> Self {
        open.waiting().push(thread::current().id());
        Self(open)
    }
}

impl Drop for WaitingWrite<'_> {
    fn drop(&mut self) {
        let (mut waiting, ours) = (self.0.waiting(), thread::current().id());
        if let Some(at) = waiting.iter().position(|thread| *thread == ours) {
            waiting.swap_remove(at);
        }
    }
}

/// A write whose bytes were given, and are not taken yet. If it is dropped, because it has failed or was cancelled, the
/// upload has failed.
struct UnfinishedWrite(Option<Arc<OpenWriter>>);

impl UnfinishedWrite {
    fn succeed(mut self) {
        self.0 = None;
    }
}

impl Drop for UnfinishedWrite {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.has_failed.store(true, SeqCst);
        }
    }
}

/// A progress callback.
struct Reports {
    callback: Py<PyAny>,
    last: std::sync::Mutex<Instant>,
}

impl Reports {
    /// Whether it is time for the next call.
    fn are_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.elapsed() >= REPORT_EVERY;
        if is_due {
            *last = Instant::now();
        }
        is_due
    }
}

/// What a write does with its bytes.
#[derive(Clone, Copy)]
enum Keep {
    /// Many bytes are kept where they are until the store has them: nobody changes them.
    Shared,
    /// They are copied before the write returns. Fewer than 1 MiB (`tidegate::Writer::write_bytes`).
    Copied,
}

impl Writer {
    pub(crate) fn new(shared: &Shared, writer: tidegate::Writer, url: Arc<str>) -> Self {
        let strategy = writer.strategy().name();
        let open = OpenWriter {
            has_failed: false.into(),
            waiting: std::sync::Mutex::default(),
            written: writer.position().into(),
            progress: writer.progress(),
            writer: Mutex::new(Some(writer)),
        };
        let open = OfProcess::new(Arc::new(open));
        Self { shared: shared.clone(), open, url, strategy, reports: OnceLock::new() }
    }

    /// What a new call needs.
    ///
    /// # Errors
    /// `ForkError` in a process that has inherited the writer.
    fn begin(&self, py: Python<'_>) -> PyResult<Arc<OpenWriter>> {
        let forked = || errors::forked(py, self.open.process(), &self.url);
        self.open.own().cloned().ok_or_else(forked)
    }

    /// One write of `length` bytes, which are in these pieces.
    fn begin_write(
        &self,
        open: Arc<OpenWriter>,
        length: usize,
        pieces: impl Iterator<Item = Bytes> + Send + 'static,
        keep: Keep,
    ) -> Work {
        let (length, url) = (length as u64, self.url.clone());
        let unfinished = UnfinishedWrite(Some(open.clone()));
        Box::pin(async move {
            // A cancelled future drops its variables from the last to the first: the failure is known before another call
            // gets the writer.
            let acquiring = pin!(open.writer.lock());
            let unfinished = unfinished;
            let mut guard = acquiring.await;
            let unfinished = unfinished;
            let has_failed = open.has_failed.load(SeqCst);
            let Some(writer) = guard.as_mut().filter(|_| !has_failed) else { return ended(url, &open) };
            for bytes in pieces {
                let taken = match keep {
                    Keep::Shared if bytes.len() >= SHARED_FROM => writer.write_shared(bytes).await,
                    Keep::Shared | Keep::Copied => writer.write_bytes(bytes).await,
                };
                if let Err(error) = taken {
                    return outcome(Err(error), |py, ()| Ok(py.None()));
                }
            }
            open.written.fetch_add(length, Relaxed);
            unfinished.succeed();
            outcome(Ok(()), move |py, ()| Ok(length.into_pyobject(py)?.into_any().unbind()))
        })
    }

    /// Waits until all bytes are taken, and reports the progress.
    fn take(
        &self,
        py: Python<'_>,
        length: usize,
        pieces: impl Iterator<Item = Bytes> + Send + 'static,
        keep: Keep,
    ) -> PyResult<Py<PyAny>> {
        let open = self.begin(py)?;
        let is_short = length <= AT_ONCE;
        let running = self.shared.get(py)?;
        let mut work = self.begin_write(open.clone(), length, pieces, keep);
        let outcome = match is_short.then(|| poll_once(running, &mut work)) {
            Some(Poll::Ready(outcome)) => outcome,
            Some(Poll::Pending) | None => {
                let _waiting = WaitingWrite::begin(&open);
                wait(py, running, work)?
            }
        };
        let taken = outcome(py)?;
        if let Some(reports) = self.reports.get()
            && reports.are_due()
        {
            reports.callback.call1(py, (Progress::from(open.progress.snapshot()),))?;
        }
        Ok(taken)
    }
}

#[pymethods]
impl Writer {
    /// Takes all bytes, waiting for that. After any exception but those of the argument the upload has failed, because
    /// wrappers forget the bytes that they were writing, and close the file. Wrappers call this method itself: at the
    /// beginning of a Python method, an exception of a signal's handler would go unnoticed here.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if let Some(buffer) = BorrowedBuffer::of(data) {
            let taken = self.take(py, buffer.length(), buffer.slices(), Keep::Copied);
            return taken.inspect_err(|_| self.fail());
        }
        let bytes = match bytes_of(data) {
            Err(error)
                if error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyBufferError>(py) =>
            {
                return Err(error);
            }
            bytes => bytes,
        };
        let taken = bytes.and_then(|bytes| self.take(py, bytes.len(), iter::once(bytes), Keep::Shared));
        taken.inspect_err(|_| self.fail())
    }

    /// Takes all bytes. Their number if they were taken at once, otherwise an operation that gives it.
    fn write_later(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let open = self.begin(py)?;
        let bytes = bytes_of(data)?;
        let is_short = bytes.len() <= AT_ONCE;
        let mut work = self.begin_write(open, bytes.len(), iter::once(bytes), Keep::Shared);
        if is_short && let Poll::Ready(taken) = poll_once(self.shared.get(py)?, &mut work) {
            return taken(py);
        }
        Ok(Py::new(py, Operation::of(&self.shared, None, work))?.into_any())
    }

    /// Has `write` call `callback` with the figures of the upload, about ten times a second. Has no effect after the
    /// first time.
    fn report_to(&self, callback: Py<PyAny>) {
        self.reports.get_or_init(|| Reports { callback, last: Instant::now().into() });
    }

    /// Makes all bytes survive the process, where the strategy is `journal`.
    fn sync(&self, py: Python<'_>) -> PyResult<Operation> {
        let (open, url) = (self.begin(py)?, self.url.clone());
        let work: Work = Box::pin(async move {
            match open.writer.lock().await.as_mut() {
                Some(writer) => {
                    outcome(writer.sync().await, |py, bytes| Ok(bytes.into_pyobject(py)?.into_any().unbind()))
                }
                None => ended(url, &open),
            }
        });
        Ok(Operation::of(&self.shared, None, work))
    }

    /// Publishes the object, unless a write has failed.
    fn finish(&self, py: Python<'_>) -> PyResult<Operation> {
        let (open, url) = (self.begin(py)?, self.url.clone());
        let progress = open.progress.clone();
        let work: Work = Box::pin(async move {
            let taken = open.writer.lock().await.take();
            match taken {
                Some(writer) if !open.has_failed.load(SeqCst) => outcome(writer.finish().await, object),
                Some(_) | None => ended(url, &open),
            }
        });
        Ok(Operation::of(&self.shared, Some(progress), work))
    }

    /// Ends the write with all bytes at the store and nothing visible, unless a write has failed.
    fn prepare(&self, py: Python<'_>, lifetime: Option<f64>) -> PyResult<Operation> {
        let lifetime = lifetime_of(lifetime)?;
        let (open, url) = (self.begin(py)?, self.url.clone());
        let progress = open.progress.clone();
        let work: Work = Box::pin(async move {
            let taken = open.writer.lock().await.take();
            match taken {
                Some(writer) if !open.has_failed.load(SeqCst) => {
                    outcome(writer.prepare().lifetime(lifetime).await, pending)
                }
                Some(_) | None => ended(url, &open),
            }
        });
        Ok(Operation::of(&self.shared, Some(progress), work))
    }

    /// Makes all bytes outlast this process and this machine, unless a write has failed.
    fn persist(&self, py: Python<'_>, lifetime: Option<f64>) -> PyResult<Operation> {
        let lifetime = lifetime_of(lifetime)?;
        let (open, url) = (self.begin(py)?, self.url.clone());
        let work: Work = Box::pin(async move {
            let mut guard = open.writer.lock().await;
            let has_failed = open.has_failed.load(SeqCst);
            let Some(writer) = guard.as_mut().filter(|_| !has_failed) else { return ended(url, &open) };
            outcome(writer.persist().lifetime(lifetime).await, resumable)
        });
        Ok(Operation::of(&self.shared, None, work))
    }

    /// Aborts the upload, and waits for that. A journal is removed.
    fn abort(&self, py: Python<'_>) -> PyResult<Operation> {
        let (open, url) = (self.begin(py)?, self.url.clone());
        let work: Work = Box::pin(async move {
            let taken = open.writer.lock().await.take();
            match taken {
                Some(writer) => outcome(writer.abort().await, |py, ()| Ok(py.None())),
                None => ended(url, &open),
            }
        });
        Ok(Operation::of(&self.shared, None, work))
    }

    /// Drops the writer: the upload is aborted in the background, and a journal stays. A call that has the writer now
    /// drops it at its end. Does nothing in a forked child.
    fn drop(&self) {
        let Some(open) = self.open.own().cloned() else { return };
        let Some(running) = self.shared.own() else { return };
        match open.writer.try_lock() {
            Ok(mut writer) => {
                let _entered = running.runtime().enter();
                drop(writer.take());
            }
            Err(_) => {
                let open = open.clone();
                running.runtime().spawn(async move { drop(open.writer.lock().await.take()) });
            }
        }
    }

    /// As `drop`, also while a call is about to publish.
    fn fail(&self) {
        if let Some(open) = self.open.own() {
            open.has_failed.store(true, SeqCst);
        }
        self.drop();
    }

    /// Whether the bytes of a write are missing.
    fn has_failed(&self) -> bool {
        self.open.own().is_some_and(|open| open.has_failed.load(SeqCst))
    }

    /// Whether this thread waits in a write, and now handles a signal: then the write ends only after the handler.
    fn waits_here(&self) -> bool {
        self.open.own().is_some_and(|open| open.waiting().contains(&thread::current().id()))
    }

    /// Bytes of all writes that have returned.
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open.get(py)?.written.load(Relaxed))
    }

    fn progress(&self, py: Python<'_>) -> PyResult<Progress> {
        Ok(self.open.get(py)?.progress.snapshot().into())
    }

    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn strategy(&self) -> &'static str {
        self.strategy
    }

    /// Whether this process has opened it.
    fn is_own(&self) -> bool {
        self.open.is_own()
    }

    /// The process that has opened it.
    #[getter]
    fn process(&self) -> i32 {
        self.open.process()
    }

    /// A callback may keep the file that it reports of. The garbage collector breaks that cycle in Python's half.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reports.get().map_or(Ok(()), |reports| visit.call(&reports.callback))
    }
}

/// The uploads of these writers, which take no more bytes, for a set. The future gives the error of a writer that has ended
/// or failed before; the others are then discarded.
pub(crate) fn prepared(
    py: Python<'_>,
    writers: &[Py<Writer>],
    lifetime: Option<f64>,
) -> PyResult<impl Future<Output = Result<Vec<PrepareBuilder>, Outcome>> + Send + use<>> {
    let lifetime = lifetime_of(lifetime)?;
    let begun = |writer: &Py<Writer>| Ok((writer.get().begin(py)?, writer.get().url.clone()));
    let open = writers.iter().map(begun).collect::<PyResult<Vec<_>>>()?;
    Ok(async move {
        let mut uploads = Vec::new();
        for (open, url) in open {
            let taken = open.writer.lock().await.take();
            let Some(writer) = taken.filter(|_| !open.has_failed.load(SeqCst)) else {
                return Err(ended(url, &open));
            };
            uploads.push(writer.prepare().lifetime(lifetime));
        }
        Ok(uploads)
    })
}

fn lifetime_of(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let lifetime = seconds.map(Duration::try_from_secs_f64).transpose();
    lifetime.map_err(|_| PyValueError::new_err("lifetime: this is no number of seconds"))
}

fn ended(url: Arc<str>, open: &OpenWriter) -> Outcome {
    let why = if open.has_failed.load(SeqCst) { HAS_FAILED } else { HAS_ENDED };
    Box::new(move |py| Err(errors::closed(py, &url, why)))
}
