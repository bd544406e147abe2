//! Counts requests by operation, bytes and connections, so that tests can assert how many requests a job took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::s3::checksum::S3Checksum;

/// Requests, bytes and connections since the start or the last reset.
///
/// A request counts as soon as its operation is known, even if it fails later. Requests that fail before (a bad
/// signature, an unknown operation) count as `Refused`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests by operation, such as S3's `PutObject` or Google's `storage.objects.insert`.
    pub requests: BTreeMap<String, u64>,
    /// The requests among them that were answered with an error or not at all.
    pub failed: BTreeMap<String, u64>,
    /// Bytes of request bodies, as sent (with any chunk framing).
    pub bytes_in: u64,
    /// Bytes of answer bodies.
    pub bytes_out: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Objects stored by `PutObject`, `CopyObject` and `CompleteMultipartUpload`, over S3's API or the XML API,
    /// by their checksum: `CRC64NVME`, `CRC32 COMPOSITE` (over the parts' checksums, not over the bytes),
    /// `none`.
    #[serde(default)]
    pub checksums: BTreeMap<String, u64>,
}

impl Counts {
    /// The number of requests of one operation.
    #[must_use]
    pub fn get(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or(0)
    }

    /// The number of failed requests of one operation.
    #[must_use]
    pub fn failed(&self, operation: &str) -> u64 {
        self.failed.get(operation).copied().unwrap_or(0)
    }

    /// The number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// The live counters behind `Counts`.
#[derive(Debug, Default)]
pub(crate) struct LiveCounters {
    operations: Mutex<Operations>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    connections: AtomicU64,
    keeps_journal: bool,
}

#[derive(Debug, Default)]
struct Operations {
    journal: Vec<String>,
    requests: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    checksums: BTreeMap<String, u64>,
}

impl LiveCounters {
    pub(crate) fn new(keeps_journal: bool) -> Self {
        Self { keeps_journal, ..Self::default() }
    }

    pub(crate) fn request(&self, operation: &str) {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        bump(&mut operations.requests, operation);
        if self.keeps_journal {
            operations.journal.push(operation.to_owned());
        }
    }

    pub(crate) fn journal(&self) -> Vec<String> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).journal.clone()
    }

    pub(crate) fn failure(&self, operation: &str) {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        bump(&mut operations.failed, operation);
    }

    pub(crate) fn stored(&self, checksum: Option<&S3Checksum>) {
        let name = match checksum {
            None => "none".to_owned(),
            Some(checksum) if checksum.is_composite => {
                format!("{} {}", checksum.algorithm.name(), checksum.kind())
            }
            Some(checksum) => checksum.algorithm.name().to_owned(),
        };
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        bump(&mut operations.checksums, &name);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Counts {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        Counts {
            requests: operations.requests.clone(),
            failed: operations.failed.clone(),
            checksums: operations.checksums.clone(),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn reset(&self) {
        *self.operations.lock().unwrap_or_else(PoisonError::into_inner) = Operations::default();
        self.bytes_in.store(0, Ordering::Relaxed);
        self.bytes_out.store(0, Ordering::Relaxed);
        self.connections.store(0, Ordering::Relaxed);
    }
}

fn bump(map: &mut BTreeMap<String, u64>, operation: &str) {
    if let Some(count) = map.get_mut(operation) {
        *count += 1;
    } else {
        map.insert(operation.to_owned(), 1);
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::s3::checksum::S3Algorithm;

    #[test]
    fn counts_and_resets() {
        let counters = LiveCounters::default();
        counters.request("PutObject");
        counters.request("PutObject");
        counters.failure("PutObject");
        counters.received(7);
        counters.stored(None);
        counters.stored(Some(&S3Checksum::of_bytes(S3Algorithm::Crc64Nvme, &[0; 8])));
        let parts = [(STANDARD.encode([0; 4]), 1)];
        counters.stored(Some(&S3Checksum::compose(S3Algorithm::Crc32, &parts).unwrap()));
        let counts = counters.snapshot();
        assert_eq!((counts.get("PutObject"), counts.total(), counts.bytes_in), (2, 2, 7));
        assert_eq!(counts.failed("PutObject"), 1);
        assert_eq!(
            counts.checksums.into_iter().collect::<Vec<_>>(),
            ["CRC32 COMPOSITE", "CRC64NVME", "none"].map(|name| (name.to_owned(), 1))
        );
        counters.reset();
        assert_eq!(counters.snapshot(), Counts::default());
    }
}
