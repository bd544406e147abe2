//! Lists, creates and removes the buckets of a project, over the JSON API.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;

use super::address::with_query;
use super::client::GcsShared;
use super::fault::{About, document, no_error};
use super::list::next;
use super::request::{GcsContent, GcsRequest};
use super::{GcsClient, json};
use tidegate_core::backend::{Attempt, BucketEntry, Buckets, Fault, FaultKind, Listing};
use tidegate_http::answer::not_a_store;
use tidegate_http::time::time;
use tidegate_http::xml::address::{Addressing, BucketUrl};
use tidegate_http::{LONGEST, Order, PagePosition, environment, paged, proof, read, set};

#[cfg(test)]
mod tests;

/// The variable that Google's tools take the project from.
const PROJECT: &str = "GOOGLE_CLOUD_PROJECT";

/// The project that an emulator is sent where the user has set none.
const EMULATORS: &str = "tidegate";

/// The buckets of one project of Google Cloud Storage.
#[derive(Clone, Debug)]
pub struct GcsBuckets {
    shared: Arc<GcsShared>,
}

impl GcsClient {
    /// The buckets of the project that the settings, the environment or the credentials name.
    pub fn buckets(&self) -> GcsBuckets {
        GcsBuckets { shared: self.shared.clone() }
    }
}

/// A page of a listing of buckets.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BucketsPage {
    #[serde(deserialize_with = "json::some_text")]
    kind: String,
    items: Option<Vec<BucketItem>>,
    #[serde(deserialize_with = "json::some_text")]
    next_page_token: String,
}

/// A description of a bucket.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BucketItem {
    #[serde(deserialize_with = "json::some_text")]
    name: String,
    #[serde(deserialize_with = "json::some_text")]
    time_created: String,
}

impl GcsBuckets {
    /// The URL of all buckets, or of one.
    fn url(shared: &GcsShared, bucket: Option<&str>, query: &[(&str, &str)]) -> Result<String, Fault> {
        let mut url = format!("{}/storage/v1/b", shared.endpoint.url());
        if let Some(bucket) = bucket {
            check(shared, bucket)?;
            url.push('/');
            url.push_str(bucket);
        }
        Ok(with_query(url, query))
    }
}

/// Refuses a name that no bucket can have.
fn check(shared: &GcsShared, bucket: &str) -> Result<(), Fault> {
    BucketUrl::new(&shared.endpoint, bucket, Addressing::Path).map(drop)
}

impl GcsShared {
    /// The project whose buckets are listed and created.
    fn project(&self) -> Result<String, Fault> {
        // An emulator asks for some project.
        let emulators = || (!self.is_googles()).then(|| EMULATORS.to_owned());
        let of_credentials = || self.keyring.project().or_else(emulators);
        project(self.project.as_deref(), environment::process, of_credentials)
    }
}

/// The project from the settings, the environment or the credentials, in this order.
fn project(
    set: Option<&str>,
    variable: impl Fn(&str) -> Option<OsString>,
    of_credentials: impl FnOnce() -> Option<String>,
) -> Result<String, Fault> {
    if let Some(project) = set.map(str::trim).filter(|project| !project.is_empty()) {
        return Ok(project.to_owned());
    }
    if let Some(project) = environment::word(PROJECT, variable)? {
        return Ok(project);
    }
    of_credentials().ok_or_else(|| {
        let message =
            format!("buckets belong to a project, and none is known: set {PROJECT} to the project's ID");
        Fault::new(FaultKind::Invalid, message)
    })
}

#[async_trait]
impl Buckets for GcsBuckets {
    fn endpoint(&self) -> &str {
        self.shared.endpoint.url()
    }

    fn list(&self) -> Listing<BucketEntry> {
        let shared = self.shared.clone();
        paged(String::new(), Order::None, move |token: String, attempt| {
            let shared = shared.clone();
            async move {
                let project = shared.project()?;
                let fields = "kind,nextPageToken,items(name,timeCreated)";
                let mut query = vec![("project", project.as_str()), ("fields", fields)];
                if !token.is_empty() {
                    query.push(("pageToken", &token));
                }
                let url = GcsBuckets::url(&shared, None, &query)?;
                let request = GcsRequest::new(Method::GET, url, About::Project, attempt);
                let (headers, body) = shared.ask(request).await?;
                page(&headers, &body)
            }
        })
    }

    async fn create(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault> {
        let shared = &self.shared;
        check(shared, bucket)?;
        let project = shared.project()?;
        let url = Self::url(shared, None, &[("project", &project), ("fields", "name")])?;
        let mut request = GcsRequest::new(Method::POST, url, About::Project, attempt);
        set(&mut request.headers, "content-type", Some("application/json"))?;
        let body = serde_json::json!({ "name": bucket }).to_string();
        let answer = shared.exchange(request.with(GcsContent::Text(Bytes::from(body)))).await?;
        let status = answer.response.status();
        if !status.is_success() {
            return Err(conflicting(status, shared.refused(answer).await, FaultKind::Exists));
        }
        let mut response = answer.response;
        let headers = std::mem::take(response.headers_mut());
        let body = read(response, LONGEST).await?;
        let promised = "a description of the new bucket";
        let made: BucketItem = document(&headers, &body, About::Project, promised)?;
        if made.name == bucket { Ok(()) } else { Err(not_a_store(promised, &headers, &body)) }
    }

    async fn remove(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault> {
        let shared = &self.shared;
        let url = Self::url(shared, Some(bucket), &[])?;
        let request = GcsRequest::new(Method::DELETE, url, About::Bucket, attempt);
        let answer = shared.exchange(request).await?;
        let status = answer.response.status();
        if !status.is_success() {
            return Err(conflicting(status, shared.refused(answer).await, FaultKind::NotEmpty));
        }
        let mut response = answer.response;
        let headers = std::mem::take(response.headers_mut());
        let body = read(response, LONGEST).await?;
        no_error(&headers, &body, About::Bucket)?;
        proof::removed(status, &headers, &body)
    }
}

/// The fault of a request about a bucket, for which a conflict (409) means `kind`. There is no condition that could be
/// unmet (412): Google answers so where an organization's policy forbids the request.
fn conflicting(status: StatusCode, fault: Fault, kind: FaultKind) -> Fault {
    match status {
        StatusCode::CONFLICT => Fault { kind, ..fault },
        StatusCode::PRECONDITION_FAILED => Fault { kind: FaultKind::Denied, ..fault },
        _ => fault,
    }
}

/// The buckets of a page, and the position of the next one.
fn page(headers: &HeaderMap, body: &[u8]) -> Result<(VecDeque<BucketEntry>, PagePosition<String>), Fault> {
    let promised = "a listing of buckets";
    let page: BucketsPage = document(headers, body, About::Project, promised)?;
    let items = page.items.unwrap_or_default();
    if page.kind != "storage#buckets" || items.iter().any(|bucket| bucket.name.is_empty()) {
        return Err(not_a_store(promised, headers, body));
    }
    let buckets = items.into_iter().map(|bucket| BucketEntry::new(bucket.name, time(&bucket.time_created)));
    Ok((buckets.collect(), next(page.next_page_token)))
}
