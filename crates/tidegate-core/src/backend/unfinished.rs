//! Unfinished uploads as stores list them, and the lifecycle rules that end them.

use std::time::SystemTime;

use super::Session;

/// An unfinished server-side upload, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// The session.
    pub session: Session,
    /// When it began, if the store says.
    pub started: Option<SystemTime>,
    /// Who began it, in the store's words, if the store says.
    pub initiator: Option<String>,
    /// Whether the store itself knows that a process is writing to it (a local disk: its file is locked).
    pub in_use: bool,
    /// Until when it is kept for a commit, if it is a pending upload (docs/PENDING.md).
    pub kept_until: Option<SystemTime>,
}

impl OpenSession {
    /// A session about which nothing more is known.
    pub fn new(session: Session) -> Self {
        Self { session, started: None, initiator: None, in_use: false, kept_until: None }
    }

    /// Sets when the upload began.
    #[must_use]
    pub fn with_started(mut self, started: Option<SystemTime>) -> Self {
        self.started = started;
        self
    }

    /// Sets who began the upload.
    #[must_use]
    pub fn with_initiator(mut self, initiator: Option<String>) -> Self {
        self.initiator = initiator;
        self
    }

    /// Sets until when it is kept for a commit.
    #[must_use]
    pub fn with_kept_until(mut self, kept_until: Option<SystemTime>) -> Self {
        self.kept_until = kept_until;
        self
    }

    /// Sets whether a process is known to be writing to it.
    #[must_use]
    pub fn with_in_use(mut self, in_use: bool) -> Self {
        self.in_use = in_use;
        self
    }
}

/// The parts and bytes that a session holds in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many parts; `None` if the store keeps all bytes as one piece.
    pub parts: Option<u64>,
    /// Bytes in all parts together.
    pub bytes: u64,
    /// Who began it, in the store's words, if the store says.
    pub initiator: Option<String>,
}

/// A bucket's lifecycle rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// The rules, in the store's order.
    pub rules: Vec<LifecycleRule>,
    /// The whole document as the store gave it, for [`add_abort_rule`](super::Admin::add_abort_rule); empty if
    /// there is none.
    pub document: String,
    /// A setting for all rules together that the store gives beside the document (S3: the smallest object that
    /// transitions apply to).
    pub default_minimum: Option<String>,
}

/// One lifecycle rule, as far as Tidegate understands it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleRule {
    /// The rule's name in the bucket.
    pub id: Option<String>,
    /// Whether the rule is switched on.
    pub enabled: bool,
    /// The rule applies to keys that begin with this.
    pub prefix: String,
    /// Whether the rule applies only to some of these keys, such as those with certain tags or sizes.
    pub narrowed: bool,
    /// After how many days the rule aborts incomplete uploads, if it does.
    pub abort_after_days: Option<u32>,
    /// All actions of the rule in the store's words, also unknown ones: `Expiration Days=30`.
    pub actions: Vec<String>,
    /// The whole rule in a canonical form: two rules that mean the same have the same text.
    pub canonical: String,
}

/// A rule that aborts incomplete uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortRule {
    /// The rule's name in the bucket.
    pub id: String,
    /// The rule applies to keys that begin with this; empty for all keys.
    pub prefix: String,
    /// After how many days uploads are aborted, at least 1.
    pub days: u32,
}

impl AbortRule {
    /// A rule for all keys that begin with `prefix`.
    pub fn new(id: impl Into<String>, prefix: impl Into<String>, days: u32) -> Self {
        Self { id: id.into(), prefix: prefix.into(), days }
    }
}
