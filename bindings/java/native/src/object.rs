//! What a store says of an object.

use std::time::UNIX_EPOCH;

use tidegate::Object;
use tidegate::object::Encryption;

use crate::error::Outcome;
use crate::wire::{self, Decoder, Encoder};

/// As `ObjectInfo` reads it: key, size, time, tags of its content, then texts by name, then user metadata.
pub(crate) fn encode(object: &Object, to: &mut Encoder) {
    let attributes = &object.attributes;
    let encryption = attributes.encryption.as_ref().map(|encryption| match encryption {
        Encryption::Kms { key_id: Some(key) } => format!("kms:{key}"),
        Encryption::Kms { key_id: None } => "kms".to_owned(),
        _ => "managed".to_owned(),
    });
    to.text(&object.key);
    to.number(object.known_size().and_then(|size| i64::try_from(size).ok()).unwrap_or(-1));
    to.number(modified(object).unwrap_or(i64::MIN));
    to.optional(object.etag.as_deref());
    to.optional(object.version.as_deref());
    let texts = [
        ("crc64nvme", &object.crc64nvme),
        ("crc32c", &object.crc32c),
        ("content_type", &attributes.content_type),
        ("cache_control", &attributes.cache_control),
        ("content_encoding", &attributes.content_encoding),
        ("content_disposition", &attributes.content_disposition),
        ("content_language", &attributes.content_language),
        ("expires", &attributes.expires),
        ("storage_class", &attributes.storage_class),
        ("encryption", &encryption),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
    pairs(texts.collect(), to);
    pairs(attributes.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(), to);
}

fn pairs(pairs: Vec<(&str, &str)>, to: &mut Encoder) {
    to.number(pairs.len() as i64);
    for (name, value) in pairs {
        to.text(name);
        to.text(value);
    }
}

/// Milliseconds since 1970.
fn modified(object: &Object) -> Option<i64> {
    match object.modified?.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).ok(),
        Err(before) => i64::try_from(before.duration().as_millis()).ok().map(|millis| -millis),
    }
}

pub(crate) fn encoded(object: &Object) -> Vec<u8> {
    wire::encoded(|to| encode(object, to))
}

/// As much of an object as tells its contents from others', as `ObjectInfo` writes it.
pub(crate) fn decoded(from: &mut Decoder<'_>) -> Outcome<Object> {
    let key = from.text()?;
    let size = u64::try_from(from.number()?).ok();
    Ok(Object {
        key,
        size: size.unwrap_or_default(),
        size_is_unknown: size.is_none(),
        etag: from.optional()?,
        version: from.optional()?,
        ..Object::default()
    })
}
