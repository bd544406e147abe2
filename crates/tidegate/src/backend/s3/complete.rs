//! The end of a session: what is asked, and what the answer means.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::request::{Content, Request, checksum_header};
use super::{attributes, fault, xml};
use crate::backend::http::set;
use crate::backend::{Fault, FaultKind, Receipt, StoredPart, WriteOptions};
use crate::checksum::{Algorithm, Checksum};
use crate::object::Object;

pub(super) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Fills in the request that publishes the object of a session, of `size` bytes.
pub(super) fn request(
    mut request: Request,
    parts: Vec<xml::Part>,
    size: u64,
    checksum: Option<&Checksum>,
    options: &WriteOptions,
) -> Result<Request, Fault> {
    let headers = &mut request.headers;
    if let Some(checksum) = checksum {
        set(headers, checksum_header(checksum.algorithm()), Some(checksum.base64()))?;
        set(headers, "x-amz-checksum-type", Some("FULL_OBJECT"))?;
    }
    set(headers, "x-amz-mp-object-size", Some(size.to_string()))?;
    set(headers, "content-type", Some("application/xml"))?;
    if options.create_only {
        set(headers, "if-none-match", Some("*"))?;
    }
    Ok(request.with(Content::Text(completion(parts)?)))
}

/// The parts that a completion names, with their checksums or without.
pub(in crate::backend) fn named(parts: &[Receipt], checksums: bool) -> Vec<xml::Part> {
    let part = |receipt: &Receipt| {
        let sum = checksums.then(|| receipt.checksum.base64());
        part(receipt.number, &receipt.etag, sum, receipt.checksum.algorithm())
    };
    parts.iter().map(part).collect()
}

/// The same of parts that the store has copied, with the checksums that it has told.
pub(super) fn copied(parts: &[StoredPart], algorithm: Algorithm) -> Vec<xml::Part> {
    parts.iter().map(|stored| part(stored.number, &stored.etag, stored.checksum.clone(), algorithm)).collect()
}

fn part(number: u32, etag: &str, checksum: Option<String>, algorithm: Algorithm) -> xml::Part {
    let (crc64nvme, crc32c) = match algorithm {
        Algorithm::Crc64Nvme => (checksum, None),
        Algorithm::Crc32c => (None, checksum),
    };
    xml::Part { crc64nvme, crc32c, etag: etag.to_owned(), part_number: number }
}

/// The list of parts that a completion names.
pub(in crate::backend) fn completion(parts: Vec<xml::Part>) -> Result<Bytes, Fault> {
    let complete = xml::CompleteMultipartUpload { xmlns: NAMESPACE, parts };
    quick_xml::se::to_string(&complete).map(Bytes::from).map_err(|error| {
        Fault::new(FaultKind::Invalid, "the list of parts cannot be written as XML").with_source(error)
    })
}

/// What came of it. The status was sent before the store knew how it would end; the body tells.
pub(in crate::backend) fn answer(
    key: &str,
    headers: &HeaderMap,
    body: &[u8],
    region: &str,
) -> Result<Object, Fault> {
    match xml::root(body).as_deref() {
        Some("CompleteMultipartUploadResult") => {}
        Some("Error") => return Err(fault::refusal(StatusCode::OK, headers, body, region)),
        _ => {
            let message = "the store's answer does not say whether the object is complete";
            return Err(Fault::new(FaultKind::Transient, message));
        }
    }
    let result: xml::CompleteMultipartUploadResult = xml::read(body)?;
    let whole = |value: Option<String>| value.filter(|value| !value.contains('-'));
    let (crc64nvme, crc32c) = (whole(result.crc64nvme), whole(result.crc32c));
    let described = attributes::from_headers(key, headers);
    Ok(Object { etag: result.etag, crc64nvme, crc32c, ..described })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str) -> Result<Object, Fault> {
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
        let object = told(&result("rosUhgp5mIg=")).unwrap();
        assert_eq!(object.etag.as_deref(), Some("\"e-1\""));
        assert_eq!(object.crc64nvme.as_deref(), Some("rosUhgp5mIg="));
        // A checksum of the parts' checksums says nothing of the bytes.
        assert_eq!(told(&result("AAAAAAAAAAA=-2")).unwrap().crc64nvme, None);
        let error = told("   <Error><Code>InternalError</Code><Message>Try again.</Message></Error>");
        assert_eq!(error.unwrap_err().message, "Try again (InternalError, HTTP 200)");
        assert_eq!(told("  ").unwrap_err().kind, FaultKind::Transient);
    }
}
