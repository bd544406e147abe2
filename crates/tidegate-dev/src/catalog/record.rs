//! The catalog's records, in memory and on disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use s3s::dto::{BucketLifecycleConfiguration, Timestamp};
use serde::{Deserialize, Serialize};

use super::generations::ObjectVersion;
use crate::s3::checksum::{S3Algorithm, S3Checksum};
use crate::storage::StoredPiece;

/// Milliseconds since the epoch: S3's resolution of times, and a sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(elapsed.map_or(0, |elapsed| elapsed.as_millis() as u64))
    }

    /// A number larger than any assigned by a run that ended before this moment.
    pub(crate) fn sequence(self) -> u64 {
        self.0 << 16
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        Timestamp::from(UNIX_EPOCH + Duration::from_millis(self.0))
    }

    /// Microseconds since the epoch: the basis of Google's generations.
    pub(crate) fn micros(self) -> u64 {
        self.0 * 1000
    }

    #[cfg(test)]
    pub(crate) fn before(time: Duration) -> Self {
        Self(Self::now().0 - time.as_millis() as u64)
    }

    /// The time since this moment.
    pub(crate) fn age(self) -> Duration {
        Duration::from_millis(Self::now().0.saturating_sub(self.0))
    }

    /// In whole seconds, as in HTTP dates.
    pub(crate) fn seconds(self) -> Timestamp {
        Timestamp::from(UNIX_EPOCH + Duration::from_secs(self.0 / 1000))
    }
}

/// An object's attributes: all that describes it besides its bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CatalogAttributes {
    pub(crate) content_type: Option<String>,
    pub(crate) cache_control: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_language: Option<String>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) metadata: Option<HashMap<String, String>>,
    pub(crate) storage_class: Option<String>,
    pub(crate) encryption: Option<String>,
    pub(crate) tags: Vec<(String, String)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CatalogObject {
    pub(crate) key: String,
    pub(crate) size: u64,
    pub(crate) etag: String,
    pub(crate) modified: Moment,
    pub(crate) checksum: Option<S3Checksum>,
    /// The parts' sizes, for an object uploaded in parts.
    pub(crate) part_sizes: Vec<u64>,
    pub(crate) attributes: CatalogAttributes,
    /// The version that Google's protocols show for the object.
    #[serde(default)]
    pub(crate) version: ObjectVersion,
    /// Over the whole object, if computed.
    #[serde(default)]
    pub(crate) crc32c: Option<u32>,
    #[serde(default)]
    pub(crate) md5: Option<[u8; 16]>,
    #[serde(skip)]
    pub(crate) pieces: Vec<StoredPiece>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CatalogPart {
    pub(crate) number: u32,
    pub(crate) etag: String,
    pub(crate) modified: Moment,
    pub(crate) checksum: Option<S3Checksum>,
    #[serde(skip, default = "nothing")]
    pub(crate) piece: StoredPiece,
}

pub(super) fn nothing() -> StoredPiece {
    StoredPiece::Void(0)
}

/// A session: an unfinished upload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CatalogUpload {
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) initiated: Moment,
    pub(crate) algorithm: Option<S3Algorithm>,
    pub(crate) is_composite: bool,
    pub(crate) attributes: CatalogAttributes,
    #[serde(skip)]
    pub(crate) parts: BTreeMap<u32, CatalogPart>,
}

/// Sorts by key, then by age: session ids are numbered.
pub(crate) type UploadName = (String, String);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bucket {
    pub(crate) created: Moment,
    pub(crate) lifecycle: Option<BucketLifecycleConfiguration>,
    #[serde(skip)]
    pub(crate) objects: BTreeMap<String, Arc<CatalogObject>>,
    #[serde(skip)]
    pub(crate) uploads: BTreeMap<UploadName, CatalogUpload>,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        Self { created: Moment::now(), lifecycle: None, objects: BTreeMap::new(), uploads: BTreeMap::new() }
    }
}
