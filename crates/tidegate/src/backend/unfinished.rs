//! What stores say of unfinished uploads, and of the rules by which they end them.

use std::time::SystemTime;

use super::Session;

/// An unfinished server-side upload, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenSession {
    /// The session.
    pub session: Session,
    /// When it was begun, where the store says.
    pub started: Option<SystemTime>,
    /// Who began it, in the store's words, where it says.
    pub initiator: Option<String>,
    /// Whether the store itself knows that someone is at work on it (a local disk: its file is locked).
    pub in_use: bool,
}

impl OpenSession {
    /// A session of which no more is known.
    pub fn new(session: Session) -> Self {
        Self { session, started: None, initiator: None, in_use: false }
    }

    /// The same, with when it was begun.
    #[must_use]
    pub fn with_started(mut self, started: Option<SystemTime>) -> Self {
        self.started = started;
        self
    }

    /// The same, with who began it.
    #[must_use]
    pub fn with_initiator(mut self, initiator: Option<String>) -> Self {
        self.initiator = initiator;
        self
    }

    /// The same, with whether someone is known to be at work on it.
    #[must_use]
    pub fn with_in_use(mut self, in_use: bool) -> Self {
        self.in_use = in_use;
        self
    }
}

/// What a session holds in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// How many parts; `None` where the store keeps them as one.
    pub parts: Option<u64>,
    /// Their bytes together.
    pub bytes: u64,
    /// Who began it, in the store's words, where it says.
    pub initiator: Option<String>,
}

/// A bucket's lifecycle rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lifecycle {
    /// The rules, in the store's order.
    pub rules: Vec<LifecycleRule>,
    /// All of it as the store gave it, for [`add_abort_rule`](super::Backend::add_abort_rule); empty where
    /// there is none.
    pub document: String,
    /// What the store said of all rules together beside the document (S3: the least size of objects that
    /// transitions apply to).
    pub default_minimum: Option<String>,
}

/// One lifecycle rule, as far as it is understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LifecycleRule {
    /// Its name in the bucket.
    pub id: Option<String>,
    /// Whether it is on.
    pub enabled: bool,
    /// The keys that it is about begin so.
    pub prefix: String,
    /// Whether it is about some of these keys only: those with certain tags or sizes.
    pub narrowed: bool,
    /// After how many days it aborts incomplete uploads, if it does.
    pub abort_after_days: Option<u32>,
    /// All that it does, in the store's words, known here or not: `Expiration Days=30`.
    pub actions: Vec<String>,
    /// The whole rule in one form for all ways of writing it: rules that mean the same have the same.
    pub canonical: String,
}

/// A rule that aborts incomplete uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortRule {
    /// Its name in the bucket.
    pub id: String,
    /// The keys that it is about begin so; empty for all.
    pub prefix: String,
    /// After how many days, from 1.
    pub days: u32,
}

impl AbortRule {
    /// A rule for all keys that begin with `prefix`.
    pub fn new(id: impl Into<String>, prefix: impl Into<String>, days: u32) -> Self {
        Self { id: id.into(), prefix: prefix.into(), days }
    }
}
