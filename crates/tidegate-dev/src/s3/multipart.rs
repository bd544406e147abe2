//! Opens and aborts sessions, and stores their parts. [`super::complete`] completes sessions.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::checksum::{S3Algorithm, given_checksums, kind, set_checksum};
use super::intake::{BodySource, Declared};
use super::object::{attributes_of, encryption};
use super::{ServerStore, dialect_of, google_of};
use crate::catalog::{CatalogPart, CatalogUpload, Moment, UploadName};
use crate::gcs::xml;

/// S3's own limit.
pub(super) const MOST_PARTS: i32 = 10_000;

pub(super) async fn create_multipart_upload(
    store: &ServerStore,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let mut input = request.input;
    store.find_bucket(&input.bucket, dialect_of(&request.extensions))?;
    let (algorithm, is_composite) =
        if store.faults.knobs().no_checksums { (None, false) } else { checksum_of(&input)? };
    let id = format!("{:016x}{:016x}", store.next(), fastrand::u64(..));
    let upload = CatalogUpload {
        key: input.key.clone(),
        id: id.clone(),
        initiated: Moment::now(),
        algorithm,
        is_composite,
        attributes: attributes_of!(input),
        parts: Default::default(),
    };
    let output = CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key),
        upload_id: Some(id),
        checksum_algorithm: algorithm.map(|algorithm| algorithm.name().to_owned().into()),
        checksum_type: algorithm.map(|_| kind(is_composite).to_owned().into()),
        server_side_encryption: encryption(&upload.attributes),
        ..Default::default()
    };
    store.lock().create_upload(&input.bucket, upload)?;
    Ok(S3Response::new(output))
}

/// The session's checksum algorithm, and whether its checksum is composite.
fn checksum_of(input: &CreateMultipartUploadInput) -> S3Result<(Option<S3Algorithm>, bool)> {
    let Some(algorithm) = &input.checksum_algorithm else {
        if input.checksum_type.is_some() {
            return Err(s3_error!(
                InvalidRequest,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
            ));
        }
        return Ok((None, false));
    };
    let algorithm = S3Algorithm::parse(algorithm.as_str())?;
    let is_composite = match input.checksum_type.as_ref().map(ChecksumType::as_str) {
        None => algorithm.is_composite_by_default(),
        Some("COMPOSITE") => true,
        Some("FULL_OBJECT") => false,
        Some(_) => {
            return Err(s3_error!(InvalidRequest, "Value for x-amz-checksum-type header is invalid."));
        }
    };
    if !algorithm.allows(is_composite) {
        return Err(s3_error!(
            InvalidRequest,
            "The {} checksum type cannot be used with the {} checksum algorithm.",
            kind(is_composite),
            algorithm.name()
        ));
    }
    Ok((Some(algorithm), is_composite))
}

/// The checksums of a session's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartChecksums {
    /// The algorithm that the session was opened with.
    pub(super) algorithm: Option<S3Algorithm>,
    pub(super) is_composite: bool,
    /// The algorithm computed for each part.
    pub(super) kept: Option<S3Algorithm>,
}

impl ServerStore {
    pub(super) fn part_checksums(
        &self,
        bucket: &str,
        name: &UploadName,
        number: i32,
    ) -> S3Result<PartChecksums> {
        if !(1..=MOST_PARTS).contains(&number) {
            return Err(s3_error!(
                InvalidArgument,
                "Part number must be an integer between 1 and 10000, inclusive"
            ));
        }
        let catalog = self.lock();
        let upload = catalog.upload(bucket, name)?;
        let default = self.default_algorithm(None);
        Ok(PartChecksums {
            algorithm: upload.algorithm,
            is_composite: upload.is_composite,
            kept: upload.algorithm.or(default),
        })
    }
}

pub(super) async fn upload_part(
    store: &ServerStore,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let google = google_of(&request.extensions);
    let mut input = request.input;
    let name = (input.key, input.upload_id);
    let checksums = store.part_checksums(&input.bucket, &name, input.part_number)?;
    let declared = Declared::new(
        &request.headers,
        input.content_md5.take(),
        given_checksums!(input),
        store.faults.knobs().no_checksums,
    )?
    .told_to(google);
    check_agreement(checksums, declared.algorithm())?;
    // With discarding storage there is no default algorithm: then compute the checksum that the client sends.
    let kept = checksums.kept.or(declared.algorithm());
    let source = BodySource::new(input.body.take(), request.trailing_headers, &request.extensions);
    let received = store.take_in(source, &declared, kept).await?;
    store.commit_delay().await;

    let mut output =
        UploadPartOutput { e_tag: Some(ETag::Strong(received.etag.clone())), ..Default::default() };
    set_checksum!(output, &received.checksum);
    let part = CatalogPart {
        number: input.part_number.unsigned_abs(),
        etag: received.etag,
        modified: Moment::now(),
        checksum: received.kept,
        piece: received.piece,
    };
    let crc32c = part.checksum.clone();
    store.lock().put_part(&input.bucket, &name, part)?;
    let mut answer = S3Response::new(output);
    if google.is_some() {
        xml::add_part_hashes(&mut answer.headers, crc32c.as_ref(), received.md5.as_ref());
    }
    Ok(answer)
}

/// A part's checksum must use the session's algorithm. A session without an algorithm takes any; a session
/// whose checksum covers the whole object also takes parts without a checksum, because the server can compute
/// it.
fn check_agreement(checksums: PartChecksums, declared: Option<S3Algorithm>) -> S3Result<()> {
    let Some(expected) = checksums.algorithm else {
        return Ok(());
    };
    if declared == Some(expected) || (declared.is_none() && !checksums.is_composite) {
        return Ok(());
    }
    Err(s3_error!(
        InvalidRequest,
        "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
        expected.name().to_ascii_lowercase(),
        declared.map_or_else(|| "null".to_owned(), |declared| declared.name().to_ascii_lowercase())
    ))
}

pub(super) async fn abort_multipart_upload(
    store: &ServerStore,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let name = (input.key, input.upload_id);
    store.lock().end_upload(&input.bucket, &name, None)?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}
