//! The condition of a copy that its key has no object (`ifGenerationMatch=0`), on servers that may ignore it.
//!
//! fake-gcs-server keeps this condition for uploads, but copies all the same, and its answer does not show that. So
//! until a server has shown that it keeps the condition for copies, the key is asked for just before: an object that is
//! there is not replaced. One that another writer creates in the same moment may be.

use http::{HeaderMap, header};

use super::Gcs;
use super::client::GcsShared;
use crate::backend::{Attempt, Backend as _, Fault, FaultKind, Feature, WriteOptions};

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
    /// Fails with [`FaultKind::Exists`] if `options` demand that the key has no object, and it has one that an earlier
    /// attempt of this copy has not made. Asks only a server that has not shown that it keeps the condition itself.
    pub(super) async fn ask_before_copy(
        &self,
        key: &str,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<(), Fault> {
        let (shared, condition) = (&self.bucket.shared, Feature::CreateOnlyCopy);
        let is_known = shared.is_googles() || shared.facts.has(condition);
        if !options.create_only || is_known || attempt.number > 1 {
            return Ok(());
        }
        let there = self.head(key, attempt).await;
        // A request that failed has shown nothing.
        let is_answered = there.as_ref().map_or_else(
            |fault| matches!(fault.kind, FaultKind::NotFound | FaultKind::NoBucket | FaultKind::Denied),
            |_| true,
        );
        if is_answered && !shared.facts.has(condition) {
            shared.facts.learn_lack(condition);
        }
        match there {
            Ok(there) if there.token.is_some() && there.token == options.token => Ok(()),
            Ok(_) => Err(Fault::new(FaultKind::Exists, "the key has an object already").with_answered(true)),
            // A caller who may write but not read gets no description: the condition alone has to do.
            Err(fault)
                if matches!(fault.kind, FaultKind::NotFound | FaultKind::NoBucket | FaultKind::Denied) =>
            {
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }
}
