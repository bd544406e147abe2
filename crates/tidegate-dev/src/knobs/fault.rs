//! Rules for injected faults: which requests they hit, and the effect.

use serde::{Deserialize, Serialize};

use super::one;

/// A rule that applies a fault to some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The operation by name, such as S3's `UploadPart` or Google's `storage.resumable.append`; `*` matches
    /// every operation; `a|b` matches either, with one count for both.
    #[serde(default = "every")]
    pub operation: String,
    /// The fault to apply.
    pub action: FaultAction,
    /// The probability for each matching request, 0 to 1.
    #[serde(default = "one")]
    pub probability: f64,
    /// Does not apply to this many matching requests at first.
    #[serde(default)]
    pub skip: u64,
    /// Applies at most this many times; unlimited if not set.
    #[serde(default)]
    pub times: Option<u64>,
    /// Only for keys with this prefix.
    #[serde(default)]
    pub key_prefix: Option<String>,
    /// Only for this part number.
    #[serde(default)]
    pub part_number: Option<u32>,
}

/// The effect of a [`FaultRule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// The request is refused and not carried out.
    Error {
        /// HTTP status.
        status: u16,
        /// The error code: S3's, such as `InternalError`, `SlowDown`, `RequestTimeout`, or Google's, such as
        /// `backendError`, `rateLimitExceeded`.
        code: String,
        /// Sent as `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// Answers status 200 with an error as the body; the request is not carried out.
    ErrorIn200 {
        /// S3's error code.
        code: String,
    },
    /// Resets the connection after this many bytes of the request's body; the request is not carried out. A
    /// resumable upload persists the bytes before the reset, in whole multiples of 256 KiB.
    ResetRequest {
        /// Bytes of the body as sent, with any chunk framing.
        after_bytes: u64,
    },
    /// Resets the connection after this many bytes of the answer's body.
    ResetResponse {
        /// Bytes of the body that are sent first.
        after_bytes: u64,
    },
    /// Ends the answer's body and its connection after this many bytes, without a reset.
    EndResponse {
        /// Bytes of the body that are sent first.
        after_bytes: u64,
    },
    /// Pauses the answer's body.
    StallResponse {
        /// Bytes of the body that are sent first.
        after_bytes: u64,
        /// Length of the pause in milliseconds.
        ms: f64,
    },
    /// Flips one bit in one byte of the answer's body; a shorter body is unchanged.
    CorruptResponse {
        /// The byte's position in the body, from 0.
        at: u64,
    },
    /// Answers a request for a range of an object (S3, the XML API) with the whole object and status 200.
    IgnoreRange,
    /// Answers a request for a range of an object (S3, the XML API) with as many bytes from another offset, and
    /// states that offset.
    OtherRange {
        /// How many bytes further on that range starts, within the object; negative for further back.
        shift: i64,
    },
    /// Answers a request for a range of an object (S3, the XML API) with the right bytes, but states another
    /// offset.
    MisstateRange {
        /// How many bytes further on the stated range starts, within the object; negative for further back.
        shift: i64,
    },
    /// Answers a request for a range of an object (S3, the XML API) with only the first bytes of the range, and
    /// states the shorter range.
    ShortenRange {
        /// Length of the shorter range in bytes, at least one.
        bytes: u64,
    },
    /// Carries the request out, then resets the connection after the first byte of the answer's head.
    CutHead,
    /// Carries the request out, then cuts the connection before the answer.
    LoseAnswer,
    /// Carries the request out, but never answers; the connection stays open.
    HoldAnswer,
    /// Carries the request out, but answers its success with this error, as a proxy does that retried the
    /// request or lost the answer.
    DenySuccess {
        /// HTTP status; 200 is allowed.
        status: u16,
        /// S3's error code; if empty, the answer has no body, as if it did not come from the store.
        code: String,
    },
    /// Another writer replaces the object by an empty one, just before the server acts on the request.
    Replace,
    /// Another client removes the object, just before the server acts on the request.
    Remove,
    /// Another client aborts all sessions of the key, just before the server acts on the request.
    AbortSessions,
    /// Refuses the request after this many bytes of its body. A resumable upload persists the bytes before, in
    /// whole multiples of 256 KiB; any other request is not carried out.
    ErrorAfter {
        /// Bytes of the body as sent.
        after_bytes: u64,
        /// HTTP status.
        status: u16,
        /// S3's or Google's error code, as `SlowDown` or `backendError`.
        code: String,
    },
    /// Stops reading the request's body for a while.
    Stall {
        /// Bytes of the body that are read first.
        after_bytes: u64,
        /// Length of the pause in milliseconds.
        ms: f64,
    },
    /// Redirects the client to another server, with the same path; the request is not carried out.
    Redirect {
        /// HTTP status: 307, or 308 with a `Location`.
        status: u16,
        /// The other server, such as `http://127.0.0.1:9124`.
        origin: String,
    },
    /// Delays the request by this many milliseconds.
    DelayMs(f64),
    /// Makes the request slower by this factor: its latency, and, where the knobs limit the bandwidth, the rate
    /// at which its connection receives while the request is sent.
    Slow(f64),
}

impl FaultRule {
    /// A rule that always applies to `operation`.
    #[must_use]
    pub fn new(operation: impl Into<String>, action: FaultAction) -> Self {
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
        Self::new(operation, FaultAction::Error { status, code, retry_after: None })
    }

    /// Carries requests out, then cuts the connection before the answer.
    #[must_use]
    pub fn lose_answer(operation: impl Into<String>) -> Self {
        Self::new(operation, FaultAction::LoseAnswer)
    }

    /// Makes requests slower by this factor.
    #[must_use]
    pub fn slow(operation: impl Into<String>, times: f64) -> Self {
        Self::new(operation, FaultAction::Slow(times))
    }

    /// Applies to each matching request with this probability.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Applies at most this many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Does not apply to this many matching requests at first.
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
