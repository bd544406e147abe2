//! What a caller may set, and what is found in the environment where nothing is set.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::backend::environment::SetUrl;

/// How Google Cloud Storage is reached; the default is what every tool of Google's does.
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
}

/// What objects go over. Uploads of parts, which gRPC does not have, always go over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GcsTransport {
    /// The JSON API.
    #[default]
    Http,
    /// `google.storage.v2`. A session that is appended to goes on over what it was begun over; one that was
    /// begun over HTTP does so in either case.
    Grpc,
}

impl Default for GcsSettings {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            credentials: GcsCredentials::default(),
            ca_bundle: None,
            connect_timeout: Duration::from_secs(5),
            transport: GcsTransport::default(),
        }
    }
}

impl GcsSettings {
    /// The store's address, as `http[s]://host[:port]`. Otherwise that of an emulator in
    /// `STORAGE_EMULATOR_HOST`, with or without its scheme, which is sent no credentials then; or Google
    /// itself. Over gRPC `STORAGE_EMULATOR_HOST_GRPC` comes first; what an address here names is both.
    #[must_use]
    pub fn with_endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint_url = Some(SetUrl(url.into()));
        self
    }

    /// Where credentials come from.
    #[must_use]
    pub fn with_credentials(mut self, credentials: GcsCredentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// A PEM file of certificate authorities to trust beside the system's.
    #[must_use]
    pub fn with_ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(path.into());
        self
    }

    /// How long a connection may take to come up: 5 seconds by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// What objects go over: HTTP by default.
    #[must_use]
    pub fn with_transport(mut self, transport: GcsTransport) -> Self {
        self.transport = transport;
        self
    }
}

/// Where credentials for Google Cloud Storage come from.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct GcsCredentials(pub(super) Origin);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    #[default]
    Application,
    Anonymous,
    Token(String),
}

impl GcsCredentials {
    /// Google's application default credentials: the file at `GOOGLE_APPLICATION_CREDENTIALS` (a service
    /// account's key, a workload's identity elsewhere, a user's), what `gcloud auth application-default
    /// login` has left, or the machine's own service account.
    pub fn application() -> Self {
        Self(Origin::Application)
    }

    /// None, as for public buckets and emulators.
    pub fn anonymous() -> Self {
        Self(Origin::Anonymous)
    }

    /// An access token, as `gcloud auth print-access-token` prints it. It is used until it expires.
    pub fn token(token: impl Into<String>) -> Self {
        Self(Origin::Token(token.into()))
    }
}

impl fmt::Debug for GcsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Origin::Application => "Application",
            Origin::Anonymous => "Anonymous",
            Origin::Token(_) => "Token(…)",
        })
    }
}
