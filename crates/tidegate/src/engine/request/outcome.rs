//! How a request ended: its answer or fault, its attempts, and whether it may have been carried out.

use std::time::Duration;

use crate::backend::{Fault, FaultKind};
use crate::types::error::{Error, Operation};

/// A request that succeeded.
#[derive(Debug)]
pub(crate) struct Made<T> {
    pub(crate) answer: T,
    pub(crate) attempts: u32,
    /// Whether an earlier attempt may have been carried out although its answer was lost.
    pub(crate) in_doubt: bool,
}

/// A request that failed for good.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    /// Whether some attempt may have been carried out although its answer was lost.
    pub(crate) in_doubt: bool,
    /// Whether the store never answered some attempt, and may still carry it out.
    pub(crate) late: bool,
    /// Whether an earlier attempt of the same request may be the reason for the last one's fault.
    pub(crate) ran_into: bool,
    /// Whether the store says that it carried out the request, but the result has not been seen yet.
    pub(crate) unseen: bool,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::at_once(fault)
    }
}

/// What the attempts of one request have met with so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) in_doubt: bool,
    late: bool,
    /// Attempts that the store did not refuse outright, as it does with a 409.
    accepted: u32,
    /// Whether the last attempt's connection broke or stood still.
    pub(super) broken: bool,
    expired: bool,
}

impl Seen {
    /// Whether another attempt can help after this fault: credentials that expire again after a refresh will not get
    /// better.
    pub(super) fn may_help(&self, fault: &Fault) -> bool {
        !(self.expired && fault.kind == FaultKind::Expired)
    }

    pub(super) fn take_in(&mut self, fault: &Fault) {
        self.in_doubt |= fault.is_ambiguous();
        // `NotAStore` means that some server has answered the request: no part of it is still on its way.
        let is_on_its_way = fault.is_ambiguous() && !fault.answered && fault.kind != FaultKind::NotAStore;
        self.late |= is_on_its_way;
        self.accepted += u32::from(fault.kind != FaultKind::Undone);
        self.broken = !fault.answered && (fault.is_ambiguous() || fault.kind == FaultKind::Unreachable);
        self.expired |= fault.kind == FaultKind::Expired;
    }

    pub(super) fn failure(self, fault: Fault, attempts: u32, elapsed: Duration) -> Failure {
        let is_met = matches!(fault.kind, FaultKind::NoSession | FaultKind::Exists);
        let ran_into = is_met && attempts > 1 && self.accepted > 1;
        let (in_doubt, late) = (self.in_doubt, self.late);
        Failure { fault, attempts, elapsed, in_doubt, late, ran_into, unseen: false }
    }
}

impl<T> Made<T> {
    /// Adds earlier, failed requests for the same thing.
    pub(crate) fn after(mut self, earlier: Option<&Failure>) -> Self {
        if let Some(earlier) = earlier {
            self.attempts += earlier.attempts;
            self.in_doubt |= earlier.in_doubt;
        }
        self
    }
}

impl Failure {
    /// The failure of a request that changes nothing.
    pub(crate) fn of(fault: Fault, attempts: u32, elapsed: Duration) -> Self {
        Seen::default().failure(fault, attempts, elapsed)
    }

    /// Adds `earlier`, failed requests for the same thing. The store itself refused the last of them, so this fault
    /// is not caused by it.
    pub(crate) fn after(mut self, earlier: Option<Self>) -> Self {
        if let Some(earlier) = earlier {
            self.attempts += earlier.attempts;
            self.elapsed += earlier.elapsed;
            self.in_doubt |= earlier.in_doubt;
            self.late |= earlier.late;
        }
        self
    }

    /// Whether the request may have been carried out after all: an answer was lost, or an earlier attempt of our own
    /// may have caused the last one's fault.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.in_doubt || self.ran_into
    }

    /// A fault that no retry preceded.
    pub(crate) fn at_once(fault: Fault) -> Self {
        Self {
            fault,
            attempts: 1,
            elapsed: Duration::ZERO,
            in_doubt: false,
            late: false,
            ran_into: false,
            unseen: false,
        }
    }

    pub(crate) fn into_error(self, operation: Operation, object: &str) -> Error {
        Error::from_fault(self.fault, operation, object, self.attempts, self.elapsed)
    }
}
