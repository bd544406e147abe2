//! The question before a create-only write, for servers that may ignore the write's condition.
//!
//! A server that does not know the condition writes all the same, and its answer does not show that. So until a server
//! has shown that it keeps the condition, each attempt first asks for the key: an object that is there is not replaced.
//! Of two writers at once, the later one then replaces the object of the other; only `tidegate doctor` can find that out,
//! because it may write objects of its own.

use super::{Attempt, Backend, Facts, Fault, FaultKind, Feature, WriteOptions};

/// Fails with [`FaultKind::Exists`] if `options` demand that the key has no object, and the key has one without the
/// write's token. `condition` is the feature that the server may lack. A server that is known to have it is not asked.
pub(super) async fn check_vacant(
    backend: &impl Backend,
    facts: &Facts,
    condition: Feature,
    key: &str,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<(), Fault> {
    if !options.create_only || facts.has(condition) {
        return Ok(());
    }
    let there = backend.head(key, attempt).await;
    // A caller who may write but not read gets no description. A request that failed has shown nothing.
    let is_refused = |kind| matches!(kind, FaultKind::NotFound | FaultKind::NoBucket | FaultKind::Denied);
    let there = match there {
        Ok(there) => Some(there),
        Err(fault) if is_refused(fault.kind) => None,
        Err(fault) => return Err(fault),
    };
    // The answer may name a server that keeps the condition.
    if !facts.has(condition) {
        facts.learn_lack(condition);
    }
    match there {
        Some(there) if there.token.is_none() || there.token != options.token => {
            Err(Fault::new(FaultKind::Exists, "the key has an object already").with_answered(true))
        }
        _ => Ok(()),
    }
}
