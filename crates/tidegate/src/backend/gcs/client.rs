//! What the buckets of one endpoint share: connections and credentials.

use std::sync::Arc;

use super::Gcs;
use super::credentials::Keyring;
use super::settings::{GcsCredentials, GcsSettings};
use crate::backend::Fault;
use crate::backend::http::Connections;
use crate::backend::s3::address::Endpoint;

/// Where Google is.
const GOOGLE: &str = "https://storage.googleapis.com";

/// The shared half of [`Gcs`]: one pool of connections and one set of credentials for all buckets. A clone
/// is the same client.
#[derive(Clone, Debug)]
pub struct GcsClient {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connections: Connections,
    pub(super) keyring: Keyring,
    pub(super) endpoint: Endpoint,
}

impl GcsClient {
    /// Settles what `settings` leave open and sets up a client. Sends nothing; credentials are fetched by
    /// the first request.
    pub async fn connect(settings: &GcsSettings) -> Result<Self, Fault> {
        let emulator = || std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
        let (url, credentials) = match (&settings.endpoint_url, emulator()) {
            (Some(url), _) => (url.clone(), settings.credentials.clone()),
            (None, Some(host)) => (emulator_url(&host), GcsCredentials::anonymous()),
            (None, None) => (GOOGLE.to_owned(), settings.credentials.clone()),
        };
        let endpoint = Endpoint::custom(&url)?;
        let bundle = settings.ca_bundle.as_deref();
        let connections = Connections::new(endpoint.url(), settings.connect_timeout, bundle)?;
        let shared = Shared { connections, keyring: Keyring::new(&credentials), endpoint };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// One of its buckets.
    pub fn bucket(&self, bucket: &str) -> Result<Gcs, Fault> {
        Gcs::new(self, bucket)
    }

    /// The store's address: scheme, host and port.
    pub fn endpoint(&self) -> &str {
        self.shared.endpoint.url()
    }
}

/// An emulator's address as Google's clients read it: some want a scheme, some the API's path.
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
