//! The buckets of one endpoint.

use std::fmt::Debug;
use std::time::SystemTime;

use async_trait::async_trait;

use super::{Attempt, Fault, Listing};

/// A bucket that `Tidegate::buckets` lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketEntry {
    /// Its name.
    pub name: String,
    /// When it was created, as far as the store says.
    pub created: Option<SystemTime>,
}

impl BucketEntry {
    /// A bucket of this name.
    pub fn new(name: impl Into<String>, created: Option<SystemTime>) -> Self {
        Self { name: name.into(), created }
    }
}

/// The buckets of one endpoint and account, from [`Scheme::buckets`](super::Scheme::buckets).
#[async_trait]
pub trait Buckets: Debug + Send + Sync {
    /// The endpoint, as [`Info::endpoint`](super::Info::endpoint): its buckets and their objects share one limiter.
    fn endpoint(&self) -> &str;

    /// Lists the account's buckets, in any order.
    fn list(&self) -> Listing<BucketEntry>;

    /// Creates a bucket. [`FaultKind::Exists`](super::FaultKind::Exists) if there is one of this name, of whatever
    /// account.
    async fn create(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault>;

    /// Removes an empty bucket. [`FaultKind::NotEmpty`](super::FaultKind::NotEmpty) if it has objects,
    /// [`FaultKind::NoBucket`](super::FaultKind::NoBucket) if there is no such bucket.
    async fn remove(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault>;
}
