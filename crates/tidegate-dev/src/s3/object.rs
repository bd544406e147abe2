//! Puts, gets and heads whole objects.

use std::ops::Range as ByteRange;

use futures::StreamExt;
use http::StatusCode;
use http_body::Frame;
use http_body_util::StreamBody;
use s3s::dto::*;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use super::checksum::{given_checksums, set_checksum};
use super::intake::{BodySource, Declared};
use super::{ServerStore, custom, dialect_of, google_of, misrange_of};
use crate::catalog::generations::ConditionResult;
use crate::catalog::{CatalogAttributes, CatalogObject, Condition, Moment, ObjectVersion, matches_etag};
use crate::faults::Misrange;
use crate::gcs::xml;
use crate::storage;

/// Moves the fields that describe an object out of a write request.
macro_rules! attributes_of {
    ($input:expr) => {
        $crate::catalog::CatalogAttributes {
            content_type: $input.content_type.take(),
            cache_control: $input.cache_control.take(),
            content_disposition: $input.content_disposition.take(),
            content_encoding: $input.content_encoding.take().and_then(super::object::stored_encoding),
            content_language: $input.content_language.take(),
            expires: $input.expires.take(),
            metadata: $input.metadata.take(),
            storage_class: $input.storage_class.take().map(|class| class.as_str().to_owned()),
            encryption: $input.server_side_encryption.take().map(|kind| kind.as_str().to_owned()),
            tags: super::tagging::parse_tags($input.tagging.as_deref())?,
        }
    };
}
pub(super) use attributes_of;

/// Drops `aws-chunked`: it describes how the body was sent, not the object.
pub(super) fn stored_encoding(encoding: String) -> Option<String> {
    let kept: Vec<&str> = encoding
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

pub(super) async fn put_object(
    store: &ServerStore,
    request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let mut input = request.input;
    store.find_bucket(&input.bucket, dialect_of(&request.extensions))?;
    let google = google_of(&request.extensions);
    let mut condition = Condition::etags(input.if_match.take(), input.if_none_match.take());
    condition.generations = google.unwrap_or_default();
    store.lock().check(&input.bucket, &input.key, &condition)?;

    let ignores_checksums = store.faults.knobs().no_checksums;
    let declared = Declared::new(
        &request.headers,
        input.content_md5.take(),
        given_checksums!(input),
        ignores_checksums,
    )?
    .told_to(google);
    // For bytes without a checksum, S3 computes a CRC64NVME, Google a CRC32C.
    let kept = declared.algorithm().or(store.default_algorithm(google));
    let source = BodySource::new(input.body.take(), request.trailing_headers, &request.extensions);
    let received = store.take_in(source, &declared, kept).await?;
    store.commit_delay().await;

    let object = CatalogObject {
        key: input.key.clone(),
        size: received.size,
        etag: received.etag.clone(),
        modified: Moment::now(),
        checksum: received.kept,
        part_sizes: Vec::new(),
        attributes: attributes_of!(input),
        version: ObjectVersion::default(),
        crc32c: None,
        md5: received.md5,
        pieces: vec![received.piece],
    };
    let mut output = PutObjectOutput {
        e_tag: Some(ETag::Strong(received.etag)),
        server_side_encryption: encryption(&object.attributes),
        ..Default::default()
    };
    set_checksum!(output, &object.checksum);
    output.checksum_type = object.checksum.as_ref().map(|checksum| checksum.kind().to_owned().into());
    let object = store.lock().put_object(&input.bucket, object, &condition)?;
    store.counters.stored(object.checksum.as_ref());
    let mut answer = S3Response::new(output);
    if google.is_some() {
        xml::describe(&mut answer.headers, &object);
    }
    Ok(answer)
}

pub(super) fn encryption(attributes: &CatalogAttributes) -> Option<ServerSideEncryption> {
    attributes.encryption.clone().map(Into::into)
}

/// The conditions of a read.
struct ReadCondition {
    if_match: Option<IfMatch>,
    if_none_match: Option<IfNoneMatch>,
    if_modified_since: Option<Timestamp>,
    if_unmodified_since: Option<Timestamp>,
}

impl ReadCondition {
    fn check(&self, object: &CatalogObject) -> S3Result<()> {
        let failed =
            || s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold");
        let modified = object.modified.seconds();
        match (&self.if_match, &self.if_unmodified_since) {
            (Some(condition), _) if !matches_etag(condition, &object.etag) => return Err(failed()),
            (None, Some(since)) if modified > *since => return Err(failed()),
            _ => {}
        }
        match (&self.if_none_match, &self.if_modified_since) {
            (Some(condition), _) if matches_etag(condition, &object.etag) => Err(s3_error!(NotModified)),
            (None, Some(since)) if modified <= *since => Err(s3_error!(NotModified)),
            _ => Ok(()),
        }
    }
}

/// The bytes that a read asks for.
struct ObjectSlice {
    range: ByteRange<u64>,
    /// The read asks for a range or a part: status 206.
    is_part: bool,
}

impl ObjectSlice {
    fn new(object: &CatalogObject, range: Option<Range>, part: Option<i32>) -> S3Result<Self> {
        let unsatisfiable = || s3_error!(InvalidRange, "The requested range is not satisfiable");
        let range = match (range, part) {
            (Some(_), Some(_)) => {
                return Err(s3_error!(
                    InvalidRequest,
                    "Cannot specify both Range header and partNumber query parameter"
                ));
            }
            (Some(range), None) => range.check(object.size).map_err(|_| unsatisfiable())?,
            (None, Some(number)) => part_range(object, number).ok_or_else(|| {
                custom(
                    "InvalidPartNumber",
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    "The requested partnumber is not satisfiable",
                )
            })?,
            (None, None) => {
                return Ok(Self { range: 0..object.size, is_part: false });
            }
        };
        Ok(Self { range, is_part: true })
    }

    fn length(&self) -> i64 {
        (self.range.end - self.range.start) as i64
    }

    fn content_range(&self, size: u64) -> Option<String> {
        (self.is_part && self.length() > 0)
            .then(|| format!("bytes {}-{}/{size}", self.range.start, self.range.end - 1))
    }
}

fn part_range(object: &CatalogObject, number: i32) -> Option<ByteRange<u64>> {
    if object.part_sizes.is_empty() {
        return (number == 1).then_some(0..object.size);
    }
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    let size = object.part_sizes.get(index)?;
    let start = object.part_sizes[..index].iter().sum();
    Some(start..start + size)
}

/// Builds the part of the answer that `GetObject` and `HeadObject` share.
macro_rules! describe {
    ($output:ident, $store:expr, $input:expr, $google:expr) => {{
        let object = $store.lock().object(&$input.bucket, &$input.key)?;
        let condition = ReadCondition {
            if_match: $input.if_match.take(),
            if_none_match: $input.if_none_match.take(),
            if_modified_since: $input.if_modified_since.take(),
            if_unmodified_since: $input.if_unmodified_since.take(),
        };
        condition.check(&object)?;
        if let Some(generations) = $google
            && generations.check(Some(&object)) != ConditionResult::Holds
        {
            return Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold."
            ));
        }
        let slice = ObjectSlice::new(&object, $input.range, $input.part_number)?;
        let attributes = object.attributes.clone();
        let mut output = $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(slice.length()),
            content_range: slice.content_range(object.size),
            e_tag: Some(ETag::Strong(object.etag.clone())),
            last_modified: Some(object.modified.seconds()),
            content_type: attributes.content_type.clone().or_else(|| Some("binary/octet-stream".to_owned())),
            server_side_encryption: encryption(&attributes),
            storage_class: attributes.storage_class.filter(|class| class != "STANDARD").map(Into::into),
            cache_control: attributes.cache_control,
            content_disposition: attributes.content_disposition,
            content_encoding: attributes.content_encoding,
            content_language: attributes.content_language,
            expires: attributes.expires,
            metadata: attributes.metadata,
            parts_count: ($input.part_number.is_some() && !object.part_sizes.is_empty())
                .then_some(object.part_sizes.len() as i32),
            ..Default::default()
        };
        let is_enabled =
            $input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str().eq_ignore_ascii_case("ENABLED"));
        // A checksum of the whole object does not cover a part of it.
        if is_enabled && !slice.is_part && !$store.faults.knobs().no_checksums {
            set_checksum!(output, &object.checksum);
            output.checksum_type = object.checksum.as_ref().map(|checksum| checksum.kind().to_owned().into());
        }
        (object, slice, output)
    }};
}

pub(super) async fn get_object(
    store: &ServerStore,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let mut input = request.input;
    let google = google_of(&request.extensions);
    let misrange = misrange_of(&request.extensions);
    if misrange == Some(Misrange::Ignored) {
        input.range = None;
    }
    let (object, mut slice, mut output) = describe!(GetObjectOutput, store, input, google);
    if let Some(misrange) = misrange.filter(|_| slice.is_part) {
        let (sent, told) = misrange.of(&slice.range, object.size);
        output.content_range = ObjectSlice { range: told, is_part: true }.content_range(object.size);
        slice.range = sent;
        output.content_length = Some(slice.length());
    }
    let tags = object.attributes.tags.len() as i32;
    output.tag_count = (tags > 0).then_some(tags);
    let bytes = storage::read(&object.pieces, slice.range.clone());
    let body = StreamBody::new(bytes.map(|bytes| bytes.map(Frame::data)));
    output.body = Some(StreamingBlob::from(Body::http_body_unsync(body)));
    Ok(answer(output, &slice, google.map(|_| &*object)))
}

pub(super) async fn head_object(
    store: &ServerStore,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let mut input = request.input;
    let google = google_of(&request.extensions);
    let (object, slice, output) = describe!(HeadObjectOutput, store, input, google);
    Ok(answer(output, &slice, google.map(|_| &*object)))
}

/// `google` is the object, if the answer needs Google's headers.
fn answer<T>(output: T, slice: &ObjectSlice, google: Option<&CatalogObject>) -> S3Response<T> {
    let mut answer = if slice.is_part {
        S3Response::with_status(output, StatusCode::PARTIAL_CONTENT)
    } else {
        S3Response::new(output)
    };
    if let Some(object) = google {
        xml::describe(&mut answer.headers, object);
    }
    answer
}
