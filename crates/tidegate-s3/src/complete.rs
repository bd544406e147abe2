//! Completes a session: builds the request and reads the answer.

use http::HeaderMap;

use super::attributes;
use super::request::{S3Content, S3Request, checksum_header};
use tidegate_core::backend::{Fault, FaultKind, WriteOptions};
use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::object::Object;
use tidegate_http::set;
use tidegate_http::xml::complete::{completion, told};
use tidegate_http::xml::messages;

/// Fills in the request that completes a session and publishes its object of `size` bytes. `tells_size` is false for a
/// server that takes no checksums, which takes no size either.
pub(super) fn request(
    mut request: S3Request,
    parts: Vec<messages::CompletedPart>,
    size: u64,
    checksum: Option<&Checksum>,
    tells_size: bool,
    options: &WriteOptions,
) -> Result<S3Request, Fault> {
    let headers = &mut request.headers;
    if let Some(checksum) = checksum {
        set(headers, checksum_header(checksum.algorithm()), Some(checksum.base64()))?;
        set(headers, "x-amz-checksum-type", Some("FULL_OBJECT"))?;
    }
    set(headers, "x-amz-mp-object-size", tells_size.then(|| size.to_string()))?;
    set(headers, "content-type", Some("application/xml"))?;
    condition(headers, options)?;
    Ok(request.with(S3Content::Text(completion(parts)?)).of_much_work())
}

/// Sets the condition for publishing: no object may exist, or only the one to be replaced.
pub(super) fn condition(headers: &mut HeaderMap, options: &WriteOptions) -> Result<(), Fault> {
    if options.create_only {
        set(headers, "if-none-match", Some("*"))?;
    }
    check_condition(options)?;
    let replaced = options.replaces.as_ref().and_then(|replaced| replaced.etag.as_ref());
    set(headers, "if-match", replaced)
}

/// Refuses to replace an object that a condition cannot identify.
pub(super) fn check_condition(options: &WriteOptions) -> Result<(), Fault> {
    let Some(replaced) = &options.replaces else { return Ok(()) };
    let message = match replaced.etag.as_deref() {
        None => "the object that is to be replaced has no ETag, by which the store could know it",
        Some(etag) if etag.starts_with("W/") => {
            "the object that is to be replaced has a weak ETag, which the store does not accept in If-Match"
        }
        Some(_) => return Ok(()),
    };
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Reads the answer to a completion. The body says whether it succeeded.
pub(super) fn answer(key: &str, headers: &HeaderMap, body: &[u8], region: &str) -> Result<Object, Fault> {
    let written = told(headers, body, "CompleteMultipartUploadResult", region)?;
    Ok(into_object(written, key, headers))
}

/// The object that was written, with the properties in `headers`. A composite checksum is dropped: it is a checksum of
/// parts, not of the bytes.
pub(super) fn into_object(written: messages::WriteResult, key: &str, headers: &HeaderMap) -> Object {
    let is_composite =
        written.checksum_type.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("COMPOSITE"));
    let whole = |value: Option<String>| value.filter(|value| !is_composite && !value.contains('-'));
    let (crc64nvme, crc32c) = (whole(written.crc64nvme), whole(written.crc32c));
    Object { etag: written.etag, crc64nvme, crc32c, ..attributes::from_headers(key, headers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(body: &str) -> Result<Object, Fault> {
        answer("k", &HeaderMap::new(), body.as_bytes(), "us-east-1")
    }

    #[test]
    fn the_body_tells_how_it_ended() {
        let result = |sum| {
            format!(
                "\n \n<CompleteMultipartUploadResult><ETag>\"e-1\"</ETag>\
                 <ChecksumCRC64NVME>{sum}</ChecksumCRC64NVME></CompleteMultipartUploadResult>"
            )
        };
        let object = ended(&result("rosUhgp5mIg=")).unwrap();
        assert_eq!(object.etag.as_deref(), Some("\"e-1\""));
        assert_eq!(object.crc64nvme.as_deref(), Some("rosUhgp5mIg="));
        // A checksum of the parts' checksums says nothing of the bytes.
        assert_eq!(ended(&result("AAAAAAAAAAA=-2")).unwrap().crc64nvme, None);
        let error = ended("   <Error><Code>InternalError</Code><Message>Try again.</Message></Error>");
        assert_eq!(error.unwrap_err().message, "Try again (InternalError, HTTP 200)");
        assert_eq!(ended("  ").unwrap_err().kind, FaultKind::Transient);
    }
}
