//! Copies by the store: `rewrite`, repeated from its last position until everything is copied
//! (`cloud.google.com/storage/docs/json_api/v1/objects/rewrite`).
//!
//! The request names the source's generation instead of setting a condition on it: a failed condition on the source
//! could not be told from one on the target.

use http::Method;
use serde::Deserialize;

use super::address::Address;
use super::fault::{About, document};
use super::request::{GcsContent, GcsRequest};
use super::resource::{self, Resource};
use super::{GcsBucket, json};
use tidegate_core::backend::{Attempt, Copied, CopySource, Fault, FaultKind, WriteOptions, gone};
use tidegate_core::types::object::Object;
use tidegate_http::answer::not_a_store;
use tidegate_http::set;

/// The answer to a rewrite request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rewritten {
    #[serde(deserialize_with = "json::flag")]
    done: bool,
    #[serde(deserialize_with = "json::number")]
    total_bytes_rewritten: Option<u64>,
    #[serde(deserialize_with = "json::text")]
    rewrite_token: Option<String>,
    resource: Option<Resource>,
}

/// The bucket of the source.
pub(super) fn bucket(from: &CopySource) -> Result<&str, Fault> {
    from.location.strip_prefix("gs://").ok_or_else(|| {
        let message = format!("{} is no bucket of this store", from.location);
        Fault::new(FaultKind::Invalid, message)
    })
}

pub(super) async fn rewrite(
    bucket: &GcsBucket,
    source: &str,
    from: &CopySource,
    key: &str,
    cursor: Option<&str>,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Copied, Fault> {
    let source = Address::new(bucket.shared.endpoint.url(), source);
    let mut query = Vec::new();
    query.extend(from.object.version.as_deref().map(|generation| ("sourceGeneration", generation)));
    query.extend(resource::condition(options).map(|generation| ("ifGenerationMatch", generation)));
    query.extend(resource::key_name(options).map(|key| ("destinationKmsKeyName", key)));
    query.extend(cursor.map(|cursor| ("rewriteToken", cursor)));
    let url = bucket.json.rewrite(&source, &from.key, key, &query)?;
    let mut request = GcsRequest::new(Method::POST, url, About::Object, attempt);
    set(&mut request.headers, "content-type", Some("application/json; charset=UTF-8"))?;
    let request = request.with(GcsContent::Text(Resource::of_copy(key, options).to_json()?.into()));
    let (headers, body) = bucket.shared.ask(request.of_much_work()).await.map_err(gone)?;
    let odd = "word of how far it has copied";
    let rewritten: Rewritten =
        document(&headers, &body, About::Object, "the result of a copy").map_err(gone)?;
    let told = rewritten.resource.filter(|_| rewritten.done).and_then(Resource::described);
    // A copy has the size of its source; the whole object's checksum is compared.
    let object = told.map(|(object, size)| Object { size: size.unwrap_or(from.object.size), ..object });
    let bytes = rewritten.total_bytes_rewritten.unwrap_or_default();
    copied(object, rewritten.rewrite_token, bytes).ok_or_else(|| not_a_store(odd, &headers, &body))
}

/// The progress that an answer reports; `None` if it has neither the object nor a token to continue.
pub(super) fn copied(object: Option<Object>, cursor: Option<String>, bytes: u64) -> Option<Copied> {
    match (object, cursor.filter(|cursor| !cursor.is_empty())) {
        (Some(object), _) => Some(Copied::Whole(Box::new(object))),
        (None, Some(cursor)) => Some(Copied::Going { cursor, bytes }),
        (None, None) => None,
    }
}
