//! What one server turns out to lack, or to do otherwise than its protocol says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The facts of one endpoint. They are learned from its answers, once for all who send requests there.
#[derive(Debug, Default)]
pub struct Facts {
    ignores_ranges: AtomicBool,
    is_minio: AtomicBool,
    lacks_bulk_delete: AtomicBool,
    lacks_parts: AtomicBool,
    tells_no_positions: AtomicBool,
    buckets: Mutex<BTreeMap<String, Arc<BucketFacts>>>,
}

impl Facts {
    /// Whether the last request for a range was answered with the whole object. Each read from such a store is one
    /// stream, for every further request would send the whole object again.
    pub fn ignores_ranges(&self) -> bool {
        self.ignores_ranges.load(Relaxed)
    }

    /// A request for a range was answered, with that range or with the whole object.
    pub fn answered_range(&self, is_ignored: bool) {
        if self.ignores_ranges.swap(is_ignored, Relaxed) != is_ignored {
            tracing::debug!(is_ignored, "the store was asked for a range");
        }
    }

    /// Whether the server may have removals of many objects in one request.
    pub(super) fn may_have_bulk_delete(&self) -> bool {
        !self.lacks_bulk_delete.load(Relaxed)
    }

    /// The server refused a bulk removal, because it has none.
    pub(crate) fn answered_without_bulk_delete(&self) {
        if !self.lacks_bulk_delete.swap(true, Relaxed) {
            tracing::debug!("the store has no removals of many objects in one request: they go one by one");
        }
    }

    /// Whether the server may have uploads in parts.
    pub(crate) fn may_have_parts(&self) -> bool {
        !self.lacks_parts.load(Relaxed)
    }

    /// The server refused to open a session of parts, because it has none.
    pub(super) fn answered_without_parts(&self) {
        if !self.lacks_parts.swap(true, Relaxed) {
            tracing::debug!(
                "the store has no uploads in parts: an object that is larger than a part goes to a session that its \
                 bytes are appended to, one part after the other"
            );
        }
    }

    /// The server does not tell how many bytes a session has that bytes are appended to.
    pub(super) fn answered_without_positions(&self) {
        if !self.tells_no_positions.swap(true, Relaxed) {
            tracing::debug!(
                "the store does not tell how much of an unfinished upload it has: after a lost answer, or when a \
                 journal is resumed, all bytes are sent again"
            );
        }
    }

    /// The facts of one bucket.
    pub(super) fn bucket(&self, bucket: &str) -> Arc<BucketFacts> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.entry(bucket.to_owned()).or_default().clone()
    }

    /// Whether the server is MinIO, which lists and ends unfinished uploads in its own way.
    pub(super) fn is_minio(&self) -> bool {
        self.is_minio.load(Relaxed)
    }

    /// An answer shows that the server is MinIO.
    pub(super) fn answered_as_minio(&self) {
        self.is_minio.store(true, Relaxed);
    }
}

/// The facts of one bucket, learned once for all who send requests there.
#[derive(Debug, Default)]
pub struct BucketFacts {
    /// The bucket exists, or the caller may not ask whether it does.
    is_settled: AtomicBool,
}

impl BucketFacts {
    /// Whether a request about the bucket can tell something new.
    pub(super) fn is_worth_asking(&self) -> bool {
        !self.is_settled.load(Relaxed)
    }

    /// A request succeeded, so the bucket exists.
    pub(super) fn answered(&self) {
        self.is_settled.store(true, Relaxed);
    }

    /// The bucket was removed.
    pub(super) fn was_removed(&self) {
        self.is_settled.store(false, Relaxed);
    }

    /// The store does not let the caller ask about the bucket.
    pub(super) fn may_not_be_asked(&self) {
        self.is_settled.store(true, Relaxed);
    }
}

/// The facts of all endpoints that one engine reaches. A clone is the same collection.
#[derive(Clone, Debug, Default)]
pub struct KnownFacts(Arc<Mutex<BTreeMap<String, Arc<Facts>>>>);

impl KnownFacts {
    /// The facts of one endpoint, by the address in [`Info::endpoint`](super::Info::endpoint).
    pub fn of(&self, endpoint: &str) -> Arc<Facts> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(endpoint.to_owned()).or_default().clone()
    }
}
