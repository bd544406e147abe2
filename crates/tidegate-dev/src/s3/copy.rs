//! Copies within the store: an object to an object, or a range to a part.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use std::sync::Arc;

use super::checksum::{S3Algorithm, set_checksum};
use super::intake::{BodySource, Declared};
use super::object::{attributes_of, encryption};
use super::{ServerStore, dialect_of};
use crate::catalog::{self, Condition, Moment, ObjectVersion, matches_etag};
use crate::storage;

/// The conditions on the source.
struct SourceCondition {
    if_match: Option<CopySourceIfMatch>,
    if_none_match: Option<CopySourceIfNoneMatch>,
    if_modified_since: Option<Timestamp>,
    if_unmodified_since: Option<Timestamp>,
}

macro_rules! source_condition {
    ($input:expr) => {
        SourceCondition {
            if_match: $input.copy_source_if_match.take(),
            if_none_match: $input.copy_source_if_none_match.take(),
            if_modified_since: $input.copy_source_if_modified_since.take(),
            if_unmodified_since: $input.copy_source_if_unmodified_since.take(),
        }
    };
}

impl SourceCondition {
    fn check(&self, object: &catalog::CatalogObject) -> S3Result<()> {
        let modified = object.modified.seconds();
        let is_met = self.if_match.as_ref().is_none_or(|condition| matches_etag(condition, &object.etag))
            && self.if_none_match.as_ref().is_none_or(|condition| !matches_etag(condition, &object.etag))
            && self.if_modified_since.as_ref().is_none_or(|since| modified > *since)
            && self.if_unmodified_since.as_ref().is_none_or(|since| modified <= *since);
        if is_met {
            Ok(())
        } else {
            Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            ))
        }
    }
}

impl ServerStore {
    fn source(
        &self,
        source: &CopySource,
        condition: &SourceCondition,
    ) -> S3Result<Arc<catalog::CatalogObject>> {
        let CopySource::Bucket { bucket, key, .. } = source else {
            return Err(s3_error!(NotImplemented, "Copies from access points are not implemented"));
        };
        let object = self.lock().object(bucket, key)?;
        condition.check(&object)?;
        Ok(object)
    }
}

pub(super) async fn copy_object(
    store: &ServerStore,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let mut input = request.input;
    store.find_bucket(&input.bucket, dialect_of(&request.extensions))?;
    let condition = source_condition!(input);
    let source = store.source(&input.copy_source, &condition)?;
    let is_replaced = |directive: Option<&str>| directive == Some("REPLACE");
    let replaces = is_replaced(input.metadata_directive.as_ref().map(|d| d.as_str()));
    let retags = is_replaced(input.tagging_directive.as_ref().map(|d| d.as_str()));
    let given = attributes_of!(input);
    let kept = source.attributes.clone();
    let mut attributes = if replaces {
        catalog::CatalogAttributes { tags: kept.tags, ..given.clone() }
    } else {
        // Storage class and encryption are never copied from the source.
        catalog::CatalogAttributes {
            storage_class: given.storage_class.clone(),
            encryption: given.encryption.clone(),
            ..kept
        }
    };
    if retags {
        attributes.tags = given.tags;
    }

    let asked = input.checksum_algorithm.as_ref();
    let asked = asked.map(|name| S3Algorithm::parse(name.as_str()));
    let algorithm = match asked.transpose()? {
        Some(algorithm) => Some(algorithm),
        None => source.checksum.as_ref().map(|checksum| checksum.algorithm),
    };
    let bytes = storage::read(&source.pieces, 0..source.size);
    let received = store.take_in(BodySource::Copied(bytes), &Declared::default(), algorithm).await?;
    store.commit_delay().await;
    let object = catalog::CatalogObject {
        key: input.key,
        size: received.size,
        etag: received.etag.clone(),
        modified: Moment::now(),
        checksum: received.kept,
        part_sizes: Vec::new(),
        attributes,
        version: ObjectVersion::default(),
        crc32c: None,
        md5: None,
        pieces: vec![received.piece],
    };
    let mut result = CopyObjectResult {
        e_tag: Some(ETag::Strong(received.etag)),
        last_modified: Some(object.modified.timestamp()),
        ..Default::default()
    };
    set_checksum!(result, &object.checksum);
    let server_side_encryption = encryption(&object.attributes);
    let condition = Condition::default();
    let object = store.lock().put_object(&input.bucket, object, &condition)?;
    store.counters.stored(object.checksum.as_ref());
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        server_side_encryption,
        ..Default::default()
    }))
}

pub(super) async fn upload_part_copy(
    store: &ServerStore,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let mut input = request.input;
    let name = (input.key, input.upload_id);
    let checksums = store.part_checksums(&input.bucket, &name, input.part_number)?;
    let condition = source_condition!(input);
    let source = store.source(&input.copy_source, &condition)?;
    let range = match &input.copy_source_range {
        None => 0..source.size,
        Some(range) => copied_range(range, source.size)?,
    };
    let bytes = storage::read(&source.pieces, range);
    let received = store.take_in(BodySource::Copied(bytes), &Declared::default(), checksums.kept).await?;
    store.commit_delay().await;
    let part = catalog::CatalogPart {
        number: input.part_number.unsigned_abs(),
        etag: received.etag.clone(),
        modified: Moment::now(),
        checksum: received.kept,
        piece: received.piece,
    };
    let mut result = CopyPartResult {
        e_tag: Some(ETag::Strong(received.etag)),
        last_modified: Some(part.modified.timestamp()),
        ..Default::default()
    };
    set_checksum!(result, &part.checksum);
    store.lock().put_part(&input.bucket, &name, part)?;
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

/// Unlike a read's range, a copy's has both ends and lies within the source.
fn copied_range(text: &str, size: u64) -> S3Result<std::ops::Range<u64>> {
    match Range::parse(text) {
        Ok(Range::Int { first, last: Some(last) }) if last < size => Ok(first..last + 1),
        Ok(Range::Int { last: Some(_), .. }) => {
            Err(s3_error!(InvalidRange, "Range specified is not valid for source object of size: {size}"))
        }
        _ => Err(s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy"
        )),
    }
}
