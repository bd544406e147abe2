//! Completes a session: builds the request and reads the answer.

use bytes::Bytes;
use http::HeaderMap;

use super::request::{Content, Request, checksum_header};
use super::{fault, xml};
use crate::backend::http::answer::not_a_store;
use crate::backend::http::set;
use crate::backend::{Fault, FaultKind, Receipt, WriteOptions};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::Object;

pub(super) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Fills in the request that completes a session and publishes its object of `size` bytes.
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
    condition(headers, options)?;
    Ok(request.with(Content::Text(completion(parts)?)).of_much_work())
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
            "the object that is to be replaced has a weak ETag, which the store takes for no condition"
        }
        Some(_) => return Ok(()),
    };
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Turns a 404 into `Exists` where the write was to replace an object: that object is gone.
pub(super) fn unmet(mut fault: Fault, options: &WriteOptions) -> Fault {
    if fault.kind == FaultKind::NotFound && options.replaces.is_some() {
        fault.kind = FaultKind::Exists;
    }
    fault
}

/// The parts for a completion, with or without their checksums; copied parts have none.
pub(in crate::backend) fn named(parts: &[Receipt], checksums: bool) -> Vec<xml::Part> {
    let part = |receipt: &Receipt| {
        let sum = |algorithm| {
            let checksum = receipt.checksum.filter(|checksum| checksums && checksum.algorithm() == algorithm);
            checksum.map(|checksum| checksum.base64())
        };
        xml::Part {
            crc64nvme: sum(Algorithm::Crc64Nvme),
            crc32c: sum(Algorithm::Crc32c),
            etag: receipt.etag.clone(),
            part_number: receipt.number,
        }
    };
    parts.iter().map(part).collect()
}

/// Writes the list of parts of a completion as XML.
pub(in crate::backend) fn completion(parts: Vec<xml::Part>) -> Result<Bytes, Fault> {
    let complete = xml::CompleteMultipartUpload { xmlns: NAMESPACE, parts };
    quick_xml::se::to_string(&complete).map(Bytes::from).map_err(|error| {
        Fault::new(FaultKind::Invalid, "the list of parts cannot be written as XML").with_source(error)
    })
}

/// Reads the answer to a completion. The body says whether it succeeded.
pub(in crate::backend) fn answer(
    key: &str,
    headers: &HeaderMap,
    body: &[u8],
    region: &str,
) -> Result<Object, Fault> {
    let written = told(headers, body, "CompleteMultipartUploadResult", region)?;
    Ok(written.into_object(key, headers))
}

/// Reads an answer with root `root` whose status was sent before the store knew the outcome.
pub(super) fn told(
    headers: &HeaderMap,
    body: &[u8],
    root: &str,
    region: &str,
) -> Result<xml::Written, Fault> {
    let written: xml::Written = fault::document(headers, body, root, region)?;
    if written.etag.as_deref().is_none_or(|tag| tag.trim().is_empty()) {
        return Err(not_a_store(&format!("an ETag in <{root}>"), headers, body));
    }
    Ok(written)
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

    #[test]
    fn an_answer_to_something_else_tells_nothing() {
        let told = |body: &str| told(&HeaderMap::new(), body.as_bytes(), "CopyPartResult", "us-east-1");
        let part = told("  <CopyPartResult><ETag>\"e\"</ETag></CopyPartResult>").unwrap();
        assert_eq!(part.etag.as_deref(), Some("\"e\""));
        let error = told(" <Error><Code>SlowDown</Code><Message>Later.</Message></Error>").unwrap_err();
        assert_eq!((error.kind, error.answered), (FaultKind::Throttled, true));
        let other = "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>";
        assert_eq!(told(other).unwrap_err().kind, FaultKind::NotAStore);
    }
}
