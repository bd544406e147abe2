//! `az://` and `abfss://`: containers of the account that the settings name, and of accounts that URLs name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::buckets::AzureBuckets;
use super::{Azure, AzureClient, AzureSettings};
use tidegate_core::backend::{Backend, Buckets, Fault, FaultKind, KnownFacts, Scheme};
use tidegate_core::types::azure_host::AzureHost;
use tidegate_http::environment;

/// Opens containers of Azure Blob Storage: `container`, in the account of the settings, or
/// `container@account.dfs.core.windows.net`. The client of an account is made when its first container is opened.
#[derive(Clone, Debug)]
pub struct AzureScheme {
    settings: AzureSettings,
    clients: Arc<Mutex<BTreeMap<String, AzureClient>>>,
}

impl AzureScheme {
    /// Containers of the accounts that `settings` reach.
    pub fn new(settings: AzureSettings) -> Self {
        Self { settings, clients: Arc::default() }
    }

    /// The settings that the accounts are reached by.
    pub fn settings(&self) -> &AzureSettings {
        &self.settings
    }

    /// The client and the container that `written` names.
    pub(super) fn client<'a>(
        &self,
        written: &'a str,
        facts: &KnownFacts,
    ) -> Result<(AzureClient, &'a str), Fault> {
        let (container, host) = match written.split_once('@') {
            Some((container, host)) => (container, Some(named(host)?)),
            None => (written, None),
        };
        Ok((self.of_account(host, facts)?, container))
    }

    /// The client of the account at `host`, or of the account of the settings.
    pub(super) fn of_account(
        &self,
        host: Option<AzureHost>,
        facts: &KnownFacts,
    ) -> Result<AzureClient, Fault> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |host: Option<&AzureHost>| host.map_or_else(String::new, AzureHost::to_string);
        if let Some(client) = clients.get(&name(host.as_ref())) {
            return Ok(client.named_by(host));
        }
        let resolved = self.settings.resolved(host.as_ref(), environment::process)?;
        // The account of the settings has one client, however URLs name it.
        let own = clients.get("").filter(|_| resolved.is_own).cloned();
        let is_own = resolved.is_own;
        let client = match own {
            Some(own) => own,
            None => AzureClient::of(&self.settings, resolved, facts)?,
        };
        if is_own {
            clients.insert(String::new(), client.clone());
        }
        clients.insert(name(host.as_ref()), client.clone());
        Ok(client.named_by(host))
    }
}

fn named(host: &str) -> Result<AzureHost, Fault> {
    AzureHost::parse(host).ok_or_else(|| {
        let message = format!(
            "`{}` is not the host of a storage account, as account.dfs.core.windows.net is",
            host.escape_debug()
        );
        Fault::new(FaultKind::Invalid, message)
    })
}

impl Scheme for AzureScheme {
    fn open<'a>(
        &'a self,
        container: &'a str,
        facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        Box::pin(async move {
            let (client, container) = self.client(container, facts)?;
            Ok(Arc::new(Azure::new(&client, container)?) as Arc<dyn Backend>)
        })
    }

    fn buckets<'a>(&'a self, facts: &'a KnownFacts) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
        Box::pin(async move { Ok(Arc::new(AzureBuckets::new(self.clone(), facts)) as Arc<dyn Buckets>) })
    }
}

#[cfg(test)]
mod tests;
