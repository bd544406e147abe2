//! What belongs to the process that made it. A forked child inherits the memory of its parent, but none of the parent's
//! threads: a runtime, a socket or a lock that it finds there is of no use, and dropping a writer would abort an upload
//! that the parent still writes.

use rustix::process::{Pid, getpid};

use crate::error::{Outcome, TG_KIND_FORKED, failure};

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
        self.value.as_ref().filter(|_| getpid() == self.process)
    }

    /// # Errors
    /// `TG_KIND_FORKED` in a process that has inherited it.
    pub(crate) fn get(&self) -> Outcome<&T> {
        self.own().ok_or_else(|| {
            let parent = self.process.as_raw_pid();
            let message = format!(
                "process {parent} made this handle, and this process was forked from that one: make a new engine here"
            );
            failure(TG_KIND_FORKED, "", &message)
        })
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if getpid() != self.process {
            std::mem::forget(self.value.take());
        }
    }
}
