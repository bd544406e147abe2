//! The XML documents of S3 that are used here.

use quick_xml::DeError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Reads a document with any root; `None` if the body ends in the middle. Skips white space at the beginning, which
/// servers send to keep the connection open.
pub(in crate::backend) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Option<T>, DeError> {
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
pub(in crate::backend) struct ErrorDocument {
    pub(in crate::backend) code: String,
    pub(in crate::backend) message: String,
    pub(in crate::backend) region: Option<String>,
    pub(in crate::backend) endpoint: Option<String>,
    pub(in crate::backend) server_time: Option<String>,
    /// The header that the store does not implement.
    pub(in crate::backend) header: Option<String>,
    /// The argument that the store does not take.
    pub(in crate::backend) argument_name: Option<String>,
}

/// An error document in the wrapper that other AWS services, and gateways in front of a store, put around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::backend) struct ErrorResponse {
    pub(in crate::backend) error: ErrorDocument,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::backend) struct InitiateMultipartUploadResult {
    pub(in crate::backend) upload_id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename = "CompleteMultipartUpload")]
pub(in crate::backend) struct CompleteMultipartUpload {
    #[serde(rename = "@xmlns")]
    pub(in crate::backend) xmlns: &'static str,
    #[serde(rename = "Part")]
    pub(in crate::backend) parts: Vec<CompletedPart>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::backend) struct CompletedPart {
    #[serde(rename = "ChecksumCRC64NVME", skip_serializing_if = "Option::is_none")]
    pub(in crate::backend) crc64nvme: Option<String>,
    #[serde(rename = "ChecksumCRC32C", skip_serializing_if = "Option::is_none")]
    pub(in crate::backend) crc32c: Option<String>,
    #[serde(rename = "ETag")]
    pub(in crate::backend) etag: String,
    pub(in crate::backend) part_number: u32,
}

/// `CompleteMultipartUploadResult`, `CopyObjectResult` and `CopyPartResult`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::backend) struct WriteResult {
    #[serde(rename = "ETag")]
    pub(in crate::backend) etag: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    pub(in crate::backend) crc64nvme: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    pub(in crate::backend) crc32c: Option<String>,
    #[serde(rename = "ChecksumType")]
    pub(in crate::backend) checksum_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::backend) struct VersioningConfiguration {
    pub(in crate::backend) status: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::backend) struct Tagging {
    pub(in crate::backend) tag_set: TagSet,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::backend) struct TagSet {
    #[serde(rename = "Tag")]
    pub(in crate::backend) tags: Vec<Tag>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::backend) struct Tag {
    pub(in crate::backend) key: String,
    pub(in crate::backend) value: String,
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
