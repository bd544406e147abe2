//! Tells an event loop about operations that have ended. Tasks of the runtime never take the interpreter: they put an
//! outcome into a queue, and the first one in an empty queue wakes the loop through an eventfd that it watches. The
//! loop then takes all outcomes in one call.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

use crate::operation::Outcome;
use crate::process::OfProcess;

/// The operations of one event loop that have ended.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Completions {
    queue: OfProcess<Arc<Queue>>,
}

pub(crate) struct Queue {
    wake: OwnedFd,
    ended: Mutex<Vec<(Py<PyAny>, Outcome)>>,
}

impl Queue {
    pub(crate) fn push(&self, future: Py<PyAny>, outcome: Outcome) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = ended.is_empty();
        ended.push((future, outcome));
        drop(ended);
        if was_empty {
            // Fails only if the counter is at its end: then the loop is awake already.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Completions {
    pub(crate) fn queue(&self, py: Python<'_>) -> PyResult<&Arc<Queue>> {
        self.queue.get(py)
    }
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> PyResult<Self> {
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        Ok(Self { queue: OfProcess::new(Arc::new(Queue { wake, ended: Mutex::default() })) })
    }

    /// What the loop watches: readable when operations have ended.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.queue.get(py)?.wake.as_raw_fd())
    }

    /// Gives the results to the futures of the operations that have ended. Called by the loop.
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.queue.get(py)?;
        let mut count = [0_u8; 8];
        // There is nothing to read if the loop was woken twice for one batch.
        let _ = rustix::io::read(&queue.wake, &mut count);
        let ended = std::mem::take(&mut *queue.ended.lock().unwrap_or_else(PoisonError::into_inner));
        // A future that refuses its result takes none from the others.
        let mut refused = Ok(());
        for (future, outcome) in ended {
            refused = refused.and(settle(future.bind(py), outcome));
        }
        refused
    }
}

/// Gives a future its result, unless it was cancelled.
fn settle(future: &Bound<'_, PyAny>, outcome: Outcome) -> PyResult<()> {
    let py = future.py();
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match outcome(py) {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?,
    };
    Ok(())
}
