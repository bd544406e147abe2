//! Settings of an S3 store, and where each comes from when it is not set.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::provider::SigningKeys;
use tidegate_core::types::checksum::Algorithm;
use tidegate_http::environment::SetUrl;
use tidegate_http::provider::Provider;
use tidegate_http::xml::address::Addressing;

/// Settings for an S3 store; the defaults are those of every S3 tool.
///
/// Settings that are not set come from the environment, then from the profile in `~/.aws/config` and
/// `~/.aws/credentials`. Buckets with equal settings may share one [`S3Client`](super::S3Client).
///
/// ```
/// use tidegate::backend::s3::{Credentials, S3Settings};
/// let settings = S3Settings::default()
///     .with_endpoint_url("http://127.0.0.1:9000")
///     .with_credentials(Credentials::fixed("user", "secret", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct S3Settings {
    pub(super) endpoint_url: Option<SetUrl>,
    pub(super) region: Option<String>,
    pub(super) profile: ProfileSetting,
    pub(super) credentials: Credentials,
    pub(super) addressing: Addressing,
    pub(super) ca_bundle: Option<PathBuf>,
    pub(super) checksum: Algorithm,
    pub(super) trailers: bool,
    pub(super) payload_sha256: bool,
    pub(super) equal_parts: Option<bool>,
    pub(super) max_parts: Option<u32>,
    pub(super) request_payer: bool,
    pub(super) keeps_conditions: bool,
    pub(super) connect_timeout: Duration,
    pub(super) scheme: &'static str,
}

impl Default for S3Settings {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            region: None,
            profile: ProfileSetting::default(),
            credentials: Credentials::default(),
            addressing: Addressing::default(),
            ca_bundle: None,
            checksum: Algorithm::default(),
            trailers: true,
            payload_sha256: false,
            equal_parts: None,
            max_parts: None,
            request_payer: false,
            keeps_conditions: false,
            connect_timeout: Duration::from_secs(5),
            scheme: "s3",
        }
    }
}

impl S3Settings {
    /// The endpoint, as `http[s]://host[:port]`. If not set: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, the profile's
    /// `endpoint_url`, or AWS itself.
    #[must_use]
    pub fn with_endpoint_url(mut self, url: impl Into<String>) -> Self {
        self.endpoint_url = Some(SetUrl(url.into()));
        self
    }

    /// The region to sign for. If not set: `AWS_REGION`, `AWS_DEFAULT_REGION`, the profile's `region`. Without any of
    /// these, `us-east-1` at a custom endpoint, and an error at AWS.
    #[must_use]
    pub fn with_region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// The profile. If not set: `AWS_PROFILE`, or `default`. Its credentials come before those in the environment; an
    /// endpoint and a region in the environment come before the profile's.
    #[must_use]
    pub fn with_profile(mut self, profile: impl Into<String>) -> Self {
        self.profile = ProfileSetting::Named(profile.into());
        self
    }

    /// The profile of an account beside the environment's: credentials and endpoint come from this profile alone, and
    /// the region too, if the profile has one. `AWS_ENDPOINT_URL` is not read, so that the credentials of one account
    /// are never sent to the endpoint of another: without `endpoint_url`, the profile is one of AWS. Credentials, an
    /// endpoint and a region that were set before are forgotten; those that are set afterwards count. The store's URLs
    /// name the profile, as in `s3://PROFILE@bucket/key`.
    #[must_use]
    pub fn with_profile_only(mut self, profile: impl Into<String>) -> Self {
        self.profile = ProfileSetting::Only(profile.into());
        self.credentials = Credentials::chain();
        self.endpoint_url = None;
        self.region = None;
        self
    }

    /// The source of credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Whether the bucket's name goes into the host or the path.
    #[must_use]
    pub fn with_addressing(mut self, addressing: Addressing) -> Self {
        self.addressing = addressing;
        self
    }

    /// A PEM file of certificate authorities to trust in addition to the system's. If not set: `AWS_CA_BUNDLE` or the
    /// profile's `ca_bundle`.
    #[must_use]
    pub fn with_ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(path.into());
        self
    }

    /// The checksum algorithm: CRC-64/NVME by default; choose CRC-32C if the store has no other.
    #[must_use]
    pub fn with_checksum(mut self, algorithm: Algorithm) -> Self {
        self.checksum = algorithm;
        self
    }

    /// Whether the store accepts a checksum in a trailer (`true` by default). If not, the bytes of a file are read
    /// once more before they are sent.
    #[must_use]
    pub fn with_trailers(mut self, trailers: bool) -> Self {
        self.trailers = trailers;
        self
    }

    /// Whether to sign the SHA-256 of the body, for stores that demand it. Off by default: it costs more work than
    /// everything else together.
    #[must_use]
    pub fn with_payload_sha256(mut self, sign: bool) -> Self {
        self.payload_sha256 = sign;
        self
    }

    /// Whether all parts but the last must have the same size. If not set: `true` for Cloudflare R2, recognized by
    /// the endpoint's host.
    #[must_use]
    pub fn with_equal_parts(mut self, equal: bool) -> Self {
        self.equal_parts = Some(equal);
        self
    }

    /// The most parts of an upload, for stores that take fewer than Amazon S3's 10,000 (some take 1,000): parts are
    /// made larger where an object would need more.
    #[must_use]
    pub fn with_max_parts(mut self, parts: u32) -> Self {
        self.max_parts = Some(parts);
        self
    }

    /// Whether the server is known to keep the condition that a key has no object (`create_only`). `false` by default:
    /// then the key is asked for before such a write, one request more, until an answer shows that the server keeps the
    /// condition. Amazon S3, MinIO and versitygw are known without this.
    #[must_use]
    pub fn with_kept_conditions(mut self, keeps: bool) -> Self {
        self.keeps_conditions = keeps;
        self
    }

    /// Whether the caller agrees to pay for requests and downloads from buckets whose owners ask for that ("Requester
    /// Pays buckets"). `false` by default: such buckets then refuse requests with 403.
    #[must_use]
    pub fn with_request_payer(mut self, pays: bool) -> Self {
        self.request_payer = pays;
        self
    }

    /// The time limit for opening a connection: 5 seconds by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The scheme of this store's locations in messages: `s3` by default. For a store that its users know by another
    /// scheme.
    #[must_use]
    pub fn with_scheme(mut self, scheme: &'static str) -> Self {
        self.scheme = scheme;
        self
    }
}

/// Which profile is used, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum ProfileSetting {
    /// `AWS_PROFILE`, or `default`, after the environment.
    #[default]
    Environment,
    /// This profile, whose credentials come before the environment's.
    Named(String),
    /// This profile, and nothing of another account.
    Only(String),
}

impl ProfileSetting {
    /// The name, if one is set.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Environment => None,
            Self::Named(name) | Self::Only(name) => Some(name.trim()),
        }
    }

    /// The profile that everything of an account comes from.
    pub(super) fn only(&self) -> Option<&str> {
        match self {
            Self::Only(name) => Some(name.trim()),
            Self::Environment | Self::Named(_) => None,
        }
    }
}

/// The source of credentials.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials(pub(super) CredentialsOrigin);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum CredentialsOrigin {
    #[default]
    Chain,
    Anonymous,
    Fixed {
        access_key: String,
        secret_key: String,
        session_token: Option<String>,
    },
    Provider(Provider<SigningKeys>),
}

impl Credentials {
    /// AWS's default chain: environment, profile (keys, `credential_process`, SSO, assumed roles),
    /// web identity, container role, instance role.
    pub fn chain() -> Self {
        Self(CredentialsOrigin::Chain)
    }

    /// No credentials: requests are not signed.
    pub fn anonymous() -> Self {
        Self(CredentialsOrigin::Anonymous)
    }

    /// These keys.
    pub fn fixed(
        access_key: impl Into<String>,
        secret_key: impl Into<String>,
        session_token: Option<String>,
    ) -> Self {
        Self(CredentialsOrigin::Fixed {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
            session_token,
        })
    }

    /// The keys that `provide` gives: asked for at the first request, before the keys expire, and when the store says
    /// that they have expired. Two calls make two sources, whose stores share no connections; a clone is the same one.
    ///
    /// ```
    /// use tidegate::settings::{Credentials, SigningKeys};
    /// let vault = Credentials::provided(|| async {
    ///     // ask a vault, a broker, a sidecar …
    ///     Ok(SigningKeys::new("access key", "secret key").with_session_token("token"))
    /// });
    /// ```
    pub fn provided<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<SigningKeys, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        Self(CredentialsOrigin::Provider(Provider::new(provide)))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CredentialsOrigin::Chain => f.write_str("Chain"),
            CredentialsOrigin::Anonymous => f.write_str("Anonymous"),
            CredentialsOrigin::Provider(_) => f.write_str("Provider"),
            CredentialsOrigin::Fixed { access_key, .. } => write!(f, "Fixed({access_key}, …)"),
        }
    }
}
