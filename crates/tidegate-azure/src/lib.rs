//! Azure Blob Storage: block blobs by the REST API of the Blob service.
//!
//! Nothing is retried here. Blobs, blocks and short ranges carry the checksum CRC-64/NVME, which the service compares;
//! it takes the checksum only before the bytes, so those of a file are read twice. The checksum of the whole object and
//! the writer's token are in its metadata.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use http::Method;

use tidegate_core::backend::{
    Admin, Attempt, Backend, Body, Capabilities, Copied, CopySource, Directories, Entry, Fault, FaultKind,
    Held, Info, Listing, OpenSession, PartOrigin, PartSource, Parts, Presign, Receipt, ServerCopy, Session,
    StoredPart, WriteOptions, not_removed,
};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;
use tidegate_http::confirm::confirmed;
use tidegate_http::{LONGEST_REFUSAL, checksum_of, download, md5_of, proof, read, set};

mod account;
mod address;
mod attributes;
mod block_list;
mod blocks;
mod buckets;
mod checksum_entry;
mod client;
mod compared;
mod connection_string;
mod copy;
mod credentials;
mod delegation;
mod fault;
mod identity;
mod list;
mod parts;
mod presign;
mod reading;
mod request;
mod scheme;
mod sessions;
mod settings;
mod sign;
mod tags;
#[cfg(test)]
mod tests;
mod token_http;

pub use buckets::AzureBuckets;
pub use client::AzureClient;
pub use scheme::AzureScheme;
pub use settings::{AzureCredentials, AzureSettings};
pub use tidegate_http::access_token::AccessToken;

use address::ContainerUrl;
use checksum_entry::{ChecksumEntry, Witness};
use client::AzureShared;
use compared::ComparedContent;
use request::AzureRequest;

const MIB: u64 = 1 << 20;

/// One container. A clone is the same container.
#[derive(Clone, Debug)]
pub struct Azure {
    container: AzureContainer,
    info: Arc<Info>,
}

/// The client and the address that requests to one container need.
#[derive(Clone, Debug)]
struct AzureContainer {
    shared: Arc<AzureShared>,
    url: Arc<ContainerUrl>,
    /// The container's name.
    name: Arc<str>,
}

impl AzureContainer {
    fn new(shared: &Arc<AzureShared>, name: &str) -> Result<Self, Fault> {
        let url = Arc::new(ContainerUrl::new(&shared.endpoint, name)?);
        Ok(Self { shared: shared.clone(), url, name: name.into() })
    }
}

impl Azure {
    /// Opens a container over connections of its own; use [`AzureClient`] to share them between containers. Sends
    /// nothing: a wrong container or missing credentials show at the first request.
    pub async fn connect(container: &str, settings: &AzureSettings) -> Result<Self, Fault> {
        let client = AzureClient::connect(settings, &tidegate_core::backend::KnownFacts::default()).await?;
        Self::new(&client, container)
    }

    pub(crate) fn new(client: &AzureClient, container: &str) -> Result<Self, Fault> {
        // "Scalability and performance targets for Blob Storage".
        let (max_part, max_parts) = (4000 * MIB, parts::MOST);
        let capabilities = Capabilities {
            keeps_empty_names: true,
            min_part: 1,
            max_part,
            max_parts,
            max_object: max_part * u64::from(max_parts),
            max_put: 5000 * MIB,
            hedge: true,
            create_only_parts: true,
            replaces: true,
            aborts: false,
            max_copy: copy::LARGEST,
            create_only_copy: true,
            copy_headers: false,
            // A range is copied ("Put Block From URL") only with a shared access signature or a token for its source.
            copy_parts: false,
            lists_in_key_order: false, // see `list::ORDER`
            checksum: Algorithm::Crc64Nvme,
            ..Capabilities::default()
        };
        let endpoint = client.shared.endpoint.url();
        let info = Info::new(client.location(container), endpoint, capabilities);
        Ok(Self { container: client.container(container)?, info: Arc::new(info) })
    }
}

/// The container that a location names: `az://container`, `abfss://container@account.dfs.core.windows.net`, or the URL
/// of the container.
fn container_of(location: &str) -> Result<&str, Fault> {
    let rest = location.split_once("://").map_or(location, |(_, rest)| rest).trim_end_matches('/');
    let container = match rest.split_once('@') {
        Some((container, _)) => container,
        None => rest.rsplit('/').next().unwrap_or_default(),
    };
    if container.is_empty() {
        return Err(Fault::new(FaultKind::Invalid, format!("{location} is no container of this store")));
    }
    Ok(container)
}

/// Writes a blob in one request ("Put Blob").
async fn put_blob(
    azure: &Azure,
    key: &str,
    payload: Payload,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Object, Fault> {
    let md5 = md5_of(&payload).await?;
    let checksum = checksum_of(&payload).await?;
    let url = azure.container.url.blob(key, &[])?;
    let entry = ChecksumEntry { checksum, witness: Witness::Md5(md5.clone()) };
    let mut headers = attributes::to_headers(options, Some(&entry))?;
    set(&mut headers, "x-ms-blob-type", Some("BlockBlob"))?;
    let request =
        || AzureRequest { headers: headers.clone(), ..AzureRequest::new(Method::PUT, url.clone(), attempt) };
    let content = ComparedContent::Blob(payload, checksum, md5);
    let answer = compared::write(&azure.container.shared, request, content).await?;
    proof::written(&answer.headers, b"")?;
    let crc64nvme = answer.has_compared.then(|| checksum.base64());
    let object = Object {
        size: checksum.covers(),
        crc64nvme: crc64nvme.clone(),
        ..attributes::from_headers(key, &answer.headers)
    };
    let object = confirmed(azure, object, checksum.covers(), Some(&checksum), options, attempt, || {}).await;
    let (token, attributes) = (options.token.clone(), options.attributes.clone());
    // The checksum in the blob's metadata is the one that was sent with it, and confirms nothing.
    Ok(Object { crc64nvme, token, attributes, ..object })
}

#[async_trait]
impl Backend for Azure {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        address::check(key)?;
        options.map_or(Ok(()), |options| attributes::to_headers(options, None).map(|_| ()))
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        put_blob(self, key, payload, options, attempt).await
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        let request = AzureRequest::new(Method::HEAD, self.container.url.blob(key, &[])?, attempt);
        let response = proof::object(self.container.shared.send(request).await?).await?;
        reading::no_directory(response.headers())?;
        let size = response.headers().get(http::header::CONTENT_LENGTH).and_then(|size| size.to_str().ok());
        let size = size.and_then(|size| size.trim().parse().ok()).ok_or_else(download::no_size)?;
        let object = Object { size, ..attributes::from_headers(key, response.headers()) };
        self.container.proven(object, response.headers(), attempt).await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        match range {
            Some(range) if range.is_empty() => download::nothing(self.head(key, attempt).await?, range, same),
            range => reading::get(self, key, range, same, attempt).await,
        }
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        list::objects(self.container.clone(), prefix, recursive)
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        let mut request = AzureRequest::new(Method::DELETE, self.container.url.blob(key, &[])?, attempt);
        set(&mut request.headers, "if-match", same.and_then(Object::strong_tag))?;
        // A blob with snapshots is removed only together with them ("Delete Blob"): the error says so.
        let answer = self.container.shared.send(request).await;
        let removed = match answer {
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers().clone());
                let body = read(response, LONGEST_REFUSAL).await?;
                fault::no_error(&headers, &body)?;
                proof::removed(status, &headers, &body)
            }
            Err(fault) => Err(fault),
        };
        match removed {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(()),
            Err(fault) if fault.kind == FaultKind::Exists && same.is_some() => {
                // Azurite says that a condition is not met where there is no blob at all.
                match self.head(key, attempt).await {
                    Err(gone) if gone.kind == FaultKind::NotFound => Ok(()),
                    _ => Err(not_removed(fault, same)),
                }
            }
            removed => removed,
        }
    }

    async fn is_one_place(&self, location: &str, from: &str, key: &str) -> bool {
        from == key && self.container.shared.is_at(&self.container.name, location)
    }

    fn directories(&self) -> Option<&dyn Directories> {
        Some(self)
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        Some(self)
    }

    fn presigning(&self) -> Option<&dyn Presign> {
        Some(&self.container)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Directories for Azure {
    async fn is_directory(&self, key: &str, attempt: Attempt) -> Result<bool, Fault> {
        let request = AzureRequest::new(Method::HEAD, self.container.url.blob(key, &[])?, attempt);
        match self.container.shared.send(request).await {
            Ok(response) => Ok(attributes::is_directory(response.headers())),
            // The write says better what is wrong with the container.
            Err(fault) if matches!(fault.kind, FaultKind::NotFound | FaultKind::NoBucket) => Ok(false),
            Err(fault) => Err(fault),
        }
    }
}

#[async_trait]
impl Parts for Azure {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        _origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.check(key, Some(options))?;
        parts::open(&self.container, key, attempt).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        _offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        match source {
            PartSource::Bytes(payload) => {
                parts::part(&self.container, session, number, payload, attempt).await
            }
            PartSource::CopyOf(..) => {
                let message = "ranges of blobs are not copied within Azure Blob Storage";
                Err(Fault::new(FaultKind::Unsupported, message))
            }
        }
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        parts::stored_parts(&self.container, session, attempt).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        parts::complete(self, session, parts, checksum, options, attempt).await
    }

    async fn abort(&self, _session: &Session, _attempt: Attempt) -> Result<(), Fault> {
        // A commit of no blocks would discard the blocks, and publish an empty blob; it would also discard the blocks
        // of other writers.
        Err(Fault::new(FaultKind::Unsupported, parts::NO_ABORT))
    }
}

#[async_trait]
impl ServerCopy for Azure {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        _cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        self.check(key, Some(options))?;
        copy::copy(self, from, key, options, attempt).await
    }
}

#[async_trait]
impl Admin for Azure {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        sessions::list(self.container.clone(), prefix)
    }

    fn unlisted_sessions(&self) -> Option<&'static str> {
        Some(sessions::UNLISTED)
    }

    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        parts::held(&self.container, session, attempt).await
    }

    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        tags::tags(&self.container, key, attempt).await
    }

    async fn hides_capitals(&self, key: &str, attempt: Attempt) -> Result<bool, Fault> {
        list::has_capitals(&self.container, key, attempt).await
    }
}
