//! Converts attributes to headers, and an answer's headers to an object's description.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};

use tidegate_core::backend::{Fault, FaultKind, WriteOptions};
use tidegate_core::types::object::{Attributes, Encryption, Object};
use tidegate_http::proof::tag;
use tidegate_http::time::time;
use tidegate_http::xml::address::form;
use tidegate_http::xml::metadata;
use tidegate_http::{set, text};

const META: &str = "x-amz-meta-";
/// The metadata name under which a writer's token is stored.
const TOKEN: &str = Attributes::RESERVED;

/// The headers of a request that begins an object.
pub(super) fn to_headers(options: &WriteOptions) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    let Attributes {
        content_type,
        cache_control,
        content_encoding,
        content_disposition,
        content_language,
        expires,
        metadata,
        tags,
        storage_class,
        encryption,
    } = &options.attributes;
    set(&mut headers, "content-type", content_type.as_ref())?;
    set(&mut headers, "cache-control", cache_control.as_ref())?;
    set(&mut headers, "content-encoding", content_encoding.as_ref())?;
    set(&mut headers, "content-disposition", content_disposition.as_ref())?;
    set(&mut headers, "content-language", content_language.as_ref())?;
    set(&mut headers, "expires", expires.as_ref())?;
    set(&mut headers, "x-amz-storage-class", storage_class.as_ref())?;
    set(&mut headers, "x-amz-tagging", (!tags.is_empty()).then(|| form(tags)))?;
    match encryption {
        None => {}
        Some(Encryption::Managed) => set(&mut headers, "x-amz-server-side-encryption", Some("AES256"))?,
        Some(Encryption::Kms { key_id }) => {
            set(&mut headers, "x-amz-server-side-encryption", Some("aws:kms"))?;
            set(&mut headers, "x-amz-server-side-encryption-aws-kms-key-id", key_id.as_ref())?;
        }
    }
    let token = options.token.as_deref().map(|token| (TOKEN, token));
    let metadata = metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in metadata.chain(token) {
        let name = HeaderName::try_from(format!("{META}{name}")).map_err(|error| {
            let message = format!("`{name}` cannot be the name of metadata: letters, digits and `-` can");
            Fault::new(FaultKind::Invalid, message).with_source(error)
        })?;
        headers.insert(name, text(value)?);
    }
    Ok(headers)
}

/// The headers of the checksums that S3 keeps and Tidegate computes.
const CHECKSUMS: [&str; 2] = ["x-amz-checksum-crc64nvme", "x-amz-checksum-crc32c"];

/// The other checksums that S3 keeps, which other programs have sent.
const OTHERS: [(&str, &str); 8] = [
    ("crc32", "x-amz-checksum-crc32"),
    ("md5", "x-amz-checksum-md5"),
    ("sha1", "x-amz-checksum-sha1"),
    ("sha256", "x-amz-checksum-sha256"),
    ("sha512", "x-amz-checksum-sha512"),
    ("xxh128", "x-amz-checksum-xxhash128"),
    ("xxh3", "x-amz-checksum-xxhash3"),
    ("xxh64", "x-amz-checksum-xxhash64"),
];

/// The object that an answer's headers describe, without its size.
pub(super) fn from_headers(key: &str, headers: &HeaderMap) -> Object {
    let read = |name: &str| {
        let value = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        Some(value).filter(|value| !value.is_empty())
    };
    let mut metadata = metadata(headers, META);
    let token = metadata.remove(TOKEN);
    let encryption = match read("x-amz-server-side-encryption").as_deref() {
        Some("AES256") => Some(Encryption::Managed),
        Some(kms) if kms.starts_with("aws:kms") => {
            Some(Encryption::Kms { key_id: read("x-amz-server-side-encryption-aws-kms-key-id") })
        }
        _ => None,
    };
    // A composite checksum (`…-N`) is a checksum of parts, not of the bytes.
    let is_composite = read("x-amz-checksum-type").is_some_and(|kind| kind.eq_ignore_ascii_case("COMPOSITE"));
    let whole = |name| read(name).filter(|value| !is_composite && !value.contains('-'));
    let is_of_parts = |name| read(name).is_some_and(|value| is_composite || value.contains('-'));
    Object {
        key: key.to_owned(),
        size: 0,
        size_is_unknown: false,
        etag: tag(headers).map(str::to_owned),
        version: read("x-amz-version-id").filter(|version| version != "null"),
        modified: read("last-modified").as_deref().and_then(time),
        is_fresh: false,
        token_is_known: true,
        crc64nvme: whole("x-amz-checksum-crc64nvme"),
        crc32c: whole("x-amz-checksum-crc32c"),
        other_checksums: OTHERS
            .into_iter()
            .filter_map(|(name, header)| Some((name, whole(header)?)))
            .collect(),
        has_composite_checksum: CHECKSUMS
            .into_iter()
            .chain(OTHERS.into_iter().map(|(_, header)| header))
            .any(is_of_parts),
        token,
        tag_count: read("x-amz-tagging-count").and_then(|count| count.parse().ok()).unwrap_or(0),
        attributes: Attributes {
            content_type: read("content-type"),
            cache_control: read("cache-control"),
            content_encoding: read("content-encoding").and_then(|encoding| stored_encoding(&encoding)),
            content_disposition: read("content-disposition"),
            content_language: read("content-language"),
            expires: read("expires").filter(|text| time(text).is_some()),
            metadata,
            tags: BTreeMap::new(),
            storage_class: read("x-amz-storage-class"),
            encryption,
        },
        not_carried: not_carried(headers),
    }
}

/// Names properties in an answer's headers that a copy does not carry over.
fn not_carried(headers: &HeaderMap) -> Vec<&'static str> {
    let has = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
    let is_held = headers
        .get("x-amz-object-lock-legal-hold")
        .is_some_and(|hold| hold.as_bytes().eq_ignore_ascii_case(b"ON"));
    let is_locked = has("x-amz-object-lock-mode") || has("x-amz-object-lock-retain-until-date");
    // Some stores refuse an `expires` that is not a date.
    let expires = headers.get("expires").map(|text| String::from_utf8_lossy(text.as_bytes()));
    let all = [
        ("expires", expires.is_some_and(|text| !text.is_empty() && time(&text).is_none())),
        ("website redirect", has("x-amz-website-redirect-location")),
        ("object lock", is_locked),
        ("legal hold", is_held),
    ];
    all.into_iter().filter_map(|(name, is)| is.then_some(name)).collect()
}

/// Removes `aws-chunked`: some servers store the framing of the upload as the object's encoding.
fn stored_encoding(encoding: &str) -> Option<String> {
    let kept: Vec<_> = encoding
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != "aws-chunked")
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_out_comes_back() {
        let mut options = WriteOptions { token: Some("t-1".into()), ..WriteOptions::default() };
        options.attributes = Attributes {
            content_type: Some("text/plain".into()),
            content_encoding: Some("gzip".into()),
            content_language: Some("de, en".into()),
            expires: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            metadata: [("owner".to_owned(), "a b".to_owned())].into(),
            tags: [("k 1".to_owned(), "v&=".to_owned())].into(),
            encryption: Some(Encryption::Kms { key_id: Some("key".into()) }),
            ..Attributes::default()
        };
        let mut headers = to_headers(&options).unwrap();
        assert_eq!(headers["x-amz-tagging"], "k%201=v%26%3D");
        assert_eq!(headers["x-amz-meta-tidegate-writer"], "t-1");
        headers.insert("content-encoding", "gzip,aws-chunked".parse().unwrap());
        headers.insert("x-amz-checksum-crc32c", "AAAAAA==-3".parse().unwrap());
        headers.insert("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT".parse().unwrap());
        let object = from_headers("k", &headers);
        options.attributes.tags.clear();
        assert_eq!(object.attributes, options.attributes);
        assert_eq!((object.token.as_deref(), object.crc32c), (Some("t-1"), None));
        assert!(object.has_composite_checksum);
        assert!(object.modified.is_some());
    }

    #[test]
    fn what_is_written_in_another_form_is_read() {
        let read = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, value.parse().unwrap());
            }
            from_headers("k", &headers)
        };
        for date in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37.000Z"]
        {
            assert!(read(&[("last-modified", date)]).modified.is_some(), "{date}");
        }
        for date in ["", "yesterday", "0"] {
            assert_eq!(read(&[("last-modified", date)]).modified, None, "{date}");
        }
        let sum = ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=");
        for (kind, is_told) in [("FULL_OBJECT", true), ("COMPOSITE", false), ("composite", false)] {
            assert_eq!(read(&[sum, ("x-amz-checksum-type", kind)]).crc64nvme.is_some(), is_told, "{kind}");
        }
        assert!(read(&[sum]).crc64nvme.is_some());
        assert_eq!(read(&[("etag", "")]).etag, None);
        let twice = read(&[("x-amz-meta-a", "1"), ("x-amz-meta-a", "2")]);
        assert_eq!(twice.attributes.metadata["a"], "1,2");
    }

    #[test]
    fn what_no_copy_carries_is_named() {
        let named = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            from_headers("k", &pairs.collect()).not_carried
        };
        assert_eq!(named(&[("x-amz-website-redirect-location", "/other")]), ["website redirect"]);
        let lock = [
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-retain-until-date", "2030-01-01T00:00:00Z"),
            ("x-amz-object-lock-legal-hold", "ON"),
        ];
        assert_eq!(named(&lock), ["object lock", "legal hold"]);
        assert_eq!(named(&[("x-amz-object-lock-legal-hold", "OFF"), ("etag", "e")]), [""; 0]);
    }

    #[test]
    fn encryption_is_asked_for_by_name() {
        let mut options = WriteOptions::default();
        options.attributes.encryption = Some(Encryption::Managed);
        assert_eq!(to_headers(&options).unwrap()["x-amz-server-side-encryption"], "AES256");
    }

    #[test]
    fn what_no_header_can_carry_is_refused() {
        let mut options = WriteOptions::default();
        options.attributes.metadata = [("a b".to_owned(), String::new())].into();
        assert_eq!(to_headers(&options).unwrap_err().kind, FaultKind::Invalid);
        options.attributes.metadata = [("a".to_owned(), "line\nbreak".to_owned())].into();
        assert_eq!(to_headers(&options).unwrap_err().kind, FaultKind::Invalid);
    }
}
