//! Attributes as the JSON API has them, and an object's description from its JSON or from headers.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, header};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::fault::{About, document};
use crate::backend::http::answer::not_a_store;
use crate::backend::http::proof::tag;
use crate::backend::http::{set, text};
use crate::backend::s3::attributes::metadata;
use crate::backend::time::time;
use crate::backend::{Fault, FaultKind, WriteOptions};
use crate::object::{Attributes, Encryption, Object};

const META: &str = "x-goog-meta-";
/// The name under which a writer's token is kept among the metadata.
pub(super) const TOKEN: &str = Attributes::RESERVED;
/// The CRC32C of no bytes.
const NOTHING: &str = "AAAAAA==";

/// An object in JSON (`cloud.google.com/storage/docs/json_api/v1/objects`), both ways.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resource {
    pub(super) name: String,
    #[serde(skip_serializing, deserialize_with = "number")]
    pub(super) size: Option<String>,
    #[serde(skip_serializing)]
    etag: Option<String>,
    #[serde(skip_serializing, deserialize_with = "number")]
    generation: Option<String>,
    #[serde(skip_serializing)]
    time_created: Option<String>,
    #[serde(skip_serializing)]
    kms_key_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crc32c: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_class: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

impl Resource {
    /// What is said of an object that begins.
    pub(super) fn new(key: &str, options: &WriteOptions) -> Self {
        let attributes = options.attributes.clone();
        // As headers have them, by which the same object goes where it is large.
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        let mut metadata: BTreeMap<_, _> = attributes.metadata.into_iter().map(lower).collect();
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

    /// The object that an answer of success describes, and its size where that is told.
    pub(super) fn read(
        headers: &HeaderMap,
        body: &[u8],
        about: About,
    ) -> Result<(Object, Option<u64>), Fault> {
        let promised = "an object's description with its generation";
        let resource: Self = document(headers, body, about, promised)?;
        resource.described().ok_or_else(|| not_a_store(promised, headers, body))
    }

    /// The object, and its size where that is told; `None` where this describes no object, for each has a generation
    /// or a tag.
    pub(super) fn described(mut self) -> Option<(Object, Option<u64>)> {
        let is_told = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if !is_told(&self.generation) && !is_told(&self.etag) {
            return None;
        }
        // A field of zero may be left out; the checksum of no bytes is not.
        let is_empty = self.size.is_none() && self.crc32c.as_deref() == Some(NOTHING);
        let size = self.size.and_then(|size| size.parse().ok()).or(is_empty.then_some(0));
        // Names in JSON have case, and another writer may have written this one otherwise.
        let tokens = self.metadata.extract_if(.., |name, _| name.eq_ignore_ascii_case(TOKEN));
        let token = tokens.map(|(_, token)| token).last();
        let object = Object {
            key: self.name,
            size: 0,
            size_is_unknown: false,
            etag: self.etag,
            version: self.generation,
            modified: self.time_created.as_deref().and_then(time),
            crc64nvme: None,
            crc32c: self.crc32c,
            token,
            tag_count: 0,
            attributes: Attributes {
                content_type: self.content_type,
                cache_control: self.cache_control,
                content_encoding: self.content_encoding,
                content_disposition: self.content_disposition,
                content_language: self.content_language,
                metadata: self.metadata,
                tags: BTreeMap::new(),
                storage_class: self.storage_class,
                encryption: self.kms_key_name.map(|key| Encryption::Kms { key_id: Some(key) }),
            },
        };
        Some((object, size))
    }
}

/// A number of 64 bits, which JSON has as a string; some servers write it as a number.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Integer(u64),
        Other(IgnoredAny),
    }
    Ok(match Option::<Number>::deserialize(deserializer)? {
        Some(Number::Text(text)) => Some(text),
        Some(Number::Integer(number)) => Some(number.to_string()),
        Some(Number::Other(_)) | None => None,
    })
}

/// What an object is said to be: what is not said Google decides otherwise for each way that it comes.
pub(super) fn content_type(options: &WriteOptions) -> &str {
    options.attributes.content_type.as_deref().unwrap_or("application/octet-stream")
}

/// The generation that the key is to have for an object to be published: 0 for none.
pub(super) fn condition(options: &WriteOptions) -> Option<&str> {
    let replaced =
        || options.replaces.as_ref().map(|replaced| replaced.version.as_deref().unwrap_or_default());
    options.create_only.then_some("0").or_else(replaced)
}

/// The key of the key service that an object is to be encrypted with, if any. Without one Google encrypts
/// with keys of its own, or with the bucket's.
pub(super) fn key_name(options: &WriteOptions) -> Option<&str> {
    match &options.attributes.encryption {
        // An object tells the version of its key, too, which none is asked for with.
        Some(Encryption::Kms { key_id }) => key_id.as_deref()?.split("/cryptoKeyVersions/").next(),
        _ => None,
    }
}

/// The headers of a request of the XML API that begins an object. What they cannot say, no object is to
/// carry: which API it goes over is known only when its size is.
pub(super) fn to_headers(options: &WriteOptions) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    let attributes = &options.attributes;
    if options.replaces.as_ref().is_some_and(|replaced| replaced.version.is_none()) {
        let message = "without its generation an object is not known by the store that is to be replaced";
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    if !attributes.tags.is_empty() {
        let message = "Google Cloud Storage has no tags of objects: use metadata";
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
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

/// What an answer's headers say of an object whose bytes follow, or that was just made.
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
        crc64nvme: None,
        crc32c: crc32c(headers),
        token,
        tag_count: 0,
        attributes: Attributes {
            content_type: read("content-type"),
            cache_control: read("cache-control"),
            content_encoding: read("content-encoding"),
            content_disposition: read("content-disposition"),
            content_language: read("content-language"),
            metadata,
            tags: BTreeMap::new(),
            storage_class: read("x-goog-storage-class"),
            encryption: None,
        },
    }
}

/// The CRC32C among an answer's hashes: `x-goog-hash: crc32c=…,md5=…`, or a header for each.
pub(super) fn crc32c(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all("x-goog-hash").iter().filter_map(|line| line.to_str().ok());
    let mut hashes = lines.flat_map(|line| line.split(','));
    hashes.find_map(|hash| hash.trim().strip_prefix("crc32c=")).map(str::to_owned)
}

/// Whether an answer has other bytes than the stored ones: packed or unpacked on the way ("Transcoding of gzip-compressed
/// files"). Emulators say of all objects that they are stored as they are: where the lengths are one, so are the bytes.
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
        ] {
            assert_eq!(described(json), Some((version, size)), "{json}");
        }
        for json in ["{}", r#"{"name":"k","size":"5"}"#, r#"{"kind":"storage#objects","items":[]}"#] {
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
