//! Whether a bucket exists, for stores that do not say so when an object is missing.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{Attempt, Fault};

/// A store whose answer about a missing object does not say whether the bucket exists.
#[async_trait]
pub trait BucketCheck: Debug + Send + Sync {
    /// Asks the store whether the bucket is missing.
    async fn is_bucket_missing(&self, attempt: Attempt) -> Result<bool, Fault>;
}
