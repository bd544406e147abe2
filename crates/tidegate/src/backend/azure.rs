//! Azure Blob Storage: block blobs by the REST API of the Blob service.
//!
//! Nothing is retried here. Blocks and ranges carry the checksum CRC-64/NVME, which the service compares.

use std::sync::Arc;

mod address;
mod client;
mod credentials;
mod fault;
mod request;
mod scheme;
mod settings;
mod sign;

pub use client::AzureClient;
pub use scheme::AzureScheme;
pub use settings::{AzureCredentials, AzureSettings};

use address::ContainerUrl;
use client::AzureShared;

/// The client and the address that requests to one container need.
#[derive(Clone, Debug)]
struct AzureContainer {
    shared: Arc<AzureShared>,
    url: Arc<ContainerUrl>,
}
