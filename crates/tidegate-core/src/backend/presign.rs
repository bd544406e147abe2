//! Presigned URLs: their signature is part of the URL.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::Fault;

/// The request that a presigned URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PresignedRequest {
    /// Read the object.
    Get,
    /// Write the object.
    Put,
}

/// Presigned URLs. The signature is part of the URL, so anyone who has the URL can send its request until it expires.
#[async_trait]
pub trait Presign: Debug + Send + Sync {
    /// The longest time after which a URL can expire.
    fn longest(&self) -> Duration;

    /// The headers that a client must send with the request of such a URL, beside those of every request.
    fn headers(&self, request: PresignedRequest) -> &'static [(&'static str, &'static str)] {
        let _ = request;
        &[]
    }

    /// Signs a URL that expires `expires` from now, in whole seconds, at least one. Sends nothing to the store; may ask
    /// for credentials, or have a server sign. [`FaultKind::Credentials`](super::FaultKind::Credentials) if the
    /// credentials cannot sign.
    async fn presign(&self, request: PresignedRequest, key: &str, expires: Duration)
    -> Result<String, Fault>;
}
