//! The condition of a copy that its key has no object (`ifGenerationMatch=0`), on servers that may ignore it.
//! fake-gcs-server keeps this condition for uploads, but ignores it for copies.

use http::{HeaderMap, header};

use super::Gcs;
use super::client::GcsShared;
use crate::backend::vacancy::check_vacant;
use crate::backend::{Attempt, Fault, FaultKind, Feature, WriteOptions};

/// What servers call themselves that keep the condition: Google's own, also behind a proxy, and ours.
const SERVERS: [&str; 2] = ["UploadServer", "Tidegate"];

impl GcsShared {
    /// Learns from an answer's headers that the server keeps the condition.
    pub(super) fn meet(&self, headers: &HeaderMap) {
        let server = headers.get(header::SERVER).and_then(|server| server.to_str().ok()).unwrap_or_default();
        if SERVERS.iter().any(|known| server.starts_with(known)) {
            self.facts.learn_has(Feature::CreateOnlyCopy);
        }
    }

    /// Learns from a copy's refusal that the server keeps the condition.
    pub(super) fn learn_from_copy(&self, fault: &Fault, options: &WriteOptions) {
        if options.create_only && fault.kind == FaultKind::Exists {
            self.facts.learn_has(Feature::CreateOnlyCopy);
        }
    }
}

impl Gcs {
    /// Fails with [`FaultKind::Exists`] if a create-only copy would replace an object and the server may ignore the
    /// condition.
    pub(super) async fn check_vacant(
        &self,
        key: &str,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<(), Fault> {
        let shared = &self.bucket.shared;
        if shared.is_googles() {
            return Ok(());
        }
        check_vacant(self, &shared.facts, Feature::CreateOnlyCopy, key, options, attempt).await
    }
}
