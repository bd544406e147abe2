//! One call of the library, not begun yet. Python waits for it, with the interpreter released, or hands it to an event
//! loop. An operation that is dropped or cancelled drops the library's future, which is how the library is cancelled.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use pyo3::exceptions::{PyBaseException, PyRuntimeError};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::completions::Completions;
use crate::engine::{Running, Shared};
use crate::errors;
use crate::objects::Progress;
use crate::process::OfProcess;

/// How often a wait looks for signals.
const TICK: Duration = Duration::from_millis(50);

/// Makes the result of an operation, in a thread that holds the interpreter.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

pub(crate) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A call of the library.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Operation {
    shared: Shared,
    progress: Option<tidegate::Progress>,
    state: OfProcess<Mutex<OperationState>>,
}

enum OperationState {
    /// Nobody waits for it.
    Waiting(Work),
    /// It has ended, and nobody has asked for its result.
    Ended(Outcome),
    /// A task of the runtime carries it out, for an event loop.
    Started(AbortHandle),
    /// A thread carries it out, or its result was given, or it was cancelled.
    Taken,
}

impl Operation {
    /// `then` makes the result.
    pub(crate) fn new<T: Send + 'static>(
        shared: &Shared,
        progress: Option<tidegate::Progress>,
        future: impl Future<Output = tidegate::Result<T>> + Send + 'static,
        then: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self::of(shared, progress, Box::pin(async move { outcome(future.await, then) }))
    }

    pub(crate) fn of(shared: &Shared, progress: Option<tidegate::Progress>, work: Work) -> Self {
        let state = OfProcess::new(Mutex::new(OperationState::Waiting(work)));
        Self { shared: shared.clone(), progress, state }
    }

    /// One whose result is `None`.
    pub(crate) fn of_nothing(
        shared: &Shared,
        future: impl Future<Output = tidegate::Result<()>> + Send + 'static,
    ) -> Self {
        Self::new(shared, None, future, |py, ()| Ok(py.None()))
    }

    fn take(&self, py: Python<'_>) -> PyResult<OperationState> {
        self.replace(py, OperationState::Taken)
    }

    fn replace(&self, py: Python<'_>, next: OperationState) -> PyResult<OperationState> {
        let mut state = self.state.get(py)?.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut *state, next))
    }
}

#[pymethods]
impl Operation {
    /// Waits for the end, and returns the result. An exception of a signal's handler cancels.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.take(py)? {
            OperationState::Waiting(mut work) => wait(py, self.shared.get(py)?, &mut work)?(py),
            OperationState::Ended(outcome) => outcome(py),
            OperationState::Started(_) | OperationState::Taken => Err(taken()),
        }
    }

    /// Waits for the end, for so many seconds at most; whether it has come, and `wait` would return at once.
    fn has_ended_in(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        match self.take(py)? {
            OperationState::Waiting(mut work) => {
                let running = self.shared.get(py)?;
                let limit = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
                let ended = wait(py, running, &mut Box::pin(async { timeout(limit, &mut work).await }));
                match ended {
                    Ok(Ok(outcome)) => self.replace(py, OperationState::Ended(outcome)).map(|_| true),
                    Ok(Err(_)) => self.replace(py, OperationState::Waiting(work)).map(|_| false),
                    Err(interrupted) => Err(interrupted),
                }
            }
            OperationState::Ended(outcome) => self.replace(py, OperationState::Ended(outcome)).map(|_| true),
            OperationState::Started(_) | OperationState::Taken => Err(taken()),
        }
    }

    /// Has a task carry it out; `completions` then gives `future` the result, in the thread of its loop.
    fn start(&self, py: Python<'_>, completions: &Completions, future: Py<PyAny>) -> PyResult<()> {
        let OperationState::Waiting(work) = self.take(py)? else { return Err(taken()) };
        let ended = completions.queue(py)?.clone();
        let task = self.shared.get(py)?.runtime().spawn(async move {
            let outcome = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => panicked(panic),
            };
            ended.push(future, outcome);
        });
        self.replace(py, OperationState::Started(task.abort_handle())).map(|_| ())
    }

    /// Cancels it. Has no effect once it has ended.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        if let OperationState::Started(task) = self.take(py)? {
            task.abort();
        }
        Ok(())
    }

    /// The figures of its transfer now, if it is one.
    fn progress(&self) -> Option<Progress> {
        self.progress.as_ref().map(|progress| progress.snapshot().into())
    }
}

/// The result of a call, or its exception.
pub(crate) fn outcome<T: Send + 'static>(
    ended: tidegate::Result<T>,
    then: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> Outcome {
    match ended {
        Ok(value) => Box::new(move |py| then(py, value)),
        Err(error) => Box::new(move |py| Err(errors::raised(py, &error))),
    }
}

/// Waits with the interpreter released, in this thread. Every [`TICK`] Python handles its signals: the exception of a
/// handler ends the wait, and the caller drops `work`.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    running: &Running,
    work: &mut (impl Future<Output = T> + Send + Unpin),
) -> PyResult<T> {
    loop {
        let runtime = running.runtime();
        let ended = py.detach(|| runtime.block_on(async { timeout(TICK, &mut *work).await }));
        match ended {
            Ok(value) => return Ok(value),
            Err(_) => py.check_signals()?,
        }
    }
}

/// Polls `work` once, with the interpreter held: for what is most often ready at once, and quick.
pub(crate) fn poll_once<T>(running: &Running, work: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    let _entered = running.runtime().enter();
    Pin::new(work).poll(&mut Context::from_waker(Waker::noop()))
}

fn taken() -> PyErr {
    PyRuntimeError::new_err("the operation was started, awaited or cancelled before")
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Outcome {
    let message = match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => {
            panic.downcast::<&str>().map_or_else(|_| "panic".to_owned(), |message| (*message).to_owned())
        }
    };
    Box::new(move |py| {
        let exception = py.get_type::<PanicException>().call1((message,))?;
        Err(PyErr::from_value(exception.cast_into::<PyBaseException>()?.into_any()))
    })
}
