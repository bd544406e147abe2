//! The figures that Tidegate gives to the `metrics` facade, and the names of its `tracing` spans. All of them are named
//! here; `docs/METRICS.md` lists them for users.

use std::time::Instant;

use metrics::{counter, gauge, histogram};
use tracing::{Span, debug_span, field::Empty};

/// The target of all spans, for filters.
const TARGET: &str = "tidegate";

/// An attempt of a request, and its span: counted as in flight until this is dropped. One that is dropped before it has
/// succeeded or failed was given up, and counts no further.
#[derive(Debug)]
pub struct AttemptFigures {
    operation: &'static str,
    began: Instant,
    span: Span,
}

impl AttemptFigures {
    /// Attempt number `attempt` begins. Its span is below the present one, or else below `whole`; the HTTP client records
    /// the store's own id of the request there.
    pub fn begin(whole: &Span, operation: &'static str, object: &str, attempt: u32) -> Self {
        gauge!("tidegate_requests_in_flight", "operation" => operation).increment(1.0);
        let span = if Span::current().is_none() {
            debug_span!(target: TARGET, parent: whole, "request", operation, object, attempt, request_id = Empty)
        } else {
            debug_span!(target: TARGET, "request", operation, object, attempt, request_id = Empty)
        };
        Self { operation, began: Instant::now(), span }
    }

    /// The span of the operation.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records that the operation succeeded.
    pub fn succeeded(self) {
        self.took();
    }

    /// The attempt has failed with an error of this kind.
    pub fn failed(self, kind: &'static str) {
        self.took();
        counter!("tidegate_failures_total", "operation" => self.operation, "kind" => kind).increment(1);
    }

    fn took(&self) {
        histogram!("tidegate_request_seconds", "operation" => self.operation)
            .record(self.began.elapsed().as_secs_f64());
    }
}

impl Drop for AttemptFigures {
    fn drop(&mut self) {
        gauge!("tidegate_requests_in_flight", "operation" => self.operation).decrement(1.0);
    }
}

/// The store has acknowledged bytes of an object that it was sent.
pub fn written(bytes: u64) {
    if bytes > 0 {
        counter!("tidegate_bytes_written_total").increment(bytes);
    }
}

/// Bytes of an object have been received.
pub fn received(bytes: u64) {
    if bytes > 0 {
        counter!("tidegate_bytes_read_total").increment(bytes);
    }
}

/// Counts bytes that a store has acknowledged.
pub fn acknowledged(bytes: u64) {
    counter!("tidegate_bytes_acknowledged_total").increment(bytes);
}

/// Counts bytes that are durable in a journal.
pub fn journaled(bytes: u64) {
    counter!("tidegate_bytes_journaled_total").increment(bytes);
}

/// Counts bytes that were spilled to disk.
pub fn spilled(bytes: u64) {
    counter!("tidegate_bytes_spilled_total").increment(bytes);
}

/// A request is made.
pub fn request(operation: &'static str) {
    counter!("tidegate_requests_total", "operation" => operation).increment(1);
}

/// A request is made again after one that failed.
pub fn retry(operation: &'static str) {
    counter!("tidegate_retries_total", "operation" => operation).increment(1);
}

/// A slow request is made a second time.
pub fn hedge() {
    counter!("tidegate_hedges_total").increment(1);
}

/// Memory of a budget was taken.
pub(crate) fn memory_taken(bytes: u64) {
    gauge!("tidegate_memory_held_bytes").increment(bytes as f64);
}

/// Memory of a budget came back.
pub(crate) fn memory_returned(bytes: u64) {
    gauge!("tidegate_memory_held_bytes").decrement(bytes as f64);
}

/// A transfer begins to wait, for memory, a disk, a request's turn or the pause before a retry.
pub(crate) fn wait_begins(reason: &'static str) {
    gauge!("tidegate_waits", "for" => reason).increment(1.0);
}

/// Counts a wait for memory that ended for this reason.
pub(crate) fn wait_ends(reason: &'static str) {
    gauge!("tidegate_waits", "for" => reason).decrement(1.0);
}

/// The span of an upload, from its writer to its end.
pub fn upload(object: &str) -> Span {
    debug_span!(target: TARGET, "upload", object)
}

/// The span of a read of an object, or of a download into a file.
pub fn download(object: &str) -> Span {
    debug_span!(target: TARGET, "download", object)
}

/// The span of one part of `upload`, from the wait for its turn to its acknowledgement.
pub fn part(upload: &Span, number: u32, bytes: u64) -> Span {
    debug_span!(target: TARGET, parent: upload, "part", number, bytes)
}

/// The store's own id of the request of the present span. The span may be the caller's, where nobody subscribes to ours.
pub fn request_id(id: &str) {
    let span = Span::current();
    if span.metadata().is_some_and(|metadata| metadata.target() == TARGET && metadata.name() == "request") {
        span.record("request_id", id);
    }
}
