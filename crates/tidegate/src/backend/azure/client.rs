//! The state that all containers of one account share: connections and credentials.

use std::sync::Arc;

use super::AzureContainer;
use super::address::ContainerUrl;
use super::credentials::AzureKeyring;
use super::settings::AzureSettings;
use crate::backend::http::Connections;
use crate::backend::xml::address::EndpointUrl;
use crate::backend::{Facts, Fault, KnownFacts};

/// One account: one connection pool and one set of credentials for all its containers. A clone refers to the same
/// client.
#[derive(Clone, Debug)]
pub struct AzureClient {
    pub(super) shared: Arc<AzureShared>,
}

#[derive(Debug)]
pub(super) struct AzureShared {
    pub(super) connections: Connections,
    pub(super) keyring: AzureKeyring,
    /// The endpoint with its account.
    pub(super) endpoint: EndpointUrl,
    /// The account's name.
    pub(super) account: String,
    /// What answers have told about the endpoint.
    pub(super) facts: Arc<Facts>,
}

impl AzureClient {
    /// Fills in settings that are not set and sets up a client. Sends nothing; the first request fetches credentials.
    pub async fn connect(settings: &AzureSettings, facts: &KnownFacts) -> Result<Self, Fault> {
        let (endpoint, account, keyring) = settings.resolved()?;
        let bundle = settings.ca_bundle.as_deref();
        let connections = Connections::new(endpoint.url(), settings.connect_timeout, bundle)?;
        let facts = facts.of(endpoint.url());
        Ok(Self { shared: Arc::new(AzureShared { connections, keyring, endpoint, account, facts }) })
    }

    /// The container's requests.
    pub(super) fn container(&self, container: &str) -> Result<AzureContainer, Fault> {
        let url = Arc::new(ContainerUrl::new(&self.shared.endpoint, container)?);
        Ok(AzureContainer { shared: self.shared.clone(), url })
    }
}
