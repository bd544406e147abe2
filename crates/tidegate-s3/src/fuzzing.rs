//! Fuzz targets that parse arbitrary bytes as S3's answers.

use http::StatusCode;

use super::{attributes, buckets, bulk_delete, list, rules};
use tidegate_http::fuzzing::head;
use tidegate_http::time::time;
use tidegate_http::xml::fault;
use tidegate_http::xml::sessions::{PartsPage, UploadsPage};
use tidegate_http::{answer, download, retry_after};

const REGION: &str = "us-east-1";

/// Parses listings of objects, buckets, sessions and parts, outcomes of removals, lifecycle rules, and error documents.
/// Header lines may come first.
pub fn xml_documents(input: &[u8]) {
    let (headers, body) = head(input);
    let _ = answer::BodyKind::of(body);
    if let Ok((entries, _)) = list::read(&headers, body, REGION) {
        assert!(entries.iter().all(|entry| !entry.key().is_empty()), "an entry without a key");
        assert!(entries.iter().zip(entries.iter().skip(1)).all(|(a, b)| a.key() <= b.key()), "not in order");
    }
    let _ = buckets::page(&headers, body, REGION);
    let _ = bulk_delete::outcomes(&["a".to_owned()], &headers, body, REGION);
    let _ = UploadsPage::read(&headers, body, REGION);
    let _ = PartsPage::read(&headers, body, REGION, 0);
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = rules::rules(text);
    }
    for status in [200, 301, 400, 403, 404, 409, 412, 500, 503] {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let said = fault::refusal(status, &headers, body, REGION);
        assert!(said.message.len() <= 80 << 10, "a message of {} bytes", said.message.len());
    }
}

/// Parses headers: an object's description, range and times, and `Retry-After`.
pub fn headers(input: &[u8]) {
    let (headers, body) = head(input);
    let object = attributes::from_headers("key", &headers);
    assert_ne!(object.etag.as_deref(), Some(""), "an empty tag is no tag");
    for status in [StatusCode::OK, StatusCode::PARTIAL_CONTENT] {
        if let Ok(download::Extent::Of(range, size)) = download::Extent::of(status, &headers) {
            assert!(range.start <= range.end && range.end <= size, "{range:?} of {size}");
        }
    }
    let _ = retry_after(&headers);
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = time(text);
    }
}
