//! Fuzz targets that parse arbitrary bytes as Google's answers.

use http::StatusCode;

use super::fault::{self, About};
use super::{list, resource};
use tidegate_http::fuzzing::head;

pub use super::grpc::fuzzing::grpc_messages;

/// Parses listings, descriptions of objects, and error documents. Header lines may come first.
pub fn json_documents(input: &[u8]) {
    let (headers, body) = head(input);
    if let Ok((entries, _)) = list::read(&headers, body) {
        assert!(entries.iter().zip(entries.iter().skip(1)).all(|(a, b)| a.key() <= b.key()), "not in order");
    }
    let _ = resource::Resource::read(&headers, body, About::Bucket);
    for status in [200, 308, 400, 401, 403, 404, 412, 429, 500, 503] {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let said = fault::refusal(status, &headers, body, About::Bucket);
        assert!(said.message.len() <= 80 << 10, "a message of {} bytes", said.message.len());
    }
}

/// Parses headers: an object's description.
pub fn headers(input: &[u8]) {
    let (headers, _) = head(input);
    let _ = resource::from_headers("key", &headers);
}
