//! Completes a session: the parts that the client names become an object, or nothing changes.

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::checksum::{S3Algorithm, S3Checksum, given_checksums, set_checksum};
use super::intake::hex;
use super::object::encryption;
use super::{ServerStore, google_of};
use crate::catalog::{CatalogObject, CatalogPart, CatalogUpload, Condition, Moment, ObjectVersion};
use crate::gcs::xml;
use crate::knobs::Knobs;

pub(super) async fn complete_multipart_upload(
    store: &ServerStore,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let mut input = request.input;
    let condition = Condition::etags(input.if_match.take(), input.if_none_match.take());
    store.commit_delay().await;
    let knobs = store.faults.knobs();
    let name = (input.key.clone(), input.upload_id.clone());
    let mut catalog = store.lock();
    let upload = catalog.upload(&input.bucket, &name)?;
    let named = input.multipart_upload.take().and_then(|list| list.parts);
    let parts = choose(upload, named.unwrap_or_default(), &knobs)?;

    let size = parts.iter().map(|part| part.piece.length()).sum();
    check_size(input.mpu_object_size, size)?;
    let checksum = whole_checksum(upload, &parts)?;
    if !knobs.no_checksums {
        let given: Vec<_> = given_checksums!(input).collect();
        let kind = input.checksum_type.as_ref().map(ChecksumType::as_str);
        check_checksum(&given, kind, checksum.as_ref())?;
    }
    let etag = store.whole_etag(&parts);
    let numbers: Vec<u32> = parts.iter().map(|part| part.number).collect();
    let object = CatalogObject {
        key: input.key.clone(),
        size,
        etag: etag.clone(),
        modified: Moment::now(),
        checksum: checksum.clone(),
        part_sizes: parts.iter().map(|part| part.piece.length()).collect(),
        attributes: upload.attributes.clone(),
        version: ObjectVersion::default(),
        crc32c: None,
        md5: None,
        pieces: parts.iter().map(|part| part.piece.clone()).collect(),
    };
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        server_side_encryption: encryption(&object.attributes),
        e_tag: Some(ETag::Strong(etag)),
        checksum_type: checksum.as_ref().map(|checksum| checksum.kind().to_owned().into()),
        ..Default::default()
    };
    set_checksum!(output, &checksum);
    drop(parts);
    let object = catalog.end_upload(&input.bucket, &name, Some((object, &condition, &numbers)))?;
    store.counters.stored(checksum.as_ref());
    output.bucket = Some(input.bucket);
    output.key = Some(input.key);
    let mut answer = S3Response::new(output);
    if let (Some(object), Some(_)) = (object, google_of(&request.extensions)) {
        xml::describe(&mut answer.headers, &object);
    }
    Ok(answer)
}

/// The parts that the client names, if their ETags and checksums match and their sizes are allowed.
fn choose<'a>(
    upload: &'a CatalogUpload,
    named: Vec<CompletedPart>,
    knobs: &Knobs,
) -> S3Result<Vec<&'a CatalogPart>> {
    if named.is_empty() {
        return Err(s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
        ));
    }
    let mut parts: Vec<&CatalogPart> = Vec::with_capacity(named.len());
    for name in named {
        let number = name.part_number.unwrap_or_default().unsigned_abs();
        if parts.last().is_some_and(|last| last.number >= number) {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order. The parts list must be specified in order by part number."
            ));
        }
        let is_same = |part: &&CatalogPart| name.e_tag.as_ref().map(ETag::value) == Some(&part.etag);
        let part = upload.parts.get(&number).filter(is_same).ok_or_else(|| {
            s3_error!(
                InvalidPart,
                "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."
            )
        })?;
        if !knobs.no_checksums {
            check_part(upload, part, given_checksums!(name).collect())?;
        }
        parts.push(part);
    }
    check_sizes(&parts, knobs)?;
    Ok(parts)
}

fn check_part(upload: &CatalogUpload, part: &CatalogPart, given: Vec<(S3Algorithm, String)>) -> S3Result<()> {
    if given.is_empty() && upload.is_composite {
        let name = upload.algorithm.map_or("", S3Algorithm::name);
        return Err(s3_error!(
            InvalidRequest,
            "The upload was created using a {} checksum. The complete request must include the checksum for each part. It was missing for part {} in the request.",
            name.to_ascii_lowercase(),
            part.number
        ));
    }
    for (algorithm, value) in given {
        let kept = part.checksum.as_ref();
        let kept = kept.filter(|kept| kept.algorithm == algorithm);
        if kept.is_some_and(|kept| kept.value != value) {
            return Err(s3_error!(
                InvalidPart,
                "One or more of the specified parts could not be found. The part's checksum does not match: part {}",
                part.number
            ));
        }
    }
    Ok(())
}

fn check_sizes(parts: &[&CatalogPart], knobs: &Knobs) -> S3Result<()> {
    let Some((last, others)) = parts.split_last() else {
        return Ok(());
    };
    let least = knobs.least_part();
    if let Some(part) = others.iter().find(|part| part.piece.length() < least) {
        return Err(s3_error!(
            EntityTooSmall,
            "Your proposed upload is smaller than the minimum allowed size: part {} has {} bytes of {least}",
            part.number,
            part.piece.length()
        ));
    }
    let Some(first) = others.first().filter(|_| knobs.equal_parts) else {
        return Ok(());
    };
    let size = first.piece.length();
    if others.iter().any(|part| part.piece.length() != size) || last.piece.length() > size {
        return Err(s3_error!(InvalidPart, "All non-trailing parts must have the same length."));
    }
    Ok(())
}

fn check_size(declared: Option<i64>, size: u64) -> S3Result<()> {
    match declared {
        Some(declared) if u64::try_from(declared) != Ok(size) => Err(s3_error!(
            InvalidRequest,
            "The provided 'x-amz-mp-object-size' header value {declared} does not match what was computed: {size}"
        )),
        _ => Ok(()),
    }
}

/// The object's checksum, if every part has one of the same algorithm.
fn whole_checksum(upload: &CatalogUpload, parts: &[&CatalogPart]) -> S3Result<Option<S3Checksum>> {
    let first = parts.first().and_then(|part| part.checksum.as_ref());
    let Some(algorithm) = upload.algorithm.or(first.map(|first| first.algorithm)) else {
        return Ok(None);
    };
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        match &part.checksum {
            Some(checksum) if checksum.algorithm == algorithm => {
                values.push((checksum.value.clone(), part.piece.length()));
            }
            _ => return Ok(None),
        }
    }
    let is_composite = match upload.algorithm {
        Some(_) => upload.is_composite,
        None => !algorithm.allows(false),
    };
    if is_composite {
        S3Checksum::compose(algorithm, &values).map(Some)
    } else {
        S3Checksum::combine(algorithm, &values).map(Some)
    }
}

fn check_checksum(
    given: &[(S3Algorithm, String)],
    kind: Option<&str>,
    computed: Option<&S3Checksum>,
) -> S3Result<()> {
    if let (Some(kind), Some(computed)) = (kind, computed)
        && kind != computed.kind()
    {
        return Err(s3_error!(
            InvalidRequest,
            "The upload was created with the {} checksum type, not {kind}.",
            computed.kind()
        ));
    }
    for (algorithm, value) in given {
        let name = algorithm.name();
        let computed = computed.filter(|computed| computed.algorithm == *algorithm);
        let Some(computed) = computed else {
            return Err(s3_error!(
                InvalidRequest,
                "Checksum Type mismatch occurred, the upload has no {name} checksum"
            ));
        };
        // Clients send a composite checksum with or without the number of parts.
        let plain = computed.value.split('-').next();
        if computed.value != *value && plain != Some(value) {
            return Err(s3_error!(
                BadDigest,
                "The {name} you specified did not match the calculated checksum."
            ));
        }
    }
    Ok(())
}

impl ServerStore {
    /// The MD5 of the parts' MD5s, if ETags are MD5s; otherwise a unique value.
    fn whole_etag(&self, parts: &[&CatalogPart]) -> String {
        let count = parts.len();
        if !self.has_md5_etags {
            return format!("tide-{:x}-{count}", self.next());
        }
        let mut md5 = Md5::new();
        for part in parts {
            md5.update(&unhex(&part.etag));
        }
        format!("{}-{count}", hex(&md5.finalize()))
    }
}

/// The bytes of a part's ETag; if the ETag is not hexadecimal (the part is older than MD5 ETags), its
/// characters.
fn unhex(etag: &str) -> Vec<u8> {
    let pairs = etag.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.unwrap_or_else(|| etag.as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
