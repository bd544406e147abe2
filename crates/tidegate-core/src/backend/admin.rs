//! What a bucket's owner asks for: unfinished uploads, lifecycle rules, tags, versions.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use super::{AbortRule, Attempt, Fault, FaultKind, Held, Lifecycle, Listing, OpenSession, Session};

/// Whether a bucket keeps the versions of its objects that were overwritten or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// The bucket has never kept versions.
    Off,
    /// The bucket keeps all versions.
    Enabled,
    /// The bucket keeps the versions from an earlier time, and no new ones.
    Suspended,
}

impl Versioning {
    /// One word, as in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Enabled => "enabled",
            Self::Suspended => "suspended",
        }
    }
}

/// The administration of a bucket.
#[async_trait]
pub trait Admin: Debug + Send + Sync {
    /// Lists the open sessions of keys that begin with `prefix`, as far as the store lists them.
    fn sessions(&self, prefix: &str) -> Listing<OpenSession>;

    /// One sentence that says which sessions this store's listing leaves out, for users. Known only after the store
    /// has answered a request.
    fn unlisted_sessions(&self) -> Option<&'static str> {
        None
    }

    /// Adds up the parts and bytes that a session holds. [`FaultKind::NoSession`] if there is no such session.
    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault>;

    /// The bucket's lifecycle rules; empty if the bucket has none. [`FaultKind::Unsupported`] if the store has no
    /// such rules.
    async fn lifecycle(&self, attempt: Attempt) -> Result<Lifecycle, Fault> {
        let _ = attempt;
        Err(Fault::new(FaultKind::Unsupported, "this store has no lifecycle rules"))
    }

    /// Replaces the bucket's lifecycle rules by those of `to` and `rule`. The rules of `to` stay exactly as they
    /// were, also those that Tidegate does not understand. [`FaultKind::Unsupported`] if the store does not accept
    /// such a rule.
    async fn add_abort_rule(&self, to: &Lifecycle, rule: &AbortRule, attempt: Attempt) -> Result<(), Fault> {
        let _ = (to, rule, attempt);
        Err(Fault::new(FaultKind::Unsupported, "this store has no lifecycle rules"))
    }

    /// Whether the bucket keeps versions. [`FaultKind::Unsupported`] if the store does not say.
    async fn versioning(&self, attempt: Attempt) -> Result<Versioning, Fault> {
        let _ = attempt;
        Err(Fault::new(FaultKind::Unsupported, "this store does not say whether its buckets keep versions"))
    }

    /// The tags of an object; empty if the store has no tags.
    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        let _ = (key, attempt);
        Ok(BTreeMap::new())
    }

    /// Whether the object has metadata whose names have capital letters that its description does not show. So a copy
    /// whose metadata is that of the description has other names.
    async fn hides_capitals(&self, key: &str, attempt: Attempt) -> Result<bool, Fault> {
        let _ = (key, attempt);
        Ok(false)
    }
}
