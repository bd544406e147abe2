//! `az://`: containers of one account, which share a client.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{Azure, AzureClient, AzureSettings};
use crate::backend::{Backend, Fault, KnownFacts, Scheme};

/// Opens containers of Azure Blob Storage. The client is made when the first container is opened.
#[derive(Debug)]
pub struct AzureScheme {
    settings: AzureSettings,
    client: OnceCell<AzureClient>,
}

impl AzureScheme {
    /// Containers of the account that `settings` reach.
    pub fn new(settings: AzureSettings) -> Self {
        Self { settings, client: OnceCell::new() }
    }

    /// The settings that the account is reached by.
    pub fn settings(&self) -> &AzureSettings {
        &self.settings
    }
}

impl Scheme for AzureScheme {
    fn open<'a>(
        &'a self,
        container: &'a str,
        facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        Box::pin(async move {
            let connect = || AzureClient::connect(&self.settings, facts);
            let client = self.client.get_or_try_init(connect).await?;
            Ok(Arc::new(Azure::new(client, container)?) as Arc<dyn Backend>)
        })
    }
}
