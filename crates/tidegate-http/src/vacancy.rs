//! The question before a create-only write, for servers that may ignore the write's condition.
//!
//! A server that does not know the condition writes all the same, and its answer does not show that. So until a server
//! has shown that it keeps the condition, each attempt first asks for the key: an object that is there is not replaced.
//! Of two writers at once, the later one then replaces the object of the other; only `tidegate doctor` can find that out,
//! because it may write objects of its own. A caller who may write but not read leaves the condition to the server, with a
//! warning that the key was not checked.
//!
//! A gateway may have a different server behind each bucket, so what a refusal shows is known of its bucket only.

use tidegate_core::backend::{Attempt, Backend, BucketFacts, Facts, Fault, FaultKind, Feature, WriteOptions};

/// Fails with [`FaultKind::Exists`] if `options` demand that the key has no object, and the key has one without the
/// write's token. `condition` is the feature that the server may lack. A server that is known to have it is not asked.
pub async fn check_vacant(
    backend: &impl Backend,
    (facts, bucket): (&Facts, &BucketFacts),
    condition: Feature,
    key: &str,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<(), Fault> {
    let keeps_condition = || facts.has(condition) || bucket.has(condition);
    if !options.create_only || keeps_condition() {
        return Ok(());
    }
    let (there, lack) = match backend.head(key, attempt).await {
        Ok(there) => (Some(there), condition),
        Err(fault) => match fault.kind {
            FaultKind::NotFound | FaultKind::NoBucket => (None, condition),
            FaultKind::Denied => (None, Feature::CreateOnlyCheck),
            // A request that failed has shown nothing.
            _ => return Err(fault),
        },
    };
    // The answer may name a server that keeps the condition.
    if !keeps_condition() {
        facts.learn_lack(lack);
    }
    match there {
        Some(there) if there.token.is_none() || there.token != options.token => {
            Err(Fault::new(FaultKind::Exists, "the key has an object already").with_answered(true))
        }
        _ => Ok(()),
    }
}
