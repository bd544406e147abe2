//! Notes requests that are in flight, were dropped, or whose answers were lost.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::backend::Fault;
use crate::types::error::Result;

/// Whether a request is in flight, or was given up before the store answered. The store may have received all of a
/// part, and store it after the abort of the session. S3's documentation of AbortMultipartUpload says so, and says to
/// abort again.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// Requests in flight.
    in_flight: AtomicUsize,
    is_doubtful: AtomicBool,
}

impl GivenUp {
    /// Makes a request; notes that it is in flight, and if it is dropped or its answer is lost.
    pub(super) async fn watch<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let mut watched = AnswerGuard { given_up: self, answered: false };
        let result = request.await;
        watched.answered = result.as_ref().err().is_none_or(|fault| fault.answered || !fault.is_ambiguous());
        result
    }

    pub(super) fn is_set(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) > 0 || self.is_doubtful.load(Ordering::Acquire)
    }
}

struct AnswerGuard<'a> {
    given_up: &'a GivenUp,
    answered: bool,
}

impl Drop for AnswerGuard<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.given_up.is_doubtful.store(true, Ordering::Release);
        }
        self.given_up.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
