//! Settings of Azure Blob Storage, and where each comes from when it is not set.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::credentials::AzureKeyring;
use crate::backend::environment::{self, SetUrl};
use crate::backend::xml::address::EndpointUrl;
use crate::backend::{Fault, FaultKind};

/// Settings for Azure Blob Storage; the defaults are those of Azure's own tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AzureSettings {
    pub(super) account: Option<String>,
    pub(super) endpoint_url: Option<SetUrl>,
    pub(super) credentials: AzureCredentials,
    pub(super) ca_bundle: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
}

impl Default for AzureSettings {
    fn default() -> Self {
        Self {
            account: None,
            endpoint_url: None,
            credentials: AzureCredentials::default(),
            ca_bundle: None,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl AzureSettings {
    /// The storage account's name.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// The endpoint of the Blob service, with the account in its path where it is not in the host's name:
    /// `http://127.0.0.1:10000/devstoreaccount1`.
    #[must_use]
    pub fn with_endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint_url = Some(SetUrl(url.into()));
        self
    }

    /// The source of credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: AzureCredentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// A PEM file of certificate authorities to trust in addition to the system's.
    #[must_use]
    pub fn with_ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(path.into());
        self
    }

    /// The time limit for opening a connection: 5 seconds by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The endpoint, the account and the credentials that these settings and the environment give.
    pub(super) fn resolved(&self) -> Result<(EndpointUrl, String, AzureKeyring), Fault> {
        let connection = environment::variable("AZURE_STORAGE_CONNECTION_STRING", environment::process)?;
        let field = |name: &str| {
            let fields = connection.as_deref()?.split(';');
            fields
                .filter_map(|field| field.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let account = self.account.clone().or_else(|| field("AccountName").map(str::to_owned));
        let Some(account) = account else {
            return Err(Fault::new(FaultKind::Invalid, "no storage account is named"));
        };
        let url = self.endpoint_url.as_ref().map(|url| url.0.clone());
        let url = url.or_else(|| field("BlobEndpoint").map(str::to_owned));
        let url = url.unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
        let key = match &self.credentials.0 {
            AzureCredentialsOrigin::Key(key) => Some(key.as_str()),
            AzureCredentialsOrigin::Default => field("AccountKey"),
        };
        let keyring = AzureKeyring::new(&account, key)?;
        Ok((EndpointUrl::custom(&url)?, account, keyring))
    }
}

/// The source of credentials for Azure Blob Storage.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct AzureCredentials(pub(super) AzureCredentialsOrigin);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum AzureCredentialsOrigin {
    #[default]
    Default,
    Key(String),
}

impl AzureCredentials {
    /// The account's key, in base64.
    pub fn key(key: impl Into<String>) -> Self {
        Self(AzureCredentialsOrigin::Key(key.into()))
    }
}

impl fmt::Debug for AzureCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            AzureCredentialsOrigin::Default => "Default",
            AzureCredentialsOrigin::Key(_) => "Key(…)",
        })
    }
}
