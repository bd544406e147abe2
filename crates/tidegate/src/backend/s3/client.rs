//! What the buckets of one endpoint share: connections, credentials, region.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::meta::region::ProvideRegion;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_types::service_config::ServiceConfigKey;
use futures::FutureExt;
use http::{HeaderMap, header};

use super::S3;
use super::address::Endpoint;
use super::credentials::{self, Keyring};
use super::settings::{Origin, S3Settings};
use crate::backend::http::{Connections, tls};
use crate::backend::{Fault, FaultKind, environment};

/// The shared half of [`S3`]: one pool of connections and one set of credentials for all buckets of an
/// endpoint. A clone is the same client.
#[derive(Clone, Debug)]
pub struct S3Client {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connections: Connections,
    pub(super) keyring: Keyring,
    pub(super) endpoint: Endpoint,
    pub(super) region: String,
    pub(super) settings: S3Settings,
    /// Whether an answer said that it is MinIO's, which lists and cleans up in ways of its own.
    is_minio: AtomicBool,
}

impl Shared {
    pub(super) fn is_minio(&self) -> bool {
        self.is_minio.load(Ordering::Relaxed)
    }

    /// Takes note of who answers.
    pub(super) fn meet(&self, headers: &HeaderMap) {
        if headers.get(header::SERVER).is_some_and(|server| server.as_bytes().starts_with(b"MinIO")) {
            self.is_minio.store(true, Ordering::Relaxed);
        }
    }
}

impl S3Client {
    /// Settles what `settings` leave open (environment, profile) and sets up a client. Sends nothing;
    /// credentials are fetched by the first request.
    pub async fn connect(settings: &S3Settings) -> Result<Self, Fault> {
        environment::check_exact(&FILES, environment::process)?;
        let profile = profile(settings)?;
        let region = region(settings, profile.as_deref()).await?;
        let found = Found::load(profile.as_deref(), region.clone()).await;
        for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
            environment::variable(name, environment::process)?;
        }
        let endpoint = match (&settings.endpoint_url, found.of("AWS_ENDPOINT_URL", "endpoint_url"), &region) {
            (Some(url), ..) => Endpoint::custom(url.0.trim())?,
            (None, Some(url), _) => Endpoint::custom(&url).map_err(|mut fault| {
                fault.message =
                    format!("AWS_ENDPOINT_URL, or endpoint_url of the profile: {}", fault.message);
                fault
            })?,
            (None, None, Some(region)) => {
                let sdk = &found.0;
                let fips = sdk.use_fips().unwrap_or(false);
                Endpoint::aws(region, fips, sdk.use_dual_stack().unwrap_or(false))?
            }
            (None, None, None) => {
                let message = "no region is set: set AWS_REGION, or `region` in the profile, or the address \
                               of an S3-compatible store in AWS_ENDPOINT_URL";
                return Err(Fault::new(FaultKind::Invalid, message));
            }
        };
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let bundle = match &settings.ca_bundle {
            Some(path) => Some(path.clone()),
            None => found.of("AWS_CA_BUNDLE", "ca_bundle").map(PathBuf::from),
        };
        let connections = Connections::new(endpoint.url(), settings.connect_timeout, bundle.as_deref())?;
        let keyring = keyring(settings, profile, &region, bundle.as_deref()).await?;
        let shared = Shared {
            connections,
            keyring,
            endpoint,
            region,
            settings: settings.clone(),
            is_minio: AtomicBool::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// One of its buckets.
    pub fn bucket(&self, bucket: &str) -> Result<S3, Fault> {
        S3::new(self, bucket)
    }

    /// The store's address: scheme, host and port.
    pub fn endpoint(&self) -> &str {
        self.shared.endpoint.url()
    }

    /// The region that requests are signed for.
    pub fn region(&self) -> &str {
        &self.shared.region
    }
}

/// The region that is set somewhere. The instance's own is not asked for: no S3 tool does.
async fn region(settings: &S3Settings, profile: Option<&str>) -> Result<Option<String>, Fault> {
    if let Some(region) = &settings.region {
        let region = region.trim();
        environment::check_word("the region that is set", region)?;
        return Ok(Some(region.to_owned()).filter(|region| !region.is_empty()));
    }
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if let Some(region) = environment::word(name, environment::process)? {
            return Ok(Some(region));
        }
    }
    let mut provider = ProfileFileRegionProvider::builder();
    if let Some(name) = profile {
        provider = provider.profile_name(name);
    }
    let Some(region) = provider.build().region().await else { return Ok(None) };
    let region = region.as_ref().trim();
    environment::check_word("`region` in the profile", region)?;
    Ok(Some(region.to_owned()).filter(|region| !region.is_empty()))
}

/// Where the configuration is, which other code reads from the environment.
const FILES: [&str; 2] = ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"];
/// What says where credentials come from; other code reads these, too.
const SOURCES: [&str; 7] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// The profile that was asked for: by the settings, or by `AWS_PROFILE` where that is not what other code reads there.
fn profile(settings: &S3Settings) -> Result<Option<String>, Fault> {
    if let Some(profile) = &settings.profile {
        return Ok(Some(profile.trim().to_owned()));
    }
    let profile = environment::variable("AWS_PROFILE", environment::process)?;
    let raw = environment::process("AWS_PROFILE");
    Ok(profile.filter(|profile| raw.is_some_and(|raw| raw != profile.as_str())))
}

/// What environment and profile say.
struct Found(SdkConfig);

impl Found {
    async fn load(profile: Option<&str>, region: Option<String>) -> Self {
        let region = Region::new(region.map_or(Cow::Borrowed("us-east-1"), Cow::Owned));
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).no_credentials().region(region);
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        Self(loader.load().await)
    }

    /// A variable for S3 alone, the variable, the profile's property for S3 alone, the property.
    fn of(&self, variable: &str, property: &str) -> Option<String> {
        let key = ServiceConfigKey::builder().service_id("s3").env(variable).profile(property);
        let value = self.0.service_config()?.load_config(key.build().ok()?)?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

async fn keyring(
    settings: &S3Settings,
    profile: Option<String>,
    region: &str,
    bundle: Option<&Path>,
) -> Result<Keyring, Fault> {
    match &settings.credentials.0 {
        Origin::Anonymous => return Ok(Keyring::Anonymous),
        Origin::Fixed { access_key, secret_key, session_token } => {
            return Keyring::fixed(access_key, secret_key, session_token.as_deref());
        }
        Origin::Chain => {}
    }
    let keys = credentials::environment_keys(environment::process)?;
    if keys.is_none() {
        environment::check_exact(&SOURCES, environment::process)?;
    }
    // Keys of the environment need no requests; all else asks for keys at servers, past no proxy that is set.
    let keys = keys.filter(|_| settings.profile.is_none());
    let by_name = settings.profile.is_some();
    let config = ProviderConfig::without_region()
        .with_behavior_version(Some(BehaviorVersion::latest()))
        .with_region(Some(Region::new(region.to_owned())))
        .with_http_client(chain_client(bundle)?);
    let (region, named) = (region.to_owned(), profile.clone().filter(|_| by_name));
    // Profiles are read once a provider: after a refusal a new one reads what is there by then.
    let provider =
        move || provider(config.clone(), region.clone(), profile.clone(), by_name, keys.clone()).boxed();
    Ok(Keyring::provided(Arc::new(provider), named).await)
}

async fn provider(
    config: ProviderConfig,
    region: String,
    profile: Option<String>,
    by_name: bool,
    keys: Option<Keys>,
) -> SharedCredentialsProvider {
    // A profile that was asked for by name goes before keys in the environment, as in AWS's own tools.
    if let Some(keys) = keys {
        return SharedCredentialsProvider::new(keys);
    }
    if let Some(profile) = profile.as_ref().filter(|_| by_name) {
        let provider = ProfileFileCredentialsProvider::builder().configure(&config).profile_name(profile);
        return SharedCredentialsProvider::new(provider.build());
    }
    // Off AWS nobody answers at the instance's address: do not wait long for that.
    let instance = aws_config::imds::Client::builder()
        .configure(&config)
        .max_attempts(2)
        .connect_timeout(Duration::from_secs(1))
        .build();
    let mut chain = DefaultCredentialsChain::builder();
    if let Some(profile) = &profile {
        chain = chain.profile_name(profile);
    }
    let chain = chain.imds_client(instance).region(Region::new(region)).configure(config);
    SharedCredentialsProvider::new(chain.build().await)
}

/// The HTTP client by which the chain fetches credentials (SSO, STS, instance and container roles).
fn chain_client(
    bundle: Option<&Path>,
) -> Result<aws_smithy_runtime_api::client::http::SharedHttpClient, Fault> {
    let mut store = TrustStore::default();
    if let Some(path) = bundle {
        tls::read_bundle(path)?;
        let pem = std::fs::read(path).map_err(|error| {
            let message = format!("CA bundle {} cannot be read: {error}", path.display());
            Fault::new(FaultKind::Invalid, message)
        })?;
        store.add_pem_certificate(pem);
    }
    let context = TlsContext::builder()
        .with_trust_store(store)
        .build()
        .map_err(|error| Fault::new(FaultKind::Invalid, "TLS cannot be set up").with_source(error))?;
    Ok(aws_smithy_http_client::Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder().proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(|components| components.sleep_impl()));
        connector.tls_provider(Provider::rustls(CryptoMode::Ring)).tls_context(context.clone()).build()
    }))
}
