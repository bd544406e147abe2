//! The state that all buckets of one endpoint share: connections, credentials, region.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
use super::credentials::{self, S3Keyring};
use super::settings::{CredentialsOrigin, S3Settings};
use tidegate_core::backend::{BucketFacts, Facts, Fault, FaultKind, KnownFacts};
use tidegate_http::xml::address::EndpointUrl;
use tidegate_http::{Connections, environment, tls};

/// The shared half of [`S3`]: one connection pool and one set of credentials for all buckets of an endpoint. A clone
/// refers to the same client.
#[derive(Clone, Debug)]
pub struct S3Client {
    pub(super) shared: Arc<S3Shared>,
}

#[derive(Debug)]
pub(super) struct S3Shared {
    pub(super) connections: Connections,
    pub(super) keyring: S3Keyring,
    pub(super) endpoint: EndpointUrl,
    pub(super) region: String,
    pub(super) settings: S3Settings,
    pub(super) facts: Arc<Facts>,
}

impl S3Shared {
    /// Recognizes servers by the `Server` header of an answer about a bucket.
    pub(super) fn meet(&self, headers: &HeaderMap, bucket: &BucketFacts) {
        self.learn_conditions(headers, bucket);
        if headers.get(header::SERVER).is_some_and(|server| server.as_bytes().starts_with(b"MinIO")) {
            self.facts.answered_as_minio();
        }
    }
}

impl S3Client {
    /// Fills in settings that are not set, from the environment and the profile, and sets up a client. Sends nothing;
    /// the first request fetches credentials.
    pub async fn connect(settings: &S3Settings) -> Result<Self, Fault> {
        Self::connect_with(settings, &KnownFacts::default()).await
    }

    /// As [`connect`](Self::connect), with what an engine already knows of the endpoint, and learns of it.
    pub async fn connect_with(settings: &S3Settings, facts: &KnownFacts) -> Result<Self, Fault> {
        environment::check_exact(&FILES, environment::process)?;
        let profile = profile(settings)?;
        let region = region(settings, profile.as_deref()).await?;
        let found = Found::load(profile.as_deref(), region.clone()).await;
        let only = settings.profile.only();
        let set_endpoint = match only {
            Some(_) => found.of_profile("endpoint_url"),
            None => {
                for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
                    environment::variable(name, environment::process)?;
                }
                found.of("AWS_ENDPOINT_URL", "endpoint_url")
            }
        };
        let endpoint = match (&settings.endpoint_url, set_endpoint, &region) {
            (Some(url), ..) => EndpointUrl::custom(url.0.trim())?,
            (None, Some(url), _) => EndpointUrl::custom(&url).map_err(|mut fault| {
                let place = match only {
                    Some(profile) => format!("endpoint_url of profile `{profile}`"),
                    None => "AWS_ENDPOINT_URL, or endpoint_url of the profile".to_owned(),
                };
                fault.message = format!("{place}: {}", fault.message);
                fault
            })?,
            (None, None, Some(region)) => {
                let sdk = &found.0;
                let fips = sdk.use_fips().unwrap_or(false);
                EndpointUrl::aws(region, fips, sdk.use_dual_stack().unwrap_or(false))?
            }
            (None, None, None) => {
                let message = match only {
                    Some(profile) => format!(
                        "profile `{profile}` has neither a region nor an endpoint_url, or is not in ~/.aws/config \
                         (AWS_CONFIG_FILE)"
                    ),
                    None => "no region is set: set AWS_REGION, or `region` in the profile, or the address \
                             of an S3-compatible store in AWS_ENDPOINT_URL"
                        .to_owned(),
                };
                return Err(Fault::new(FaultKind::Invalid, message));
            }
        };
        check_variant(&found.0, &endpoint)?;
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let bundle = match &settings.ca_bundle {
            Some(path) => Some(path.clone()),
            None => found.of("AWS_CA_BUNDLE", "ca_bundle").map(PathBuf::from),
        };
        let connections = Connections::new(endpoint.url(), settings.connect_timeout, bundle.as_deref())?;
        let keyring = keyring(settings, profile, &region, bundle.as_deref()).await?;
        let facts = facts.of(endpoint.url());
        let shared = S3Shared { connections, keyring, endpoint, region, settings: settings.clone(), facts };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A bucket at this endpoint.
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

/// Refuses an endpoint that was set together with a kind of AWS's endpoints (FIPS, dual-stack) that it is not known to
/// be of, as AWS's own tools do.
fn check_variant(sdk: &SdkConfig, endpoint: &EndpointUrl) -> Result<(), Fault> {
    let kinds = [
        (sdk.use_fips(), "-fips", "FIPS endpoints are", "AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
        (
            sdk.use_dual_stack(),
            "dualstack",
            "dual-stack endpoints are",
            "AWS_USE_DUALSTACK_ENDPOINT",
            "use_dualstack_endpoint",
        ),
    ];
    for (is_set, mark, kind, variable, property) in kinds {
        if is_set == Some(true) && !endpoint.host().contains(mark) {
            let message = format!(
                "{kind} asked for ({variable}, or {property} of the profile), but the endpoint {} is not one: remove \
                 the endpoint or the setting",
                endpoint.url()
            );
            return Err(Fault::new(FaultKind::Invalid, message));
        }
    }
    Ok(())
}

/// The region from the settings, the environment or the profile. The instance's own region is not used: no S3 tool
/// does that.
async fn region(settings: &S3Settings, profile: Option<&str>) -> Result<Option<String>, Fault> {
    if let Some(region) = &settings.region {
        let region = region.trim();
        environment::check_word("the region that is set", region)?;
        return Ok(Some(region.to_owned()).filter(|region| !region.is_empty()));
    }
    if settings.profile.only().is_some() {
        // A region gives no access, so that of the environment will do where the profile has none.
        return Ok(region_of(profile).await?.or(region_of_environment()?));
    }
    match region_of_environment()? {
        Some(region) => Ok(Some(region)),
        None => region_of(profile).await,
    }
}

fn region_of_environment() -> Result<Option<String>, Fault> {
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if let Some(region) = environment::word(name, environment::process)? {
            return Ok(Some(region));
        }
    }
    Ok(None)
}

/// The region of a profile; without a name, of the one that the AWS libraries choose.
async fn region_of(profile: Option<&str>) -> Result<Option<String>, Fault> {
    let mut provider = ProfileFileRegionProvider::builder();
    if let Some(name) = profile {
        provider = provider.profile_name(name);
    }
    let Some(region) = provider.build().region().await else { return Ok(None) };
    let region = region.as_ref().trim();
    environment::check_word("`region` in the profile", region)?;
    Ok(Some(region.to_owned()).filter(|region| !region.is_empty()))
}

/// Variables with the paths of the configuration files. The AWS libraries read them too, so their values must be
/// exact.
const FILES: [&str; 2] = ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"];
/// Variables that say where credentials come from. The AWS libraries read them too.
const SOURCES: [&str; 7] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// The profile in the settings, else `AWS_PROFILE` if cleaning up its value changed it: otherwise the AWS libraries
/// read the variable themselves.
fn profile(settings: &S3Settings) -> Result<Option<String>, Fault> {
    if let Some(profile) = settings.profile.name() {
        return Ok(Some(profile.to_owned()));
    }
    let profile = environment::variable("AWS_PROFILE", environment::process)?;
    let raw = environment::process("AWS_PROFILE");
    Ok(profile.filter(|profile| raw.is_some_and(|raw| raw != profile.as_str())))
}

/// Settings found in the environment and the profile.
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

    /// Looks up, in this order: the variable for S3 alone, the general variable, the profile's property for S3 alone,
    /// the general property.
    fn of(&self, variable: &str, property: &str) -> Option<String> {
        self.look_up(variable, property)
    }

    /// Looks up a property of the profile, first that for S3 alone.
    fn of_profile(&self, property: &str) -> Option<String> {
        // No variable has this name.
        self.look_up("", property)
    }

    fn look_up(&self, variable: &str, property: &str) -> Option<String> {
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
) -> Result<S3Keyring, Fault> {
    match &settings.credentials.0 {
        CredentialsOrigin::Anonymous => return Ok(S3Keyring::Anonymous),
        CredentialsOrigin::Fixed { access_key, secret_key, session_token } => {
            return S3Keyring::fixed(access_key, secret_key, session_token.as_deref());
        }
        CredentialsOrigin::Provider(provider) => return Ok(crate::provider::keyring(provider).await),
        CredentialsOrigin::Chain => {}
    }
    let keys = credentials::environment_keys(environment::process)?;
    if keys.is_none() {
        environment::check_exact(&SOURCES, environment::process)?;
    }
    // Keys in the environment need no request. All other sources may ask servers for keys, through the proxy if one
    // is set.
    let by_name = settings.profile.name().is_some();
    let keys = keys.filter(|_| !by_name);
    let config = ProviderConfig::without_region()
        .with_behavior_version(Some(BehaviorVersion::latest()))
        .with_region(Some(Region::new(region.to_owned())))
        .with_http_client(chain_client(bundle)?);
    let (region, named) = (region.to_owned(), profile.clone().filter(|_| by_name));
    // A provider reads the profiles once. After a refusal, a new provider reads the current ones.
    let provider =
        move || provider(config.clone(), region.clone(), profile.clone(), by_name, keys.clone()).boxed();
    Ok(S3Keyring::provided(Arc::new(provider), named).await)
}

async fn provider(
    config: ProviderConfig,
    region: String,
    profile: Option<String>,
    by_name: bool,
    keys: Option<Keys>,
) -> SharedCredentialsProvider {
    // A profile requested by name takes precedence over keys in the environment, as in AWS's own tools.
    if let Some(keys) = keys {
        return SharedCredentialsProvider::new(keys);
    }
    if let Some(profile) = profile.as_ref().filter(|_| by_name) {
        let provider = ProfileFileCredentialsProvider::builder().configure(&config).profile_name(profile);
        return SharedCredentialsProvider::new(provider.build());
    }
    // Outside AWS nothing answers at the instance metadata address: do not wait long for it.
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

/// The HTTP client with which the chain fetches credentials (SSO, STS, instance and container roles).
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
