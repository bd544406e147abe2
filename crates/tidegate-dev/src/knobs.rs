//! What the server can be told to do badly. Plain data: [`crate::faults`] acts on it.

use serde::{Deserialize, Serialize};

/// How the server behaves. Everything is off by default.
///
/// The same names are the fields of the JSON that `/_tidegate/knobs` takes and gives:
///
/// ```
/// let knobs: tidegate_dev::Knobs = serde_json::from_str(r#"{
///     "latency": {"uniform_ms": [5, 20]},
///     "slow": {"fraction": 0.05, "factor": 10},
///     "bandwidth": {"connection_in": 2000000},
///     "rate_limit": {"per_second": 100, "prefix_depth": 1},
///     "faults": [
///         {"operation": "UploadPart", "action": {"error": {"status": 503, "code": "SlowDown"}}, "times": 2},
///         {"operation": "CompleteMultipartUpload", "action": "lose_answer", "probability": 0.1}
///     ]
/// }"#)?;
/// assert_eq!(knobs.faults.len(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// Time that passes before a request is acted on: the time to first byte.
    pub latency: Delay,
    /// Makes some requests much slower than the others.
    pub slow: Option<Slow>,
    /// Time that passes between the last byte of an object, part or completion and its answer.
    pub commit_latency: Delay,
    /// How fast bytes move.
    pub bandwidth: Bandwidth,
    /// How many requests a key prefix takes.
    pub rate_limit: Option<RateLimit>,
    /// What goes wrong, and when. All rules are tried on every request, in order.
    pub faults: Vec<Fault>,
    /// Refuses to complete a session whose parts, but the last, differ in size (as R2 does).
    pub equal_parts: bool,
    /// Behaves as a store from before checksums: ignores them in requests, sends none.
    pub no_checksums: bool,
    /// The least size of a part that is not the last; S3's 5 MiB where not set.
    pub min_part_size: Option<u64>,
}

impl Knobs {
    /// S3's own limit for parts that are not the last.
    pub const S3_MIN_PART_SIZE: u64 = 5 * 1024 * 1024;

    pub(crate) fn least_part(&self) -> u64 {
        self.min_part_size.unwrap_or(Self::S3_MIN_PART_SIZE)
    }
}

/// A distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// No time at all.
    #[default]
    None,
    /// Always the same.
    FixedMs(f64),
    /// Any time from the first to the second, equally likely.
    UniformMs(f64, f64),
}

/// A fraction of slow requests: what hedging is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// How many of all requests are slow, 0 to 1.
    pub fraction: f64,
    /// Their latency is multiplied by this.
    #[serde(default = "one")]
    pub factor: f64,
    /// And this much is added to it, in milliseconds.
    #[serde(default)]
    pub extra_ms: f64,
}

/// Bytes per second, by direction as the server sees it. Not set means as fast as it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bandwidth {
    /// What one connection receives.
    pub connection_in: Option<u64>,
    /// What one connection sends.
    pub connection_out: Option<u64>,
    /// What all connections together receive.
    pub total_in: Option<u64>,
    /// What all connections together send.
    pub total_out: Option<u64>,
}

impl Bandwidth {
    /// The same rate in both directions, for each connection.
    #[must_use]
    pub fn per_connection(bytes_per_second: u64) -> Self {
        Self {
            connection_in: Some(bytes_per_second),
            connection_out: Some(bytes_per_second),
            ..Self::default()
        }
    }

    /// The same rate in both directions, for all connections together.
    #[must_use]
    pub fn total(bytes_per_second: u64) -> Self {
        Self { total_in: Some(bytes_per_second), total_out: Some(bytes_per_second), ..Self::default() }
    }
}

/// Requests per second and key prefix; past it the answer is 503 SlowDown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// How many requests a second each prefix takes.
    pub per_second: f64,
    /// How many may come at once after a pause; one second's worth where not set.
    #[serde(default)]
    pub burst: Option<f64>,
    /// How many leading path segments of the key make the prefix; 0 is the whole bucket.
    #[serde(default)]
    pub prefix_depth: usize,
    /// Sent as `Retry-After`, in seconds.
    #[serde(default)]
    pub retry_after: Option<u64>,
}

/// A rule: which requests meet with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The operation by name, as S3's `UploadPart` or Google's `storage.resumable.append`; `*` is every
    /// operation.
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
        /// S3's error code, as `InternalError`, `SlowDown`, `RequestTimeout`.
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
    /// The connection is reset after so many bytes of the request's body; nothing is done.
    ResetRequest {
        /// Bytes of the body as sent, with any chunk framing.
        after_bytes: u64,
    },
    /// The connection is reset after so many bytes of the answer's body.
    ResetResponse {
        /// Bytes of the body that are sent before.
        after_bytes: u64,
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

fn one() -> f64 {
    1.0
}

fn every() -> String {
    "*".to_owned()
}

#[cfg(test)]
mod tests;
