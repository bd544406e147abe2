//! Google's XML API, whose multipart uploads are S3's with other headers
//! (`cloud.google.com/storage/docs/xml-api`): translates a request to S3's and the answer back to Google's. So
//! counts and faults use the names of S3's operations.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use s3s::{Body, S3Error, S3ErrorCode};

use super::hash::{decode_crc32c, encode_crc32c, encode_md5};
use super::object::add_hashes;
use super::refusal::GcsRefusal;
use super::resource::crc32c_of;
use super::{header, is_json_api, is_signed_for_s3};
use crate::catalog::session::Expected;
use crate::catalog::{CatalogObject, Generations};
use crate::s3::checksum::{S3Algorithm, S3Checksum};

const GOOGLE: &str = "x-goog-";
const META: &str = "x-goog-meta-";

/// Whether the request is for the XML API: it has no S3 signature, and has a header of Google's, a Google
/// signature or a token. An anonymous request to Google without these looks like one to S3.
pub(crate) fn is_xml_api(parts: &Parts) -> bool {
    let has_word = || parts.headers.keys().any(|name| name.as_str().starts_with(GOOGLE));
    let is_presigned = || parts.uri.query().is_some_and(|query| query.contains("X-Goog-Signature="));
    !is_signed_for_s3(parts)
        && !is_json_api(parts)
        && (parts.headers.contains_key(AUTHORIZATION) || has_word() || is_presigned())
}

/// Whether the request opens a session of parts.
pub(crate) fn is_initiation(parts: &Parts) -> bool {
    parts.method == Method::POST && has_parameter(parts, "uploads")
}

/// Turns a request for unfinished uploads into one for objects, as fake-gcs-server does: it ignores `uploads`.
pub(crate) fn lists_objects_instead(parts: &mut Parts) {
    if parts.method != Method::GET || !has_parameter(parts, "uploads") {
        return;
    }
    let query = parts.uri.query().unwrap_or_default();
    let others = query.split('&').filter(|pair| pair.split('=').next() != Some("uploads"));
    let path = format!("{}?{}", parts.uri.path(), others.collect::<Vec<_>>().join("&"));
    if let Ok(uri) = path.parse() {
        parts.uri = uri;
    }
}

fn has_parameter(parts: &Parts, name: &str) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.split('&').any(|pair| pair.split('=').next() == Some(name))
}

/// Translates a request to S3; returns the conditions that S3 cannot express.
pub(crate) fn to_s3(parts: &mut Parts) -> Result<Generations, GcsRefusal> {
    let headers = std::mem::take(&mut parts.headers);
    let is_multipart = has_parameter(parts, "uploads") || has_parameter(parts, "uploadId");
    let is_initiation = is_initiation(parts);
    if headers.contains_key("x-goog-resumable") {
        return Err(GcsRefusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            "Resumable uploads are to be had over the JSON API here.",
        ));
    }
    let generations = generations(&headers)?;
    if is_multipart && generations != Generations::default() {
        let message = "Preconditions are not supported in multipart uploads.";
        return Err(GcsRefusal::new(StatusCode::BAD_REQUEST, "InvalidArgument", message));
    }
    let mut expected = Expected::default();
    expected.add_headers(&headers)?;
    for (name, value) in &headers {
        let name = match name.as_str() {
            "authorization" => continue,
            "x-goog-storage-class" => HeaderName::from_static("x-amz-storage-class"),
            text if text.starts_with(META) => translated(text, META, "x-amz-meta-")?,
            text if text.starts_with(GOOGLE) => continue,
            _ => name.clone(),
        };
        parts.headers.append(name, value.clone());
    }
    let mut add = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            parts.headers.insert(HeaderName::from_static(name), value);
        }
    };
    if let Some(crc32c) = expected.crc32c.filter(|_| parts.method == Method::PUT) {
        add("x-amz-checksum-crc32c", encode_crc32c(crc32c));
    }
    if let Some(md5) = &expected.md5 {
        add("content-md5", encode_md5(md5));
    }
    if is_initiation {
        // Every object written over Google's API has a CRC32C of the whole.
        add("x-amz-checksum-algorithm", "CRC32C".to_owned());
        add("x-amz-checksum-type", "FULL_OBJECT".to_owned());
    }
    Ok(generations)
}

fn translated(name: &str, from: &str, to: &str) -> Result<HeaderName, GcsRefusal> {
    let name = name.replacen(from, to, 1);
    HeaderName::try_from(name).map_err(GcsRefusal::internal)
}

fn generations(headers: &HeaderMap) -> Result<Generations, GcsRefusal> {
    let number = |name: &str| match header(headers, name).map(str::parse) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(GcsRefusal::new(
            StatusCode::BAD_REQUEST,
            "InvalidArgument",
            format!("{name} is not a number."),
        )),
    };
    Ok(Generations {
        is: number("x-goog-if-generation-match")?,
        is_not: None,
        metageneration_is: number("x-goog-if-metageneration-match")?,
        metageneration_is_not: None,
    })
}

/// Translates an S3 answer to Google's XML API.
pub(crate) fn from_s3(mut answer: Response<Body>) -> Response<Body> {
    let headers = std::mem::take(answer.headers_mut());
    for (name, value) in &headers {
        let text = name.as_str();
        let translated = match text.strip_prefix("x-amz-") {
            None => Some(name.clone()),
            Some("storage-class") => Some(HeaderName::from_static("x-goog-storage-class")),
            Some(rest) if rest.starts_with("meta-") => HeaderName::try_from(format!("{GOOGLE}{rest}")).ok(),
            Some(_) => None,
        };
        if let Some(name) = translated {
            answer.headers_mut().append(name, value.clone());
        }
    }
    answer
}

/// Adds the headers of an object that S3's answers lack.
pub(crate) fn describe(headers: &mut HeaderMap, object: &CatalogObject) {
    let numbers = [
        ("x-goog-generation", object.version.generation),
        ("x-goog-metageneration", object.version.metageneration),
        ("x-goog-stored-content-length", object.size),
    ];
    for (name, number) in numbers {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(number));
    }
    add_hashes(headers, crc32c_of(object), object.md5.as_ref());
}

/// Adds the hash headers of a part.
pub(crate) fn add_part_hashes(
    headers: &mut HeaderMap,
    checksum: Option<&S3Checksum>,
    md5: Option<&[u8; 16]>,
) {
    let checksum = checksum.filter(|checksum| checksum.algorithm == S3Algorithm::Crc32c);
    let crc32c = checksum.and_then(|checksum| decode_crc32c(&checksum.value).ok());
    add_hashes(headers, crc32c, md5);
}

/// Formats a refusal for the XML API, in the same form as S3.
pub(crate) fn refuse(refusal: &GcsRefusal) -> Response<Body> {
    let code = S3ErrorCode::from_bytes(refusal.reason.as_bytes())
        .unwrap_or_else(|| S3ErrorCode::Custom(refusal.reason.as_str().into()));
    let mut error = S3Error::with_message(code, refusal.message.clone());
    error.set_status_code(refusal.status);
    error.to_http_response().unwrap_or_else(|error| {
        tracing::error!(?error, "a refusal cannot be written");
        refusal.answer()
    })
}
