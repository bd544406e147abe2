//! Presigned URLs of S3.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::S3;
use super::sign::presigned;
use tidegate_core::backend::{Fault, FaultKind, Presign, PresignedRequest};

/// "The maximum expiration time for a presigned URL is 7 days" ("Authenticating Requests: Using Query Parameters").
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[async_trait]
impl Presign for S3 {
    fn longest(&self) -> Duration {
        LONGEST
    }

    async fn presign(
        &self,
        request: PresignedRequest,
        key: &str,
        expires: Duration,
    ) -> Result<String, Fault> {
        let shared = &self.bucket.shared;
        let url = self.bucket.address.object(key, &[])?;
        let identity = shared.keyring.identity().await?.ok_or_else(|| {
            let message = "the store is reached without credentials, and a URL is signed with an account's";
            Fault::new(FaultKind::Credentials, message)
        })?;
        let region = self.bucket.facts.region().unwrap_or_else(|| shared.region.as_str().into());
        let url = shared.endpoint.in_region(url, &region);
        presigned(&tidegate_http::method(request), &url, &identity, &region, SystemTime::now(), expires)
    }
}
