//! One call of the library, not begun yet. A task of the runtime carries the call out. Python waits for the end of the
//! task, with the interpreter released, or the task tells an event loop. An operation that is dropped or cancelled drops
//! the library's future, which is how the library is cancelled.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use pyo3::exceptions::{PyBaseException, PyRuntimeError};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use rustix::process::getpid;
use rustix::thread::gettid;
use tokio::task::{AbortHandle, JoinHandle};

use crate::completions::Completions;
use crate::engine::{Running, Shared};
use crate::errors;
use crate::objects::Progress;
use crate::process::OfProcess;

/// How often a waiting main thread lets Python handle signals. Other threads handle none.
const TICK: Duration = Duration::from_millis(50);
/// How often other threads do so: a program that embeds Python may have its main thread elsewhere.
const SLOW_TICK: Duration = Duration::from_secs(1);

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
    New(Work),
    /// A task carries it out; a thread waits for the task from time to time.
    Running(Task<Outcome>),
    /// It has ended, and nobody has asked for its result.
    Ended(Outcome),
    /// A task carries it out for an event loop.
    Started(JoinHandle<()>),
    /// A thread waits for its end, or its result was given, or it was cancelled.
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
        let state = OfProcess::new(Mutex::new(OperationState::New(work)));
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
            OperationState::New(work) => wait(py, self.shared.get(py)?, work)?(py),
            OperationState::Running(task) => task.wait(py)?(py),
            OperationState::Ended(outcome) => outcome(py),
            OperationState::Started(_) | OperationState::Taken => Err(taken()),
        }
    }

    /// Waits for the end, for so many seconds at most; whether it has come, and `wait` would return at once. An exception
    /// of a signal's handler cancels.
    fn has_ended_in(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let mut task = match self.take(py)? {
            OperationState::New(work) => Task::spawn(self.shared.get(py)?, work),
            OperationState::Running(task) => task,
            OperationState::Ended(outcome) => {
                return self.replace(py, OperationState::Ended(outcome)).map(|_| true);
            }
            OperationState::Started(_) | OperationState::Taken => return Err(taken()),
        };
        let limit = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
        let (next, has_ended) = match task.wait_until(py, Some(limit))? {
            Some(outcome) => (OperationState::Ended(outcome), true),
            None => (OperationState::Running(task), false),
        };
        self.replace(py, next).map(|_| has_ended)
    }

    /// Spawns a task for the call; `completions` then gives `future` the result, in the thread of its loop.
    fn start(&self, py: Python<'_>, completions: &Completions, future: Py<PyAny>) -> PyResult<()> {
        let OperationState::New(work) = self.take(py)? else { return Err(taken()) };
        let ended = completions.queue(py)?.clone();
        let task = self.shared.get(py)?.runtime().spawn(async move {
            let outcome = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => panicked(panic),
            };
            ended.push(future, outcome);
        });
        self.replace(py, OperationState::Started(task)).map(|_| ())
    }

    /// Cancels it. Has no effect once it has ended.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        match self.take(py)? {
            OperationState::Started(task) => self.shared.get(py)?.cancelled().cancel(task),
            OperationState::Running(mut task) => task.cancel(py),
            OperationState::New(_) | OperationState::Ended(_) | OperationState::Taken => {}
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

/// A task that a thread waits for. Dropping it cancels the task, without waiting for that.
struct Task<T> {
    task: AbortHandle,
    ended: Receiver<thread::Result<T>>,
}

impl<T: Send + 'static> Task<T> {
    /// Spawned, a call and the connection that it uses are carried out by the same threads. A thread that polled the call
    /// itself would be woken for each piece that arrives.
    fn spawn(running: &Running, work: impl Future<Output = T> + Send + 'static) -> Self {
        let (sender, ended) = sync_channel(1);
        let task = running.runtime().spawn(async move {
            // Dropped after `work`: once the channel is closed, `work` is gone.
            let sender = sender;
            let outcome = AssertUnwindSafe(work).catch_unwind().await;
            // Fails if nobody waits any more.
            let _ = sender.send(outcome);
        });
        Self { task: task.abort_handle(), ended }
    }

    fn wait(mut self, py: Python<'_>) -> PyResult<T> {
        loop {
            if let Some(value) = self.wait_until(py, None)? {
                return Ok(value);
            }
        }
    }

    /// Waits with the interpreter released; `None` if the task has not ended at `limit`. Every [`TICK`] Python handles
    /// its signals. If a handler raises an exception, the task is cancelled, and is gone when this returns.
    fn wait_until(&mut self, py: Python<'_>, limit: Option<Instant>) -> PyResult<Option<T>> {
        let tick = if gettid() == getpid() { TICK } else { SLOW_TICK };
        loop {
            let left = limit.map_or(tick, |limit| limit.saturating_duration_since(Instant::now()).min(tick));
            let ended = &mut self.ended;
            match py.detach(move || ended.recv_timeout(left)) {
                Ok(Ok(value)) => return Ok(Some(value)),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the engine's runtime has ended"));
                }
            }
            if let Err(raised) = py.check_signals() {
                self.cancel(py);
                return Err(raised);
            }
            if limit.is_some_and(|limit| limit <= Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// Cancels the task, and waits until its future is dropped, which is at the next point where it waits.
    fn cancel(&mut self, py: Python<'_>) {
        self.task.abort();
        let ended = &mut self.ended;
        py.detach(move || while ended.recv().is_ok() {});
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        // Has no effect on a task that has ended.
        self.task.abort();
    }
}

/// Has a task carry out `work`, and waits for it as [`Task::wait_until`] does: when this returns, `work` has ended or is
/// dropped.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    running: &Running,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    Task::spawn(running, work).wait(py)
}

/// Polls `work` once, in this thread and with the interpreter held: for calls that are most often ready at once, and quick.
pub(crate) fn poll_once<T>(running: &Running, work: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    let _entered = running.runtime().enter();
    Pin::new(work).poll(&mut Context::from_waker(Waker::noop()))
}

fn taken() -> PyErr {
    PyRuntimeError::new_err("the operation was started, awaited or cancelled before")
}

fn panicked(panic: Box<dyn Any + Send>) -> Outcome {
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
