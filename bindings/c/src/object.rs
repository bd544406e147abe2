//! What a store says of an object.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::ptr;
use std::time::UNIX_EPOCH;

use tidegate::Object;
use tidegate::object::Encryption;

use crate::border::free;
use crate::text::{c_string, string, tg_str};

/// An object as a store describes it. It does not change, so any thread may use it. Its strings live as long as it does.
#[derive(Debug)]
pub struct tg_object {
    pub(crate) object: Object,
    texts: BTreeMap<&'static str, CString>,
    metadata: Vec<(CString, CString)>,
}

impl From<Object> for tg_object {
    fn from(object: Object) -> Self {
        let attributes = &object.attributes;
        let encryption = attributes.encryption.as_ref().map(|encryption| match encryption {
            Encryption::Kms { key_id: Some(key) } => format!("kms:{key}"),
            Encryption::Kms { key_id: None } => "kms".to_owned(),
            _ => "managed".to_owned(),
        });
        let texts = [
            ("etag", &object.etag),
            ("version", &object.version),
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
        let texts =
            texts.into_iter().filter_map(|(name, text)| Some((name, c_string(text.as_ref()?)))).collect();
        let metadata =
            attributes.metadata.iter().map(|(name, value)| (c_string(name), c_string(value))).collect();
        Self { texts, metadata, object }
    }
}

/// The key within the store.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_key(object: Option<&tg_object>) -> tg_str {
    object.map_or(tg_str { data: ptr::null(), length: 0 }, |object| tg_str::of(&object.object.key))
}

/// Size in bytes; 0 where it is not known.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_size(object: Option<&tg_object>) -> u64 {
    object.and_then(|object| object.object.known_size()).unwrap_or_default()
}

/// Whether the size is known. Some stores leave it out of listings; tg_head gives it.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_has_size(object: Option<&tg_object>) -> bool {
    object.is_some_and(|object| object.object.known_size().is_some())
}

/// When the store last changed it, in milliseconds since 1970 (UTC); INT64_MIN where that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_modified_ms(object: Option<&tg_object>) -> i64 {
    let modified = object.and_then(|object| object.object.modified);
    let since = modified.map(|time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()),
        Err(before) => i64::try_from(before.duration().as_millis()).map(|millis| -millis),
    });
    since.and_then(Result::ok).unwrap_or(i64::MIN)
}

/// A property as text, NULL where the store does not say: `etag`, `version`, `crc64nvme`, `crc32c` (both in base64),
/// `content_type`, `cache_control`, `content_encoding`, `content_disposition`, `content_language`, `expires`,
/// `storage_class`, `encryption`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_object_text(object: Option<&tg_object>, name: *const c_char) -> *const c_char {
    // SAFETY: the header demands a string that a NUL ends.
    let name = unsafe { string(name, "name") };
    let text = object.zip(name.ok()).and_then(|(object, name)| object.texts.get(name.as_str()));
    text.map_or(ptr::null(), |text| text.as_ptr())
}

/// How many entries of user metadata it has. Listings have none.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_metadata_count(object: Option<&tg_object>) -> usize {
    object.map_or(0, |object| object.metadata.len())
}

/// The name of an entry of user metadata, in lower case; NULL past the last.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_metadata_name(object: Option<&tg_object>, index: usize) -> *const c_char {
    let entry = object.and_then(|object| object.metadata.get(index));
    entry.map_or(ptr::null(), |(name, _)| name.as_ptr())
}

/// The value of an entry of user metadata; NULL past the last.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_metadata_value(object: Option<&tg_object>, index: usize) -> *const c_char {
    let entry = object.and_then(|object| object.metadata.get(index));
    entry.map_or(ptr::null(), |(_, value)| value.as_ptr())
}

/// Whether both describe the same bytes: equal sizes, and the same tag or version.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_is_same(one: Option<&tg_object>, other: Option<&tg_object>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.object.is_same(&other.object))
}

/// Frees an object.
#[unsafe(no_mangle)]
pub extern "C" fn tg_object_free(object: Option<Box<tg_object>>) {
    free(|| drop(object));
}
