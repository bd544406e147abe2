//! The document that completes a session of parts, and the answer to it.

use bytes::Bytes;
use http::HeaderMap;

use super::{fault, messages};
use crate::answer::not_a_store;
use tidegate_core::backend::{Fault, FaultKind, Receipt};
use tidegate_core::types::checksum::Algorithm;

/// The namespace of S3's documents.
pub const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The parts for a completion, with or without their checksums; copied parts have none.
pub fn named(parts: &[Receipt], checksums: bool) -> Vec<messages::CompletedPart> {
    let part = |receipt: &Receipt| {
        let sum = |algorithm| {
            let checksum = receipt.checksum.filter(|checksum| checksums && checksum.algorithm() == algorithm);
            checksum.map(|checksum| checksum.base64())
        };
        messages::CompletedPart {
            crc64nvme: sum(Algorithm::Crc64Nvme),
            crc32c: sum(Algorithm::Crc32c),
            etag: receipt.etag.clone(),
            part_number: receipt.number,
        }
    };
    parts.iter().map(part).collect()
}

/// Writes the list of parts of a completion as XML.
pub fn completion(parts: Vec<messages::CompletedPart>) -> Result<Bytes, Fault> {
    let complete = messages::CompleteMultipartUpload { xmlns: NAMESPACE, parts };
    quick_xml::se::to_string(&complete).map(Bytes::from).map_err(|error| {
        Fault::new(FaultKind::Invalid, "the list of parts cannot be written as XML").with_source(error)
    })
}

/// Reads an answer with root `root` whose status was sent before the store knew the outcome.
pub fn told(
    headers: &HeaderMap,
    body: &[u8],
    root: &str,
    region: &str,
) -> Result<messages::WriteResult, Fault> {
    let written: messages::WriteResult = fault::document(headers, body, root, region)?;
    if written.etag.as_deref().is_none_or(|tag| tag.trim().is_empty()) {
        return Err(not_a_store(&format!("an ETag in <{root}>"), headers, body));
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

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
