//! Creates many empty objects at once, to test listings longer than a test would upload one by one.

use s3s::S3Result;
use serde::Deserialize;

use crate::catalog::{CatalogAttributes, CatalogObject, Condition, Moment, ObjectVersion, Protocol};
use crate::s3::ServerStore;

/// The objects to create.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FillRequest {
    bucket: String,
    keys: Vec<String>,
}

impl FillRequest {
    /// Creates an empty object for each key, replacing any object with that key; returns the number of keys.
    pub(crate) fn apply(self, store: &ServerStore) -> S3Result<usize> {
        store.find_bucket(&self.bucket, Protocol::S3)?;
        let (count, modified) = (self.keys.len(), Moment::now());
        let mut catalog = store.lock();
        for key in self.keys {
            let object = CatalogObject {
                key,
                size: 0,
                etag: store.google_etag(None, 0),
                modified,
                checksum: None,
                part_sizes: Vec::new(),
                attributes: CatalogAttributes::default(),
                version: ObjectVersion::default(),
                crc32c: Some(0),
                md5: None,
                pieces: Vec::new(),
            };
            catalog.put_object(&self.bucket, object, &Condition::default())?;
        }
        Ok(count)
    }
}
