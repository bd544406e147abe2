//! Converts attributes to the JSON API's form, and JSON or headers to an object's description.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, header};
use serde::{Deserialize, Serialize};

use super::fault::{About, document};
use super::json;
use tidegate_core::backend::{Fault, FaultKind, WriteOptions};
use tidegate_core::types::object::{Attributes, Encryption, Object};
use tidegate_http::answer::not_a_store;
use tidegate_http::proof::tag;
use tidegate_http::time::time;
use tidegate_http::xml::metadata;
use tidegate_http::{set, text};

const META: &str = "x-goog-meta-";
/// The metadata name under which a writer's token is stored.
pub(super) const TOKEN: &str = Attributes::RESERVED;
/// The CRC32C of no bytes.
pub(super) const NOTHING: &str = "AAAAAA==";

/// An object in JSON (`cloud.google.com/storage/docs/json_api/v1/objects`), for writing and reading.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resource {
    #[serde(deserialize_with = "json::some_text")]
    pub(super) name: String,
    #[serde(skip_serializing, deserialize_with = "json::number")]
    pub(super) size: Option<u64>,
    #[serde(skip_serializing, deserialize_with = "json::text")]
    etag: Option<String>,
    #[serde(skip_serializing, deserialize_with = "json::text")]
    generation: Option<String>,
    #[serde(skip_serializing, deserialize_with = "json::text")]
    time_created: Option<String>,
    #[serde(skip_serializing, deserialize_with = "json::text")]
    kms_key_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    pub(super) crc32c: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    cache_control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "json::text")]
    storage_class: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "json::texts")]
    metadata: BTreeMap<String, String>,
    /// From here on: properties that a copy does not carry over.
    #[serde(skip_serializing, deserialize_with = "json::is_there")]
    custom_time: bool,
    #[serde(skip_serializing, deserialize_with = "json::is_there")]
    retention: bool,
    #[serde(skip_serializing, deserialize_with = "json::flag")]
    temporary_hold: bool,
    #[serde(skip_serializing, deserialize_with = "json::flag")]
    event_based_hold: bool,
}

impl Resource {
    /// The description of a new object.
    pub(super) fn new(key: &str, options: &WriteOptions) -> Self {
        let mut resource = Self::of_copy(key, options);
        // Lower case, as in the headers by which large objects get their metadata.
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        resource.metadata = resource.metadata.into_iter().map(lower).collect();
        resource
    }

    /// The description of a copy, whose metadata has the names of its source: no header carries them.
    pub(super) fn of_copy(key: &str, options: &WriteOptions) -> Self {
        let attributes = options.attributes.clone();
        let mut metadata = attributes.metadata;
        metadata.extend(options.token.clone().map(|token| (TOKEN.to_owned(), token)));
        Self {
            name: key.to_owned(),
            content_type: Some(content_type(options).to_owned()),
            cache_control: attributes.cache_control,
            content_encoding: attributes.content_encoding,
            content_disposition: attributes.content_disposition,
            content_language: attributes.content_language,
            storage_class: attributes.storage_class,
            metadata,
            ..Self::default()
        }
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>, Fault> {
        serde_json::to_vec(self).map_err(|error| {
            Fault::new(FaultKind::Invalid, "the object's description cannot be written as JSON")
                .with_source(error)
        })
    }

    /// The object that a successful answer describes, and its size if given.
    pub(super) fn read(
        headers: &HeaderMap,
        body: &[u8],
        about: About,
    ) -> Result<(Object, Option<u64>), Fault> {
        let promised = "an object's description with its generation";
        let resource: Self = document(headers, body, about, promised)?;
        resource.described().ok_or_else(|| not_a_store(promised, headers, body))
    }

    /// The object, and its size if given; `None` if this is no object, because each has a generation or an ETag.
    pub(super) fn described(mut self) -> Option<(Object, Option<u64>)> {
        let told = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let (etag, version) = (told(self.etag), told(self.generation));
        if etag.is_none() && version.is_none() {
            return None;
        }
        // A zero may be left out; the checksum of no bytes is not.
        let is_empty = self.size.is_none() && self.crc32c.as_deref() == Some(NOTHING);
        let size = self.size.or(is_empty.then_some(0));
        // Names in JSON keep their case, and another writer may have used another case.
        let tokens = self.metadata.extract_if(.., |name, _| name.eq_ignore_ascii_case(TOKEN));
        let token = tokens.map(|(_, token)| token).last();
        let object = Object {
            key: self.name,
            size: 0,
            size_is_unknown: false,
            etag,
            version,
            modified: self.time_created.as_deref().and_then(time),
            is_fresh: false,
            token_is_known: true,
            crc64nvme: None,
            crc32c: self.crc32c,
            other_checksums: BTreeMap::new(),
            has_composite_checksum: false,
            token,
            tag_count: 0,
            attributes: Attributes {
                content_type: self.content_type,
                cache_control: self.cache_control,
                content_encoding: self.content_encoding,
                content_disposition: self.content_disposition,
                content_language: self.content_language,
                expires: None,
                metadata: self.metadata,
                tags: BTreeMap::new(),
                storage_class: self.storage_class,
                encryption: self.kms_key_name.map(|key| Encryption::Kms { key_id: Some(key) }),
            },
            not_carried: not_carried(
                self.custom_time,
                self.retention,
                self.temporary_hold,
                self.event_based_hold,
            ),
        };
        Some((object, size))
    }
}

/// Names of properties that a copy does not carry over.
pub(super) fn not_carried(
    custom_time: bool,
    retention: bool,
    temporary_hold: bool,
    event_based_hold: bool,
) -> Vec<&'static str> {
    let all = [
        ("custom time", custom_time),
        ("object lock", retention),
        ("temporary hold", temporary_hold),
        ("event-based hold", event_based_hold),
    ];
    all.into_iter().filter_map(|(name, is)| is.then_some(name)).collect()
}

/// An object's content type. It is always sent, because Google's default depends on the API.
pub(super) fn content_type(options: &WriteOptions) -> &str {
    options.attributes.content_type.as_deref().unwrap_or("application/octet-stream")
}

/// The generation that the key must have for the object to be published; 0 means no object.
pub(super) fn condition(options: &WriteOptions) -> Option<&str> {
    let replaced =
        || options.replaces.as_ref().map(|replaced| replaced.version.as_deref().unwrap_or_default());
    options.create_only.then_some("0").or_else(replaced)
}

/// The key of the key service to encrypt an object with, if set. Without one Google encrypts with its own keys, or
/// with the bucket's.
pub(super) fn key_name(options: &WriteOptions) -> Option<&str> {
    match &options.attributes.encryption {
        // An object's description also has the version of its key, but a request must not.
        Some(Encryption::Kms { key_id }) => key_id.as_deref()?.split("/cryptoKeyVersions/").next(),
        _ => None,
    }
}

/// Refuses what Google Cloud Storage has no field for, in whatever request.
pub(super) fn check(options: &WriteOptions) -> Result<(), Fault> {
    let attributes = &options.attributes;
    if options.replaces.as_ref().is_some_and(|replaced| replaced.version.is_none()) {
        let message = "without its generation an object is not known by the store that is to be replaced";
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    if !attributes.tags.is_empty() {
        let message = "Google Cloud Storage has no tags of objects: use metadata";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    if attributes.expires.is_some() {
        let message = "Google Cloud Storage has no Expires of objects: use the cache control";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    Ok(())
}

/// The headers of an XML API request that begins an object. Refuses attributes that these headers cannot express, for
/// every object: the API is chosen only when the size is known.
pub(super) fn to_headers(options: &WriteOptions) -> Result<HeaderMap, Fault> {
    check(options)?;
    let mut headers = HeaderMap::new();
    let attributes = &options.attributes;
    set(&mut headers, "content-type", Some(content_type(options)))?;
    set(&mut headers, "cache-control", attributes.cache_control.as_ref())?;
    set(&mut headers, "content-encoding", attributes.content_encoding.as_ref())?;
    set(&mut headers, "content-disposition", attributes.content_disposition.as_ref())?;
    set(&mut headers, "content-language", attributes.content_language.as_ref())?;
    set(&mut headers, "x-goog-storage-class", attributes.storage_class.as_ref())?;
    set(&mut headers, "x-goog-encryption-kms-key-name", key_name(options))?;
    let token = options.token.as_deref().map(|token| (TOKEN, token));
    let metadata = attributes.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in metadata.chain(token) {
        let name = HeaderName::try_from(format!("{META}{name}")).map_err(|error| {
            let message = format!("`{name}` cannot be the name of metadata: letters, digits and `-` can");
            Fault::new(FaultKind::Invalid, message).with_source(error)
        })?;
        headers.insert(name, text(value)?);
    }
    Ok(headers)
}

/// The object that an answer's headers describe: its bytes follow, or it was just made.
pub(super) fn from_headers(key: &str, headers: &HeaderMap) -> Object {
    let read = |name: &str| {
        let value = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        Some(value).filter(|value| !value.is_empty())
    };
    let mut metadata = metadata(headers, META);
    let token = metadata.remove(TOKEN);
    Object {
        key: key.to_owned(),
        size: 0,
        size_is_unknown: false,
        etag: tag(headers).map(str::to_owned),
        version: read("x-goog-generation"),
        modified: read(header::LAST_MODIFIED.as_str()).as_deref().and_then(time),
        is_fresh: false,
        // The answer to a read has no metadata, and so no token.
        token_is_known: token.is_some(),
        crc64nvme: None,
        crc32c: crc32c(headers),
        other_checksums: BTreeMap::new(),
        has_composite_checksum: false,
        token,
        tag_count: 0,
        attributes: Attributes {
            content_type: read("content-type"),
            cache_control: read("cache-control"),
            content_encoding: read("content-encoding"),
            content_disposition: read("content-disposition"),
            content_language: read("content-language"),
            // The header is about caching here, and is no attribute.
            expires: None,
            metadata,
            tags: BTreeMap::new(),
            storage_class: read("x-goog-storage-class"),
            encryption: None,
        },
        not_carried: not_carried(headers.contains_key("x-goog-custom-time"), false, false, false),
    }
}

/// The CRC32C among an answer's hashes: `x-goog-hash: crc32c=…,md5=…`, or one header for each.
pub(super) fn crc32c(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all("x-goog-hash").iter().filter_map(|line| line.to_str().ok());
    let mut hashes = lines.flat_map(|line| line.split(','));
    hashes.find_map(|hash| hash.trim().strip_prefix("crc32c=")).map(str::to_owned)
}

/// Whether an answer has other bytes than the stored ones, because the store compressed or decompressed them
/// ("Transcoding of gzip-compressed files"). Emulators say that every object is stored uncompressed: if the lengths
/// are equal, so are the bytes.
pub(super) fn is_transcoded(headers: &HeaderMap, total: Option<u64>) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let identity = |encoding: Option<&str>| {
        encoding.filter(|encoding| !encoding.is_empty()).unwrap_or("identity").to_ascii_lowercase()
    };
    let Some(stored) = text("x-goog-stored-content-encoding") else { return false };
    let length: Option<u64> = text("x-goog-stored-content-length").and_then(|length| length.parse().ok());
    identity(Some(stored)) != identity(text("content-encoding")) && (length.is_none() || length != total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(json: &str) -> Option<(Option<String>, Option<u64>)> {
        let resource: Resource = serde_json::from_str(json).unwrap();
        resource.described().map(|(object, size)| (object.version, size))
    }

    #[test]
    fn what_is_left_out_or_written_otherwise_is_not_taken_for_zero() {
        let one = || Some("1".to_owned());
        for (json, version, size) in [
            (r#"{"size":"5","generation":"1"}"#, one(), Some(5)),
            (r#"{"size":5,"generation":1}"#, one(), Some(5)),
            (r#"{"size":"0","generation":"1"}"#, one(), Some(0)),
            (r#"{"size":"18446744073709551615","generation":"1"}"#, one(), Some(u64::MAX)),
            (r#"{"generation":"1"}"#, one(), None),
            (r#"{"size":null,"generation":"1"}"#, one(), None),
            (r#"{"size":"-1","generation":"1"}"#, one(), None),
            (r#"{"size":[],"generation":"1"}"#, one(), None),
            (r#"{"generation":"1","crc32c":"AAAAAA=="}"#, one(), Some(0)),
            (r#"{"etag":"e","size":"5"}"#, None, Some(5)),
            (r#"{"etag":"e","size":"5","generation":null,"name":null,"metadata":null}"#, None, Some(5)),
            (r#"{"generation":1,"contentType":null,"crc32c":null,"metadata":{"a":null,"b":1}}"#, one(), None),
        ] {
            assert_eq!(described(json), Some((version, size)), "{json}");
        }
        for json in [
            r#"{"generation":"","etag":""}"#,
            "{}",
            r#"{"name":"k","size":"5"}"#,
            r#"{"kind":"storage#objects","items":[]}"#,
        ] {
            assert_eq!(described(json), None, "{json}");
        }
    }

    #[test]
    fn a_token_is_no_metadata_of_the_object() {
        let json = r#"{"generation":"1","metadata":{"Tidegate-Writer":"t","a":"x"}}"#;
        let (object, _) = serde_json::from_str::<Resource>(json).unwrap().described().unwrap();
        assert_eq!((object.token.as_deref(), object.attributes.metadata.len()), (Some("t"), 1));
    }

    #[test]
    fn metadata_is_read_in_each_of_its_forms_and_what_no_copy_carries_is_named() {
        let json = r#"{"generation":"1","metadata":{"a":null,"b":1,"c":"x","Tidegate-Writer":null},
            "customTime":"2020-01-01T00:00:00Z","temporaryHold":true,"eventBasedHold":null,"retention":null}"#;
        let (object, _) = serde_json::from_str::<Resource>(json).unwrap().described().unwrap();
        assert_eq!(object.attributes.metadata, [("b".into(), "1".into()), ("c".into(), "x".into())].into());
        assert_eq!((object.token, object.not_carried), (None, vec!["custom time", "temporary hold"]));
    }

    #[test]
    fn what_google_has_no_field_for_is_refused() {
        let mut options = WriteOptions::default();
        options.attributes.expires = Some("Sun, 06 Nov 1994 08:49:37 GMT".into());
        assert_eq!(to_headers(&options).unwrap_err().kind, FaultKind::Unsupported);
        // Of an answer, it is a header of caches.
        let headers = HeaderMap::from_iter([(header::EXPIRES, "0".parse().unwrap())]);
        assert_eq!(from_headers("k", &headers).attributes, Attributes::default());
        assert!(!from_headers("k", &headers).token_is_known);
    }

    #[test]
    fn bytes_that_were_packed_on_the_way_are_known() {
        let headers = |stored: &str, sent: Option<&str>, length: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-goog-stored-content-encoding", stored.parse().unwrap());
            headers.insert("x-goog-stored-content-length", length.parse().unwrap());
            sent.map(|sent| headers.insert("content-encoding", sent.parse().unwrap()));
            headers
        };
        for (stored, sent, total, is) in [
            ("identity", None, Some(9), false),
            ("gzip", Some("gzip"), None, false),
            ("identity", Some("gzip"), None, true),
            ("identity", Some("gzip"), Some(5), true),
            ("gzip", None, Some(20), true),
            // An emulator that says `identity` of whatever it has.
            ("identity", Some("gzip"), Some(9), false),
        ] {
            assert_eq!(is_transcoded(&headers(stored, sent, "9"), total), is, "{stored} {sent:?} {total:?}");
        }
        assert!(!is_transcoded(&HeaderMap::new(), None));
    }
}
