//! Converts attributes to headers, and an answer's headers to an object's description.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::checksum_entry::{ChecksumEntry, NAME as CRC64, md5_told};
use tidegate_core::backend::{Fault, FaultKind, WriteOptions};
use tidegate_core::types::object::{Attributes, Encryption, Object};
use tidegate_http::proof::tag;
use tidegate_http::time::time;
use tidegate_http::xml::metadata;
use tidegate_http::{set, text};

#[cfg(test)]
mod tests;

pub(super) const META: &str = "x-ms-meta-";

/// The metadata name of a writer's token: [`Attributes::RESERVED`], with the underscore that Azure takes instead of a
/// hyphen.
pub(super) const TOKEN: &str = "tidegate_writer";

/// Characters that a tag's text may have unencoded in `x-ms-tags`.
const TAG: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The most tags of a blob ("Manage and find Azure Blob data with blob index tags").
const MOST_TAGS: usize = 10;

/// The headers of a request that creates an object of these bytes. Refuses what Azure cannot hold.
pub(super) fn to_headers(
    options: &WriteOptions,
    checksum: Option<&ChecksumEntry>,
) -> Result<HeaderMap, Fault> {
    let mut headers = metadata_headers(options, checksum)?;
    let attributes = &options.attributes;
    // Always sent: without it the type of the request's own body would count.
    let content_type = attributes.content_type.as_deref().unwrap_or("application/octet-stream");
    set(&mut headers, "x-ms-blob-content-type", Some(content_type))?;
    set(&mut headers, "x-ms-blob-cache-control", attributes.cache_control.as_ref())?;
    set(&mut headers, "x-ms-blob-content-encoding", attributes.content_encoding.as_ref())?;
    set(&mut headers, "x-ms-blob-content-disposition", attributes.content_disposition.as_ref())?;
    set(&mut headers, "x-ms-blob-content-language", attributes.content_language.as_ref())?;
    Ok(headers)
}

/// As [`to_headers`], without the content headers: a copy takes those from its source.
pub(super) fn metadata_headers(
    options: &WriteOptions,
    checksum: Option<&ChecksumEntry>,
) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    let attributes = &options.attributes;
    if attributes.expires.is_some() {
        let message = "Azure Blob Storage has no Expires of blobs: use the cache control";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    if matches!(attributes.encryption, Some(Encryption::Kms { .. })) {
        let message =
            "a key that encrypts blobs is a setting of the Azure account or container, and not of a blob";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    set(&mut headers, "x-ms-access-tier", attributes.storage_class.as_ref())?;
    set(&mut headers, "x-ms-tags", tags(&attributes.tags)?)?;
    for (name, value) in &attributes.metadata {
        check_name(name)?;
        insert(&mut headers, name, value)?;
    }
    if let Some(token) = &options.token {
        insert(&mut headers, TOKEN, token)?;
    }
    if let Some(checksum) = checksum {
        insert(&mut headers, CRC64, &checksum.text())?;
    }
    conditions(options, &mut headers)?;
    Ok(headers)
}

/// The condition on the object that the key has. `If-None-Match: *` and `If-Match` hold for Put Blob, Put Block List
/// and copies ("Specifying conditional headers for Blob Storage operations").
fn conditions(options: &WriteOptions, headers: &mut HeaderMap) -> Result<(), Fault> {
    set(headers, "if-none-match", options.create_only.then_some("*"))?;
    let Some(replaced) = &options.replaces else { return Ok(()) };
    let Some(tag) = replaced.strong_tag() else {
        let message = "the object to replace has no ETag, so Azure cannot check which one it replaces";
        return Err(Fault::new(FaultKind::Invalid, message));
    };
    set(headers, "if-match", Some(tag))
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Fault> {
    let header =
        HeaderName::try_from(format!("{META}{name}")).map_err(|error| not_a_name(name).with_source(error))?;
    headers.insert(header, text(value)?);
    Ok(())
}

/// Refuses names that are no C# identifiers ("Naming and referencing containers, blobs, and metadata"): they would have
/// to be renamed.
fn check_name(name: &str) -> Result<(), Fault> {
    if [TOKEN, CRC64].iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        let message = format!("the metadata name `{name}` is reserved for Tidegate's writers");
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_identifier = name.bytes().next().is_some_and(begins)
        && name.bytes().all(|byte| begins(byte) || byte.is_ascii_digit());
    if is_identifier { Ok(()) } else { Err(not_a_name(name)) }
}

fn not_a_name(name: &str) -> Fault {
    let message = format!(
        "Azure Blob Storage cannot hold metadata of the name `{}`: letters, digits and `_` make one, and no digit comes \
         first",
        name.escape_debug()
    );
    Fault::new(FaultKind::Unsupported, message)
}

/// The tags as `x-ms-tags` has them.
fn tags(tags: &BTreeMap<String, String>) -> Result<Option<String>, Fault> {
    let refused = |message: String| Err(Fault::new(FaultKind::Unsupported, message));
    if tags.len() > MOST_TAGS {
        return refused(format!(
            "the object has {} tags, and Azure Blob Storage holds {MOST_TAGS}",
            tags.len()
        ));
    }
    let is_taken =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" +-.:=_/".contains(&byte));
    for (name, value) in tags {
        // "Tag keys must be between 1 and 128 characters; tag values between 0 and 256".
        let fits = (1..=128).contains(&name.len()) && value.len() <= 256;
        if !(fits && is_taken(name) && is_taken(value)) {
            return refused(format!(
                "Azure Blob Storage cannot hold the tag `{}={}`: letters, digits, spaces and `+-.:=_/` make one",
                name.escape_debug(),
                value.escape_debug()
            ));
        }
    }
    let encoded = tags.iter().map(|(name, value)| {
        format!("{}={}", utf8_percent_encode(name, TAG), utf8_percent_encode(value, TAG))
    });
    Ok((!tags.is_empty()).then(|| encoded.collect::<Vec<_>>().join("&")))
}

/// Whether the answer describes a directory, which is no object: one of a hierarchical namespace, or an empty blob
/// whose metadata makes it one (`hdi_isfolder`).
pub(super) fn is_directory(headers: &HeaderMap) -> bool {
    let says = |name: &str, word: &[u8]| {
        headers.get(name).is_some_and(|said| said.as_bytes().eq_ignore_ascii_case(word))
    };
    let is_empty = || headers.get(http::header::CONTENT_LENGTH).is_some_and(|length| length == "0");
    says("x-ms-resource-type", b"directory") || (says("x-ms-meta-hdi_isfolder", b"true") && is_empty())
}

/// The object that an answer's headers describe; without its size.
pub(super) fn from_headers(key: &str, headers: &HeaderMap) -> Object {
    let read = |name: &str| {
        let value = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        Some(value).filter(|value| !value.is_empty())
    };
    let mut metadata = metadata(headers, META);
    let (token, crc64nvme) = (metadata.remove(TOKEN), metadata.remove(CRC64));
    // The target of a copy has its metadata, and may have its size, before it has its bytes ("Copy Blob").
    let is_whole = read("x-ms-copy-status").is_none_or(|status| status.trim() == "success");
    let (token, crc64nvme) = (token.filter(|_| is_whole), crc64nvme.filter(|_| is_whole));
    let is_inferred = read("x-ms-access-tier-inferred").is_some_and(|is| is.eq_ignore_ascii_case("true"));
    Object {
        key: key.to_owned(),
        size: 0,
        size_is_unknown: false,
        etag: tag(headers).map(str::to_owned),
        version: read("x-ms-version-id"),
        modified: read("last-modified").as_deref().and_then(time),
        is_fresh: false,
        token_is_known: true,
        crc64nvme: crc64nvme
            .and_then(|written| ChecksumEntry::read(&written, headers))
            .map(|entry| entry.checksum.base64()),
        crc32c: None,
        other_checksums: md5_told(headers).map(|md5| ("md5", md5)).into_iter().collect(),
        has_composite_checksum: false,
        token,
        tag_count: read("x-ms-tag-count").and_then(|count| count.parse().ok()).unwrap_or(0),
        attributes: Attributes {
            content_type: read("content-type"),
            cache_control: read("cache-control"),
            content_encoding: read("content-encoding"),
            content_disposition: read("content-disposition"),
            content_language: read("content-language"),
            expires: None,
            metadata,
            tags: BTreeMap::new(),
            // The tier that the account gives to all blobs is no attribute of this one.
            storage_class: read("x-ms-access-tier").filter(|_| !is_inferred),
            encryption: None,
        },
        not_carried: not_carried(headers),
    }
}

/// The entry of a blob's checksum, which only the list of its blocks can prove.
pub(super) fn entry_of(headers: &HeaderMap) -> Option<ChecksumEntry> {
    let written = headers.get("x-ms-meta-tidegate_crc64nvme")?.to_str().ok()?;
    ChecksumEntry::read(written, headers)
}

/// Names properties that a copy does not carry over.
fn not_carried(headers: &HeaderMap) -> Vec<&'static str> {
    let is_true =
        |name: &str| headers.get(name).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
    let all = [
        ("object lock", headers.contains_key("x-ms-immutability-policy-until-date")),
        ("legal hold", is_true("x-ms-legal-hold")),
    ];
    all.into_iter().filter_map(|(name, is)| is.then_some(name)).collect()
}
