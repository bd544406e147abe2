//! Looks for the identity of the process, the machine or the user, and gets access tokens for it. Azure's own library
//! speaks to the token servers; this module chooses the source, and turns errors into faults.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use async_trait::async_trait;
use azure_core::cloud::CustomConfiguration;
use azure_core::credentials::{Secret, TokenCredential};
use azure_core::error::ErrorKind;
use azure_core::http::{ClientOptions, RetryOptions, Transport};
use azure_identity::{
    AzureCliCredential, AzureCliCredentialOptions, ClientAssertionCredentialOptions, ClientSecretCredential,
    ClientSecretCredentialOptions, Executor, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use tokio::time::{Instant, timeout};

use super::settings::AzureSettings;
use super::token_http::{MetadataServer, PAUSE, TokenHttp};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::types::azure_host::AzureHost;
use tidegate_http::access_token::{AccessToken, TokenSource};
use tidegate_http::environment::variable;
use tidegate_http::innermost;

/// The service that tokens are for: the same in all clouds.
const SCOPE: &str = "https://storage.azure.com/.default";
/// Time limit for a token.
const FETCHING: Duration = Duration::from_secs(10);
/// Time limit for the first answer of a metadata server, which few machines have.
const PROBING: Duration = Duration::from_secs(3);

/// Where tokens come from, in the order in which they are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdentitySource {
    ServicePrincipal,
    Workload,
    Managed,
    Cli,
}

impl IdentitySource {
    const ALL: [Self; 4] = [Self::ServicePrincipal, Self::Workload, Self::Managed, Self::Cli];

    fn name(self) -> &'static str {
        match self {
            Self::ServicePrincipal => "service principal",
            Self::Workload => "workload identity",
            Self::Managed => "managed identity",
            Self::Cli => "Azure CLI",
        }
    }
}

/// What the environment says of identities.
#[derive(Default)]
struct IdentityVariables {
    tenant: Option<String>,
    client: Option<String>,
    secret: Option<String>,
    certificate: bool,
    token_file: Option<String>,
    identity_endpoint: bool,
}

/// The sources of one account's tokens. Once a source has served, no other one is asked.
pub(super) struct IdentitySources {
    http: Arc<TokenHttp>,
    authority: String,
    named: Result<IdentityVariables, Fault>,
    executor: Arc<dyn Executor>,
    serving: Mutex<Option<IdentitySource>>,
    /// When nothing was found, and what was looked for.
    missing: Mutex<Option<(Instant, String)>>,
}

impl IdentitySources {
    /// The sources that the environment (`read`) names, for the account at `host`.
    pub(super) fn new(
        settings: &AzureSettings,
        host: &AzureHost,
        read: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let cloud = match host.suffix() {
            "core.chinacloudapi.cn" => "https://login.chinacloudapi.cn",
            "core.usgovcloudapi.net" => "https://login.microsoftonline.us",
            _ => "https://login.microsoftonline.com",
        };
        let authority = variable("AZURE_AUTHORITY_HOST", &read)
            .ok()
            .flatten()
            .map(|host| if host.contains("://") { host } else { format!("https://{host}") });
        let named = || -> Result<IdentityVariables, Fault> {
            Ok(IdentityVariables {
                tenant: variable("AZURE_TENANT_ID", &read)?,
                client: variable("AZURE_CLIENT_ID", &read)?,
                secret: variable("AZURE_CLIENT_SECRET", &read)?,
                certificate: variable("AZURE_CLIENT_CERTIFICATE_PATH", &read)?.is_some(),
                token_file: variable("AZURE_FEDERATED_TOKEN_FILE", &read)?,
                identity_endpoint: variable("IDENTITY_ENDPOINT", &read)?.is_some(),
            })
        };
        Self {
            http: Arc::new(TokenHttp::new(settings.ca_bundle.clone(), settings.connect_timeout)),
            authority: authority.unwrap_or_else(|| cloud.to_owned()),
            named: named(),
            executor: Arc::new(ChildProcess),
            serving: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    /// What was looked for, if nothing was found.
    pub(super) fn missing(&self) -> Option<String> {
        lock(&self.missing).as_ref().map(|(_, looked)| looked.clone())
    }

    /// The store refused a request without credentials: looks for some again, if a while has passed.
    pub(super) fn look_again(&self) {
        let mut missing = lock(&self.missing);
        if missing.as_ref().is_some_and(|(at, _)| at.elapsed() >= PAUSE) {
            *missing = None;
        }
    }

    fn options(&self) -> ClientOptions {
        let mut cloud = CustomConfiguration::default();
        cloud.authority_host = self.authority.clone();
        ClientOptions {
            transport: Some(Transport::new(self.http.clone())),
            // A request that needs the token is retried as a whole.
            retry: RetryOptions::none(),
            cloud: Some(Arc::new(cloud.into())),
            ..Default::default()
        }
    }

    /// Makes the `azure_identity` credential for a source. The inner error says why the source cannot be used.
    fn credential(&self, source: IdentitySource) -> Result<Result<Arc<dyn TokenCredential>, String>, Fault> {
        let named = self.named.as_ref().map_err(|fault| Fault::new(fault.kind, fault.message.clone()))?;
        let built = |built: azure_core::Result<Arc<dyn TokenCredential>>| match built {
            Ok(credential) => Ok(Ok(credential)),
            Err(error) => Err(fault(source, &error)),
        };
        match source {
            IdentitySource::ServicePrincipal => {
                let IdentityVariables { tenant, client, secret, .. } = named;
                if let (Some(tenant), Some(client), Some(secret)) = (tenant, client, secret) {
                    let options = ClientSecretCredentialOptions { client_options: self.options() };
                    let secret = Secret::new(secret.clone());
                    return built(
                        ClientSecretCredential::new(tenant, client.clone(), secret, Some(options))
                            .map(|credential| credential as _),
                    );
                }
                let certificate = match (secret, named.certificate) {
                    (None, true) => "; certificates in AZURE_CLIENT_CERTIFICATE_PATH are not supported",
                    _ => "",
                };
                let all = [
                    ("AZURE_TENANT_ID", tenant),
                    ("AZURE_CLIENT_ID", client),
                    ("AZURE_CLIENT_SECRET", secret),
                ];
                Ok(Err(format!("{}{certificate}", not_set(&all))))
            }
            IdentitySource::Workload => {
                let IdentityVariables { tenant, client, token_file, .. } = named;
                if let (Some(tenant), Some(client), Some(file)) = (tenant, client, token_file) {
                    let options = WorkloadIdentityCredentialOptions {
                        credential_options: ClientAssertionCredentialOptions {
                            client_options: self.options(),
                        },
                        client_id: Some(client.clone()),
                        tenant_id: Some(tenant.clone()),
                        token_file_path: Some(file.into()),
                    };
                    return built(
                        WorkloadIdentityCredential::new(Some(options)).map(|credential| credential as _),
                    );
                }
                let all = [
                    ("AZURE_FEDERATED_TOKEN_FILE", token_file),
                    ("AZURE_TENANT_ID", tenant),
                    ("AZURE_CLIENT_ID", client),
                ];
                Ok(Err(not_set(&all)))
            }
            IdentitySource::Managed => {
                if !named.identity_endpoint && matches!(self.http.metadata(), MetadataServer::Absent { .. }) {
                    return Ok(Err("no metadata server of Azure answers".to_owned()));
                }
                let options = ManagedIdentityCredentialOptions {
                    user_assigned_id: named.client.clone().map(UserAssignedId::ClientId),
                    client_options: self.options(),
                };
                let credential = ManagedIdentityCredential::new(Some(options));
                Ok(credential.map(|credential| credential as _).map_err(|error| said(&error)))
            }
            IdentitySource::Cli => {
                let options =
                    AzureCliCredentialOptions { executor: Some(self.executor.clone()), ..Default::default() };
                let credential = AzureCliCredential::new(Some(options));
                Ok(credential.map(|credential| credential as _).map_err(|error| said(&error)))
            }
        }
    }

    /// Whether the environment names this source, so that its failure is an error, and no other source is asked.
    fn is_named(&self, source: IdentitySource) -> bool {
        let is_app_service = self.named.as_ref().is_ok_and(|named| named.identity_endpoint);
        match source {
            IdentitySource::ServicePrincipal | IdentitySource::Workload => true,
            IdentitySource::Managed => is_app_service,
            IdentitySource::Cli => false,
        }
    }

    async fn ask(
        &self,
        source: IdentitySource,
        credential: &dyn TokenCredential,
    ) -> Result<AccessToken, Fault> {
        let is_probe = source == IdentitySource::Managed
            && !self.is_named(source)
            && self.http.metadata() != MetadataServer::Answers;
        let limit = if is_probe { PROBING } else { FETCHING };
        match timeout(limit, credential.get_token(&[SCOPE], None)).await {
            Ok(Ok(token)) => {
                let expires = SystemTime::from(token.expires_on);
                Ok(AccessToken::new(token.token.secret()).with_expiry(expires))
            }
            Ok(Err(error)) => Err(fault(source, &error).with_source(error)),
            Err(_late) => {
                let message = format!("no token of the {} came within {} s", source.name(), limit.as_secs());
                Err(Fault::new(FaultKind::Unreachable, message))
            }
        }
    }
}

#[async_trait]
impl TokenSource for IdentitySources {
    async fn token(&self) -> Result<AccessToken, Fault> {
        let serving = *lock(&self.serving);
        let mut looked = Vec::new();
        // The first failure of a source that may have credentials later.
        let mut passing = None;
        for source in IdentitySource::ALL {
            if serving.is_some_and(|serving| serving != source) {
                continue;
            }
            let credential = match self.credential(source)? {
                Ok(credential) => credential,
                Err(why) => {
                    looked.push(format!("{}: {why}", source.name()));
                    continue;
                }
            };
            match self.ask(source, &*credential).await {
                Ok(token) => {
                    tracing::debug!(source = source.name(), "access token");
                    *lock(&self.serving) = Some(source);
                    *lock(&self.missing) = None;
                    return Ok(token);
                }
                Err(fault) if serving.is_some() || self.is_named(source) => return Err(fault),
                // The machine may have an identity, and its server cannot tell now.
                Err(fault)
                    if fault.kind == FaultKind::Unreachable
                        && source == IdentitySource::Managed
                        && self.http.metadata() == MetadataServer::Answers =>
                {
                    return Err(fault);
                }
                Err(fault) if fault.kind == FaultKind::Unreachable => {
                    passing.get_or_insert(fault);
                }
                Err(fault) => looked.push(format!("{}: {}", source.name(), fault.message)),
            }
        }
        if let Some(fault) = passing {
            // Without credentials, the store would refuse for good what the next attempt may get.
            return Err(fault);
        }
        let looked = looked.join("; ");
        *lock(&self.missing) = Some((Instant::now(), looked.clone()));
        Err(Fault::new(FaultKind::Credentials, format!("no credentials found: {looked}")))
    }
}

/// Runs a command that ends with the request that waits for it.
#[derive(Debug)]
struct ChildProcess;

#[async_trait]
impl Executor for ChildProcess {
    async fn run(&self, program: &OsStr, args: &[&OsStr]) -> io::Result<Output> {
        let mut command = tokio::process::Command::new(program);
        command.args(args).stdin(Stdio::null()).kill_on_drop(true).output().await
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The variables that are not set.
fn not_set(variables: &[(&str, &Option<String>)]) -> String {
    let unset = variables.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name);
    format!("not set: {}", unset.collect::<Vec<_>>().join(", "))
}

/// The fault of a source that gave no token.
fn fault(source: IdentitySource, error: &azure_core::Error) -> Fault {
    let kind = if is_transient(error) { FaultKind::Unreachable } else { FaultKind::Credentials };
    let hint = match source {
        IdentitySource::Cli => " (sign in with `az login`)",
        _ => "",
    };
    Fault::new(kind, format!("no token of the {}: {}{hint}", source.name(), said(error)))
}

/// The innermost message of an error, as one line.
fn said(error: &azure_core::Error) -> String {
    innermost(error).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the server did not answer, or answered that it cannot now.
fn is_transient(error: &azure_core::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<azure_core::Error>() {
            match error.kind() {
                ErrorKind::Io | ErrorKind::Connection => return true,
                ErrorKind::HttpResponse { status, .. } => {
                    return u16::from(*status) == 429 || status.is_server_error();
                }
                _ => {}
            }
        }
        next = error.source();
    }
    false
}

impl fmt::Debug for IdentitySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentitySources").field("serving", &*lock(&self.serving)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
