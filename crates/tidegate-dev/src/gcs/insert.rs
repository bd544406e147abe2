//! Uploads a whole object in one request: `uploadType=media` (only the bytes) and `uploadType=multipart` (JSON
//! metadata first, as `multipart/related`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::stream::{self, Stream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use multer::Multipart;
use s3s::{Body, StdError};

use super::call::{Call, Parameters};
use super::intake::{Single, WriteTarget};
use super::refusal::GcsRefusal;
use super::request::LARGEST_JSON;
use super::resource::{ObjectDescription, ObjectResource};
use super::{Request, answer_json, check_key};
use crate::catalog::Protocol;
use crate::catalog::session::Expected;
use crate::s3::ServerStore;

pub(super) async fn insert(
    store: &ServerStore,
    request: Request,
    call: Call,
) -> Result<Response<Body>, GcsRefusal> {
    store.find_bucket(&call.bucket, Protocol::Google)?;
    let origin = request.origin();
    let bucket = call.bucket.clone();
    let object = match call.parameters.upload_type.as_deref() {
        Some("multipart") => insert_related(store, request, call).await?,
        _ => insert_media(store, request, call).await?,
    };
    answer_json(&ObjectResource::new(&origin, &bucket, &object))
}

/// The object's metadata, hashes and conditions, from all places in a request that may state them.
pub(super) fn target(
    parameters: &Parameters,
    key: String,
    description: ObjectDescription,
    headers: &HeaderMap,
) -> Result<(WriteTarget, Expected), GcsRefusal> {
    check_key(&key)?;
    let mut expected = description.expected()?;
    expected.add_headers(headers)?;
    let mut attributes = description.into_attributes();
    if let Some(encoding) = &parameters.content_encoding {
        attributes.content_encoding = Some(encoding.clone());
    }
    Ok((WriteTarget { key, attributes, generations: parameters.generations() }, expected))
}

async fn insert_media(
    store: &ServerStore,
    mut request: Request,
    call: Call,
) -> Result<std::sync::Arc<crate::catalog::CatalogObject>, GcsRefusal> {
    let content_type = request.header(CONTENT_TYPE.as_str()).map(str::to_owned);
    let description = ObjectDescription { content_type, ..ObjectDescription::default() };
    let (target, expected) = target(&call.parameters, call.key, description, &request.parts.headers)?;
    let mut single = Single::new(store, &expected);
    while let Some(bytes) = request.next().await {
        single.push(bytes.map_err(|error| GcsRefusal::broken_body(&error))?).await?;
    }
    single.publish(store, &call.bucket, target, &expected).await
}

async fn insert_related(
    store: &ServerStore,
    request: Request,
    call: Call,
) -> Result<std::sync::Arc<crate::catalog::CatalogObject>, GcsRefusal> {
    let boundary = boundary(request.header(CONTENT_TYPE.as_str()).unwrap_or_default())?;
    let headers = request.parts.headers.clone();
    // The limit of bytes held in memory before the media and after it: part headers and the metadata.
    let held = Arc::new(AtomicUsize::new(LARGEST_JSON));
    let mut body = Multipart::new(chunks(request.decompressed(), Arc::clone(&held)), boundary);

    let broken = |error: multer::Error| GcsRefusal::invalid(format!("Malformed multipart body: {error}"));
    let missing = || GcsRefusal::invalid("A multipart upload has two parts: the metadata and the media.");
    let described = body.next_field().await.map_err(broken)?.ok_or_else(missing)?;
    let mut description = ObjectDescription::parse(&described.bytes().await.map_err(broken)?)?;
    let mut media = body.next_field().await.map_err(broken)?.ok_or_else(missing)?;
    held.store(usize::MAX, Ordering::Relaxed);
    if description.content_type.is_none() {
        let content_type = media.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        description.content_type = content_type.map(str::to_owned);
    }
    let key = description.name.take().unwrap_or(call.key);
    let (target, expected) = target(&call.parameters, key, description, &headers)?;
    let mut single = Single::new(store, &expected);
    while let Some(bytes) = media.chunk().await.map_err(broken)? {
        single.push(bytes).await?;
    }
    drop(media);
    held.store(LARGEST_JSON, Ordering::Relaxed);
    // The body is complete only after its last boundary.
    if body.next_field().await.map_err(broken)?.is_some() {
        return Err(missing());
    }
    single.publish(store, &call.bucket, target, &expected).await
}

/// The request's body, as a stream for the parser. The parser buffers all bytes that are ready before it
/// returns any, so the stream yields once after each piece. It fails if more bytes arrive than `held` allows.
fn chunks(request: Request, held: Arc<AtomicUsize>) -> impl Stream<Item = Result<Bytes, StdError>> + Send {
    stream::unfold((request, false), move |(mut request, has_given)| {
        let held = Arc::clone(&held);
        async move {
            if has_given {
                tokio::task::yield_now().await;
            }
            let next = request.next().await?.and_then(|bytes| {
                let left = held.load(Ordering::Relaxed);
                if left != usize::MAX {
                    let left = left.checked_sub(bytes.len()).ok_or("the metadata is too large")?;
                    held.store(left, Ordering::Relaxed);
                }
                Ok(bytes)
            });
            Some((next, (request, true)))
        }
    })
}

fn boundary(content_type: &str) -> Result<String, GcsRefusal> {
    let parsed: Option<mime::Mime> = content_type.parse().ok();
    let related = parsed.filter(|mime| mime.type_() == mime::MULTIPART);
    let boundary = related.and_then(|mime| Some(mime.get_param(mime::BOUNDARY)?.as_str().to_owned()));
    boundary.ok_or_else(|| {
        GcsRefusal::invalid(format!(
            "A multipart upload is multipart/related with a boundary, not {content_type:?}."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::boundary;

    #[test]
    fn boundaries_are_read() {
        assert_eq!(boundary("multipart/related; boundary=abc").unwrap(), "abc");
        assert_eq!(boundary(r#"multipart/related; boundary="==123==""#).unwrap(), "==123==");
        for wrong in ["", "text/plain; boundary=x", "multipart/related"] {
            assert!(boundary(wrong).is_err(), "{wrong}");
        }
    }
}
