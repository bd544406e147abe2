//! What is said of an object: its attributes going in, its description coming out.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// What an object carries beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Attributes {
    /// MIME type; guessed from the key's ending where it is not given.
    pub content_type: Option<String>,
    /// `Cache-Control`, as given.
    pub cache_control: Option<String>,
    /// `Content-Encoding`, as given; Tidegate does not encode.
    pub content_encoding: Option<String>,
    /// `Content-Disposition`, as given.
    pub content_disposition: Option<String>,
    /// `Content-Language`, as given.
    pub content_language: Option<String>,
    /// User metadata (`x-amz-meta-*`); names in lower case.
    pub metadata: BTreeMap<String, String>,
    /// Object tags.
    pub tags: BTreeMap<String, String>,
    /// Storage class, in the store's own words (`STANDARD_IA`, …).
    pub storage_class: Option<String>,
    /// Server-side encryption; the bucket's default where it is `None`.
    pub encryption: Option<Encryption>,
}

/// Server-side encryption of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Encryption {
    /// Keys managed by the store (`AES256`).
    Managed,
    /// A key of the store's key service (`aws:kms`); the bucket's default key where `key_id` is `None`.
    Kms {
        /// The key's id or ARN.
        key_id: Option<String>,
    },
}

/// An object as the store describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// The key within the store.
    pub key: String,
    /// Size in bytes; 0 where [`size_is_unknown`](Self::size_is_unknown), see [`known_size`](Self::known_size).
    pub size: u64,
    /// Whether the store has left the size out, as some do in listings. Describing the object tells it.
    pub size_is_unknown: bool,
    /// Entity tag, as the store wrote it (with its quotes).
    pub etag: Option<String>,
    /// Version, on versioned buckets.
    pub version: Option<String>,
    /// When the store last changed it.
    pub modified: Option<SystemTime>,
    /// Whole-object CRC-64/NVME that the store keeps, in base64.
    pub crc64nvme: Option<String>,
    /// Whole-object CRC-32C that the store keeps, in base64.
    pub crc32c: Option<String>,
    /// Who wrote it: the token that a writer left, see [`crate::backend::WriteOptions::token`].
    pub token: Option<String>,
    /// What it carries beside its bytes, as far as the store tells.
    pub attributes: Attributes,
}

impl Object {
    /// Its size in bytes, where it is known.
    pub fn known_size(&self) -> Option<u64> {
        (!self.size_is_unknown).then_some(self.size)
    }

    /// Whether `other` describes the same bytes, as far as both tell: of one size, and of one tag (which some
    /// stores change with the attributes) or one version (which some change with every write of the same bytes);
    /// where they share neither, of one time.
    pub fn is_same(&self, other: &Self) -> bool {
        let told = [(&self.etag, &other.etag), (&self.version, &other.version)];
        let mut told =
            told.into_iter().filter_map(|(ours, theirs)| Some(ours.as_ref()? == theirs.as_ref()?)).peekable();
        let is_told = told.peek().is_some();
        let same = if is_told { told.any(|same| same) } else { self.modified == other.modified };
        let sizes = self.known_size().zip(other.known_size());
        sizes.is_none_or(|(ours, theirs)| ours == theirs) && same
    }

    /// Whether the checksum that the store keeps is `checksum`; `None` where the store keeps none of
    /// that algorithm.
    pub fn matches(&self, checksum: &crate::checksum::Checksum) -> Option<bool> {
        let stored = match checksum.algorithm() {
            crate::checksum::Algorithm::Crc64Nvme => self.crc64nvme.as_deref(),
            crate::checksum::Algorithm::Crc32c => self.crc32c.as_deref(),
        }?;
        Some(checksum.agrees_with(stored))
    }
}
