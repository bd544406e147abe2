//! Converts between messages and the library's objects, options and checksums.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::proto;
use crate::resource::{TOKEN, condition, content_type, key_name, not_carried};
use tidegate_core::backend::{Fault, FaultKind, WriteOptions};
use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::object::{Attributes, Encryption, Object};

/// A number for a message, whose numbers are signed; no object is large enough to make a difference.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A size from a message; fails if it is negative.
pub(super) fn size(number: i64) -> Result<u64, Fault> {
    u64::try_from(number)
        .map_err(|_| Fault::new(FaultKind::Transient, "the store's answer has a size below zero"))
}

/// The object to write, and its condition.
pub(super) fn spec(bucket: &str, key: &str, options: &WriteOptions) -> proto::WriteObjectSpec {
    let mut spec = of_copy(bucket, key, options);
    if let Some(resource) = &mut spec.resource {
        // Lower case, as in the headers by which large objects get their metadata.
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        resource.metadata = std::mem::take(&mut resource.metadata).into_iter().map(lower).collect();
    }
    spec
}

/// As [`spec`], for a copy, whose metadata has the names of its source.
pub(super) fn of_copy(bucket: &str, key: &str, options: &WriteOptions) -> proto::WriteObjectSpec {
    let attributes = options.attributes.clone();
    let token = options.token.clone().map(|token| (TOKEN.to_owned(), token));
    let resource = proto::Object {
        name: key.to_owned(),
        bucket: bucket.to_owned(),
        storage_class: attributes.storage_class.unwrap_or_default(),
        content_type: content_type(options).to_owned(),
        cache_control: attributes.cache_control.unwrap_or_default(),
        content_encoding: attributes.content_encoding.unwrap_or_default(),
        content_disposition: attributes.content_disposition.unwrap_or_default(),
        content_language: attributes.content_language.unwrap_or_default(),
        kms_key: key_name(options).unwrap_or_default().to_owned(),
        metadata: attributes.metadata.into_iter().chain(token).collect(),
        ..proto::Object::default()
    };
    proto::WriteObjectSpec {
        resource: Some(resource),
        if_generation_match: condition(options).and_then(|generation| generation.parse().ok()),
        ..proto::WriteObjectSpec::default()
    }
}

/// The checksum of a whole object.
pub(super) fn checksums(checksum: &Checksum) -> proto::ObjectChecksums {
    proto::ObjectChecksums { crc32c: Some(crc32c(checksum)), ..proto::ObjectChecksums::default() }
}

pub(super) fn crc32c(checksum: &Checksum) -> u32 {
    // The value has 32 bits.
    checksum.value() as u32
}

/// The object in the answer to a request for it; fails if it has neither a generation nor an ETag.
pub(super) fn object(described: proto::Object) -> Result<Object, Fault> {
    if described.generation == 0 && described.etag.is_empty() {
        let message =
            "the answer is not an object store's: it describes no object, for each has a generation";
        return Err(Fault::new(FaultKind::NotAStore, message));
    }
    listed(described)
}

/// An object of a listing; fields that were not requested are empty.
pub(super) fn listed(described: proto::Object) -> Result<Object, Fault> {
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let mut metadata = described.metadata;
    let token = metadata.remove(TOKEN);
    let not_carried = not_carried(
        described.custom_time.is_some(),
        false, // messages have no retention
        described.temporary_hold,
        described.event_based_hold == Some(true),
    );
    let checksum = described.checksums.and_then(|checksums| checksums.crc32c);
    Ok(Object {
        key: described.name,
        size: size(described.size)?,
        size_is_unknown: false,
        etag: text(described.etag),
        version: Some(described.generation).filter(|generation| *generation != 0).map(|it| it.to_string()),
        modified: described.create_time.and_then(|time| SystemTime::try_from(time).ok()),
        is_fresh: false,
        token_is_known: true,
        crc64nvme: None,
        crc32c: checksum.map(|checksum| STANDARD.encode(checksum.to_be_bytes())),
        other_checksums: BTreeMap::new(),
        has_composite_checksum: false,
        token,
        tag_count: 0,
        attributes: Attributes {
            content_type: text(described.content_type),
            cache_control: text(described.cache_control),
            content_encoding: text(described.content_encoding),
            content_disposition: text(described.content_disposition),
            content_language: text(described.content_language),
            expires: None,
            metadata,
            tags: Default::default(),
            storage_class: text(described.storage_class),
            encryption: text(described.kms_key).map(|key| Encryption::Kms { key_id: Some(key) }),
        },
        not_carried,
    })
}
