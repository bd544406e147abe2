//! Signing keys that the caller's own code provides.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::SystemTime;

use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use futures::FutureExt;

use super::credentials::S3Keyring;
use tidegate_http::provider::Provider;

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

    /// When the keys expire: others are asked for five minutes before, or in the last quarter of a life that is shorter
    /// than twenty.
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

/// The keyring of the keys that `provider` provides.
pub(super) async fn keyring(provider: &Provider<SigningKeys>) -> S3Keyring {
    let provider = SharedCredentialsProvider::new(ProvidedKeys(provider.clone()));
    S3Keyring::provided(Arc::new(move || ready(provider.clone()).boxed()), None).await
}

/// The caller's provider as the signer of requests knows it.
#[derive(Debug)]
struct ProvidedKeys(Provider<SigningKeys>);

impl ProvideCredentials for ProvidedKeys {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async move {
            let keys = self.0.ask().await.map_err(CredentialsError::provider_error)?;
            let SigningKeys { access_key, secret_key, session_token, expires } = keys;
            Ok(Keys::new(access_key, secret_key, session_token, expires, "provider"))
        })
    }
}
