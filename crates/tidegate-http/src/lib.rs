//! Code shared by all stores over HTTP: connections, bodies of requests and answers, and faults.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

use std::error::Error;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use md5::{Digest, Md5};

use tidegate_core::backend::{Fault, FaultKind, PresignedRequest};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::object::Object;
use tidegate_core::types::spawn_blocking::spawn_blocking;

pub mod access_token;
pub mod answer;
mod body;
mod client;
pub mod confirm;
mod connections;
mod dialer;
pub mod download;
pub mod environment;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod late;
pub mod open;
mod pages;
pub mod proof;
pub mod provider;
pub mod proxies;
pub mod time;
pub mod tls;
pub mod unanswered;
pub mod vacancy;
pub mod xml;

pub use access_token::AccessToken;
pub use body::{BodyFailure, Outgoing};
pub use client::{Client, Response, Sending, sending};
pub use connections::{Connections, Connector, STREAMS, Version};
pub use late::Work;
pub use pages::{Entries, Keyed, LONGEST_TEXT, Order, PagePosition, Watch, paged, stuck};

/// The `User-Agent` that stores and proxies see.
pub const AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
/// Size limit of an answer that is a description, not an object.
pub const LONGEST: usize = 32 << 20;
/// Size limit of a refusal.
pub const LONGEST_REFUSAL: usize = 64 << 10;

/// The HTTP method of a request that is signed for somebody else.
pub fn method(request: PresignedRequest) -> Method {
    match request {
        PresignedRequest::Get => Method::GET,
        PresignedRequest::Put => Method::PUT,
    }
}

/// Reads an answer's body; fails if it is longer than `most`.
pub async fn read(response: Response, most: usize) -> Result<Bytes, Fault> {
    let mut all = BytesMut::new();
    let mut pieces = pieces(response);
    while let Some(piece) = pieces.try_next().await? {
        if all.len() + piece.len() > most {
            return Err(Fault::new(FaultKind::Unsupported, "the store's answer is too long"));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

/// An answer's body as a stream.
pub fn pieces(response: Response) -> impl Stream<Item = Result<Bytes, Fault>> + Send + Unpin + 'static {
    response.into_body().into_data_stream().map_err(|error| unanswered::fault(error, None))
}

/// A payload's checksum, if it is known; the checksum of an empty payload always is.
pub fn known(payload: &Payload) -> Option<Checksum> {
    payload.checksum().or_else(|| payload.is_empty().then(|| payload.algorithm().empty()))
}

/// A payload's checksum, for a store that takes it only before the bytes. A file is read once for it.
pub async fn checksum_of(payload: &Payload) -> Result<Checksum, Fault> {
    payload.read_checksum().await.map_err(source_fault)
}

/// The MD5 of a larger piece of bytes is taken by a blocking thread: it takes about 0.1 ms or more, in which the runtime's
/// thread would serve nothing else.
const SHORT_PIECE: usize = 64 << 10;

/// The MD5 of a payload, in base64. A file is read once for it, and its checksum is known from then on.
pub async fn md5_of(payload: &Payload) -> Result<String, Fault> {
    let (mut stream, mut hasher) = (payload.unsent(), Md5::new());
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(source_fault)?;
        hasher = match piece.len() {
            ..=SHORT_PIECE => hasher.chain_update(&piece),
            _ => spawn_blocking(move || hasher.chain_update(&piece)).await,
        };
    }
    Ok(STANDARD.encode(hasher.finalize()))
}

/// The fault of a request whose own bytes could not be read.
pub fn source_fault(error: std::io::Error) -> Fault {
    Fault::new(FaultKind::Source, error.to_string()).with_source(error)
}

/// A header's value; fails if HTTP cannot carry the text.
pub fn text(value: impl AsRef<str>) -> Result<HeaderValue, Fault> {
    let value = value.as_ref();
    let carried = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii());
    carried.ok_or_else(|| {
        let message = format!("`{}` has characters that no HTTP header can carry", value.escape_debug());
        Fault::new(FaultKind::Invalid, message)
    })
}

/// Sets a header if there is a value.
pub fn set(headers: &mut HeaderMap, name: &'static str, value: Option<impl AsRef<str>>) -> Result<(), Fault> {
    if let Some(value) = value {
        headers.insert(HeaderName::from_static(name), text(value)?);
    }
    Ok(())
}

/// The fault kind of a status that comes without the store's own error code.
pub fn kind_of_status(status: StatusCode) -> FaultKind {
    match status.as_u16() {
        401 => FaultKind::Credentials,
        403 => FaultKind::Denied,
        404 => FaultKind::NotFound,
        408 => FaultKind::Transient,
        // The store refused this request because of another one on the same key: it can be retried.
        409 => FaultKind::Undone,
        412 => FaultKind::Exists,
        413 => FaultKind::TooLarge,
        429 | 503 => FaultKind::Throttled,
        501 => FaultKind::Unsupported,
        507 => FaultKind::NoSpace,
        // A 2xx is a fault only if its body is an error document: the store failed to do it.
        200..300 | 500.. => FaultKind::Transient,
        _ => FaultKind::Invalid,
    }
}

/// The message for an error document with a status of success and no text of its own.
pub const NO_WORD: &str = "the store answers with an error, and does not say what failed";

/// Explains a status without an error document, as every refusal of a HEAD is. A bare 400 may be about anything.
pub fn unexplained(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "the store does not say why",
        status if status.is_success() => NO_WORD,
        _ => status.canonical_reason().unwrap_or("the store refused"),
    }
}

/// `Retry-After`, in seconds or as a date.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Marks the objects of a page of a listing that were changed shortly before the store wrote this answer.
pub fn mark_fresh<'a>(headers: &HeaderMap, objects: impl Iterator<Item = &'a mut Object>) {
    let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
    let Some(date) = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()) else { return };
    for object in objects {
        object.is_fresh = object.modified.is_some_and(|modified| is_fresh(modified, date));
    }
}

/// Whether `modified` is less than two seconds before the time `now` of the same clock, which has whole seconds.
pub fn is_fresh(modified: SystemTime, now: SystemTime) -> bool {
    now.duration_since(modified).map_or(true, |age| age <= Duration::from_secs(2))
}

/// A body that is one line of text, as proxies and servers in front of a store send it.
pub fn plain(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim().trim_end_matches('.');
    let is_line = (1..=200).contains(&text.len()) && !text.contains(['<', '{', '\n']);
    is_line.then(|| text.to_owned())
}

/// The message of an error's innermost cause.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::types::checksum::Algorithm;

    #[tokio::test]
    async fn the_md5_of_many_bytes_is_taken_off_the_runtime_s_thread() {
        for (size, is_at_once) in [(SHORT_PIECE, true), (8 << 20, false)] {
            let bytes = Bytes::from(vec![7; size]);
            let checksum = Checksum::of(Algorithm::Crc64Nvme, &bytes);
            let payload = Payload::from_memory(vec![bytes.clone()], checksum);
            let mut md5 = std::pin::pin!(md5_of(&payload));
            let first = futures::poll!(&mut md5);
            assert_eq!(first.is_ready(), is_at_once, "{size}");
            let md5 = match first {
                std::task::Poll::Ready(md5) => md5,
                std::task::Poll::Pending => md5.await,
            };
            assert_eq!(md5.unwrap(), STANDARD.encode(Md5::digest(&bytes)));
        }
    }
}
