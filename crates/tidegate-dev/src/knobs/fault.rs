//! What goes wrong, and when.

use serde::{Deserialize, Serialize};

use super::one;

/// A rule: which requests meet with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The operation by name, as S3's `UploadPart` or Google's `storage.resumable.append`; `*` is every
    /// operation, and `a|b` is either, counted together.
    #[serde(default = "every")]
    pub operation: String,
    /// What happens.
    pub action: Action,
    /// How likely it is for each request that matches, 0 to 1.
    #[serde(default = "one")]
    pub probability: f64,
    /// Leaves the first so many matching requests alone.
    #[serde(default)]
    pub skip: u64,
    /// Happens at most so many times; without it, for ever.
    #[serde(default)]
    pub times: Option<u64>,
    /// Only for keys that begin so.
    #[serde(default)]
    pub key_prefix: Option<String>,
    /// Only for this part.
    #[serde(default)]
    pub part_number: Option<u32>,
}

/// What a [`Fault`] does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The request is refused; nothing is done.
    Error {
        /// HTTP status.
        status: u16,
        /// The error code: S3's, as `InternalError`, `SlowDown`, `RequestTimeout`, or Google's, as
        /// `backendError`, `rateLimitExceeded`.
        code: String,
        /// Sent as `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Status 200 with an error as its body; nothing is done.
    ErrorIn200 {
        /// S3's error code.
        code: String,
    },
    /// The connection is reset after so many bytes of the request's body; nothing is done, but of a
    /// resumable upload what came before is persisted, in whole multiples of 256 KiB.
    ResetRequest {
        /// Bytes of the body as sent, with any chunk framing.
        after_bytes: u64,
    },
    /// The connection is reset after so many bytes of the answer's body.
    ResetResponse {
        /// Bytes of the body that are sent before.
        after_bytes: u64,
    },
    /// The answer's body ends after so many bytes, and its connection with it, as if that were in order.
    EndResponse {
        /// Bytes of the body that are sent before.
        after_bytes: u64,
    },
    /// Nothing of the answer's body is sent for a while.
    StallResponse {
        /// Bytes of the body that are sent before.
        after_bytes: u64,
        /// How long, in milliseconds; then it goes on.
        ms: f64,
    },
    /// A bit of one byte of the answer's body is turned over; of a shorter body none.
    CorruptResponse {
        /// Which byte of the body, from 0.
        at: u64,
    },
    /// A request for a range of an object (S3, the XML API) is answered by all of it, with status 200.
    IgnoreRange,
    /// A request for a range of an object (S3, the XML API) is answered by as many bytes from another
    /// place, and says so.
    OtherRange {
        /// How many bytes further that is, as far as the object goes; back where negative.
        shift: i64,
    },
    /// A request for a range of an object (S3, the XML API) is answered by its bytes, which the answer
    /// says to be from another place.
    MisstateRange {
        /// How many bytes further that is, as far as the object goes; back where negative.
        shift: i64,
    },
    /// A request for a range of an object (S3, the XML API) is answered by its first bytes only, and
    /// says so.
    ShortenRange {
        /// How many bytes, at least one.
        bytes: u64,
    },
    /// The connection is reset after the first byte of the answer's head. What was asked is done.
    CutHead,
    /// The request is carried out, but the connection is cut before the answer.
    LoseAnswer,
    /// The request is carried out, and no answer ever comes: the connection stays as it is.
    HoldAnswer,
    /// The request is carried out, and its success is answered as this error: by something on the way
    /// that asked twice, or lost the answer itself.
    DenySuccess {
        /// HTTP status; 200 as well.
        status: u16,
        /// S3's error code; where empty, the answer has no body, as of something that is not the store.
        code: String,
    },
    /// Another writer replaces the object by an empty one, just before the request is acted on.
    Replace,
    /// Somebody removes the object, just before the request is acted on.
    Remove,
    /// Somebody aborts all sessions of the key, just before the request is acted on.
    AbortSessions,
    /// The request is refused after so many bytes of its body. Of a resumable upload what came before
    /// is persisted, in whole multiples of 256 KiB; anywhere else nothing is done.
    ErrorAfter {
        /// Bytes of the body as sent.
        after_bytes: u64,
        /// HTTP status.
        status: u16,
        /// S3's or Google's error code, as `SlowDown` or `backendError`.
        code: String,
    },
    /// Nothing of the request's body is read for a while.
    Stall {
        /// Bytes of the body that are read before.
        after_bytes: u64,
        /// How long, in milliseconds; then it goes on.
        ms: f64,
    },
    /// The client is sent elsewhere, with the same path; nothing is done.
    Redirect {
        /// HTTP status: 307, or 308 with a place to go to.
        status: u16,
        /// Where to, as `http://127.0.0.1:9124`.
        origin: String,
    },
    /// The request takes this much longer, in milliseconds.
    DelayMs(f64),
    /// The request is so many times slower than others: its latency, and what its connection receives
    /// a second while it is sent, where the knobs limit that.
    Slow(f64),
}

impl Fault {
    /// A rule that always applies to `operation`.
    #[must_use]
    pub fn new(operation: impl Into<String>, action: Action) -> Self {
        Self {
            operation: operation.into(),
            action,
            probability: 1.0,
            skip: 0,
            times: None,
            key_prefix: None,
            part_number: None,
        }
    }

    /// Refuses requests with this status and code.
    #[must_use]
    pub fn error(operation: impl Into<String>, status: u16, code: impl Into<String>) -> Self {
        let code = code.into();
        Self::new(operation, Action::Error { status, code, retry_after: None })
    }

    /// Carries requests out and cuts the connection before the answer.
    #[must_use]
    pub fn lose_answer(operation: impl Into<String>) -> Self {
        Self::new(operation, Action::LoseAnswer)
    }

    /// Makes requests so many times slower than others.
    #[must_use]
    pub fn slow(operation: impl Into<String>, times: f64) -> Self {
        Self::new(operation, Action::Slow(times))
    }

    /// Applies to each matching request with this probability.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Applies at most so many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Leaves the first so many matching requests alone.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Applies to this part only.
    #[must_use]
    pub fn part(mut self, part_number: u32) -> Self {
        self.part_number = Some(part_number);
        self
    }

    /// Applies to keys with this prefix only.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }
}

fn every() -> String {
    "*".to_owned()
}
