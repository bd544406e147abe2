//! Buckets: list, create, remove.

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryFutureExt, TryStreamExt};

use super::Tidegate;
use super::open::refuse_profile;
use crate::backend::{BucketEntry, Buckets, Fault, FaultKind};
use crate::engine::listing;
use crate::engine::request::{Doubt, Requests};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::location::Location;

#[cfg(test)]
mod tests;

impl Tidegate {
    /// Lists buckets: with `s3://` those of the account whose credentials the engine's settings give, with `gs://`
    /// those of a project (`GcsSettings::with_project`), with `az://` the containers of the account that its settings
    /// name, in the store's order. Settings given to [`open`](Self::open)
    /// do not count. A request that still fails after its retries ends the listing with the error.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use futures::TryStreamExt;
    /// use tidegate::Tidegate;
    /// use tidegate::settings::{Credentials, S3Settings};
    ///
    /// # let server = tidegate_dev::Server::builder().credentials("user", "secret").start().await?;
    /// let minio = S3Settings::default()
    ///     .with_endpoint_url(server.endpoint())
    ///     .with_credentials(Credentials::fixed("user", "secret", None));
    /// let tide = Tidegate::builder().s3(minio).build()?;
    /// tide.create_bucket("s3://inbox").await?;
    /// let buckets: Vec<_> = tide.buckets("s3://").try_collect().await?;
    /// assert_eq!(buckets[0].name, "inbox");
    /// tide.remove_bucket("s3://inbox").await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if `scheme` is not a scheme alone, or no project is known.
    /// [`ErrorKind::Unsupported`] for directories, memory, and schemes without such buckets.
    pub fn buckets(&self, scheme: impl Into<String>) -> BoxStream<'static, Result<BucketEntry>> {
        let (tide, url) = (self.clone(), scheme.into());
        let listed = async move {
            let name = url.strip_suffix("://").unwrap_or(&url);
            if name.is_empty()
                || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            {
                let message =
                    "the buckets of a whole store are listed: write the scheme alone, as in `s3://`";
                return Err(Error::new(ErrorKind::InvalidInput, Operation::List, url, message));
            }
            let name = match name.to_ascii_lowercase().as_str() {
                "gcs" => "gs",
                "azure" => "az",
                _ => name,
            };
            let url = format!("{name}://");
            let (buckets, requests) = tide.buckets_of(name, &url, Operation::List).await?;
            let requests = Arc::new(requests);
            let entries = listing::buckets(&requests, &*buckets);
            Ok(entries.map_err(move |failure| failure.into_error(Operation::List, &requests.object)))
        };
        stream::once(listed.map_ok(|entries| entries.boxed())).try_flatten().boxed()
    }

    /// Creates the bucket `s3://name` or `gs://name`, in the region that requests are signed for, or in Google's
    /// default location, or the container `az://name`. On drop of the future the bucket may or may not have been
    /// created.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if there is a bucket of this name, of this or of another account (in `us-east-1`,
    /// S3 reports success for a bucket of this account). [`ErrorKind::Uncertain`] if such a bucket was found after an
    /// answer was lost, so that this call may have created it. [`ErrorKind::InvalidInput`] if `location` has a key, or
    /// the store refuses the name. [`ErrorKind::Unsupported`] as for [`buckets`](Self::buckets).
    pub async fn create_bucket(&self, location: impl Into<String>) -> Result<()> {
        let operation = Operation::CreateBucket;
        let (name, buckets, requests) = self.bucket_at(location.into(), operation).await?;
        let created = requests.send(operation, None, None, |attempt| buckets.create(&name, attempt)).await;
        let Err(failure) = created else { return Ok(()) };
        if failure.fault.kind == FaultKind::Exists && failure.doubt >= Doubt::AnswerLost {
            let message =
                "the bucket exists: it did before, or an earlier attempt created it, whose answer was lost";
            let error = Error::new(ErrorKind::Uncertain, operation, &requests.object, message);
            return Err(error.after(failure.attempts, failure.elapsed).with_source(failure.fault));
        }
        Err(failure.into_error(operation, &requests.object))
    }

    /// Removes the empty bucket `s3://name` or `gs://name`. On drop of the future the bucket may or may not be there.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] if it has objects or versions of objects; [`ErrorKind::NoBucket`] if there is no such
    /// bucket. Otherwise as [`create_bucket`](Self::create_bucket).
    pub async fn remove_bucket(&self, location: impl Into<String>) -> Result<()> {
        let operation = Operation::RemoveBucket;
        let (name, buckets, requests) = self.bucket_at(location.into(), operation).await?;
        let removed = requests.send(operation, None, None, |attempt| buckets.remove(&name, attempt)).await;
        match removed {
            // An earlier attempt removed it, and its answer was lost.
            Err(failure)
                if failure.fault.kind == FaultKind::NoBucket && failure.doubt >= Doubt::AnswerLost =>
            {
                Ok(())
            }
            removed => removed.map_err(|failure| failure.into_error(operation, &requests.object)),
        }
    }

    /// The name of the bucket at `location`, the buckets that it is to belong to, and the requests for it.
    async fn bucket_at(
        &self,
        location: String,
        operation: Operation,
    ) -> Result<(String, Arc<dyn Buckets>, Requests)> {
        let refused = |kind, message: String| Error::new(kind, operation, location.as_str(), message);
        let parsed: Location = location
            .parse()
            .map_err(|error| refused(ErrorKind::InvalidInput, format!("{error}")).with_source(error))?;
        refuse_profile(&parsed).map_err(|message| refused(ErrorKind::InvalidInput, message))?;
        let Some((scheme, name, key)) = parsed.in_store() else {
            let message = "a directory is no bucket: create and remove it as any other directory";
            return Err(refused(ErrorKind::Unsupported, message.to_owned()));
        };
        if !key.is_empty() {
            let message = format!("a bucket has no key: write {scheme}://{name}");
            return Err(refused(ErrorKind::InvalidInput, message));
        }
        let url = format!("{scheme}://{name}");
        let (buckets, requests) = self.buckets_of(scheme, &url, operation).await?;
        Ok((name.to_owned(), buckets, requests))
    }

    /// The buckets of a scheme, and requests about `object`.
    async fn buckets_of(
        &self,
        scheme: &str,
        object: &str,
        operation: Operation,
    ) -> Result<(Arc<dyn Buckets>, Requests)> {
        let fault = |fault: Fault| Error::from_fault(fault, operation, object, 0, Default::default());
        if scheme.eq_ignore_ascii_case("file") {
            let message = "a local disk has directories, and no buckets";
            return Err(fault(Fault::new(FaultKind::Unsupported, message)));
        }
        let scheme = self.schemes.named(scheme).map_err(fault)?;
        let buckets = scheme.buckets(&self.engine.facts).await.map_err(fault)?;
        let requests = self.engine.requests(buckets.endpoint(), object);
        Ok((buckets, requests))
    }
}
