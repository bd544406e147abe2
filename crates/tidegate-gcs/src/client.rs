//! The state that all buckets of one endpoint share: connections and credentials.

use std::sync::Arc;

use super::Gcs;
use super::credentials::GcsKeyring;
use super::grpc::Channels;
use super::payer::Payer;
use super::settings::{GcsCredentials, GcsSettings, GcsTransport};
use tidegate_core::backend::{Facts, Fault, KnownFacts};
use tidegate_http::xml::address::EndpointUrl;
use tidegate_http::{Connections, environment};

/// Google's own endpoint.
const GOOGLE: &str = "https://storage.googleapis.com";

/// The shared half of [`Gcs`]: one connection pool and one set of credentials for all buckets. A clone refers to the
/// same client.
#[derive(Clone, Debug)]
pub struct GcsClient {
    pub(super) shared: Arc<GcsShared>,
}

#[derive(Debug)]
pub(super) struct GcsShared {
    pub(super) connections: Connections,
    pub(super) keyring: GcsKeyring,
    pub(super) endpoint: EndpointUrl,
    /// The channels and endpoint for gRPC, if that is the transport.
    pub(super) grpc: Option<(Arc<Channels>, EndpointUrl)>,
    /// The project that the settings name.
    pub(super) project: Option<String>,
    /// The project that pays for requests.
    pub(super) payer: Option<Payer>,
    /// What the endpoint's server turned out to lack.
    pub(super) facts: Arc<Facts>,
}

impl GcsShared {
    /// Whether the endpoint is one of Google's own.
    pub(super) fn is_googles(&self) -> bool {
        self.endpoint.host().ends_with(".googleapis.com")
    }
}

impl GcsClient {
    /// Fills in settings that are not set and sets up a client. Sends nothing; the first request fetches credentials.
    pub async fn connect(settings: &GcsSettings) -> Result<Self, Fault> {
        Self::connect_with(settings, &KnownFacts::default()).await
    }

    /// As [`connect`](Self::connect), with what an engine already knows of the endpoint, and learns of it.
    pub async fn connect_with(settings: &GcsSettings, facts: &KnownFacts) -> Result<Self, Fault> {
        let emulator = |name| {
            let host = environment::word(name, environment::process)?;
            Ok::<_, Fault>(host.map(|host| emulator_url(&host)))
        };
        let is_grpc = settings.transport != GcsTransport::Http;
        // If only one variable names an emulator, both transports use it: no request meant for an emulator may go to
        // Google.
        let http = emulator("STORAGE_EMULATOR_HOST")?;
        let grpc = emulator("STORAGE_EMULATOR_HOST_GRPC")?.filter(|_| is_grpc);
        let ((url, grpc_url), credentials) = match (&settings.endpoint_url, http, grpc) {
            (Some(url), ..) => {
                ((url.0.trim().to_owned(), url.0.trim().to_owned()), settings.credentials.clone())
            }
            (None, Some(http), Some(grpc)) => ((http, grpc), GcsCredentials::anonymous()),
            (None, Some(url), None) | (None, None, Some(url)) => {
                ((url.clone(), url), GcsCredentials::anonymous())
            }
            (None, None, None) => ((GOOGLE.to_owned(), GOOGLE.to_owned()), settings.credentials.clone()),
        };
        let endpoint = EndpointUrl::custom(&url)?;
        let bundle = settings.ca_bundle.as_deref();
        let connections = Connections::new(endpoint.url(), settings.connect_timeout, bundle)?;
        let grpc = if is_grpc {
            let endpoint = EndpointUrl::custom(&grpc_url)?;
            let channels = Channels::new(endpoint.url(), settings.connect_timeout, bundle)?;
            Some((Arc::new(channels), endpoint))
        } else {
            None
        };
        let (keyring, project) = (GcsKeyring::new(&credentials), settings.project.clone());
        let facts = facts.of(endpoint.url());
        let payer = Payer::of(settings, environment::process, || keyring.project())?;
        let shared = GcsShared { connections, keyring, endpoint, grpc, project, payer, facts };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A bucket at this endpoint.
    pub fn bucket(&self, bucket: &str) -> Result<Gcs, Fault> {
        Gcs::new(self, bucket)
    }

    /// The store's address: scheme, host and port.
    pub fn endpoint(&self) -> &str {
        self.shared.endpoint.url()
    }
}

/// An emulator's address as Google's clients read it: some want a scheme, some append the API's path.
fn emulator_url(host: &str) -> String {
    let host = host.trim_end_matches('/');
    let host = host.strip_suffix("/storage/v1").unwrap_or(host);
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_is_found_however_it_is_written() {
        for host in ["h:1", "http://h:1", "http://h:1/", "h:1/storage/v1/", "http://h:1/storage/v1"] {
            assert_eq!(emulator_url(host), "http://h:1", "{host}");
        }
        assert_eq!(emulator_url("https://h"), "https://h");
    }
}
