//! The store's buckets, objects and sessions, in memory for every kind of storage. With disk storage, the
//! [`ledger`] records each change before the change is made here.

pub(crate) mod generations;
pub(crate) mod ledger;
pub(crate) mod load;
mod record;
pub(crate) mod session;

use std::collections::BTreeMap;
use std::sync::Arc;

use s3s::dto::{BucketLifecycleConfiguration, ETag, ETagCondition};
use s3s::{S3Error, S3Result, s3_error};

use crate::ServerError;
use generations::ConditionResult;
pub(crate) use generations::{Generations, ObjectVersion};
use ledger::Ledger;
pub(crate) use record::{
    Bucket, CatalogAttributes, CatalogObject, CatalogPart, CatalogUpload, Moment, UploadName,
};

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    S3,
    /// JSON, gRPC, or Google's dialect of XML.
    Google,
}

impl Protocol {
    /// Whether this protocol's store reserves the name for itself.
    fn reserves(self, name: &str) -> bool {
        match self {
            Self::S3 => {
                ["xn--", "sthree-", "amzn-s3-demo-"].iter().any(|prefix| name.starts_with(prefix))
                    || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"]
                        .iter()
                        .any(|suffix| name.ends_with(suffix))
            }
            Self::Google => {
                name.starts_with("goog") || ["google", "g00gle"].iter().any(|part| name.contains(part))
            }
        }
    }
}

/// The conditions of a write.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
    pub(crate) generations: Generations,
}

impl Condition {
    pub(crate) fn etags(if_match: Option<ETagCondition>, if_none_match: Option<ETagCondition>) -> Self {
        Self { if_match, if_none_match, generations: Generations::default() }
    }

    pub(crate) fn generations(generations: Generations) -> Self {
        Self { generations, ..Self::default() }
    }

    fn check(&self, existing: Option<&Arc<CatalogObject>>) -> S3Result<()> {
        if self.generations.check(existing.map(Arc::as_ref)) != ConditionResult::Holds {
            return Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold."
            ));
        }
        if let Some(condition) = &self.if_none_match
            && existing.is_some_and(|object| matches_etag(condition, &object.etag))
        {
            return Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            ));
        }
        match (&self.if_match, existing) {
            (Some(_), None) => Err(s3_error!(NoSuchKey, "The specified key does not exist.")),
            (Some(condition), Some(object)) if !matches_etag(condition, &object.etag) => Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            )),
            _ => Ok(()),
        }
    }
}

pub(crate) fn matches_etag(condition: &ETagCondition, etag: &str) -> bool {
    condition.is_any() || condition.as_etag().map(ETag::value) == Some(etag)
}

/// All buckets.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) buckets: BTreeMap<String, Bucket>,
    /// Google's resumable uploads, by id: a request names a session by its id alone.
    pub(crate) sessions: BTreeMap<String, session::ResumableSession>,
    /// How many sessions there were at the last sweep for sessions to forget.
    sessions_looked_over: usize,
    /// The latest generation assigned.
    pub(crate) generation: u64,
    pub(crate) ledger: Option<Ledger>,
}

impl Catalog {
    pub(crate) fn bucket(&self, name: &str) -> S3Result<&Bucket> {
        self.buckets.get(name).ok_or_else(no_such_bucket)
    }

    pub(crate) fn create_bucket(&mut self, name: &str, dialect: Protocol) -> S3Result<()> {
        self.add_bucket(name, dialect).map_err(|error| match error {
            ServerError::BucketExists(_) => s3_error!(
                BucketAlreadyOwnedByYou,
                "Your previous request to create the named bucket succeeded and you already own it."
            ),
            ServerError::BucketName(_) => s3_error!(InvalidBucketName, "The specified bucket is not valid."),
            other => S3Error::internal_error(other),
        })
    }

    /// Adds a bucket, for every protocol. All checks of bucket names are here: S3's rules
    /// (`docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html`), which include most of Google's
    /// (`cloud.google.com/storage/docs/buckets#naming`); names that a store reserves are refused in its own
    /// protocol.
    pub(crate) fn add_bucket(&mut self, name: &str, dialect: Protocol) -> Result<(), ServerError> {
        if !s3s::path::check_bucket_name(name) || dialect.reserves(name) {
            return Err(ServerError::BucketName(name.to_owned()));
        }
        if self.buckets.contains_key(name) {
            return Err(ServerError::BucketExists(name.to_owned()));
        }
        let bucket = Bucket::new();
        if let Some(ledger) = &self.ledger {
            ledger.save_bucket(name, &bucket)?;
        }
        self.buckets.insert(name.to_owned(), bucket);
        Ok(())
    }

    pub(crate) fn delete_bucket(&mut self, name: &str) -> S3Result<()> {
        let bucket = self.bucket(name)?;
        if !bucket.objects.is_empty() {
            return Err(s3_error!(BucketNotEmpty, "The bucket you tried to delete is not empty"));
        }
        self.record(|ledger| ledger.remove_bucket(name))?;
        self.remove_sessions_of(name).map_err(S3Error::internal_error)?;
        if let Some(bucket) = self.buckets.remove(name) {
            for part in bucket.uploads.values().flat_map(|upload| upload.parts.values()) {
                part.piece.release();
            }
        }
        Ok(())
    }

    pub(crate) fn set_lifecycle(
        &mut self,
        name: &str,
        lifecycle: Option<BucketLifecycleConfiguration>,
    ) -> S3Result<()> {
        let bucket = self.buckets.get_mut(name).ok_or_else(no_such_bucket)?;
        bucket.lifecycle = lifecycle;
        let bucket = self.bucket(name)?;
        self.record(|ledger| ledger.save_bucket(name, bucket))
    }

    pub(crate) fn object(&self, bucket: &str, key: &str) -> S3Result<Arc<CatalogObject>> {
        self.bucket(bucket)?
            .objects
            .get(key)
            .cloned()
            .ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
    }

    pub(crate) fn check(&self, bucket: &str, key: &str, condition: &Condition) -> S3Result<()> {
        condition.check(self.bucket(bucket)?.objects.get(key))
    }

    /// Publishes the object; replaces any object with the same key.
    pub(crate) fn put_object(
        &mut self,
        bucket: &str,
        mut object: CatalogObject,
        condition: &Condition,
    ) -> S3Result<Arc<CatalogObject>> {
        self.check(bucket, &object.key, condition)?;
        self.generation = object.modified.micros().max(self.generation + 1);
        object.version = ObjectVersion { generation: self.generation, metageneration: 1, updated: None };
        self.record(|ledger| ledger.save_object(bucket, &object))?;
        for piece in &object.pieces {
            piece.keep();
        }
        let bucket = self.buckets.get_mut(bucket).ok_or_else(no_such_bucket)?;
        let object = Arc::new(object);
        release(bucket.objects.insert(object.key.clone(), Arc::clone(&object)));
        Ok(object)
    }

    pub(crate) fn set_tags(&mut self, bucket: &str, key: &str, tags: Vec<(String, String)>) -> S3Result<()> {
        self.describe(bucket, key, &Condition::default(), |object| object.attributes.tags = tags).map(drop)
    }

    /// Changes the object's attributes, not its bytes.
    pub(crate) fn describe(
        &mut self,
        bucket: &str,
        key: &str,
        condition: &Condition,
        change: impl FnOnce(&mut CatalogObject),
    ) -> S3Result<Arc<CatalogObject>> {
        let mut object = CatalogObject::clone(&*self.object(bucket, key)?);
        self.check(bucket, key, condition)?;
        change(&mut object);
        object.version.metageneration += 1;
        object.version.updated = Some(Moment::now());
        self.record(|ledger| ledger.save_object(bucket, &object))?;
        let bucket = self.buckets.get_mut(bucket).ok_or_else(no_such_bucket)?;
        let object = Arc::new(object);
        bucket.objects.insert(key.to_owned(), Arc::clone(&object));
        Ok(object)
    }

    /// Removes the object if it exists.
    pub(crate) fn remove_object(&mut self, bucket: &str, key: &str, condition: &Condition) -> S3Result<()> {
        let existing = self.bucket(bucket)?.objects.get(key);
        condition.check(existing)?;
        if existing.is_none() {
            return Ok(());
        }
        self.record(|ledger| ledger.remove_object(bucket, key))?;
        let bucket = self.buckets.get_mut(bucket).ok_or_else(no_such_bucket)?;
        release(bucket.objects.remove(key));
        Ok(())
    }

    pub(crate) fn upload(&self, bucket: &str, name: &UploadName) -> S3Result<&CatalogUpload> {
        let bucket = self.bucket(bucket)?;
        bucket.uploads.get(name).ok_or_else(no_such_upload)
    }

    pub(crate) fn create_upload(&mut self, bucket: &str, upload: CatalogUpload) -> S3Result<()> {
        self.bucket(bucket)?;
        self.record(|ledger| ledger.save_upload(bucket, &upload))?;
        let bucket = self.buckets.get_mut(bucket).ok_or_else(no_such_bucket)?;
        let name = (upload.key.clone(), upload.id.clone());
        bucket.uploads.insert(name, upload);
        Ok(())
    }

    pub(crate) fn put_part(&mut self, bucket: &str, name: &UploadName, part: CatalogPart) -> S3Result<()> {
        let upload = self.upload(bucket, name)?;
        self.record(|ledger| ledger.save_part(bucket, &upload.id, &part))?;
        part.piece.keep();
        let bucket = self.buckets.get_mut(bucket).ok_or_else(no_such_bucket)?;
        let upload = bucket.uploads.get_mut(name).ok_or_else(no_such_upload)?;
        if let Some(old) = upload.parts.insert(part.number, part) {
            old.piece.release();
        }
        Ok(())
    }

    /// Ends the session and publishes `object`, if given. Releases all parts except those that make up the
    /// object (their numbers, ascending).
    pub(crate) fn end_upload(
        &mut self,
        bucket: &str,
        name: &UploadName,
        object: Option<(CatalogObject, &Condition, &[u32])>,
    ) -> S3Result<Option<Arc<CatalogObject>>> {
        self.upload(bucket, name)?;
        let mut used: &[u32] = &[];
        let mut published = None;
        if let Some((object, condition, numbers)) = object {
            published = Some(self.put_object(bucket, object, condition)?);
            used = numbers;
        }
        self.record(|ledger| ledger.remove_upload(bucket, &name.1))?;
        let bucket = self.buckets.get_mut(bucket).ok_or_else(no_such_bucket)?;
        let upload = bucket.uploads.remove(name).ok_or_else(no_such_upload)?;
        for part in upload.parts.values() {
            if used.binary_search(&part.number).is_err() {
                part.piece.release();
            }
        }
        Ok(published)
    }

    fn record(&self, write: impl FnOnce(&Ledger) -> Result<(), ServerError>) -> S3Result<()> {
        match &self.ledger {
            None => Ok(()),
            Some(ledger) => write(ledger).map_err(S3Error::internal_error),
        }
    }
}

fn release(object: Option<Arc<CatalogObject>>) {
    for piece in object.iter().flat_map(|object| &object.pieces) {
        piece.release();
    }
}

fn no_such_bucket() -> S3Error {
    s3_error!(NoSuchBucket, "The specified bucket does not exist")
}

fn no_such_upload() -> S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_store_reserves_are_refused_in_its_protocol() {
        let both = ["xn--bucket"];
        let of_s3 = [
            "sthree-bucket",
            "sthree-configurator",
            "amzn-s3-demo-bucket",
            "bucket-s3alias",
            "bucket--ol-s3",
            "bucket.mrap",
            "bucket--use1-az4--x-s3",
            "bucket--table-s3",
        ];
        let of_google = ["goog-bucket", "goog", "my-google-bucket", "g00gle"];
        let neither = ["bucket", "s3alias", "sthree", "my-goog", "x-s3-bucket"];
        let mut catalog = Catalog::default();
        let mut is_made = |name: &str, dialect| {
            let made = catalog.create_bucket(name, dialect);
            catalog.buckets.clear();
            made.is_ok()
        };
        for (names, in_s3, in_google) in [
            (&both[..], false, false),
            (&of_s3, false, true),
            (&of_google, true, false),
            (&neither, true, true),
        ] {
            for name in names {
                assert_eq!(is_made(name, Protocol::S3), in_s3, "{name}");
                assert_eq!(is_made(name, Protocol::Google), in_google, "{name}");
            }
        }
    }
}
