//! What the server can be told to do badly. Plain data: [`crate::faults`] acts on it.

mod fault;

use serde::{Deserialize, Serialize};

pub use fault::{Action, Fault};

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
    /// Time that passes between the last byte of an object, part, chunk or completion and its answer; also
    /// before that to a flush over gRPC, whose stream goes on meanwhile.
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
    /// How many bytes one of Google's rewrites copies before it is to be asked again; all where not set.
    pub rewrite_step: Option<u64>,
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
    /// What comes of one request's body, also where several share a connection (HTTP/2).
    pub stream_in: Option<u64>,
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

fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests;
