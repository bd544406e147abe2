//! The attributes that a copy carries over, and the names of those that its target cannot hold.

use tidegate::object::{Encryption, FileAttributes};
use tidegate::{Attributes, Object, Store};

/// The scheme of a store. A storage class and a KMS key have a meaning only within one scheme.
fn scheme(store: &Store) -> String {
    let location = store.location();
    match location.split_once("://") {
        // An account in the URL makes no difference.
        Some(("abfss", _)) => "az".to_owned(),
        Some((scheme, _)) => scheme.to_owned(),
        None => String::new(),
    }
}

/// The attributes that a copy of `object` to another store carries, and the names of those that it leaves out.
pub fn between(from: &Store, to: &Store, object: &Object) -> (Attributes, Vec<&'static str>) {
    between_schemes(&scheme(from), &scheme(to), object)
}

fn between_schemes(from: &str, to: &str, object: &Object) -> (Attributes, Vec<&'static str>) {
    let (mut attributes, mut left_out) = (object.attributes.clone(), Vec::new());
    if to == "gs" && !attributes.tags.is_empty() {
        attributes.tags.clear();
        left_out.push("tags");
    }
    if matches!(to, "gs" | "az") && attributes.expires.take().is_some() {
        left_out.push("expires");
    }
    if from != to
        && attributes.storage_class.take().is_some_and(|class| !class.eq_ignore_ascii_case("STANDARD"))
    {
        left_out.push("storage class");
    }
    // The target's bucket decides about encryption: a KMS key of the source means nothing to another store.
    if matches!(attributes.encryption.take(), Some(Encryption::Kms { .. })) {
        left_out.push("encryption key");
    }
    left_out.extend(&object.not_carried);
    (attributes, left_out)
}

/// The names of the object's attributes that a file on disk cannot hold; with `preserves`, the file holds the time and
/// the permissions in the metadata. The content type, the storage class and the encryption are never named: nearly
/// every object has a type, and the other two are about how its store keeps it.
pub fn lost_on_disk(object: &Object, preserves: bool) -> Vec<&'static str> {
    let Attributes {
        cache_control,
        content_encoding,
        content_disposition,
        content_language,
        expires,
        metadata,
        tags,
        ..
    } = &object.attributes;
    let all = [
        ("cache control", cache_control.is_some()),
        ("content encoding", content_encoding.is_some()),
        ("content disposition", content_disposition.is_some()),
        ("content language", content_language.is_some()),
        ("expires", expires.is_some()),
        ("metadata", !metadata.keys().all(|name| preserves && FileAttributes::is_name(name))),
        ("tags", !tags.is_empty() || object.tag_count > 0),
    ];
    let lost = all.into_iter().filter_map(|(name, is_lost)| is_lost.then_some(name));
    lost.chain(object.not_carried.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Object {
        let pair = || [("a".to_owned(), "b".to_owned())].into();
        let mut object = Object::default();
        object.attributes.content_type = Some("text/plain".into());
        object.attributes.cache_control = Some("no-cache".into());
        object.attributes.content_language = Some("de".into());
        object.attributes.expires = Some("Sun, 06 Nov 1994 08:49:37 GMT".into());
        object.attributes.metadata = pair();
        object.attributes.tags = pair();
        object.attributes.storage_class = Some("STANDARD_IA".into());
        object.attributes.encryption = Some(Encryption::Kms { key_id: None });
        object.not_carried = vec!["website redirect", "legal hold"];
        object
    }

    #[test]
    fn what_the_target_holds_is_carried_and_the_rest_is_named() {
        for (from, to, names) in [
            ("s3", "s3", &["encryption key"][..]),
            ("s3", "gs", &["tags", "expires", "storage class", "encryption key"]),
            ("s3", "az", &["expires", "storage class", "encryption key"]),
            ("gs", "s3", &["storage class", "encryption key"]),
            ("gs", "gs", &["tags", "expires", "encryption key"]),
            ("s3", "az", &["expires", "storage class", "encryption key"]),
            ("az", "az", &["expires", "encryption key"]),
        ] {
            let (carried, left_out) = between_schemes(from, to, &full());
            assert_eq!(left_out, [names, &["website redirect", "legal hold"]].concat(), "{from} {to}");
            assert_eq!(carried.expires.is_some(), to == "s3");
            let expected = full().attributes;
            assert_eq!(carried.metadata, expected.metadata);
            assert_eq!(carried.cache_control, expected.cache_control);
            assert_eq!(carried.content_language, expected.content_language);
            assert_eq!(carried.content_type, expected.content_type);
            assert_eq!(carried.tags.is_empty(), to == "gs");
            assert_eq!(carried.storage_class.is_some(), from == to);
        }
        let mut plain = Object::default();
        plain.attributes.storage_class = Some("STANDARD".into());
        plain.attributes.encryption = Some(Encryption::Managed);
        assert_eq!(between_schemes("s3", "gs", &plain).1, [""; 0], "what every bucket does is no loss");
    }

    #[test]
    fn a_file_holds_bytes_only() {
        let lost = [
            "cache control",
            "content language",
            "expires",
            "metadata",
            "tags",
            "website redirect",
            "legal hold",
        ];
        assert_eq!(lost_on_disk(&full(), false), lost);
        let mut plain = Object::default();
        plain.attributes.content_type = Some("text/plain".into());
        plain.attributes.storage_class = Some("STANDARD_IA".into());
        assert_eq!(lost_on_disk(&plain, false), [""; 0]);
        plain.tag_count = 2;
        assert_eq!(lost_on_disk(&plain, false), ["tags"]);
        plain.attributes.metadata = [("mtime".to_owned(), "1".to_owned())].into();
        assert_eq!(lost_on_disk(&plain, false), ["metadata", "tags"]);
        assert_eq!(lost_on_disk(&plain, true), ["tags"], "the file has it");
        plain.attributes.metadata.insert("other".to_owned(), "1".to_owned());
        assert_eq!(lost_on_disk(&plain, true), ["metadata", "tags"]);
    }
}
