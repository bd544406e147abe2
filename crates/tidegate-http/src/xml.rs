//! The XML dialect that S3 and Google Cloud Storage share: addresses, faults, listings, uploads in parts.

use std::collections::BTreeMap;

use http::HeaderMap;

pub mod address;
pub mod complete;
pub mod document;
pub mod fault;
pub mod messages;
pub mod sessions;

/// The metadata in an answer's headers. The values of a repeated header are joined with a comma.
pub fn metadata(headers: &HeaderMap, prefix: &str) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(prefix) else { continue };
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        metadata
            .entry(name.to_owned())
            .and_modify(|known| {
                known.push(',');
                known.push_str(&value);
            })
            .or_insert(value);
    }
    metadata
}
