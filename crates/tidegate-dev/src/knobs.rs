//! The server's misbehaviour on request, as plain data: [`crate::faults`] applies it.

mod fault;

use serde::{Deserialize, Serialize};

pub use fault::{FaultAction, FaultRule};

/// How the server behaves. Everything is off by default.
///
/// The field names are also those of the JSON at `/_tidegate/knobs`:
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
    /// Delay before the server acts on a request: the time to first byte.
    pub latency: Delay,
    /// Makes some requests much slower than the others.
    pub slow: Option<Slow>,
    /// Delay between the last byte of an object, part, chunk or completion and its answer; also before the
    /// answer to a flush over gRPC, whose stream continues meanwhile.
    pub commit_latency: Delay,
    /// Limits on the transfer rate.
    pub bandwidth: Bandwidth,
    /// Limits on the request rate of each key prefix.
    pub rate_limit: Option<RateLimit>,
    /// Faults to inject. Each request is checked against all rules, in order.
    pub faults: Vec<FaultRule>,
    /// Refuses to complete a session whose parts, but the last, differ in size (as R2 does).
    pub equal_parts: bool,
    /// Behaves as a store that predates checksums: ignores them in requests, sends none.
    pub no_checksums: bool,
    /// How many bytes one request of Google's rewrite copies before the client has to call again; unlimited if
    /// not set.
    pub rewrite_step: Option<u64>,
    /// Answers Google's clients as fake-gcs-server 1.56 does: it has no uploads in parts, and lists objects where those
    /// are to be listed; its answer to the start of a
    /// resumable upload describes the object; and a query for the status of that upload publishes what is there.
    pub fake_gcs_server: bool,
    /// The minimum size of every part but the last; S3's 5 MiB if not set.
    pub min_part_size: Option<u64>,
    /// The most entries on a page of a listing, at least 1; the clouds' 1,000 if not set.
    pub longest_page: Option<usize>,
}

impl Knobs {
    /// S3's own minimum for every part but the last.
    pub const S3_MIN_PART_SIZE: u64 = 5 * 1024 * 1024;

    pub(crate) fn least_part(&self) -> u64 {
        self.min_part_size.unwrap_or(Self::S3_MIN_PART_SIZE)
    }

    pub(crate) fn longest_page(&self) -> usize {
        self.longest_page.unwrap_or(1000).max(1)
    }
}

/// A distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// No delay.
    #[default]
    None,
    /// Always this delay.
    FixedMs(f64),
    /// Any delay from the first to the second, equally likely.
    UniformMs(f64, f64),
}

/// Slows down a fraction of the requests: the case that hedging is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// The fraction of all requests that are slow, 0 to 1.
    pub fraction: f64,
    /// Factor on the latency of a slow request.
    #[serde(default = "one")]
    pub factor: f64,
    /// Added to the latency after the factor, in milliseconds.
    #[serde(default)]
    pub extra_ms: f64,
}

/// Limits in bytes per second; "in" is from client to server. A limit that is not set does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bandwidth {
    /// Received per connection.
    pub connection_in: Option<u64>,
    /// Sent per connection.
    pub connection_out: Option<u64>,
    /// Received over all connections together.
    pub total_in: Option<u64>,
    /// Received per request body, even where several requests share a connection (HTTP/2).
    pub stream_in: Option<u64>,
    /// Sent over all connections together.
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

/// Limits the requests per second of each key prefix; beyond it the answer is 503 SlowDown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests per second allowed for each prefix.
    pub per_second: f64,
    /// How many requests may arrive at once after a pause; one second's worth if not set.
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
mod tests {
    use super::*;

    #[test]
    fn empty_json_is_the_default() {
        assert_eq!(serde_json::from_str::<Knobs>("{}").unwrap(), Knobs::default());
    }

    #[test]
    fn knobs_survive_json() {
        let knobs = Knobs {
            latency: Delay::UniformMs(1.0, 2.0),
            slow: Some(Slow { fraction: 0.1, factor: 3.0, extra_ms: 5.0 }),
            bandwidth: Bandwidth::per_connection(1000),
            faults: vec![
                FaultRule::error("PutObject", 500, "InternalError").times(1),
                FaultRule::lose_answer("*").probability(0.5).part(3),
                FaultRule::new("GetObject", FaultAction::ResetResponse { after_bytes: 10 }),
                FaultRule::new("GetObject", FaultAction::OtherRange { shift: -10 }),
                FaultRule::new("GetObject", FaultAction::IgnoreRange),
            ],
            ..Knobs::default()
        };
        let json = serde_json::to_string(&knobs).unwrap();
        assert_eq!(serde_json::from_str::<Knobs>(&json).unwrap(), knobs);
    }

    #[test]
    fn a_misspelt_knob_is_refused() {
        assert!(serde_json::from_str::<Knobs>(r#"{"latencies": {}}"#).is_err());
    }
}
