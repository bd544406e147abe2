//! Presigned URLs.

use std::time::Duration;

use super::Store;
use crate::backend::PresignedRequest;
use crate::types::error::{Error, ErrorKind, Operation, Result};

#[cfg(test)]
mod tests;

impl Store {
    /// A URL from which anyone can read the object `key` for the time `expires` (in whole seconds, at most 7 days),
    /// without an account: a secret like a password. Sends nothing to the store, so the object need not exist.
    ///
    /// A URL signed with temporary credentials stops working when they expire, often within hours, whatever `expires`
    /// says.
    /// Google Cloud Storage needs a service account to sign, by its key or through IAM. Azure Blob Storage needs the
    /// account's key, or an identity for which Azure gives a key once in a while.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use std::time::Duration;
    /// use tidegate::settings::{Credentials, S3Settings};
    ///
    /// # let server = tidegate_dev::Server::builder().credentials("user", "secret").start().await?;
    /// # server.create_bucket("bucket")?;
    /// let minio = S3Settings::default()
    ///     .with_endpoint_url(server.endpoint())
    ///     .with_credentials(Credentials::fixed("user", "secret", None));
    /// let tide = tidegate::Tidegate::builder().s3(minio).build()?;
    /// let store = tide.open("s3://bucket/reports").await?;
    /// let url = store.presign_get("2026.csv", Duration::from_secs(3600)).await?;
    /// assert!(url.contains("/bucket/reports/2026.csv?") && url.contains("X-Amz-Expires=3600"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if `expires` is less than a second or more than the store allows, or no request can
    /// name the key. [`ErrorKind::Credentials`] if the credentials cannot sign. [`ErrorKind::Unsupported`] for
    /// directories, memory, and keys that are spread over prefixes.
    pub async fn presign_get(&self, key: &str, expires: Duration) -> Result<String> {
        self.presign(PresignedRequest::Get, key, expires).await
    }

    /// A URL to which anyone can write the object `key`, by one PUT of its bytes; otherwise as
    /// [`presign_get`](Self::presign_get). It may be used several times until it expires: each replaces the object.
    /// The PUT needs the headers of [`presigned_put_headers`](Self::presigned_put_headers).
    pub async fn presign_put(&self, key: &str, expires: Duration) -> Result<String> {
        self.presign(PresignedRequest::Put, key, expires).await
    }

    /// The headers that a client must send with the PUT of a presigned URL; only Azure Blob Storage wants one
    /// (`x-ms-blob-type: BlockBlob`).
    pub fn presigned_put_headers(&self) -> &'static [(&'static str, &'static str)] {
        self.context().backend().presigning().map_or(&[], |presign| presign.headers(PresignedRequest::Put))
    }

    async fn presign(&self, request: PresignedRequest, key: &str, expires: Duration) -> Result<String> {
        let (context, operation) = (self.context(), Operation::Presign);
        context.refuse_spread(operation, "presigned URLs")?;
        context.check(operation, key, None)?;
        let url = context.url(key);
        let refused = |kind, message: String| Error::new(kind, operation, url.as_str(), message);
        let Some(presign) = context.backend().presigning() else {
            let message = "this store has no URLs that others can use without an account";
            return Err(refused(ErrorKind::Unsupported, message.to_owned()));
        };
        let longest = presign.longest();
        if expires.as_secs() < 1 || expires > longest {
            let message =
                format!("a URL expires after 1 to {} seconds, not after {expires:?}", longest.as_secs());
            return Err(refused(ErrorKind::InvalidInput, message));
        }
        let signed = presign.presign(request, &context.full_key(key), expires).await;
        signed.map_err(|fault| Error::from_fault(fault, operation, url.as_str(), 0, Duration::ZERO))
    }
}
