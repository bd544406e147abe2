//! Buckets over the JSON API: creates, gets, lists and deletes them.

use http::Response;
use s3s::Body;
use serde::Deserialize;
use serde_json::json;

use super::call::Call;
use super::refusal::GcsRefusal;
use super::resource::BucketResource;
use super::{Request, answer_json};
use crate::catalog::Protocol;
use crate::s3::ServerStore;

#[derive(Deserialize)]
struct NewBucket {
    name: String,
}

pub(super) async fn insert(store: &ServerStore, request: Request) -> Result<Response<Body>, GcsRefusal> {
    let origin = request.origin();
    let body = request.read_json().await?;
    let wanted: NewBucket = serde_json::from_slice(&body)
        .map_err(|error| GcsRefusal::invalid(format!("Parse Error: {error}")))?;
    let mut catalog = store.lock();
    catalog.create_bucket(&wanted.name, Protocol::Google)?;
    answer_json(&BucketResource::new(&origin, &wanted.name, catalog.bucket(&wanted.name)?))
}

pub(super) fn get(store: &ServerStore, origin: &str, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    let catalog = store.lock();
    answer_json(&BucketResource::new(origin, &call.bucket, catalog.bucket(&call.bucket)?))
}

/// Returns all buckets on one page, as there are few.
pub(super) fn list(store: &ServerStore, origin: &str, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    let prefix = call.parameters.prefix.as_deref().unwrap_or_default();
    let catalog = store.lock();
    let buckets = catalog.buckets.iter().filter(|(name, _)| name.starts_with(prefix));
    let items: Vec<_> = buckets.map(|(name, bucket)| BucketResource::new(origin, name, bucket)).collect();
    answer_json(&json!({ "kind": "storage#buckets", "items": items }))
}

pub(super) fn delete(store: &ServerStore, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    store.lock().delete_bucket(&call.bucket)?;
    Ok(super::no_content())
}
