//! The condition of a write that its key has no object (`ifGenerationMatch=0`), on servers that may ignore it.
//! fake-gcs-server keeps this condition for uploads, but ignores it for copies; other emulators ignore it for both.

use http::{HeaderMap, header};

use super::Gcs;
use super::client::GcsShared;
use tidegate_core::backend::{Attempt, Fault, FaultKind, Feature, WriteOptions};
use tidegate_http::vacancy::check_vacant;

/// The writes whose conditions a server may keep or ignore: in one request, by a resumable upload, and by a copy.
const WRITES: [Feature; 3] = [Feature::CreateOnly, Feature::CreateOnlyParts, Feature::CreateOnlyCopy];

/// What servers call themselves that keep the condition: Google's own, also behind a proxy, and ours.
const SERVERS: [&str; 2] = ["UploadServer", "Tidegate"];

impl GcsShared {
    /// Learns from an answer's headers that the server keeps the condition, in all buckets.
    pub(super) fn meet(&self, headers: &HeaderMap) {
        let server = headers.get(header::SERVER).and_then(|server| server.to_str().ok()).unwrap_or_default();
        if SERVERS.iter().any(|known| server.starts_with(known)) {
            WRITES.into_iter().for_each(|write| self.facts.learn_has(write));
        }
    }
}

impl Gcs {
    /// Learns from the refusal of a write that the bucket's server keeps the write's condition.
    pub(super) fn learn_from(&self, fault: &Fault, write: Feature, options: &WriteOptions) {
        if options.create_only && fault.kind == FaultKind::Exists {
            self.bucket.facts.learn_has(write);
        }
    }

    /// Learns from the refusal of a session's last bytes that the bucket's server keeps the condition: emulators refuse
    /// there.
    pub(super) fn learn_from_session(&self, fault: &Fault) {
        if fault.kind == FaultKind::Exists {
            self.bucket.facts.learn_has(Feature::CreateOnlyParts);
        }
    }

    /// Fails with [`FaultKind::Exists`] if a create-only write would replace an object and the server may ignore the
    /// condition `write`.
    pub(super) async fn check_vacant(
        &self,
        key: &str,
        write: Feature,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<(), Fault> {
        let shared = &self.bucket.shared;
        if shared.is_googles() {
            return Ok(());
        }
        check_vacant(self, (&shared.facts, &self.bucket.facts), write, key, options, attempt).await
    }
}
