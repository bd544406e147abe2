//! The condition of a write that its key has no object (`If-None-Match: *`), on servers that may ignore it.
//!
//! A server that does not know the condition writes all the same, and its answer does not show that. So until a server
//! has shown that it keeps the condition, the key is asked for just before the write: an object that is there is not
//! replaced. Of two writers at once, the later one then replaces the object of the other; only `tidegate doctor` can find
//! that out, because it may write objects of its own.

use http::{HeaderMap, header};

use super::S3;
use super::client::S3Shared;
use crate::backend::{Attempt, Backend as _, Fault, FaultKind, Feature, WriteOptions};

/// The two writes whose conditions a server may keep or ignore.
const WRITES: [Feature; 2] = [Feature::CreateOnly, Feature::CreateOnlyParts];

/// What these servers call themselves. All versions in use keep the condition, and take a checksum in a trailer.
const SERVERS: [&str; 3] = ["MinIO", "VERSITYGW", "Tidegate"];

impl S3Shared {
    /// Learns from an answer's headers, or from the endpoint, that the server keeps the condition.
    pub(super) fn learn_conditions(&self, headers: &HeaderMap) {
        let server = headers.get(header::SERVER).and_then(|server| server.to_str().ok()).unwrap_or_default();
        if self.endpoint.is_aws() || SERVERS.iter().any(|known| server.starts_with(known)) {
            WRITES.into_iter().chain([Feature::Trailers]).for_each(|feature| self.facts.learn_has(feature));
        }
    }
}

impl S3 {
    /// Fails with [`FaultKind::Exists`] if `options` demand that the key has no object, and it has one that an earlier
    /// attempt of this write has not made. Asks only a server that has not shown that it keeps the condition itself.
    pub(super) async fn ask_before(
        &self,
        key: &str,
        write: Feature,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<(), Fault> {
        let shared = &self.bucket.shared;
        let is_known =
            shared.settings.keeps_conditions || shared.endpoint.is_aws() || shared.facts.has(write);
        if !options.create_only || is_known || attempt.number > 1 {
            return Ok(());
        }
        let there = self.head(key, attempt).await;
        // A request that failed has shown nothing.
        let is_answered = there.as_ref().map_or_else(
            |fault| matches!(fault.kind, FaultKind::NotFound | FaultKind::NoBucket | FaultKind::Denied),
            |_| true,
        );
        if is_answered && !shared.facts.has(write) {
            shared.facts.learn_lack(write);
        }
        let there = match there {
            Ok(there) => there,
            // A caller who may write but not read gets no description: the condition alone has to do.
            Err(fault)
                if matches!(fault.kind, FaultKind::NotFound | FaultKind::NoBucket | FaultKind::Denied) =>
            {
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        if there.token.is_some() && there.token == options.token {
            return Ok(());
        }
        Err(Fault::new(FaultKind::Exists, "the key has an object already").with_answered(true))
    }

    /// The fault of a write with a condition. A refusal because of the condition shows that the server keeps it; without
    /// the condition, nothing is written.
    pub(super) fn unmet(&self, mut fault: Fault, write: Feature, options: &WriteOptions) -> Fault {
        match fault.kind {
            // The object that was to be replaced is gone.
            FaultKind::NotFound if options.replaces.is_some() => fault.kind = FaultKind::Exists,
            FaultKind::Exists if options.create_only && fault.code == "PreconditionFailed" => {
                self.bucket.shared.facts.learn_has(write);
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
