//! The condition of a write that its key has no object (`If-None-Match: *`), on servers that may ignore it.

use http::{HeaderMap, header};

use super::S3;
use super::client::S3Shared;
use tidegate_core::backend::{Attempt, BucketFacts, Fault, FaultKind, Feature, WriteOptions};
use tidegate_http::vacancy::check_vacant;

/// The two writes whose conditions a server may keep or ignore.
const WRITES: [Feature; 2] = [Feature::CreateOnly, Feature::CreateOnlyParts];

/// What these servers call themselves. All versions in use keep the condition, and take a checksum in a trailer.
const SERVERS: [&str; 3] = ["MinIO", "VERSITYGW", "Tidegate"];

impl S3Shared {
    /// Learns from the headers of an answer about a bucket, or from the endpoint, that the server keeps the condition.
    pub(super) fn learn_conditions(&self, headers: &HeaderMap, bucket: &BucketFacts) {
        let server = headers.get(header::SERVER).and_then(|server| server.to_str().ok()).unwrap_or_default();
        if self.endpoint.is_aws() || SERVERS.iter().any(|known| server.starts_with(known)) {
            WRITES.into_iter().for_each(|write| bucket.learn_has(write));
            self.facts.learn_has(Feature::Trailers);
        }
    }
}

impl S3 {
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
        if shared.settings.keeps_conditions || shared.endpoint.is_aws() {
            return Ok(());
        }
        check_vacant(self, (&shared.facts, &self.bucket.facts), write, key, options, attempt).await
    }

    /// The fault of a write with a condition. A refusal because of the condition shows that the server keeps it;
    /// without the condition, nothing is written.
    pub(super) fn unmet(&self, mut fault: Fault, write: Feature, options: &WriteOptions) -> Fault {
        match fault.kind {
            // The object that was to be replaced is gone.
            FaultKind::NotFound if options.replaces.is_some() => fault.kind = FaultKind::Exists,
            FaultKind::Exists if options.create_only && fault.code == "PreconditionFailed" => {
                self.bucket.facts.learn_has(write);
            }
            FaultKind::Unsupported | FaultKind::Invalid if names_condition(&fault) => {
                let promise = if options.create_only {
                    "the server can't promise that nothing is replaced (create-only: If-None-Match)"
                } else {
                    "the server can't promise which object is replaced (If-Match)"
                };
                fault.kind = FaultKind::Unsupported;
                fault.message = format!("{promise}, so nothing was written: {}", fault.message);
            }
            _ => {}
        }
        fault
    }
}

fn names_condition(fault: &Fault) -> bool {
    let said = fault.message.to_ascii_lowercase();
    let has_word = ["if-none-match", "if-match", "condition"].iter().any(|word| said.contains(word));
    // S3's refusal of what it has not implemented does not always name it.
    has_word || fault.kind == FaultKind::Unsupported && said.contains("header you provided implies")
}
