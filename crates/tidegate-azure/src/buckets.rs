//! Lists, creates and removes containers.

use std::collections::VecDeque;

use async_trait::async_trait;
use http::{HeaderMap, Method, header};

use super::client::AzureClient;
use super::request::AzureRequest;
use super::{AzureScheme, list};
use tidegate_core::backend::{Attempt, BucketEntry, Buckets, Fault, FaultKind, KnownFacts, Listing};
use tidegate_http::answer::not_a_store;
use tidegate_http::xml::address::with_query;
use tidegate_http::xml::document::{ElementStep, XmlPage, filled};
use tidegate_http::{Order, PagePosition, Watch, paged};

#[cfg(test)]
mod tests;

/// Elements read from a listing.
const NAMES: [&str; 6] = ["Containers", "Container", "Name", "Properties", "Last-Modified", "NextMarker"];

/// The containers of the account that the settings name; those of other accounts are created and removed by
/// `container@account.dfs.core.windows.net`.
#[derive(Clone, Debug)]
pub struct AzureBuckets {
    scheme: AzureScheme,
    facts: KnownFacts,
    endpoint: String,
}

impl AzureBuckets {
    pub(super) fn new(scheme: AzureScheme, facts: &KnownFacts) -> Self {
        // Requests about containers of other accounts share this account's limiter: they are few.
        let own = scheme.of_account(None, facts);
        let endpoint = own.map_or_else(|_| "azure".to_owned(), |own| own.shared.endpoint.url().to_owned());
        Self { scheme, facts: facts.clone(), endpoint }
    }
}

#[async_trait]
impl Buckets for AzureBuckets {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn list(&self) -> Listing<BucketEntry> {
        let Self { scheme, facts, .. } = self.clone();
        paged(String::new(), Order::None, move |marker: String, attempt| {
            let client = scheme.of_account(None, &facts);
            async move {
                let client = client?;
                let mut query = vec![("comp", "list")];
                if !marker.is_empty() {
                    query.push(("marker", &marker));
                }
                let url = client.shared.endpoint.root(&query);
                let (headers, body) = client.shared.ask(AzureRequest::new(Method::GET, url, attempt)).await?;
                page(&headers, &body)
            }
        })
    }

    async fn create(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault> {
        let (client, name) = self.scheme.client(bucket, &self.facts)?;
        let url = client.container(name)?.url.container(&[("restype", "container")]);
        let (headers, body) = client.shared.ask(AzureRequest::new(Method::PUT, url, attempt)).await.map_err(
            |fault| match fault.code.as_str() {
                "ContainerAlreadyExists" => Fault { kind: FaultKind::Exists, ..fault },
                _ => fault,
            },
        )?;
        if headers.contains_key(header::ETAG) && headers.contains_key("x-ms-version") {
            return Ok(());
        }
        Err(not_a_store("word that the container was created", &headers, &body))
    }

    /// Azure removes a container with all its blobs, and has no condition against it. So this looks for a blob before,
    /// also for snapshots, earlier versions and unfinished uploads; one that is written between the two requests is
    /// removed with the container.
    async fn remove(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault> {
        let (client, name) = self.scheme.client(bucket, &self.facts)?;
        if has_blob(&client, name, attempt).await? {
            let message = format!(
                "the container `{name}` is not empty: remove its blobs before, with their snapshots and earlier \
                 versions; an unfinished upload is gone a week after its last block"
            );
            return Err(Fault::new(FaultKind::NotEmpty, message));
        }
        let url = client.container(name)?.url.container(&[("restype", "container")]);
        let (headers, body) =
            client.shared.ask(AzureRequest::new(Method::DELETE, url, attempt)).await.map_err(no_container)?;
        if headers.contains_key("x-ms-version") {
            return Ok(());
        }
        Err(not_a_store("word that the container was removed", &headers, &body))
    }
}

/// What `rb` must not remove besides blobs. Accounts with a hierarchical namespace have no versions, and may refuse
/// them.
const INCLUDED: [&str; 2] =
    ["metadata,snapshots,versions,uncommittedblobs", "metadata,snapshots,uncommittedblobs"];

/// Whether the container has a blob, or a snapshot, a version or blocks of one.
async fn has_blob(client: &AzureClient, name: &str, attempt: Attempt) -> Result<bool, Fault> {
    match has_any(client, name, INCLUDED[0], attempt).await {
        Err(fault) if matches!(fault.kind, FaultKind::Unsupported | FaultKind::Invalid) => {
            has_any(client, name, INCLUDED[1], attempt).await
        }
        found => found,
    }
}

/// Whether the container has anything that a listing includes, except directories, which are no objects. A page may be
/// empty although others follow.
async fn has_any(client: &AzureClient, name: &str, include: &str, attempt: Attempt) -> Result<bool, Fault> {
    let url = client.container(name)?.url.container(&[]);
    let mut marker = String::new();
    let mut watch = Watch::new(marker.clone(), Order::None);
    loop {
        let mut query =
            vec![("restype", "container"), ("comp", "list"), ("maxresults", "100"), ("include", include)];
        if !marker.is_empty() {
            query.push(("marker", &marker));
        }
        let request = AzureRequest::new(Method::GET, with_query(url.clone(), &query), attempt);
        let (headers, body) = client.shared.ask(request).await.map_err(no_container)?;
        let page = list::read(&headers, &body)?;
        match page.next {
            _ if page.blobs.iter().any(|blob| !blob.is_directory()) => return Ok(true),
            Some(next) => {
                watch.page(&VecDeque::<BucketEntry>::new(), &next)?;
                marker = next;
            }
            None => return Ok(false),
        }
    }
}

/// What is not found by a request about a container is the container.
fn no_container(fault: Fault) -> Fault {
    match fault.kind {
        FaultKind::NotFound => Fault { kind: FaultKind::NoBucket, ..fault },
        _ => fault,
    }
}

/// The containers of a page, and the position of the next one.
fn page(headers: &HeaderMap, body: &[u8]) -> Result<(VecDeque<BucketEntry>, PagePosition<String>), Fault> {
    let document = XmlPage::new(headers, body, "EnumerationResults", "")?;
    let (mut containers, mut next, mut has_containers) = (VecDeque::new(), None, None);
    let (mut name, mut changed) = (None, None);
    document.each(&NAMES, |path, step| {
        match (path, step) {
            (["Containers", "Container", "Name"], ElementStep::Ends(text)) => name = filled(text),
            (["Containers", "Container", "Properties", "Last-Modified"], ElementStep::Ends(text)) => {
                changed = httpdate::parse_http_date(text.trim()).ok();
            }
            (["Containers", "Container"], ElementStep::Ends(_)) => {
                let name = name.take().ok_or("a container has no name")?;
                containers.push_back(BucketEntry::new(name, changed.take()));
            }
            (["Containers"], ElementStep::Ends(_)) => has_containers = Some(()),
            (["NextMarker"], ElementStep::Ends(text)) => next = Some(filled(text)),
            _ => {}
        }
        Ok(())
    })?;
    document.promised("Containers", has_containers)?;
    let next = document.promised("NextMarker", next)?;
    Ok((containers, next.map_or(PagePosition::End, PagePosition::At)))
}
