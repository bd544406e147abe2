//! Changes that knobs make to a key on behalf of other clients, between two requests of a client. They are not
//! requests and are not counted.

use s3s::{S3Error, S3Result};

use super::ServerStore;
use crate::catalog::{CatalogAttributes, CatalogObject, Condition, Moment, ObjectVersion};
use crate::faults::Meddling;

impl ServerStore {
    pub(crate) fn meddle(&self, meddling: Meddling, bucket: &str, key: &str) -> S3Result<()> {
        let mut catalog = self.lock();
        let always = Condition::default();
        match meddling {
            Meddling::Replace => {
                let object = CatalogObject {
                    key: key.to_owned(),
                    size: 0,
                    etag: format!("tide-{:x}", self.next()),
                    modified: Moment::now(),
                    checksum: None,
                    part_sizes: Vec::new(),
                    attributes: CatalogAttributes::default(),
                    version: ObjectVersion::default(),
                    crc32c: None,
                    md5: None,
                    pieces: Vec::new(),
                };
                catalog.put_object(bucket, object, &always).map(drop)
            }
            Meddling::Remove => catalog.remove_object(bucket, key, &always),
            Meddling::AbortSessions => {
                let all = catalog.bucket(bucket)?.uploads.keys();
                let names: Vec<_> = all.filter(|name| name.0 == key).cloned().collect();
                names.iter().try_for_each(|name| catalog.end_upload(bucket, name, None).map(drop))?;
                catalog.cancel_sessions_of(bucket, key).map_err(S3Error::internal_error)
            }
        }
    }
}
