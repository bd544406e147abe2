//! Copies objects with `rewriteTo`: the client repeats the call with the token of the last answer until all
//! bytes are copied (`cloud.google.com/storage/docs/json_api/v1/objects/rewrite`).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::TryStreamExt;
use http::Response;
use s3s::Body;
use serde::Serialize;

use super::call::Call;
use super::intake::{Single, WriteTarget};
use super::refusal::GcsRefusal;
use super::resource::{ObjectDescription, ObjectResource};
use super::{Request, answer_json, check_key};
use crate::catalog::session::Expected;
use crate::catalog::{CatalogAttributes, CatalogObject, Generations, Protocol};
use crate::s3::ServerStore;
use crate::storage;

/// A copy: its source and its destination.
pub(super) struct Copy<'a> {
    pub(super) source: (&'a str, &'a str),
    pub(super) generation: Option<u64>,
    pub(super) conditions: Generations,
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    /// The copy's attributes; the source's if `None`.
    pub(super) attributes: Option<CatalogAttributes>,
    pub(super) generations: Generations,
    pub(super) token: Option<&'a str>,
    pub(super) most: Option<u64>,
}

/// The progress of a copy.
pub(super) struct RewriteProgress {
    pub(super) size: u64,
    pub(super) bytes: u64,
    /// The token for the next call.
    pub(super) token: Option<String>,
    /// The copy, once complete.
    pub(super) object: Option<Arc<CatalogObject>>,
}

/// A token holds the source's generation and the number of bytes copied.
fn write_token(generation: u64, bytes: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("{generation}/{bytes}"))
}

fn read_token(token: &str, source: &CatalogObject) -> Result<u64, GcsRefusal> {
    let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = text.as_deref().and_then(|text| text.split_once('/'));
    let bytes = parts.and_then(|(generation, bytes)| {
        let is_same = generation.parse() == Ok(source.version.generation);
        bytes.parse().ok().filter(|bytes| is_same && *bytes < source.size)
    });
    bytes.ok_or_else(|| GcsRefusal::invalid("The rewriteToken is not one of this rewrite."))
}

impl ServerStore {
    /// Performs one call of a copy. Only the last call writes the bytes.
    pub(super) async fn rewrite_google(&self, copy: Copy<'_>) -> Result<RewriteProgress, GcsRefusal> {
        check_key(copy.key)?;
        let (bucket, key) = copy.source;
        let source = self.find_google(bucket, key, copy.generation, &copy.conditions)?;
        self.find_bucket(copy.bucket, Protocol::Google)?;
        let size = source.size;
        let before = copy.token.map_or(Ok(0), |token| read_token(token, &source))?;
        let step = [copy.most, self.faults.knobs().rewrite_step].into_iter().flatten().min();
        let bytes = step.map_or(size, |step| size.min(before.saturating_add(step)));
        if bytes < size {
            let token = Some(write_token(source.version.generation, bytes));
            return Ok(RewriteProgress { size, bytes, token, object: None });
        }
        let expected = Expected::default();
        let mut single = Single::new(self, &expected);
        let mut pieces = storage::read(&source.pieces, 0..size);
        while let Some(piece) = pieces.try_next().await? {
            single.push(piece).await?;
        }
        let attributes = copy.attributes.unwrap_or_else(|| source.attributes.clone());
        let target = WriteTarget { key: copy.key.to_owned(), attributes, generations: copy.generations };
        let object = single.publish(self, copy.bucket, target, &expected).await?;
        Ok(RewriteProgress { size, bytes, token: None, object: Some(object) })
    }
}

/// The JSON of an answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RewriteAnswer<'a> {
    kind: &'static str,
    total_bytes_rewritten: String,
    object_size: String,
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewrite_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ObjectResource<'a>>,
}

pub(super) async fn rewrite(
    store: &ServerStore,
    request: Request,
    call: Call,
) -> Result<Response<Body>, GcsRefusal> {
    let origin = request.origin();
    let json = request.read_json().await?;
    let described = ObjectDescription::parse(&json)?;
    let attributes = (!ObjectDescription::is_empty(&json)).then(|| described.into_attributes());
    let (bucket, key) = call.source.as_ref().ok_or_else(|| GcsRefusal::required("sourceObject"))?;
    let parameters = &call.parameters;
    let rewritten = store
        .rewrite_google(Copy {
            source: (bucket, key),
            generation: parameters.source_generation,
            conditions: parameters.source_generations(),
            bucket: &call.bucket,
            key: &call.key,
            attributes,
            generations: parameters.generations(),
            token: parameters.rewrite_token.as_deref(),
            most: parameters.max_bytes_rewritten_per_call,
        })
        .await?;
    let resource =
        rewritten.object.as_deref().map(|object| ObjectResource::new(&origin, &call.bucket, object));
    answer_json(&RewriteAnswer {
        kind: "storage#rewriteResponse",
        total_bytes_rewritten: rewritten.bytes.to_string(),
        object_size: rewritten.size.to_string(),
        done: resource.is_some(),
        rewrite_token: rewritten.token,
        resource,
    })
}
