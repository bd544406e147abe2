//! Sends a few small requests to servers on this machine: to control interfaces, and to make a bucket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::Result;

/// A client for servers on this machine: uses no proxy, and a new connection for each request.
#[derive(Clone, Debug)]
pub struct LocalClient(Agent);

impl Default for LocalClient {
    fn default() -> Self {
        Self::with(RootCerts::new_with_certs(&[]))
    }
}

impl LocalClient {
    /// A client that trusts, over TLS, the authority whose certificate is in this PEM file. The default client
    /// trusts no authority.
    ///
    /// # Errors
    /// If the file cannot be read or is not a certificate.
    pub fn trusting(authority: &Path) -> Result<Self> {
        let pem = std::fs::read(authority).map_err(|error| format!("{}: {error}", authority.display()))?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| format!("{}: {error}", authority.display()))?;
        Ok(Self::with(RootCerts::new_with_certs(&[certificate])))
    }

    fn with(roots: RootCerts) -> Self {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(ring);
        let config = Agent::config_builder()
            .proxy(None)
            .max_idle_connections(0)
            .timeout_global(Some(Duration::from_secs(10)))
            .tls_config(tls.build());
        Self(config.build().into())
    }

    /// Whether a GET is answered with success now.
    #[must_use]
    pub fn answers(&self, url: &str) -> bool {
        self.0.get(url).call().is_ok()
    }

    /// The JSON at `url`.
    pub fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T> {
        Ok(self.0.get(url).call()?.body_mut().read_json()?)
    }

    /// Sends a DELETE.
    pub fn delete(&self, url: &str) -> Result<()> {
        self.0.delete(url).call()?;
        Ok(())
    }

    /// Posts JSON and returns the JSON answer.
    pub fn post<T: DeserializeOwned>(&self, url: &str, body: &impl Serialize) -> Result<T> {
        Ok(self.0.post(url).send_json(body)?.body_mut().read_json()?)
    }

    /// Puts JSON and returns the JSON answer.
    pub fn put<T: DeserializeOwned>(&self, url: &str, body: &impl Serialize) -> Result<T> {
        Ok(self.0.put(url).send_json(body)?.body_mut().read_json()?)
    }

    /// Sends an empty POST; returns the `location` of the answer, where the client continues.
    pub fn begin(&self, url: &str) -> Result<String> {
        let answer = self.0.post(url).send_empty()?;
        let location = answer.headers().get("location").ok_or_else(|| format!("{url}: no location"))?;
        Ok(location.to_str()?.to_owned())
    }

    /// Sends an empty PUT with these headers.
    pub fn put_empty(&self, url: &str, headers: &[(String, String)]) -> Result<()> {
        let mut request = self.0.put(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send_empty()?;
        Ok(())
    }
}
