//! Azure Blob Storage: block blobs by the REST API of the Blob service.
//!
//! Nothing is retried here. Blocks and ranges carry the checksum CRC-64/NVME, which the service compares.

use std::sync::Arc;

mod account;
mod address;
mod buckets;
mod client;
mod connection_string;
mod credentials;
mod delegation;
mod fault;
mod identity;
mod presign;
mod request;
mod scheme;
mod settings;
mod sign;
mod token_http;

pub use super::access_token::AccessToken;
pub use buckets::AzureBuckets;
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
    /// The container's name.
    name: Arc<str>,
}
