//! Converts between the protocol's messages and the store's types.

use std::collections::HashMap;

use tonic::Status;

use super::proto;
use crate::catalog::session::Expected;
use crate::catalog::{CatalogAttributes, CatalogObject, Generations, Moment};
use crate::gcs::check_key;
use crate::gcs::intake::WriteTarget;
use crate::gcs::refusal::GcsRefusal;
use crate::gcs::resource::{crc32c_of, etag, storage_class};

const BUCKETS: &str = "projects/_/buckets/";

/// Extracts the bucket from a name such as `projects/_/buckets/bucket`.
pub(super) fn bucket(name: &str) -> Result<&str, Status> {
    name.strip_prefix(BUCKETS)
        .filter(|bucket| !bucket.is_empty() && !bucket.contains('/'))
        .ok_or_else(|| Status::invalid_argument(format!("{name:?} is not {BUCKETS} and a bucket.")))
}

/// Converts a number, refusing a negative one.
pub(super) fn number(value: i64, name: &str) -> Result<u64, Status> {
    u64::try_from(value).map_err(|_| Status::invalid_argument(format!("{name} is negative.")))
}

/// The four generation conditions of most requests.
macro_rules! generations_of {
    ($request:expr) => {
        $crate::gcs::grpc::convert::generations(
            $request.if_generation_match,
            $request.if_generation_not_match,
            $request.if_metageneration_match,
            $request.if_metageneration_not_match,
        )
    };
}
pub(super) use generations_of;

pub(super) fn generations(
    is: Option<i64>,
    is_not: Option<i64>,
    metageneration_is: Option<i64>,
    metageneration_is_not: Option<i64>,
) -> Result<Generations, Status> {
    let read = |value: Option<i64>| value.map(|value| number(value, "A generation")).transpose();
    Ok(Generations {
        is: read(is)?,
        is_not: read(is_not)?,
        metageneration_is: read(metageneration_is)?,
        metageneration_is_not: read(metageneration_is_not)?,
    })
}

/// Adds the hashes that a client sends to `expected`.
pub(super) fn add_checksums(
    expected: &mut Expected,
    checksums: Option<&proto::ObjectChecksums>,
) -> Result<(), Status> {
    let Some(checksums) = checksums else {
        return Ok(());
    };
    expected.crc32c = checksums.crc32c.or(expected.crc32c);
    if !checksums.md5_hash.is_empty() {
        let md5 = checksums.md5_hash.as_ref().try_into();
        expected.md5 = Some(md5.map_err(|_| Status::invalid_argument("An MD5 has 16 bytes."))?);
    }
    Ok(())
}

/// The bucket, metadata, conditions and expected hashes of an object to be written.
pub(super) fn target(spec: proto::WriteObjectSpec) -> Result<(String, WriteTarget, Expected), Status> {
    if spec.appendable == Some(true) {
        return Err(Status::unimplemented("Appendable objects are not implemented here."));
    }
    let generations = generations_of!(spec)?;
    let resource = spec.resource.ok_or_else(|| Status::invalid_argument("The spec has no resource."))?;
    let bucket = bucket(&resource.bucket)?.to_owned();
    check_key(&resource.name)?;
    let mut expected = Expected::default();
    add_checksums(&mut expected, resource.checksums.as_ref())?;
    expected.size = spec.object_size.map(|size| number(size, "The object's size")).transpose()?;
    let key = resource.name.clone();
    Ok((bucket, WriteTarget { key, attributes: attributes(resource), generations }, expected))
}

/// The attributes that a message gives an object.
pub(super) fn attributes(resource: proto::Object) -> CatalogAttributes {
    let text = |text: String| (!text.is_empty()).then_some(text);
    CatalogAttributes {
        content_type: text(resource.content_type),
        cache_control: text(resource.cache_control),
        content_disposition: text(resource.content_disposition),
        content_encoding: text(resource.content_encoding),
        content_language: text(resource.content_language),
        storage_class: text(resource.storage_class),
        metadata: (!resource.metadata.is_empty()).then(|| HashMap::from_iter(resource.metadata)),
        ..CatalogAttributes::default()
    }
}

/// Converts a number for a message, whose numbers are signed. Numbers here never exceed an `i64`.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn time(moment: Moment) -> prost_types::Timestamp {
    let micros = moment.micros();
    // The remainder is less than a second, so it fits.
    prost_types::Timestamp { seconds: signed(micros / 1_000_000), nanos: (micros % 1_000_000) as i32 * 1000 }
}

pub(super) fn checksums(object: &CatalogObject) -> proto::ObjectChecksums {
    let md5 = object.md5.map(|md5| bytes::Bytes::copy_from_slice(&md5));
    proto::ObjectChecksums { crc32c: crc32c_of(object), md5_hash: md5.unwrap_or_default() }
}

pub(super) fn object(bucket: &str, object: &CatalogObject) -> proto::Object {
    let attributes = object.attributes.clone();
    proto::Object {
        name: object.key.clone(),
        bucket: format!("{BUCKETS}{bucket}"),
        etag: etag(&object.version),
        generation: signed(object.version.generation),
        metageneration: signed(object.version.metageneration),
        storage_class: storage_class(&object.attributes).to_owned(),
        size: signed(object.size),
        content_encoding: attributes.content_encoding.unwrap_or_default(),
        content_disposition: attributes.content_disposition.unwrap_or_default(),
        cache_control: attributes.cache_control.unwrap_or_default(),
        content_language: attributes.content_language.unwrap_or_default(),
        content_type: attributes.content_type.unwrap_or_default(),
        create_time: Some(time(object.modified)),
        finalize_time: Some(time(object.modified)),
        update_time: Some(time(object.version.updated.unwrap_or(object.modified))),
        update_storage_class_time: Some(time(object.modified)),
        checksums: Some(checksums(object)),
        metadata: attributes.metadata.unwrap_or_default().into_iter().collect(),
        ..proto::Object::default()
    }
}

/// A data message's bytes, if they match its checksum and are not too many.
pub(super) fn content(data: proto::ChecksummedData) -> Result<bytes::Bytes, GcsRefusal> {
    if data.content.len() > super::LARGEST_DATA {
        return Err(GcsRefusal::invalid(format!("A message has {} bytes, too many.", data.content.len())));
    }
    if let Some(expected) = data.crc32c {
        let computed = crate::gcs::hash::crc32c(&data.content);
        if computed != expected {
            return Err(GcsRefusal::invalid(format!(
                "Provided CRC32C {expected:#010x} doesn't match calculated CRC32C {computed:#010x} of the message."
            )));
        }
    }
    Ok(data.content)
}
