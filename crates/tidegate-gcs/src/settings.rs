//! Settings of Google Cloud Storage, and where each comes from when it is not set.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::types::unknown_name::UnknownName;
use tidegate_http::access_token::AccessToken;
use tidegate_http::environment::SetUrl;
use tidegate_http::provider::Provider;

/// Settings for Google Cloud Storage; the defaults are those of Google's own tools.
///
/// ```
/// use tidegate::backend::gcs::{GcsCredentials, GcsSettings};
/// let settings = GcsSettings::default()
///     .with_endpoint_url("http://127.0.0.1:9123")
///     .with_credentials(GcsCredentials::anonymous());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GcsSettings {
    pub(super) endpoint_url: Option<SetUrl>,
    pub(super) credentials: GcsCredentials,
    pub(super) ca_bundle: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
    pub(super) transport: GcsTransport,
    pub(super) project: Option<String>,
    pub(super) request_payer: bool,
}

/// The transport for objects. Uploads of parts always go over HTTP, because gRPC has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GcsTransport {
    /// The JSON API.
    #[default]
    Http,
    /// `google.storage.v2`. An appending session stays on the transport that began it, so a session begun over HTTP
    /// is resumed over HTTP.
    #[cfg(feature = "grpc")]
    Grpc,
}

impl GcsTransport {
    const ALL: &[Self] = &[
        Self::Http,
        #[cfg(feature = "grpc")]
        Self::Grpc,
    ];

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            #[cfg(feature = "grpc")]
            Self::Grpc => "grpc",
        }
    }
}

impl std::fmt::Display for GcsTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for GcsTransport {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("transport", name, Self::ALL, Self::name)
    }
}

impl Default for GcsSettings {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            credentials: GcsCredentials::default(),
            ca_bundle: None,
            connect_timeout: Duration::from_secs(5),
            transport: GcsTransport::default(),
            project: None,
            request_payer: false,
        }
    }
}

impl GcsSettings {
    /// The endpoint, as `http[s]://host[:port]`. If not set: an emulator in `STORAGE_EMULATOR_HOST`, with or without
    /// its scheme, which is sent no credentials; otherwise Google itself. Over gRPC `STORAGE_EMULATOR_HOST_GRPC`
    /// comes first. An endpoint set here is used for both transports.
    #[must_use]
    pub fn with_endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint_url = Some(SetUrl(url.into()));
        self
    }

    /// The source of credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: GcsCredentials) -> Self {
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

    /// The ID of the project whose buckets are listed and created; objects need none. If not set:
    /// `GOOGLE_CLOUD_PROJECT`, or the project that the credentials' file names.
    #[must_use]
    pub fn with_project(mut self, project: impl Into<String>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Whether requests name the project that pays for them, as buckets with Requester Pays demand: the one of
    /// [`with_project`](Self::with_project), of `GOOGLE_CLOUD_QUOTA_PROJECT`, `GOOGLE_CLOUD_PROJECT`, `GCLOUD_PROJECT`
    /// or `CLOUDSDK_CORE_PROJECT`, or of the credentials' file. Without this, only `GOOGLE_CLOUD_QUOTA_PROJECT` pays.
    #[must_use]
    pub fn with_request_payer(mut self, pays: bool) -> Self {
        self.request_payer = pays;
        self
    }

    /// The transport for objects: HTTP by default.
    #[must_use]
    pub fn with_transport(mut self, transport: GcsTransport) -> Self {
        self.transport = transport;
        self
    }
}

/// The source of credentials for Google Cloud Storage.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct GcsCredentials(pub(super) GcsCredentialsOrigin);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum GcsCredentialsOrigin {
    #[default]
    Application,
    Anonymous,
    Token(String),
    Provider(Provider<AccessToken>),
}

impl GcsCredentials {
    /// Google's application default credentials: the file at `GOOGLE_APPLICATION_CREDENTIALS` (a service account's
    /// key, a workload's identity elsewhere, a user's), the file that `gcloud auth application-default login` writes,
    /// or the machine's own service account.
    pub fn application() -> Self {
        Self(GcsCredentialsOrigin::Application)
    }

    /// No credentials, as for public buckets and emulators.
    pub fn anonymous() -> Self {
        Self(GcsCredentialsOrigin::Anonymous)
    }

    /// An access token, as `gcloud auth print-access-token` prints it. It is used until it expires.
    pub fn token(token: impl Into<String>) -> Self {
        Self(GcsCredentialsOrigin::Token(token.into()))
    }

    /// The access token that `provide` gives: asked for at the first request, before the token expires, and when the
    /// store says that it has expired. Two calls make two sources, whose stores share no connections; a clone is the
    /// same one.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// use tidegate::settings::{AccessToken, GcsCredentials};
    /// let broker = GcsCredentials::provided(|| async {
    ///     // ask a vault, a broker, a sidecar …
    ///     Ok(AccessToken::new("token").with_expiry(SystemTime::now() + Duration::from_secs(3600)))
    /// });
    /// ```
    pub fn provided<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<AccessToken, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        Self(GcsCredentialsOrigin::Provider(Provider::new(provide)))
    }
}

impl fmt::Debug for GcsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            GcsCredentialsOrigin::Application => "Application",
            GcsCredentialsOrigin::Anonymous => "Anonymous",
            GcsCredentialsOrigin::Token(_) => "Token(…)",
            GcsCredentialsOrigin::Provider(_) => "Provider",
        })
    }
}
