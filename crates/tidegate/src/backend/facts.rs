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
    compares_no_checksums: AtomicBool,
    sends_no_range_checksums: AtomicBool,
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

    /// Whether the server may compare bytes with the checksum that is sent with them (Azure; Azurite does not).
    #[cfg(feature = "azure")]
    pub(super) fn may_compare_checksums(&self) -> bool {
        !self.compares_no_checksums.load(Relaxed)
    }

    /// The server refused or ignored a checksum.
    #[cfg(feature = "azure")]
    pub(super) fn answered_without_comparing(&self) {
        if !self.compares_no_checksums.swap(true, Relaxed) {
            tracing::debug!("the server does not compare the bytes that it gets with their checksums");
        }
    }

    /// Whether the server may send the checksum of a range with its bytes (Azure; Azurite does not).
    #[cfg(feature = "azure")]
    pub(super) fn may_send_range_checksums(&self) -> bool {
        !self.sends_no_range_checksums.load(Relaxed)
    }

    /// The server refused to send the checksum of a range.
    #[cfg(feature = "azure")]
    pub(super) fn answered_without_range_checksum(&self) {
        if !self.sends_no_range_checksums.swap(true, Relaxed) {
            tracing::debug!("the server sends no checksums of ranges");
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
