//! Why a request failed, as far as its backend knows.

use std::time::Duration;

/// The code of a refusal of the bucket's name in the path of addresses. Each store has another one.
pub const PATH_STYLE_REFUSED: &str = "PathStyleRequestNotAllowed";

/// Why one request failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// One clause for people, without the object's name: what the store or the system said.
    pub message: String,
    /// The store's own name of the error (S3: `NotImplemented`); empty if it gave none.
    pub code: String,
    /// Whether this is the store's own answer, and not the answer of a proxy on the way or no answer at all. The
    /// store has then ended the request, and does not carry it out later.
    pub answered: bool,
    /// Whether no response came at all: there was no connection, or it ended before the answer did.
    pub no_response: bool,
    /// How long the store asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// The underlying error.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            code: String::new(),
            answered: false,
            no_response: false,
            retry_after: None,
            source: None,
        }
    }

    /// The same fault, with the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same fault, with the store's own name of the error.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// The same fault, marked as answered by the store itself or not.
    #[must_use]
    pub fn with_answered(mut self, answered: bool) -> Self {
        self.answered = answered;
        self
    }

    /// The same fault, for a request that got no response.
    #[must_use]
    pub fn with_no_response(mut self) -> Self {
        self.no_response = true;
        self
    }

    /// Whether the store could not be reached: no response came, or none in time.
    pub fn is_unreachable(&self) -> bool {
        self.no_response || matches!(self.kind, FaultKind::Unreachable | FaultKind::Timeout)
    }

    /// Whether the store may have carried out the request all the same. A 503 that is not the store's own may come
    /// from a proxy that has lost the store's answer.
    pub fn is_ambiguous(&self) -> bool {
        self.kind.is_ambiguous() || (self.kind == FaultKind::Throttled && !self.answered)
    }

    /// Whether the store has certainly not carried out the request, and will not.
    pub fn has_no_effect(&self) -> bool {
        matches!(self.kind, FaultKind::Unreachable | FaultKind::Undone)
            || (self.kind == FaultKind::Throttled && self.answered)
    }

    /// The same fault, with the time that the store asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.retry_after = after;
        self
    }
}

/// The kind of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// No such object.
    NotFound,
    /// No such bucket or root.
    NoBucket,
    /// No such session: completed, aborted or expired.
    NoSession,
    /// The session is open, so it has published nothing; but it has fewer bytes than it had, or more than it was
    /// sent: its bytes are not those of this upload.
    Diverged,
    /// A completion names a part that the session does not have, or another copy of it than it has.
    PartMismatch,
    /// The key has an object already, and `create_only` was asked for; or the object is not the one that was to be
    /// replaced; or there is a bucket of the name of a new one.
    Exists,
    /// The bucket that was to be removed has objects.
    NotEmpty,
    /// The key has another object than the one that is being read.
    Replaced,
    /// The credentials do not allow it.
    Denied,
    /// There are no usable credentials: none found, expired, or refused.
    Credentials,
    /// The credentials have expired. New ones are fetched, and the request is made once more.
    Expired,
    /// This machine's clock and the store's are too far apart, so that signatures are refused.
    Skewed,
    /// The request is wrong, and will be wrong again.
    Invalid,
    /// Too large for this store.
    TooLarge,
    /// The store asks for fewer requests (429, 503 `SlowDown`).
    Throttled,
    /// Certainly not carried out: no connection came up, or the server says that it did nothing; another attempt
    /// may work.
    Unreachable,
    /// Another attempt may work; whether the store carried out the request is not known.
    Transient,
    /// As `Transient`: no answer within the deadline.
    Timeout,
    /// The store could not do it, and the request has no effect, now or later; another attempt may work.
    Undone,
    /// The object was published, whole, but could not be forced to disk, or is at a place where readers may not
    /// look for it.
    Unsynced,
    /// An answer that no object store gives: a 2xx without what the protocol promises, a web page. Whether the store
    /// carried out the request is not known; another attempt does not help.
    NotAStore,
    /// The bytes that arrived are not the bytes that were sent.
    Integrity,
    /// The bytes of a read are not those of the store's checksum, and some were given on already: reading on would hide
    /// that.
    Corrupted,
    /// The source could not be read, or changed while it was sent.
    Source,
    /// The disk is full, or a quota is used up.
    NoSpace,
    /// The store or this build can't do it.
    Unsupported,
    /// Nothing was sent: the engine belongs to the process that this one was forked from.
    Inherited,
}

impl FaultKind {
    /// Whether another attempt can help.
    pub fn is_retriable(self) -> bool {
        matches!(
            self,
            Self::Throttled
                | Self::Unreachable
                | Self::Transient
                | Self::Timeout
                | Self::Undone
                | Self::Integrity
                | Self::Expired
        )
    }

    /// Whether the store may have carried out the request all the same.
    pub fn is_ambiguous(self) -> bool {
        matches!(self, Self::Transient | Self::Timeout | Self::NotAStore)
    }
}
