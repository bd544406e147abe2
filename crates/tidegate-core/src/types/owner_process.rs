//! Which process made something. A forked child inherits it, and must not use it: its tasks run in the parent alone, and
//! its connections and sessions are the parent's. Nor must the child's drop of it remove, cut, write or unlock the
//! parent's files: a lock belongs to the open file, which both processes share.

use super::error::{Error, ErrorKind, Operation, Result};
use super::fault::{Fault, FaultKind};

/// The process that made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerProcess(u32);

impl OwnerProcess {
    /// The process that calls this.
    pub fn this() -> Self {
        Self(std::process::id())
    }

    /// Another process than this one.
    #[cfg(any(test, feature = "testkit"))]
    pub fn another() -> Self {
        Self(std::process::id().wrapping_add(1))
    }

    /// Whether the present process was forked from the owner.
    pub fn is_parent(self) -> bool {
        self.0 != std::process::id()
    }

    /// Fails in a process that was forked from the owner; the error names `object`.
    pub fn check(self, operation: Operation, object: impl FnOnce() -> String) -> Result<()> {
        if self.is_parent() {
            return Err(Error::new(ErrorKind::Closed, operation, object(), self.message()));
        }
        Ok(())
    }

    /// As [`check`](Self::check), for a request.
    pub fn check_request(self) -> Result<(), Fault> {
        if self.is_parent() {
            return Err(Fault::new(FaultKind::Inherited, self.message()));
        }
        Ok(())
    }

    fn message(self) -> String {
        format!(
            "process {} opened it, and this process was forked from that one: build an engine of its own here, and open \
             the store again",
            self.0
        )
    }
}
