//! Attributes as the JSON API has them, and an object's description from its JSON or from headers.

use std::collections::BTreeMap;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, header};
use serde::{Deserialize, Serialize};

use crate::backend::http::{set, text};
use crate::backend::time::time;
use crate::backend::{Fault, FaultKind, WriteOptions};
use crate::object::{Attributes, Encryption, Object};

const META: &str = "x-goog-meta-";
/// The name under which a writer's token is kept among the metadata.
pub(super) const TOKEN: &str = "tidegate-writer";

/// An object in JSON (`cloud.google.com/storage/docs/json_api/v1/objects`), both ways.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resource {
    pub(super) name: String,
    #[serde(skip_serializing)]
    pub(super) size: Option<String>,
    #[serde(skip_serializing)]
    etag: Option<String>,
    #[serde(skip_serializing)]
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

    /// The object that an answer describes.
    pub(super) fn read(body: &[u8]) -> Result<Object, Fault> {
        let odd = "the store's answer does not describe an object";
        let resource: Self = serde_json::from_slice(body)
            .map_err(|error| Fault::new(FaultKind::Transient, odd).with_source(error))?;
        resource.into_object().ok_or_else(|| Fault::new(FaultKind::Transient, odd))
    }

    pub(super) fn into_object(mut self) -> Option<Object> {
        let token = self.metadata.remove(TOKEN);
        Some(Object {
            key: self.name,
            size: self.size?.parse().ok()?,
            size_is_unknown: false,
            etag: self.etag,
            version: self.generation,
            modified: self.time_created.as_deref().and_then(time),
            crc64nvme: None,
            crc32c: self.crc32c,
            token,
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
        })
    }
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
    let mut metadata: BTreeMap<_, _> = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(META)?;
            Some((name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        })
        .collect();
    let token = metadata.remove(TOKEN);
    let modified: Option<SystemTime> =
        read(header::LAST_MODIFIED.as_str()).and_then(|date| httpdate::parse_http_date(&date).ok());
    Object {
        key: key.to_owned(),
        size: 0,
        size_is_unknown: false,
        etag: read("etag"),
        version: read("x-goog-generation"),
        modified,
        crc64nvme: None,
        crc32c: crc32c(headers),
        token,
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
