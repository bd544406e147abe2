//! What a backend says of itself without a request.

use super::Capabilities;

/// The address, the endpoint and the limits of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The address of the bucket or root, as users write it, without a trailing slash: `s3://bucket`.
    pub location: String,
    /// Scheme and endpoint. Stores with the same endpoint share one limiter.
    pub endpoint: String,
    /// The store's limits and features.
    pub capabilities: Capabilities,
    /// The profile that the store is reached by, where its URLs name it: `s3://PROFILE@bucket`. The location does not
    /// have it, because the same bucket may be reached by several.
    pub profile: Option<String>,
}

impl Info {
    /// The description of the store at `location`, reached at `endpoint`.
    pub fn new(location: impl Into<String>, endpoint: impl Into<String>, capabilities: Capabilities) -> Self {
        Self { location: location.into(), endpoint: endpoint.into(), capabilities, profile: None }
    }
}
