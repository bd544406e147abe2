//! Lists the parts of a session.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use super::ServerStore;
use super::checksum::{kind, set_checksum};

pub(super) async fn list_parts(
    store: &ServerStore,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let longest = store.faults.knobs().longest_page() as i32;
    let limit = input.max_parts.unwrap_or(longest).clamp(0, longest);
    let marker = input.part_number_marker.unwrap_or(0).max(0);
    let name = (input.key, input.upload_id);
    let catalog = store.lock();
    let upload = catalog.upload(&input.bucket, &name)?;
    let mut rest = upload.parts.range(marker.unsigned_abs() + 1..);
    let mut parts = Vec::new();
    for (_, part) in rest.by_ref().take(limit.unsigned_abs() as usize) {
        let mut output = Part {
            part_number: Some(part.number as i32),
            size: Some(part.piece.length() as i64),
            e_tag: Some(ETag::Strong(part.etag.clone())),
            last_modified: Some(part.modified.timestamp()),
            ..Default::default()
        };
        set_checksum!(output, &part.checksum);
        parts.push(output);
    }
    let is_truncated = limit > 0 && rest.next().is_some();
    let last = parts.last().and_then(|part| part.part_number);
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        checksum_algorithm: upload.algorithm.map(|algorithm| algorithm.name().to_owned().into()),
        checksum_type: upload.algorithm.map(|_| kind(upload.is_composite).to_owned().into()),
        is_truncated: Some(is_truncated),
        max_parts: Some(limit),
        next_part_number_marker: last.filter(|_| is_truncated),
        part_number_marker: Some(marker),
        parts: Some(parts),
        storage_class: Some(
            upload.attributes.storage_class.clone().unwrap_or_else(|| "STANDARD".to_owned()).into(),
        ),
        key: Some(name.0.clone()),
        upload_id: Some(name.1.clone()),
        ..Default::default()
    }))
}
