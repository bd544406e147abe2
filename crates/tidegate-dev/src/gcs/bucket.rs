//! Buckets over the JSON API: creates, gets, lists and deletes them.

use http::Response;
use s3s::Body;
use serde::Deserialize;
use serde_json::json;

use super::call::Call;
use super::refusal::Refusal;
use super::resource::BucketResource;
use super::{Request, answer_json};
use crate::catalog::Dialect;
use crate::s3::Store;

#[derive(Deserialize)]
struct Wanted {
    name: String,
}

pub(super) async fn insert(store: &Store, request: Request) -> Result<Response<Body>, Refusal> {
    let origin = request.origin();
    let body = request.read_json().await?;
    let wanted: Wanted =
        serde_json::from_slice(&body).map_err(|error| Refusal::invalid(format!("Parse Error: {error}")))?;
    let mut catalog = store.lock();
    catalog.create_bucket(&wanted.name, Dialect::Google)?;
    answer_json(&BucketResource::new(&origin, &wanted.name, catalog.bucket(&wanted.name)?))
}

pub(super) fn get(store: &Store, origin: &str, call: &Call) -> Result<Response<Body>, Refusal> {
    let catalog = store.lock();
    answer_json(&BucketResource::new(origin, &call.bucket, catalog.bucket(&call.bucket)?))
}

/// Returns all buckets on one page, as there are few.
pub(super) fn list(store: &Store, origin: &str, call: &Call) -> Result<Response<Body>, Refusal> {
    let prefix = call.parameters.prefix.as_deref().unwrap_or_default();
    let catalog = store.lock();
    let buckets = catalog.buckets.iter().filter(|(name, _)| name.starts_with(prefix));
    let items: Vec<_> = buckets.map(|(name, bucket)| BucketResource::new(origin, name, bucket)).collect();
    answer_json(&json!({ "kind": "storage#buckets", "items": items }))
}

pub(super) fn delete(store: &Store, call: &Call) -> Result<Response<Body>, Refusal> {
    store.lock().delete_bucket(&call.bucket)?;
    Ok(super::no_content())
}
