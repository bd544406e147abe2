//! The XML dialect that S3 and Google Cloud Storage share: addresses, faults, listings, uploads in parts.

use std::collections::BTreeMap;

use http::HeaderMap;

pub(super) mod address;
pub(super) mod complete;
pub(super) mod document;
pub(super) mod fault;
pub(super) mod messages;
pub(super) mod sessions;

/// The metadata in an answer's headers. The values of a repeated header are joined with a comma.
pub(in crate::backend) fn metadata(headers: &HeaderMap, prefix: &str) -> BTreeMap<String, String> {
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
