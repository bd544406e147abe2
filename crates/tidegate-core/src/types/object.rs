//! An object's attributes, which a writer sets, and its description, which the store returns.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::types::fault::{Fault, FaultKind};

mod file_attributes;

pub use file_attributes::FileAttributes;

/// The attributes that an object carries besides its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// MIME type; guessed from the key's ending if it is not given.
    pub content_type: Option<String>,
    /// `Cache-Control`, as given.
    pub cache_control: Option<String>,
    /// `Content-Encoding`, as given; Tidegate does not encode.
    pub content_encoding: Option<String>,
    /// `Content-Disposition`, as given.
    pub content_disposition: Option<String>,
    /// `Content-Language`, as given.
    pub content_language: Option<String>,
    /// `Expires`, as given: an HTTP date. Google Cloud Storage does not keep it.
    pub expires: Option<String>,
    /// User metadata (`x-amz-meta-*`); names in lower case.
    pub metadata: BTreeMap<String, String>,
    /// Object tags.
    pub tags: BTreeMap<String, String>,
    /// Storage class, in the store's own words (`STANDARD_IA`, …).
    pub storage_class: Option<String>,
    /// Server-side encryption; the bucket's default if `None`.
    pub encryption: Option<Encryption>,
}

/// Server-side encryption of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// Keys managed by the store (`AES256`).
    Managed,
    /// A key of the store's key service (`aws:kms`); the bucket's default key if `key_id` is `None`.
    Kms {
        /// The key's id or ARN.
        key_id: Option<String>,
    },
}

/// An object as the store describes it. Later versions add fields: make one with `..Object::default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The key within the store.
    pub key: String,
    /// Size in bytes; 0 if [`size_is_unknown`](Self::size_is_unknown), see [`known_size`](Self::known_size).
    pub size: u64,
    /// Whether the store has left the size out, as some do in listings. Describing the object returns the size.
    pub size_is_unknown: bool,
    /// Entity tag, as the store wrote it (with its quotes).
    pub etag: Option<String>,
    /// Version, on versioned buckets.
    pub version: Option<String>,
    /// When the store last changed it.
    pub modified: Option<SystemTime>,
    /// Whether a listing found it changed less than two seconds before, by the clock of the store. It may then be
    /// replaced again within the second of its time, or was: equal times prove nothing.
    pub is_fresh: bool,
    /// Whole-object CRC-64/NVME that the store keeps, in base64.
    pub crc64nvme: Option<String>,
    /// Whole-object CRC-32C that the store keeps, in base64.
    pub crc32c: Option<String>,
    /// Other checksums of the whole object that the store keeps, by the algorithm's name in small letters (`md5`,
    /// `sha256`, `xxh3`, …), each as the store writes it, mostly in base64.
    pub other_checksums: BTreeMap<&'static str, String>,
    /// Whether the store keeps a composite checksum, which is one of the parts' checksums and not of the bytes.
    pub has_composite_checksum: bool,
    /// The token of the writer that wrote it, see [`crate::backend::WriteOptions::token`].
    pub token: Option<String>,
    /// Whether the description has the token, if there is one: listings of S3 leave it out.
    pub token_is_known: bool,
    /// How many tags it has, if a description says that (S3: `x-amz-tagging-count`); `Store::tags` returns the
    /// tags.
    ///
    pub tag_count: u64,
    /// Its attributes, as far as the store returns them.
    pub attributes: Attributes,
    /// Names of its other properties, which no copy carries: `website redirect`, `object lock`, `legal hold`,
    /// `custom time`, …. For a copy that was just made, those of its source.
    pub not_carried: Vec<&'static str>,
}

impl Object {
    /// Its size in bytes, if it is known.
    pub fn known_size(&self) -> Option<u64> {
        (!self.size_is_unknown).then_some(self.size)
    }

    /// Whether `other` describes the same bytes: the same size if both have one, and the same tag (which some
    /// stores change with the attributes) or the same version (which some change with every write of the same
    /// bytes). Two descriptions that share neither a tag nor a version are not known to be of the same bytes,
    /// whatever their times: the time of an object has whole seconds.
    ///
    /// Tags are compared without their quotes and without the mark of a weak tag (`W/`): the same store may write a
    /// tag in one way in one answer and in another way in the next.
    pub fn is_same(&self, other: &Self) -> bool {
        let sizes = self.known_size().zip(other.known_size());
        sizes.is_none_or(|(ours, theirs)| ours == theirs) && self.has_tag_of(other) == Some(true)
    }

    /// Whether both describe the object of one write: as [`is_same`](Self::is_same), and nothing tells of two writes of the
    /// same bytes, whose tag may be one. Two versions that differ do, or two writer tokens, or times that are a second apart
    /// (listings have fractions of a second, other answers have not).
    pub fn is_of_one_write(&self, other: &Self) -> bool {
        let token =
            |object: &Self| (object.token_is_known || object.token.is_some()).then(|| object.token.clone());
        let tokens = token(self).zip(token(other));
        let versions = self.version.as_ref().zip(other.version.as_ref());
        let apart = self.modified.zip(other.modified).map(|(ours, theirs)| {
            ours.duration_since(theirs).or_else(|_| theirs.duration_since(ours)).unwrap_or_default()
        });
        self.is_same(other)
            && versions.is_none_or(|(ours, theirs)| ours == theirs)
            && tokens.is_none_or(|(ours, theirs)| ours == theirs)
            && apart.is_none_or(|apart| apart < Duration::from_secs(1))
    }

    /// Whether the description has a tag or a version, by which another answer can be known to be about the same
    /// object. An object without them is read by one request, and is read again from its beginning if that request
    /// breaks.
    pub fn has_identity(&self) -> bool {
        self.etag.is_some() || self.version.is_some()
    }

    /// Whether both have the same tag or the same version; `None` if the two have no tag and no version to compare.
    pub fn has_tag_of(&self, other: &Self) -> Option<bool> {
        let tags = self.etag.as_deref().zip(other.etag.as_deref());
        let tags = tags.map(|(ours, theirs)| opaque(ours) == opaque(theirs));
        let versions = self.version.as_deref().zip(other.version.as_deref());
        let versions = versions.map(|(ours, theirs)| ours == theirs);
        [tags, versions].into_iter().flatten().reduce(|one, other| one || other)
    }

    /// The tag, if a condition can name it. A weak tag (`W/"…"`) meets no `If-Match` (RFC 9110, 13.1.1), and how a
    /// store compares a tag without quotes is not known.
    pub fn strong_tag(&self) -> Option<&str> {
        let is_strong = |tag: &&str| tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"');
        self.etag.as_deref().filter(is_strong)
    }

    /// Whether the checksum that the store keeps is `checksum`; `None` if the store keeps no checksum of that
    /// algorithm, or writes it in an unknown way.
    pub fn matches(&self, checksum: &crate::types::checksum::Checksum) -> Option<bool> {
        let stored = match checksum.algorithm() {
            crate::types::checksum::Algorithm::Crc64Nvme => self.crc64nvme.as_deref(),
            crate::types::checksum::Algorithm::Crc32c => self.crc32c.as_deref(),
        }?;
        checksum.compare(stored)
    }
}

/// A tag without its quotes and without the mark of a weak tag.
fn opaque(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

impl Attributes {
    /// The name under which stores keep a writer's [token](crate::backend::WriteOptions::token) among the metadata
    /// (`x-amz-meta-tidegate-writer`). No other metadata can have it.
    pub const RESERVED: &'static str = "tidegate-writer";

    /// Refuses metadata that the store would not keep as given: names that differ only by case are one header, the
    /// name of the writer's token is taken, and a header drops white space around its value.
    pub fn check(&self) -> Result<(), Fault> {
        let refuse = |message: String| Err(Fault::new(FaultKind::Invalid, message));
        let mut names = BTreeMap::new();
        for (name, value) in &self.metadata {
            let lower = name.to_ascii_lowercase();
            if lower == Self::RESERVED {
                return refuse(format!(
                    "the metadata name `{name}` is reserved for the token of Tidegate's writers"
                ));
            }
            if let Some(other) = names.insert(lower, name) {
                return refuse(format!(
                    "the store would merge the metadata `{other}` and `{name}`: names ignore case"
                ));
            }
            if value.trim_matches([' ', '\t']).len() != value.len() {
                return refuse(format!(
                    "the store would not keep the white space around the value of metadata `{name}`"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(etag: &str) -> Object {
        Object { etag: Some(etag.to_owned()), ..Object::default() }
    }

    #[test]
    fn one_tag_may_be_written_in_several_ways() {
        for tag in ["\"e\"", "e", "W/\"e\"", "W/e", " \"e\" "] {
            assert!(tagged(tag).is_same(&tagged("\"e\"")), "{tag}");
            assert!(!tagged(tag).is_same(&tagged("\"f\"")), "{tag}");
        }
        // One of them that is the same is enough.
        let versioned = |etag, version: &str| Object { version: Some(version.to_owned()), ..tagged(etag) };
        assert!(versioned("e", "1").is_same(&versioned("f", "1")));
        assert!(!versioned("e", "1").is_same(&versioned("f", "2")));
    }

    #[test]
    fn another_write_of_the_same_bytes_is_known_by_its_version_its_token_or_its_time() {
        let at = |milliseconds| Some(std::time::UNIX_EPOCH + Duration::from_millis(milliseconds));
        let one = Object {
            version: Some("1".to_owned()),
            token: Some("t".to_owned()),
            modified: at(5000),
            ..tagged("e")
        };
        let listed = Object { modified: at(5999), ..tagged("e") };
        for same in [&one, &listed, &tagged("e")] {
            assert!(one.is_of_one_write(same) && same.is_of_one_write(&one), "{same:?}");
        }
        let of_another_program = Object { token: None, token_is_known: true, ..one.clone() };
        for other in [
            of_another_program,
            Object { version: Some("2".to_owned()), ..one.clone() },
            Object { token: Some("u".to_owned()), ..one.clone() },
            Object { modified: at(6000), ..one.clone() },
            Object { modified: at(4000), ..listed },
            Object { size: 1, ..one.clone() },
            tagged("f"),
        ] {
            assert!(!one.is_of_one_write(&other) && !other.is_of_one_write(&one), "{other:?}");
        }
    }

    #[test]
    fn without_a_tag_or_a_version_in_both_no_two_answers_are_known_to_be_of_one_object() {
        let now = std::time::SystemTime::now();
        let timed = |modified| Object { size: 5, modified, ..Object::default() };
        for modified in [None, Some(now)] {
            assert!(!timed(modified).is_same(&timed(modified)));
            assert!(!timed(modified).has_identity());
        }
        assert!(!tagged("e").is_same(&Object::default()));
        let versioned = Object { version: Some("1".into()), ..Object::default() };
        assert!(!tagged("e").is_same(&versioned));
        assert!(tagged("e").has_identity() && versioned.has_identity());
    }

    #[test]
    fn only_a_strong_tag_makes_a_condition() {
        assert_eq!(tagged("\"e\"").strong_tag(), Some("\"e\""));
        for tag in ["W/\"e\"", "e", "\"", ""] {
            assert_eq!(tagged(tag).strong_tag(), None, "{tag}");
        }
    }

    #[test]
    fn metadata_that_a_store_would_not_keep_is_refused() {
        let check = |pairs: &[(&str, &str)]| {
            let metadata =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Attributes { metadata, ..Attributes::default() }.check().map_err(|fault| fault.message)
        };
        assert_eq!(check(&[("a", "x"), ("a-b", "y"), ("a_b", "y"), ("c", "")]), Ok(()));
        for (pairs, said) in [
            (&[("Foo", "1"), ("foo", "2")][..], "merge the metadata `Foo` and `foo`"),
            (&[("tidegate-writer", "t")], "`tidegate-writer` is reserved"),
            (&[("Tidegate-Writer", "t")], "`Tidegate-Writer` is reserved"),
            (&[("a", " x")], "white space around"),
            (&[("a", "x\t")], "white space around"),
        ] {
            let refused = check(pairs).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
