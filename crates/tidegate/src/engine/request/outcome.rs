//! How a request ended: its answer or fault, its attempts, and whether it may have been carried out.

use std::time::Duration;

use crate::backend::{Fault, FaultKind};
use crate::types::error::{Error, Operation};

/// Whether the attempts of a request may have been carried out although the last one failed. Each variant includes
/// the doubts of those before it, so the doubt about several requests for the same thing is the largest of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// The store refused each attempt, or was not reached.
    #[default]
    None,
    /// No answer was lost, but the last fault (no such session, the object exists) may be the effect of an earlier
    /// attempt that the store reported as failed.
    RanIntoItself,
    /// An answer was lost: the attempt may have been carried out, and is no longer on its way.
    AnswerLost,
    /// The store never answered an attempt, and may carry it out later.
    OnItsWay,
    /// The store says that it was carried out, but the result is not there yet.
    Unseen,
}

/// A request that succeeded.
#[derive(Debug)]
pub(crate) struct Made<T> {
    pub(crate) answer: T,
    pub(crate) attempts: u32,
    /// The doubt about earlier attempts.
    pub(crate) doubt: Doubt,
}

/// A request that failed for good.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) doubt: Doubt,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::at_once(fault)
    }
}

/// What the attempts of one request have met with so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The doubt about the answers of the attempts.
    pub(super) doubt: Doubt,
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
        if fault.is_ambiguous() {
            // `NotAStore` means that some server has answered the request: no part of it is still on its way.
            let has_ended = fault.answered || fault.kind == FaultKind::NotAStore;
            self.doubt = self.doubt.max(if has_ended { Doubt::AnswerLost } else { Doubt::OnItsWay });
        }
        self.accepted += u32::from(fault.kind != FaultKind::Undone);
        self.broken = !fault.answered && (fault.is_ambiguous() || fault.kind == FaultKind::Unreachable);
        self.expired |= fault.kind == FaultKind::Expired;
    }

    pub(super) fn failure(self, fault: Fault, attempts: u32, elapsed: Duration) -> Failure {
        let is_met = matches!(fault.kind, FaultKind::NoSession | FaultKind::Exists);
        let ran_into = is_met && attempts > 1 && self.accepted > 1;
        let least = if ran_into { Doubt::RanIntoItself } else { Doubt::None };
        Failure { fault, attempts, elapsed, doubt: self.doubt.max(least) }
    }
}

impl<T> Made<T> {
    /// Adds earlier, failed requests for the same thing.
    pub(crate) fn after(mut self, earlier: Option<&Failure>) -> Self {
        if let Some(earlier) = earlier {
            self.attempts += earlier.attempts;
            self.doubt = self.doubt.max(earlier.doubt);
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
            self.doubt = self.doubt.max(earlier.doubt);
        }
        self
    }

    /// A fault that no retry preceded.
    pub(crate) fn at_once(fault: Fault) -> Self {
        Self { fault, attempts: 1, elapsed: Duration::ZERO, doubt: Doubt::None }
    }

    pub(crate) fn into_error(self, operation: Operation, object: &str) -> Error {
        Error::from_fault(self.fault, operation, object, self.attempts, self.elapsed)
    }
}
