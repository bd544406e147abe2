//! Settings of Azure Blob Storage.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::connection_string::{SetConnectionString, account_of};
use tidegate_core::types::azure_host::is_account;
use tidegate_http::access_token::AccessToken;
use tidegate_http::environment::SetUrl;
use tidegate_http::provider::Provider;

/// Settings for Azure Blob Storage; the defaults are those of Azure's own tools.
///
/// ```
/// use tidegate::settings::{AzureCredentials, AzureSettings};
/// let settings = AzureSettings::default()
///     .with_account("account")
///     .with_credentials(AzureCredentials::key("a2V5"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AzureSettings {
    pub(super) account: Option<String>,
    pub(super) endpoint_url: Option<SetUrl>,
    pub(super) connection_string: Option<SetConnectionString>,
    pub(super) credentials: AzureCredentials,
    pub(super) ca_bundle: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
    pub(super) metadata_checksums: bool,
}

impl Default for AzureSettings {
    fn default() -> Self {
        Self {
            account: None,
            endpoint_url: None,
            connection_string: None,
            credentials: AzureCredentials::default(),
            ca_bundle: None,
            connect_timeout: Duration::from_secs(5),
            metadata_checksums: true,
        }
    }
}

impl AzureSettings {
    /// The storage account of `az://container/key`, and of a key or a shared access signature. If not set: the one in
    /// the endpoint, in the connection string, in `AZURE_STORAGE_ACCOUNT` or in `AZURE_STORAGE_ACCOUNT_NAME`.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// The endpoint of that account's Blob service: `https://account.blob.core.windows.net`, or with the account in its
    /// path, as for Azurite: `http://127.0.0.1:10000/devstoreaccount1`. If not set: the one in the connection string,
    /// in `AZURE_STORAGE_SERVICE_ENDPOINT`, or that of Azure's public cloud.
    #[must_use]
    pub fn with_endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint_url = Some(SetUrl(url.into()));
        self
    }

    /// Whether an endpoint names its account, as [`with_endpoint_url`](Self::with_endpoint_url) describes.
    pub fn names_account(url: &str) -> bool {
        account_of(url).is_some_and(|account| is_account(&account))
    }

    /// A connection string, which names an account, its endpoint, and a key or a shared access signature. It comes
    /// before `AZURE_STORAGE_CONNECTION_STRING`.
    #[must_use]
    pub fn with_connection_string(mut self, text: impl Into<String>) -> Self {
        self.connection_string = Some(SetConnectionString(text.into()));
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

    /// Whether a blob is compared with the checksum in its metadata, which is the default. Without, a blob can be read
    /// whose bytes another program has changed without changing that entry (`tidegate_crc64nvme`).
    #[must_use]
    pub fn with_metadata_checksums(mut self, are_compared: bool) -> Self {
        self.metadata_checksums = are_compared;
        self
    }

    /// The time limit for opening a connection: 5 seconds by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
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
    Sas(String),
    Token(String),
    Provider(Provider<AccessToken>),
    Anonymous,
}

impl AzureCredentials {
    /// What Azure's tools use, in this order: the connection string; the account's key in `AZURE_STORAGE_KEY`,
    /// `AZURE_STORAGE_ACCOUNT_KEY` or `AZURE_STORAGE_ACCESS_KEY`; the shared access signature in
    /// `AZURE_STORAGE_SAS_TOKEN`; an access token of a service principal (`AZURE_TENANT_ID`, `AZURE_CLIENT_ID`,
    /// `AZURE_CLIENT_SECRET`), of a workload (`AZURE_FEDERATED_TOKEN_FILE`), of a managed identity, or of the user who
    /// is signed in to the Azure CLI; none. Keys and signatures are used for one account only; those that name none go
    /// to hosts of Azure and to this machine only, unless `AZURE_STORAGE_ACCOUNT` names the account. These tokens are
    /// sent to hosts of Azure only.
    pub fn default_chain() -> Self {
        Self(AzureCredentialsOrigin::Default)
    }

    /// The account's key, in base64. It signs requests to the account of the settings, and to no other.
    pub fn key(key: impl Into<String>) -> Self {
        Self(AzureCredentialsOrigin::Key(key.into()))
    }

    /// A shared access signature: the query of a signed URL, with or without a `?`. It is sent to the account of the
    /// settings, and to no other.
    pub fn sas(query: impl Into<String>) -> Self {
        Self(AzureCredentialsOrigin::Sas(query.into()))
    }

    /// An access token for `https://storage.azure.com`, as `az account get-access-token` prints it. It is used until it
    /// expires.
    pub fn token(token: impl Into<String>) -> Self {
        Self(AzureCredentialsOrigin::Token(token.into()))
    }

    /// No credentials, as for public containers.
    pub fn anonymous() -> Self {
        Self(AzureCredentialsOrigin::Anonymous)
    }

    /// The access token that `provide` gives: asked for at the first request, before the token expires, and when the
    /// store says that it has expired. Two calls make two sources, whose stores share no connections; a clone is the
    /// same one.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// use tidegate::settings::{AccessToken, AzureCredentials};
    /// let broker = AzureCredentials::provided(|| async {
    ///     // ask a vault, a broker, a sidecar …
    ///     Ok(AccessToken::new("token").with_expiry(SystemTime::now() + Duration::from_secs(3600)))
    /// });
    /// ```
    pub fn provided<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<AccessToken, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        Self(AzureCredentialsOrigin::Provider(Provider::new(provide)))
    }
}

impl fmt::Debug for AzureCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            AzureCredentialsOrigin::Default => "Default",
            AzureCredentialsOrigin::Key(_) => "Key(…)",
            AzureCredentialsOrigin::Sas(_) => "Sas(…)",
            AzureCredentialsOrigin::Token(_) => "Token(…)",
            AzureCredentialsOrigin::Provider(_) => "Provider",
            AzureCredentialsOrigin::Anonymous => "Anonymous",
        })
    }
}
