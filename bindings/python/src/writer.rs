//! A writer. One call at a time has it; a finish or a discard takes it away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::engine::Shared;
use crate::errors;
use crate::objects::{Progress, object};
use crate::operation::{Operation, Outcome, Work, outcome, poll_once};
use crate::process::OfProcess;
use crate::store::bytes_of;

/// From so many bytes on, the bytes of a Python `bytes` are shared until the store has them.
const SHARED_FROM: usize = 64 << 10;

/// Up to so many bytes, a write is tried at once, with the interpreter held: they take less time than another thread
/// takes to begin.
const AT_ONCE: u64 = 256 << 10;

/// Writes one object.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Writer {
    shared: Shared,
    open: OfProcess<Arc<OpenWriter>>,
    url: Arc<str>,
    strategy: &'static str,
}

struct OpenWriter {
    writer: Mutex<Option<tidegate::Writer>>,
    /// Bytes of all writes that have returned.
    written: AtomicU64,
    progress: tidegate::Progress,
}

impl Writer {
    pub(crate) fn new(shared: &Shared, writer: tidegate::Writer, url: Arc<str>) -> Self {
        let strategy = writer.strategy().name();
        let open = OpenWriter {
            written: writer.position().into(),
            progress: writer.progress(),
            writer: Mutex::new(Some(writer)),
        };
        Self { shared: shared.clone(), open: OfProcess::new(Arc::new(open)), url, strategy }
    }

    /// Takes the writer away from other calls, and ends it.
    fn end<T: Send + 'static, F>(
        &self,
        py: Python<'_>,
        how: impl FnOnce(tidegate::Writer) -> F + Send + 'static,
        then: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = tidegate::Result<T>> + Send,
    {
        let (open, url) = (self.open.get(py)?.clone(), self.url.clone());
        let progress = open.progress.clone();
        let work: Work = Box::pin(async move {
            let taken = open.writer.lock().await.take();
            match taken {
                Some(writer) => outcome(how(writer).await, then),
                None => closed(url),
            }
        });
        Ok(Operation::of(&self.shared, Some(progress), work))
    }
}

#[pymethods]
impl Writer {
    /// Takes all bytes. Their number if they were taken at once, otherwise an operation that gives it.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (open, url) = (self.open.get(py)?.clone(), self.url.clone());
        let bytes = bytes_of(data)?;
        let length = bytes.len() as u64;
        let mut work: Work = Box::pin(async move {
            let mut guard = open.writer.lock().await;
            let Some(writer) = guard.as_mut() else { return closed(url) };
            let taken = match bytes.len() < SHARED_FROM {
                true => writer.write_bytes(bytes).await,
                false => writer.write_shared(bytes).await,
            };
            if taken.is_ok() {
                open.written.fetch_add(length, Relaxed);
            }
            outcome(taken, move |py, ()| Ok(length.into_pyobject(py)?.into_any().unbind()))
        });
        if length <= AT_ONCE
            && let Poll::Ready(taken) = poll_once(self.shared.get(py)?, &mut work)
        {
            return taken(py);
        }
        Ok(Py::new(py, Operation::of(&self.shared, None, work))?.into_any())
    }

    /// Makes all bytes survive the process, where the strategy is `journal`.
    fn sync(&self, py: Python<'_>) -> PyResult<Operation> {
        let (open, url) = (self.open.get(py)?.clone(), self.url.clone());
        let work: Work = Box::pin(async move {
            match open.writer.lock().await.as_mut() {
                Some(writer) => {
                    outcome(writer.sync().await, |py, bytes| Ok(bytes.into_pyobject(py)?.into_any().unbind()))
                }
                None => closed(url),
            }
        });
        Ok(Operation::of(&self.shared, None, work))
    }

    /// Publishes the object.
    fn finish(&self, py: Python<'_>) -> PyResult<Operation> {
        self.end(py, tidegate::Writer::finish, object)
    }

    /// Aborts the upload, and waits for that. A journal is removed.
    fn abort(&self, py: Python<'_>) -> PyResult<Operation> {
        self.end(py, tidegate::Writer::abort, |py, ()| Ok(py.None()))
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
}

fn closed(url: Arc<str>) -> Outcome {
    Box::new(move |py| Err(errors::closed(py, &url, "the writer has ended")))
}
