//! Credentials that the caller's own code provides.

use std::fmt;
use std::future::ready;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::credentials::S3Keyring;

/// The error of a caller's provider; its message is shown to users.
type ProviderError = Box<dyn std::error::Error + Send + Sync>;

/// Keys that requests are signed with, and when they expire.
#[derive(Clone)]
pub struct SigningKeys {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
    expires: Option<SystemTime>,
}

impl SigningKeys {
    /// Keys without a session token, which do not expire.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
            session_token: None,
            expires: None,
        }
    }

    /// The session token of temporary keys.
    #[must_use]
    pub fn with_session_token(mut self, token: impl Into<String>) -> Self {
        self.session_token = Some(token.into());
        self
    }

    /// When the keys expire: others are asked for five minutes before.
    #[must_use]
    pub fn with_expiry(mut self, time: SystemTime) -> Self {
        self.expires = Some(time);
        self
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({}, …)", self.access_key)
    }
}

/// The caller's provider. Equal to its clones only.
#[derive(Clone)]
pub(super) struct Provider(Arc<Provide>);

type Provide = dyn Fn() -> BoxFuture<'static, Result<SigningKeys, ProviderError>> + Send + Sync;

impl Provider {
    pub(super) fn new<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<SigningKeys, ProviderError>> + Send + 'static,
    {
        Self(Arc::new(move || provide().boxed()))
    }

    pub(super) async fn keyring(&self) -> S3Keyring {
        let provider = SharedCredentialsProvider::new(self.clone());
        S3Keyring::provided(Arc::new(move || ready(provider.clone()).boxed()), None).await
    }

    fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Provider {}

impl Hash for Provider {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

impl ProvideCredentials for Provider {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async move {
            let keys = (self.0)().await.map_err(CredentialsError::provider_error)?;
            let SigningKeys { access_key, secret_key, session_token, expires } = keys;
            Ok(Keys::new(access_key, secret_key, session_token, expires, "provider"))
        })
    }
}
