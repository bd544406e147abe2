//! Objects over the JSON API: gets, reads, updates and deletes them.

use std::ops::Range;
use std::sync::Arc;

use futures::StreamExt;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use s3s::Body;
use s3s::dto::TimestampFormat;

use super::call::{Call, GcsOperation};
use super::hash::{encode_crc32c, encode_md5};
use super::refusal::GcsRefusal;
use super::resource::{Change, ObjectResource, crc32c_of, etag, storage_class};
use super::{Request, answer_json};
use crate::catalog::generations::ConditionResult;
use crate::catalog::{CatalogObject, Condition, Generations};
use crate::s3::ServerStore;
use crate::storage;

impl ServerStore {
    /// The live object, if it has the requested generation and the conditions hold.
    pub(super) fn find_google(
        &self,
        bucket: &str,
        key: &str,
        generation: Option<u64>,
        conditions: &Generations,
    ) -> Result<Arc<CatalogObject>, GcsRefusal> {
        let catalog = self.lock();
        let live = catalog.bucket(bucket)?.objects.get(key);
        let asked = live.filter(|live| generation.is_none_or(|wanted| wanted == live.version.generation));
        let object = asked.ok_or_else(|| GcsRefusal::no_such_object(bucket, key))?;
        match conditions.check(Some(object)) {
            ConditionResult::Holds => Ok(Arc::clone(object)),
            ConditionResult::Fails => Err(GcsRefusal::condition_not_met()),
            ConditionResult::Unchanged => {
                Err(GcsRefusal::new(StatusCode::NOT_MODIFIED, "notModified", "Not Modified"))
            }
        }
    }
}

fn find(store: &ServerStore, call: &Call) -> Result<Arc<CatalogObject>, GcsRefusal> {
    let parameters = &call.parameters;
    store.find_google(&call.bucket, &call.key, parameters.generation(), &parameters.generations())
}

pub(super) fn get(store: &ServerStore, origin: &str, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    let object = find(store, call)?;
    answer_json(&ObjectResource::new(origin, &call.bucket, &object))
}

pub(super) fn delete(store: &ServerStore, call: &Call) -> Result<Response<Body>, GcsRefusal> {
    let parameters = &call.parameters;
    // A delete gets a 412 where a read gets a 304.
    find(store, call).map_err(|refusal| match refusal.status {
        StatusCode::NOT_MODIFIED => GcsRefusal::condition_not_met(),
        _ => refusal,
    })?;
    let mut generations = parameters.generations();
    generations.is = generations.is.or(parameters.generation());
    let condition = Condition::generations(generations);
    store.lock().remove_object(&call.bucket, &call.key, &condition)?;
    Ok(super::no_content())
}

pub(super) async fn change(
    store: &ServerStore,
    request: Request,
    call: &Call,
) -> Result<Response<Body>, GcsRefusal> {
    let origin = request.origin();
    let change = Change::parse(&request.read_json().await?)?;
    find(store, call).map_err(|refusal| match refusal.status {
        StatusCode::NOT_MODIFIED => GcsRefusal::condition_not_met(),
        _ => refusal,
    })?;
    let condition = Condition::generations(call.parameters.generations());
    let is_update = call.operation == GcsOperation::Update;
    let object = store.lock().describe(&call.bucket, &call.key, &condition, |object| {
        change.apply(&mut object.attributes, is_update);
    })?;
    answer_json(&ObjectResource::new(&origin, &call.bucket, &object))
}

pub(super) fn download(
    store: &ServerStore,
    headers: &HeaderMap,
    call: &Call,
) -> Result<Response<Body>, GcsRefusal> {
    let object = find(store, call)?;
    let range = match wanted_range(headers, object.size) {
        WantedRange::All => None,
        WantedRange::Part(range) => Some(range),
        WantedRange::Nothing => {
            let message = "The requested range cannot be satisfied.";
            let refusal =
                GcsRefusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "requestedRangeNotSatisfiable", message);
            let mut answer = refusal.answer();
            put(answer.headers_mut(), CONTENT_RANGE, &format!("bytes */{}", object.size));
            return Ok(answer);
        }
    };
    let mut answer = Response::new(Body::empty());
    if let Some(range) = &range {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, object.size);
        put(answer.headers_mut(), CONTENT_RANGE, &text);
    }
    let range = range.unwrap_or(0..object.size);
    describe(answer.headers_mut(), &object);
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    let bytes = storage::read(&object.pieces, range);
    let body = StreamBody::new(bytes.map(|bytes| bytes.map(Frame::data)));
    *answer.body_mut() = Body::http_body_unsync(body);
    Ok(answer)
}

/// The bytes of an object of this size that a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
enum WantedRange {
    All,
    Part(Range<u64>),
    Nothing,
}

/// As in HTTP, a header that is not one valid range of bytes is ignored.
fn wanted_range(headers: &HeaderMap, size: u64) -> WantedRange {
    let text = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let Some(range) = text.and_then(|text| s3s::dto::Range::parse(text).ok()) else {
        return WantedRange::All;
    };
    match range.check(size) {
        Ok(range) if range.start < range.end => WantedRange::Part(range),
        _ => WantedRange::Nothing,
    }
}

/// Adds the headers that describe the object whose bytes follow.
fn describe(headers: &mut HeaderMap, object: &CatalogObject) {
    let attributes = &object.attributes;
    let content_type = attributes.content_type.as_deref().unwrap_or("application/octet-stream");
    put(headers, CONTENT_TYPE, content_type);
    let optional = [
        (CACHE_CONTROL, &attributes.cache_control),
        (CONTENT_DISPOSITION, &attributes.content_disposition),
        (CONTENT_ENCODING, &attributes.content_encoding),
        (CONTENT_LANGUAGE, &attributes.content_language),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(headers, name, value);
        }
    }
    put(headers, ACCEPT_RANGES, "bytes");
    put(headers, ETAG, &etag(&object.version));
    let mut date = Vec::new();
    if object.modified.seconds().format(TimestampFormat::HttpDate, &mut date).is_ok() {
        put(headers, LAST_MODIFIED, &String::from_utf8_lossy(&date));
    }
    put(headers, HeaderName::from_static("x-goog-generation"), &object.version.generation.to_string());
    put(
        headers,
        HeaderName::from_static("x-goog-metageneration"),
        &object.version.metageneration.to_string(),
    );
    put(headers, HeaderName::from_static("x-goog-storage-class"), storage_class(attributes));
    put(headers, HeaderName::from_static("x-goog-stored-content-length"), &object.size.to_string());
    let encoding = attributes.content_encoding.as_deref().unwrap_or("identity");
    put(headers, HeaderName::from_static("x-goog-stored-content-encoding"), encoding);
    add_hashes(headers, crc32c_of(object), object.md5.as_ref());
}

/// Adds one `X-Goog-Hash` per known hash.
pub(super) fn add_hashes(headers: &mut HeaderMap, crc32c: Option<u32>, md5: Option<&[u8; 16]>) {
    let crc32c = crc32c.map(|crc| format!("crc32c={}", encode_crc32c(crc)));
    let md5 = md5.map(|md5| format!("md5={}", encode_md5(md5)));
    for hash in crc32c.into_iter().chain(md5) {
        if let Ok(value) = HeaderValue::try_from(hash) {
            headers.append("x-goog-hash", value);
        }
    }
}

/// A value that no header can carry (it came from a JSON document) is left out and logged.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    match HeaderValue::from_str(value) {
        Ok(value) => {
            headers.insert(name, value);
        }
        Err(error) => tracing::warn!(%name, %error, "an attribute does not fit into a header"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_the_object() {
        let wanted = |text: &str, size| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, text.parse().unwrap());
            wanted_range(&headers, size)
        };
        assert_eq!(wanted("bytes=0-3", 10), WantedRange::Part(0..4));
        assert_eq!(wanted("bytes=5-", 10), WantedRange::Part(5..10));
        assert_eq!(wanted("bytes=5-100", 10), WantedRange::Part(5..10));
        assert_eq!(wanted("bytes=-3", 10), WantedRange::Part(7..10));
        assert_eq!(wanted("bytes=10-", 10), WantedRange::Nothing);
        assert_eq!(wanted("bytes=0-", 0), WantedRange::Nothing);
        assert_eq!(wanted("lines=1-2", 10), WantedRange::All);
        assert_eq!(wanted_range(&HeaderMap::new(), 10), WantedRange::All);
    }
}
