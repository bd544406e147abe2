//! Notes requests that were dropped, or whose answers were lost.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::Fault;
use crate::types::error::Result;

/// Whether a request was given up before the store answered. The store may have received all of a part, and
/// store it after the abort of the session; S3's documentation of AbortMultipartUpload says so, and to abort
/// again.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(AtomicBool);

impl GivenUp {
    /// Makes a request, and notes if it is dropped or its answer is lost.
    pub(super) async fn watch<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut watched = AnswerGuard { given_up: &self.0, answered: false };
        let result = request.await;
        watched.answered = result.as_ref().err().is_none_or(|fault| fault.answered || !fault.is_ambiguous());
        result
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct AnswerGuard<'a> {
    given_up: &'a AtomicBool,
    answered: bool,
}

impl Drop for AnswerGuard<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.given_up.store(true, Ordering::Release);
        }
    }
}
