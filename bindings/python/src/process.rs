//! What belongs to the process that made it. A forked child inherits the memory of its parent, but none of the parent's
//! threads: a runtime, a socket or a lock that it finds there is of no use, and dropping a writer would abort an upload
//! that the parent still writes.

use pyo3::prelude::*;
use rustix::process::{Pid, getpid};

use crate::errors;

/// In a forked child: gives up the locks of the parent's journals.
#[pyfunction]
pub(crate) fn release_inherited_locks() -> PyResult<()> {
    Ok(tidegate::fork::release_inherited_locks()?)
}

/// A value that only the process that made it uses and drops. In a forked child it is inert, and is leaked.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    process: Pid,
    /// `None` only while it is dropped.
    value: Option<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: getpid(), value: Some(value) }
    }

    /// The value, if this is the process that made it.
    pub(crate) fn own(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.is_own())
    }

    pub(crate) fn is_own(&self) -> bool {
        getpid() == self.process
    }

    /// The process that made it.
    pub(crate) fn process(&self) -> i32 {
        self.process.as_raw_pid()
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkError` in a process that has inherited it.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match self.own() {
            Some(value) => Ok(value),
            None => Err(errors::forked(py, self.process(), "")),
        }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_own() {
            std::mem::forget(self.value.take());
        }
    }
}
