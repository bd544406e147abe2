//! Appending sessions: resumable uploads of the JSON API
//! (`cloud.google.com/storage/docs/performing-resumable-uploads`). A session's id is its URL.

use http::{Method, StatusCode, Version, header};
use url::Url;

use super::fault::{About, no_error};
use super::request::{GcsContent, GcsRequest};
use super::resource::Resource;
use super::{Gcs, GcsBucket};
use tidegate_core::backend::{Appended, Attempt, Fault, FaultKind, Feature, Held, Session, WriteOptions};
use tidegate_core::memory::payload::{Payload, Unending};
use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::object::Object;
use tidegate_http::answer::not_a_store;
use tidegate_http::{LONGEST, LONGEST_REFUSAL, proof, read, set};

/// Every chunk but the last is a multiple of this size.
pub(super) const GRAIN: u64 = 256 << 10;

/// Whether a session is a resumable upload, by its id: ids of the XML API are not URLs.
pub(super) fn is_appended(session: &Session) -> bool {
    session.id.starts_with("http://") || session.id.starts_with("https://")
}

/// The end of the ids of sessions whose position the server does not tell. It stays with the id, in journals and
/// records too, because a question for the position does harm there: fake-gcs-server publishes what it has, and says
/// that this is the whole object. So does a stream at a server of HTTP/1.0 (gcp-storage-emulator), which has no chunked
/// bytes and cannot tell the end of a stream from a broken connection ("Message Body Length", RFC 9112, 6.1).
const NO_POSITION: &str = "#no-position";

/// Whether the server tells the position of a session.
pub(super) fn tells_position(session: &Session) -> bool {
    !session.id.ends_with(NO_POSITION)
}

/// Whether the answer to a request that opens a session describes the object, as if it were there: so does
/// fake-gcs-server. Google's answer has no body.
fn describes_object(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Described {
        kind: String,
    }
    serde_json::from_slice::<Described>(body).is_ok_and(|described| described.kind == "storage#object")
}

/// The beginning of the ids of sessions that were begun over gRPC.
pub(super) const GRPC_SESSION: &str = "grpc:";

/// Whether a session was begun over gRPC.
pub(super) fn is_grpc(session: &Session) -> bool {
    session.id.starts_with(GRPC_SESSION)
}

pub(super) async fn open(
    bucket: &GcsBucket,
    key: &str,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Session, Fault> {
    let url = bucket.json.uploads(&Gcs::begin("resumable", key, options));
    let mut request = GcsRequest::new(Method::POST, url, About::Bucket, attempt);
    set(&mut request.headers, "content-type", Some("application/json; charset=UTF-8"))?;
    let described = Resource::new(key, options).to_json()?;
    let mut response = bucket.shared.send(request.with(GcsContent::Text(described.into()))).await?;
    let (version, headers) = (response.version(), std::mem::take(response.headers_mut()));
    let body = read(response, LONGEST).await?;
    no_error(&headers, &body, About::Bucket)?;
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let location = location.and_then(|location| bucket.json.upload_at(location));
    let mut session = Session { key: key.to_owned(), id: location.map(String::from).unwrap_or_default() };
    if !is_appended(&session) {
        return Err(not_a_store("the address of the session", &headers, &body));
    }
    if describes_object(&body) || version < Version::HTTP_11 {
        bucket.shared.facts.learn_lack(Feature::SessionPosition);
        session.id.push_str(NO_POSITION);
    }
    Ok(session)
}

pub(super) async fn append(
    bucket: &GcsBucket,
    session: &Session,
    offset: u64,
    payload: Payload,
    whole: Option<&Checksum>,
    attempt: Attempt,
) -> Result<Appended, Fault> {
    let end = offset + payload.len();
    let total = whole.map_or("*".to_owned(), |whole| whole.covers().to_string());
    let range = if payload.is_empty() { "*".to_owned() } else { format!("{offset}-{}", end - 1) };
    let mut request = GcsRequest::new(Method::PUT, address(bucket, session)?, About::Session, attempt);
    set(&mut request.headers, "content-range", Some(format!("bytes {range}/{total}")))?;
    let hash = whole.map(|whole| format!("crc32c={}", whole.base64()));
    set(&mut request.headers, "x-goog-hash", hash)?;
    if whole.is_some() {
        request = request.of_much_work();
    }
    let content = if payload.is_empty() { GcsContent::Nothing } else { GcsContent::Payload(payload) };
    exchange(bucket, session, request.with(content)).await
}

/// Sends all bytes from `offset` on in one request that stays open. A clean end of the request would publish the
/// object with the bytes so far, without any checksum.
pub(super) async fn stream(
    bucket: &GcsBucket,
    session: &Session,
    offset: u64,
    bytes: Unending,
    attempt: Attempt,
) -> Result<Appended, Fault> {
    if !tells_position(session) {
        let message =
            "nothing can be streamed to the upload: the store does not tell how much of it there is";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    let mut request = GcsRequest::new(Method::PUT, address(bucket, session)?, About::Session, attempt);
    set(&mut request.headers, "content-range", Some(format!("bytes {offset}-*/*")))?;
    exchange(bucket, session, request.with(GcsContent::Unending(bytes))).await
}

/// The URL for a session's requests. The session's id may come from a journal or a record, which must not decide
/// where requests go.
fn address(bucket: &GcsBucket, session: &Session) -> Result<String, Fault> {
    match Url::parse(&session.id) {
        Ok(address) if bucket.json.has_upload(&address) => {
            Ok(session.id.strip_suffix(NO_POSITION).unwrap_or(&session.id).to_owned())
        }
        address => {
            // Without the query, which is a secret.
            let at = address.map_or_else(
                |_| "no URL".to_owned(),
                |mut address| {
                    address.set_query(None);
                    address.to_string()
                },
            );
            let here = bucket.json.uploads(&[]);
            let message =
                format!("the upload session is said to be at {at}, and those of this store are at {here}");
            Err(Fault::new(FaultKind::Invalid, message))
        }
    }
}

/// Asks for the number of bytes that a session has persisted.
pub(super) async fn stands(
    bucket: &GcsBucket,
    session: &Session,
    attempt: Attempt,
) -> Result<Appended, Fault> {
    if !tells_position(session) {
        let message = "the upload can't be resumed: the store does not tell how much of it there is";
        return Err(Fault::new(FaultKind::NoSession, message));
    }
    let mut request = GcsRequest::new(Method::PUT, address(bucket, session)?, About::Session, attempt);
    set(&mut request.headers, "content-range", Some("bytes */*"))?;
    exchange(bucket, session, request).await
}

/// The bytes that a session holds. A finished session counts as missing.
pub(super) fn held(stands: Appended) -> Result<Held, Fault> {
    match stands {
        Appended::Open(bytes) => Ok(Held { parts: None, bytes, initiator: None }),
        Appended::Published(_) => Err(Fault::new(FaultKind::NoSession, "the upload is finished")),
    }
}

async fn exchange(bucket: &GcsBucket, session: &Session, request: GcsRequest) -> Result<Appended, Fault> {
    let attempt = request.attempt;
    let answer = bucket.shared.exchange(request).await?;
    let headers = answer.response.headers();
    match answer.response.status() {
        // A 308 with a `Location` is a redirect, not the state of a session.
        StatusCode::PERMANENT_REDIRECT if !headers.contains_key(header::LOCATION) => {
            let range = headers.get(header::RANGE).map(|range| range.to_str().unwrap_or_default());
            persisted(range).map(Appended::Open).ok_or_else(|| {
                let message = format!("the store says that it has `{}`", range.unwrap_or_default());
                Fault::new(FaultKind::Transient, message)
            })
        }
        StatusCode::OK | StatusCode::CREATED => {
            let headers = headers.clone();
            let body = read(answer.response, LONGEST).await?;
            let (object, size) = Resource::read(&headers, &body, About::Session)?;
            let object = Object { key: session.key.clone(), ..object };
            let size = match size {
                Some(size) => size,
                None => super::size_of(bucket, &object, attempt).await?,
            };
            Ok(Appended::Published(Box::new(Object { size, ..object })))
        }
        _ => Err(bucket.shared.refused(answer).await),
    }
}

/// The number of persisted bytes, from a 308's `Range`; 0 without that header.
fn persisted(range: Option<&str>) -> Option<u64> {
    let Some(range) = range else { return Some(0) };
    range.trim().strip_prefix("bytes=0-")?.parse::<u64>().ok()?.checked_add(1)
}

/// Cancels a session; the store confirms with 499. A finished session counts as missing.
pub(super) async fn cancel(bucket: &GcsBucket, session: &Session, attempt: Attempt) -> Result<(), Fault> {
    let request = GcsRequest::new(Method::DELETE, address(bucket, session)?, About::Session, attempt);
    let answer = bucket.shared.exchange(request).await?;
    let status = answer.response.status();
    if status.as_u16() == 499 {
        if tells_position(session) {
            return Ok(());
        }
        let message = "the store confirms any cancellation, also of an upload that it has published";
        return Err(Fault::new(FaultKind::NoSession, message));
    }
    if status.is_success() {
        let headers = answer.response.headers().clone();
        let body = read(answer.response, LONGEST_REFUSAL).await?;
        no_error(&headers, &body, About::Session)?;
        return proof::removed(status, &headers, &body);
    }
    let fault = bucket.shared.refused(answer).await;
    if fault.kind == FaultKind::Invalid
        && let Ok(Appended::Published(_)) = stands(bucket, session, attempt).await
    {
        return Err(Fault { kind: FaultKind::NoSession, ..fault });
    }
    Err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_persisted_is_read_from_the_range() {
        assert_eq!(persisted(None), Some(0));
        assert_eq!(persisted(Some("bytes=0-0")), Some(1));
        assert_eq!(persisted(Some("bytes=0-262143")), Some(GRAIN));
        for wrong in ["", "bytes=1-5", "bytes 0-5/9", "bytes=0-", "0-5", "bytes=0-18446744073709551615"] {
            assert_eq!(persisted(Some(wrong)), None, "{wrong}");
        }
    }
}
