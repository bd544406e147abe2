//! Objects and buckets in the JSON of the API, and clients' descriptions of objects in it
//! (`cloud.google.com/storage/docs/json_api/v1/objects#resource`).

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::TimestampFormat;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hash::{decode_crc32c, decode_md5, encode_crc32c, encode_md5};
use super::refusal::GcsRefusal;
use crate::catalog::session::Expected;
use crate::catalog::{Bucket, CatalogAttributes, CatalogObject, Moment, ObjectVersion};
use crate::s3::checksum::S3Algorithm;

/// Characters that a path segment need not escape.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn escape(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

pub(super) const STANDARD_CLASS: &str = "STANDARD";

/// A time in the API's format, RFC 3339.
fn time(moment: Moment) -> String {
    let mut text = Vec::new();
    match moment.timestamp().format(TimestampFormat::DateTime, &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => {
            tracing::error!(%error, "a time cannot be written");
            String::new()
        }
    }
}

/// The JSON of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectResource<'a> {
    kind: &'static str,
    id: String,
    self_link: String,
    media_link: String,
    name: &'a str,
    bucket: &'a str,
    generation: String,
    metageneration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_language: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<&'a str>,
    storage_class: &'a str,
    size: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
    etag: String,
    time_created: String,
    updated: String,
    time_storage_class_updated: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a HashMap<String, String>>,
}

impl<'a> ObjectResource<'a> {
    /// `origin` is the server's URL as the client used it, for links.
    pub(super) fn new(origin: &str, bucket: &'a str, object: &'a CatalogObject) -> Self {
        let attributes = &object.attributes;
        let version = &object.version;
        let link = |root: &str| format!("{origin}{root}/b/{bucket}/o/{}", escape(&object.key));
        Self {
            kind: "storage#object",
            id: format!("{bucket}/{}/{}", object.key, version.generation),
            self_link: link("/storage/v1"),
            media_link: format!(
                "{}?generation={}&alt=media",
                link("/download/storage/v1"),
                version.generation
            ),
            name: &object.key,
            bucket,
            generation: version.generation.to_string(),
            metageneration: version.metageneration.to_string(),
            content_type: attributes.content_type.as_deref(),
            content_encoding: attributes.content_encoding.as_deref(),
            content_disposition: attributes.content_disposition.as_deref(),
            content_language: attributes.content_language.as_deref(),
            cache_control: attributes.cache_control.as_deref(),
            storage_class: storage_class(attributes),
            size: object.size.to_string(),
            md5_hash: object.md5.as_ref().map(encode_md5),
            crc32c: crc32c_of(object).map(encode_crc32c),
            etag: etag(version),
            time_created: time(object.modified),
            updated: time(version.updated.unwrap_or(object.modified)),
            time_storage_class_updated: time(object.modified),
            metadata: attributes.metadata.as_ref().filter(|metadata| !metadata.is_empty()),
        }
    }
}

pub(super) fn storage_class(attributes: &CatalogAttributes) -> &str {
    attributes.storage_class.as_deref().unwrap_or(STANDARD_CLASS)
}

/// The object's CRC32C, or else its S3 checksum, if that is a CRC32C of the whole object.
pub(super) fn crc32c_of(object: &CatalogObject) -> Option<u32> {
    let kept = object.checksum.as_ref();
    let kept = kept.filter(|kept| kept.algorithm == S3Algorithm::Crc32c && !kept.is_composite);
    object.crc32c.or_else(|| decode_crc32c(&kept?.value).ok())
}

/// Changes with every update, even of the metadata alone.
pub(super) fn etag(version: &ObjectVersion) -> String {
    STANDARD.encode(format!("{}/{}", version.generation, version.metageneration))
}

/// The JSON of a bucket.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BucketResource<'a> {
    kind: &'static str,
    id: &'a str,
    self_link: String,
    name: &'a str,
    project_number: &'static str,
    metageneration: &'static str,
    location: &'static str,
    location_type: &'static str,
    storage_class: &'static str,
    etag: &'static str,
    time_created: String,
    updated: String,
}

impl<'a> BucketResource<'a> {
    pub(super) fn new(origin: &str, name: &'a str, bucket: &Bucket) -> Self {
        Self {
            kind: "storage#bucket",
            id: name,
            self_link: format!("{origin}/storage/v1/b/{name}"),
            name,
            project_number: "0",
            metageneration: "1",
            location: "US",
            location_type: "multi-region",
            storage_class: STANDARD_CLASS,
            etag: "CAE=",
            time_created: time(bucket.created),
            updated: time(bucket.created),
        }
    }
}

/// A client's description of the object that it uploads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectDescription {
    pub(super) name: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) content_language: Option<String>,
    pub(super) cache_control: Option<String>,
    pub(super) storage_class: Option<String>,
    pub(super) metadata: Option<HashMap<String, String>>,
    pub(super) crc32c: Option<String>,
    pub(super) md5_hash: Option<String>,
}

impl ObjectDescription {
    pub(super) fn parse(json: &[u8]) -> Result<Self, GcsRefusal> {
        if json.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        serde_json::from_slice(json).map_err(|error| GcsRefusal::invalid(format!("Parse Error: {error}")))
    }

    /// Whether the JSON describes nothing.
    pub(super) fn is_empty(json: &[u8]) -> bool {
        json.iter().all(u8::is_ascii_whitespace)
            || serde_json::from_slice::<Map<String, Value>>(json).is_ok_and(|fields| fields.is_empty())
    }

    pub(super) fn expected(&self) -> Result<Expected, GcsRefusal> {
        Ok(Expected {
            size: None,
            crc32c: self.crc32c.as_deref().map(decode_crc32c).transpose()?,
            md5: self.md5_hash.as_deref().map(decode_md5).transpose()?,
        })
    }

    pub(super) fn into_attributes(self) -> CatalogAttributes {
        CatalogAttributes {
            content_type: self.content_type,
            cache_control: self.cache_control,
            content_disposition: self.content_disposition,
            content_encoding: self.content_encoding,
            content_language: self.content_language,
            metadata: self.metadata,
            storage_class: self.storage_class,
            ..CatalogAttributes::default()
        }
    }
}

/// A change of an object's attributes: a JSON merge patch, in which null removes a field.
#[derive(Debug)]
pub(super) struct Change(Map<String, Value>);

impl Change {
    pub(super) fn parse(json: &[u8]) -> Result<Self, GcsRefusal> {
        let wrong = |reason: String| GcsRefusal::invalid(format!("Parse Error: {reason}"));
        let fields: Map<String, Value> =
            serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        for (name, value) in &fields {
            let is_right = match name.as_str() {
                "metadata" => match value {
                    Value::Object(pairs) => pairs.values().all(|value| value.is_string() || value.is_null()),
                    other => other.is_null(),
                },
                "contentType" | "cacheControl" | "contentDisposition" | "contentEncoding"
                | "contentLanguage" => value.is_string() || value.is_null(),
                // Other fields cannot be set by clients, or mean nothing here.
                _ => true,
            };
            if !is_right {
                return Err(wrong(format!("{name} is {value}")));
            }
        }
        Ok(Self(fields))
    }

    /// Applies the change; an update also removes every field that it does not name.
    pub(super) fn apply(self, attributes: &mut CatalogAttributes, is_update: bool) {
        let fields = [
            ("contentType", &mut attributes.content_type),
            ("cacheControl", &mut attributes.cache_control),
            ("contentDisposition", &mut attributes.content_disposition),
            ("contentEncoding", &mut attributes.content_encoding),
            ("contentLanguage", &mut attributes.content_language),
        ];
        for (name, field) in fields {
            match self.0.get(name) {
                Some(value) => *field = value.as_str().map(str::to_owned),
                None if is_update => *field = None,
                None => {}
            }
        }
        if is_update {
            attributes.metadata = None;
        }
        match self.0.get("metadata") {
            Some(Value::Object(pairs)) => {
                let metadata = attributes.metadata.get_or_insert_default();
                for (name, value) in pairs {
                    match value.as_str() {
                        Some(value) => metadata.insert(name.clone(), value.to_owned()),
                        None => metadata.remove(name),
                    };
                }
            }
            Some(_) => attributes.metadata = None,
            None => {}
        }
    }
}

/// The custom metadata in a request's headers.
pub(super) fn metadata_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let pairs = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("x-goog-meta-")?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    pairs.collect()
}
