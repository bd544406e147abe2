//! The XML documents of S3 that are used here.
#![allow(missing_docs, reason = "the fields have the names of the elements")]

use quick_xml::DeError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Reads a document with any root; `None` if the body ends in the middle. Skips white space at the beginning, which
/// servers send to keep the connection open.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Option<T>, DeError> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    match quick_xml::de::from_reader(body) {
        Ok(document) => Ok(Some(document)),
        Err(
            DeError::UnexpectedEof
            | DeError::InvalidXml(
                quick_xml::Error::Syntax(_)
                | quick_xml::Error::IllFormed(quick_xml::errors::IllFormedError::MissingEndTag(_)),
            ),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An error document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ErrorDocument {
    pub code: String,
    pub message: String,
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub server_time: Option<String>,
    /// The header that the store does not implement.
    pub header: Option<String>,
    /// The argument that the store does not take.
    pub argument_name: Option<String>,
}

/// An error document in the wrapper that other AWS services, and gateways in front of a store, put around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ErrorResponse {
    pub error: ErrorDocument,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InitiateMultipartUploadResult {
    pub upload_id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename = "CompleteMultipartUpload")]
pub struct CompleteMultipartUpload {
    #[serde(rename = "@xmlns")]
    pub xmlns: &'static str,
    #[serde(rename = "Part")]
    pub parts: Vec<CompletedPart>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CompletedPart {
    #[serde(rename = "ChecksumCRC64NVME", skip_serializing_if = "Option::is_none")]
    pub crc64nvme: Option<String>,
    #[serde(rename = "ChecksumCRC32C", skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    #[serde(rename = "ETag")]
    pub etag: String,
    pub part_number: u32,
}

/// `CompleteMultipartUploadResult`, `CopyObjectResult` and `CopyPartResult`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct WriteResult {
    #[serde(rename = "ETag")]
    pub etag: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    pub crc64nvme: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    pub crc32c: Option<String>,
    #[serde(rename = "ChecksumType")]
    pub checksum_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VersioningConfiguration {
    pub status: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Tagging {
    pub tag_set: TagSet,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TagSet {
    #[serde(rename = "Tag")]
    pub tags: Vec<Tag>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Tag {
    pub key: String,
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_after_white_space() {
        let error = b"  \n\n<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>";
        assert_eq!(read::<ErrorDocument>(error).unwrap().unwrap().code, "InternalError");
        let result = b"\n\n <CompleteMultipartUploadResult><Location>l</Location><ETag>\"e-2\"</ETag><ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME><ChecksumType>FULL_OBJECT</ChecksumType></CompleteMultipartUploadResult>";
        let result: WriteResult = read(result).unwrap().unwrap();
        assert_eq!(result.etag.as_deref(), Some("\"e-2\""));
        assert!(read::<WriteResult>(b"<CompleteMultipartUploadResult><ETag>\"e-2").unwrap().is_none());
    }

    #[test]
    fn a_completion_is_written_in_order() {
        let part = |part_number| CompletedPart {
            crc64nvme: Some("AAAAAAAAAAA=".into()),
            crc32c: None,
            etag: format!("\"{part_number}\""),
            part_number,
        };
        let complete = CompleteMultipartUpload { xmlns: "ns", parts: vec![part(1), part(2)] };
        assert_eq!(
            quick_xml::se::to_string(&complete).unwrap(),
            "<CompleteMultipartUpload xmlns=\"ns\">\
             <Part><ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME><ETag>\"1\"</ETag><PartNumber>1</PartNumber></Part>\
             <Part><ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME><ETag>\"2\"</ETag><PartNumber>2</PartNumber></Part>\
             </CompleteMultipartUpload>"
        );
    }
}
