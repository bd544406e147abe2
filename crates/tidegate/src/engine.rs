//! The engine: state and settings that all stores, uploads and downloads of one `Tidegate` share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::backend::local::{Batches, LOCAL_ENDPOINT, Parents};
use crate::backend::{Backend, KnownFacts};
use crate::engine::endpoint::Endpoint;
use crate::engine::limiter::Concurrency;
use crate::engine::records::Records;
use crate::engine::request::Requests;
use crate::engine::retry::Retry;
use crate::memory::budget::Budget;
use crate::memory::relief::Relief;
use crate::types::owner_process::OwnerProcess;
use crate::types::progress::Progress;
use crate::types::transfer_rate::TransferRate;
use crate::types::trusted_file::TrustedOwners;

pub(crate) mod aborts;
pub(crate) mod context;
pub(crate) mod endpoint;
pub(crate) mod hedge;
pub(crate) mod journaling;
pub(crate) mod latency;
pub(crate) mod limiter;
pub(crate) mod listing;
pub(crate) mod pending;
pub(crate) mod records;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod spooling;

use aborts::Aborts;
pub(crate) use context::Context;
#[cfg(feature = "prefix")]
pub(crate) use context::KeyMap;
use journaling::Journaling;
use spooling::Spooling;

/// How long the last drop of an engine waits for aborts.
const LAST_DROP: Duration = Duration::from_secs(2);

/// One memory budget, one limiter for each endpoint, and the settings that apply to every store.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) owner: OwnerProcess,
    pub(crate) budget: Budget,
    pub(crate) relief: Arc<Relief>,
    pub(crate) spooling: Option<Arc<Spooling>>,
    /// Bytes of memory that are set aside for sending from the spool.
    pub(crate) reserved: u64,
    pub(crate) idle_limit: Option<Duration>,
    pub(crate) journaling: Journaling,
    pub(crate) retry: Arc<Retry>,
    pub(crate) hedge: bool,
    pub(crate) progress: Progress,
    pub(crate) aborts: Arc<Aborts>,
    pub(crate) records: Records,
    /// Users whose local files are trusted.
    pub(crate) owners: TrustedOwners,
    pub(crate) batches: Batches,
    /// Directories that downloads made for their files.
    pub(crate) parents: Arc<Parents>,
    pub(crate) part_size: Option<u64>,
    pub(crate) parts_in_flight: usize,
    pub(crate) concurrency: Concurrency,
    /// The bytes a second of all transfers together.
    pub(crate) rate: Option<Arc<TransferRate>>,
    pub(crate) endpoints: Mutex<BTreeMap<String, Arc<Endpoint>>>,
    /// What is known of the servers at these endpoints; backends learn and use it too.
    pub(crate) facts: KnownFacts,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.aborts.end_with_engine(LAST_DROP);
    }
}

impl Engine {
    /// The endpoint of a backend; backends with the same address share one.
    pub(crate) fn endpoint(&self, backend: &dyn Backend) -> Arc<Endpoint> {
        self.endpoint_at(backend.endpoint())
    }

    fn endpoint_at(&self, address: &str) -> Arc<Endpoint> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let journaled = self.journaling.of_endpoint();
            let facts = self.facts.of(address);
            let is_disk = address == LOCAL_ENDPOINT;
            // Only what crosses a network keeps to the rate.
            let rate = self.rate.clone().filter(|_| !is_disk);
            Arc::new(Endpoint::new(self.concurrency, &self.retry.policy, journaled, facts, rate, is_disk))
        };
        endpoints.entry(address.to_owned()).or_insert_with(new).clone()
    }

    /// Makes requests to the endpoint at `address` that are about no object; `about` is the URL that errors name.
    pub(crate) fn requests(&self, address: &str, about: &str) -> Requests {
        let endpoint = self.endpoint_at(address);
        Requests {
            object: about.to_owned(),
            flow: endpoint.limiter.flow(),
            lane: None,
            endpoint,
            retry: self.retry.clone(),
            progress: self.progress.clone(),
            brings: 0,
            is_once: false,
            span: tracing::Span::none(),
        }
    }
}
