//! Opens stores, each with the settings and the account that it is reached by.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::{Store, Tidegate};
use crate::backend::Fault;
use crate::backend::gcs::{GcsClient, GcsSettings};
use crate::backend::local::Local;
use crate::backend::memory::Memory;
use crate::backend::s3::{S3Client, S3Settings};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::location::Location;

/// Opens a store. Awaiting the builder opens it, without a request to the store.
///
/// With settings of its own, a store is reached by another account, profile or endpoint than the engine's other
/// stores, and shares their memory budget. Stores with equal settings share their connections; stores of one endpoint
/// share its limiter, whatever their accounts.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate::backend::s3::{Credentials, S3Settings};
/// let tide = tidegate::Tidegate::builder().memory(64 << 20).build()?;
/// let minio = S3Settings::default().with_endpoint_url("http://127.0.0.1:9000");
/// let ours = minio.clone().with_credentials(Credentials::fixed("ours", "secret", None));
/// let theirs = minio.with_credentials(Credentials::fixed("theirs", "secret", None));
/// let from = tide.open("s3://inbox").s3(theirs).await?;
/// let to = tide.open("s3://archive").s3(ours).await?;
/// # Ok::<(), tidegate::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the location or its settings are wrong, or are settings of another kind of store;
/// [`ErrorKind::Unsupported`] for `dev://`, because only the command line starts that server.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before the builder is awaited"]
pub struct OpenBuilder {
    tide: Tidegate,
    location: String,
    s3: Option<S3Settings>,
    gcs: Option<GcsSettings>,
}

impl OpenBuilder {
    pub(super) fn new(tide: Tidegate, location: String) -> Self {
        Self { tide, location, s3: None, gcs: None }
    }

    /// How this `s3://` store is reached, instead of as the engine's settings say
    /// ([`TidegateBuilder::s3`](crate::TidegateBuilder::s3)). A journal does not keep these settings: resume its upload with
    /// [`Left::resume_on`](crate::recover::Left::resume_on), on a store that is opened with them.
    pub fn s3(mut self, settings: S3Settings) -> Self {
        self.s3 = Some(settings);
        self
    }

    /// The same for a `gs://` store ([`TidegateBuilder::gcs`](crate::TidegateBuilder::gcs)).
    pub fn gcs(mut self, settings: GcsSettings) -> Self {
        self.gcs = Some(settings);
        self
    }

    async fn open(self) -> Result<Store> {
        let Self { tide, location, s3, gcs } = self;
        let parsed: Location = location.parse().map_err(|error| {
            Error::new(ErrorKind::InvalidInput, Operation::Connect, location.as_str(), format!("{error}"))
                .with_source(error)
        })?;
        let fault = |fault: Fault| {
            Error::from_fault(fault, Operation::Connect, location.as_str(), 0, Default::default())
        };
        let is_misplaced = match parsed {
            Location::S3 { .. } => gcs.is_some(),
            Location::Gcs { .. } => s3.is_some(),
            _ => s3.is_some() || gcs.is_some(),
        };
        if is_misplaced {
            let message = "the settings are those of another kind of store";
            return Err(Error::new(ErrorKind::InvalidInput, Operation::Connect, location, message));
        }
        let clients = &tide.clients;
        match parsed {
            Location::S3 { bucket, key } => {
                let settings = s3.as_ref().unwrap_or(&clients.s3);
                let client = clients.s3_clients.get(settings, || S3Client::connect(settings)).await;
                let bucket = client.and_then(|client| client.bucket(&bucket)).map_err(fault)?;
                Ok(tide.store(Arc::new(bucket)).within(&key))
            }
            Location::Gcs { bucket, key } => {
                let settings = gcs.as_ref().unwrap_or(&clients.gcs);
                let client = clients.gcs_clients.get(settings, || GcsClient::connect(settings)).await;
                let bucket = client.and_then(|client| client.bucket(&bucket)).map_err(fault)?;
                Ok(tide.store(Arc::new(bucket)).within(&key))
            }
            Location::Local { path } => Ok(tide.store(Arc::new(Local::new(path)))),
            Location::Memory { name, key } => {
                let mut stores = clients.memory_stores.lock().unwrap_or_else(PoisonError::into_inner);
                let memory = stores.entry(name.clone()).or_insert_with(|| Memory::new(name)).clone();
                drop(stores);
                Ok(tide.store(Arc::new(memory)).within(&key))
            }
            other => {
                let message = format!("{other} is not a store that a library can open");
                Err(Error::new(ErrorKind::Unsupported, Operation::Connect, location, message))
            }
        }
    }
}

impl IntoFuture for OpenBuilder {
    type Output = Result<Store>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// The engine's settings for opening stores, and the clients of the stores that it has opened.
#[derive(Debug, Default)]
pub(super) struct Clients {
    s3: S3Settings,
    gcs: GcsSettings,
    s3_clients: ClientCache<S3Settings, S3Client>,
    gcs_clients: ClientCache<GcsSettings, GcsClient>,
    memory_stores: Mutex<BTreeMap<String, Memory>>,
}

impl Clients {
    pub(super) fn new(s3: S3Settings, gcs: GcsSettings) -> Self {
        Self { s3, gcs, ..Self::default() }
    }
}

/// The clients of the settings that were used last: stores with equal settings share one.
#[derive(Debug)]
struct ClientCache<S, C> {
    /// The one that was used last comes last.
    clients: tokio::sync::Mutex<Vec<(S, C)>>,
}

impl<S, C> Default for ClientCache<S, C> {
    fn default() -> Self {
        Self { clients: tokio::sync::Mutex::default() }
    }
}

impl<S: Clone + PartialEq, C: Clone> ClientCache<S, C> {
    /// Most clients that are kept. A program whose credentials are new for every store would keep all of them.
    const KEPT: usize = 16;

    /// The client for `settings`; `connect` makes it if there is none.
    async fn get<F: Future<Output = Result<C, Fault>>>(
        &self,
        settings: &S,
        connect: impl FnOnce() -> F,
    ) -> Result<C, Fault> {
        let mut clients = self.clients.lock().await;
        let entry = match clients.iter().position(|(known, _)| known == settings) {
            Some(at) => clients.remove(at),
            None => (settings.clone(), connect().await?),
        };
        let client = entry.1.clone();
        clients.push(entry);
        if clients.len() > Self::KEPT {
            clients.remove(0);
        }
        Ok(client)
    }
}

#[cfg(test)]
mod tests;
