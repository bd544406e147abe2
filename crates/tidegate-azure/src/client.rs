//! The state that all containers of one account share: connections and credentials.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::AzureContainer;
use super::account::{ResolvedAccount, host_of};
use super::credentials::AzureKeyring;
use super::delegation::DelegationKeys;
use super::settings::AzureSettings;
use tidegate_core::backend::{Facts, Fault, Feature, KnownFacts};
use tidegate_core::types::azure_host::AzureHost;
use tidegate_core::types::location::Location;
use tidegate_http::xml::address::EndpointUrl;
use tidegate_http::{Connections, environment};

/// One account: one connection pool and one set of credentials for all its containers. A clone refers to the same
/// client.
#[derive(Clone, Debug)]
pub struct AzureClient {
    pub(super) shared: Arc<AzureShared>,
    /// The host by which URLs name the account; `None` for `az://` URLs.
    named_by: Option<AzureHost>,
}

#[derive(Debug)]
pub(super) struct AzureShared {
    pub(super) connections: Connections,
    pub(super) keyring: AzureKeyring,
    /// The endpoint with its account.
    pub(super) endpoint: EndpointUrl,
    /// The account's name.
    pub(super) account: String,
    /// The version of the API that the server takes, by its place in [`VERSIONS`](super::request::VERSIONS).
    pub(super) version: AtomicUsize,
    /// What answers have told about the endpoint.
    pub(super) facts: Arc<Facts>,
    /// The host by which canonical URLs name the account.
    host: Option<AzureHost>,
    /// Whether `az://` URLs mean this account.
    is_own: bool,
    pub(super) delegation: DelegationKeys,
    /// Whether a blob is compared with the checksum in its metadata.
    pub(super) metadata_checksums: bool,
}

impl AzureClient {
    /// Fills in settings that are not set and sets up a client of the account that they name. Sends nothing; the first
    /// request fetches credentials.
    pub async fn connect(settings: &AzureSettings, facts: &KnownFacts) -> Result<Self, Fault> {
        Self::of(settings, settings.resolved(None, environment::process)?, facts)
    }

    pub(super) fn of(
        settings: &AzureSettings,
        resolved: ResolvedAccount,
        facts: &KnownFacts,
    ) -> Result<Self, Fault> {
        let ResolvedAccount { account, endpoint, keyring, host, is_own } = resolved;
        let bundle = settings.ca_bundle.as_deref();
        let connections = Connections::new(endpoint.url(), settings.connect_timeout, bundle)?;
        let facts = facts.of(endpoint.url());
        let delegation = DelegationKeys::default();
        let shared = AzureShared {
            connections,
            keyring,
            endpoint,
            account,
            version: AtomicUsize::new(0),
            facts,
            host,
            is_own,
            delegation,
            metadata_checksums: settings.metadata_checksums,
        };
        Ok(Self { shared: Arc::new(shared), named_by: None })
    }

    /// The same client for URLs that name the account by `host`.
    pub(super) fn named_by(&self, host: Option<AzureHost>) -> Self {
        Self { shared: self.shared.clone(), named_by: host }
    }

    /// The container's requests.
    pub(super) fn container(&self, container: &str) -> Result<AzureContainer, Fault> {
        AzureContainer::new(&self.shared, container)
    }

    /// The container's location: `az://container`, or `abfss://container@account.dfs.core.windows.net` if that is how
    /// the account was named.
    pub(super) fn location(&self, container: &str) -> String {
        match &self.named_by {
            Some(host) => format!("abfss://{container}@{host}"),
            None => format!("az://{container}"),
        }
    }
}

impl AzureShared {
    /// Whether the server may lack features. Azure itself has them all: what looks like a lack there is something on
    /// the way, or another header's.
    pub(super) fn may_lack_features(&self) -> bool {
        host_of(self.endpoint.url()).is_none()
    }

    /// An answer shows that the server lacks a feature; not if the server is Azure itself.
    pub(super) fn learn_lack(&self, feature: Feature) {
        if self.may_lack_features() {
            self.facts.learn_lack(feature);
        }
    }

    /// Whether `location`, which is that of a container or of something else, is this account's container of this name.
    pub(super) fn is_at(&self, container: &str, location: &str) -> bool {
        let Ok(Location::Azure { container: written, .. }) = location.parse() else { return false };
        match written.split_once('@') {
            Some((named, host)) => named == container && self.host == AzureHost::parse(host),
            None => self.is_own && written == container,
        }
    }
}
