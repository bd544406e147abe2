//! Opens stores, each with the settings and the account that it is reached by.

use std::future::IntoFuture;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::schemes::AZURE;
use super::{Store, Tidegate};
use crate::backend::azure::AzureSettings;
use crate::backend::gcs::GcsSettings;
use crate::backend::local::Local;
use crate::backend::s3::S3Settings;
use crate::backend::{Fault, Scheme};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::location::Location;

/// Opens a store. Awaiting the builder opens it, without a request to the store.
///
/// With settings of its own, a store is reached by another account, profile or endpoint than the engine's other
/// stores, and shares their memory budget. Stores with equal settings share their connections; stores of one endpoint
/// share its limiter, whatever their accounts.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate::backend::s3::{Credentials, S3Settings};
/// let tide = tidegate::Tidegate::builder().memory(64 << 20).build()?;
/// let minio = S3Settings::default().with_endpoint_url("http://127.0.0.1:9000");
/// let ours = minio.clone().with_credentials(Credentials::fixed("ours", "secret", None));
/// let theirs = minio.with_credentials(Credentials::fixed("theirs", "secret", None));
/// let from = tide.open("s3://inbox").s3(theirs).await?;
/// let to = tide.open("s3://archive").s3(ours).await?;
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the location or its settings are wrong, or are settings of another kind of store, and
/// if the location's scheme is unknown: the message lists the known ones. [`ErrorKind::Unsupported`] if the scheme's
/// feature was not compiled in: the message names the feature.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before the builder is awaited"]
pub struct OpenBuilder {
    tide: Tidegate,
    location: String,
    s3: Option<S3Settings>,
    gcs: Option<GcsSettings>,
    azure: Option<AzureSettings>,
}

impl OpenBuilder {
    pub(super) fn new(tide: Tidegate, location: String) -> Self {
        Self { tide, location, s3: None, gcs: None, azure: None }
    }

    /// How this `s3://` store is reached, instead of as the engine's settings say
    /// ([`TidegateBuilder::s3`](crate::TidegateBuilder::s3)). A journal does not keep these settings: resume its
    /// upload with [`LeftUpload::resume_on`](crate::recover::LeftUpload::resume_on), on a store that is opened with
    /// them.
    #[cfg(feature = "s3")]
    pub fn s3(mut self, settings: S3Settings) -> Self {
        self.s3 = Some(settings);
        self
    }

    /// The same for a `gs://` store ([`TidegateBuilder::gcs`](crate::TidegateBuilder::gcs)).
    #[cfg(feature = "gcs")]
    pub fn gcs(mut self, settings: GcsSettings) -> Self {
        self.gcs = Some(settings);
        self
    }

    /// The same for a store of Azure's, `az://` or `abfss://`
    /// ([`TidegateBuilder::azure`](crate::TidegateBuilder::azure)).
    #[cfg(feature = "azure")]
    pub fn azure(mut self, settings: AzureSettings) -> Self {
        self.azure = Some(settings);
        self
    }

    async fn open(self) -> Result<Store> {
        let Self { tide, location, s3, gcs, azure } = self;
        tide.engine.owner.check(Operation::Connect, || location.clone())?;
        let parsed: Location = location.parse().map_err(|error| {
            Error::new(ErrorKind::InvalidInput, Operation::Connect, location.as_str(), format!("{error}"))
                .with_source(error)
        })?;
        let fault = |fault: Fault| {
            Error::from_fault(fault, Operation::Connect, location.as_str(), 0, Default::default())
        };
        refuse_profile(&parsed).map_err(|message| {
            Error::new(ErrorKind::InvalidInput, Operation::Connect, location.as_str(), message)
        })?;
        let Some((scheme, bucket, key)) = parsed.in_store() else {
            let Location::Local { path } = &parsed else { return Err(misplaced(location)) };
            if s3.is_some() || gcs.is_some() || azure.is_some() {
                return Err(misplaced(location));
            }
            return Ok(tide.store(Arc::new(Local::new(path))));
        };
        let schemes = &tide.schemes;
        let opener: Arc<dyn Scheme> = match (&s3, &gcs, &azure) {
            (None, None, None) => schemes.named(scheme).map_err(fault)?,
            (Some(settings), None, None) if scheme == "s3" => schemes.s3(settings),
            (None, Some(settings), None) if scheme == "gs" => schemes.gcs(settings),
            (None, None, Some(settings)) if AZURE.contains(&scheme) => schemes.azure(settings),
            _ => return Err(misplaced(location)),
        };
        let backend = opener.open(bucket, &tide.engine.facts).await.map_err(fault)?;
        Ok(tide.store(backend).within(key))
    }
}

/// Refuses a URL that names a profile: a URL that a program is given from elsewhere must not choose whose rights it is
/// opened with.
pub(super) fn refuse_profile(location: &Location) -> std::result::Result<(), String> {
    let Some(profile) = location.profile() else { return Ok(()) };
    Err(format!(
        "the URL names profile `{profile}`: open the URL without the profile, with S3Settings::with_profile_only"
    ))
}

fn misplaced(location: String) -> Error {
    let message = "the settings are those of another kind of store";
    Error::new(ErrorKind::InvalidInput, Operation::Connect, location, message)
}

impl IntoFuture for OpenBuilder {
    type Output = Result<Store>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

#[cfg(test)]
mod tests;
