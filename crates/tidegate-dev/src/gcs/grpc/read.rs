//! Objects over gRPC: gets, lists, deletes and reads them.

use futures::{StreamExt, TryStreamExt, stream};
use tonic::Status;

use super::convert::{bucket, checksums, generations_of, number, object, signed};
use super::{Answers, CallContext, LARGEST_DATA, proto};
use crate::catalog::Condition;
use crate::gcs::hash::crc32c;
use crate::gcs::list::ListParameters;
use crate::gcs::refusal::GcsRefusal;
use crate::storage;

/// Zero stands for the live generation.
fn generation(asked: i64) -> Result<Option<u64>, Status> {
    Ok(Some(number(asked, "The generation")?).filter(|generation| *generation != 0))
}

pub(super) async fn get_object(
    context: CallContext,
    request: proto::GetObjectRequest,
) -> Result<proto::Object, Status> {
    let name = bucket(&request.bucket)?;
    let (generation, conditions) = (generation(request.generation)?, generations_of!(request)?);
    context.admit("storage.v2.GetObject", name, &request.object).await?;
    let found = context.store().find_google(name, &request.object, generation, &conditions)?;
    Ok(object(name, &found))
}

pub(super) async fn delete_object(
    context: CallContext,
    request: proto::DeleteObjectRequest,
) -> Result<(), Status> {
    let name = bucket(&request.bucket)?;
    let (generation, mut conditions) = (generation(request.generation)?, generations_of!(request)?);
    context.admit("storage.v2.DeleteObject", name, &request.object).await?;
    context.store().find_google(name, &request.object, generation, &conditions)?;
    conditions.is = conditions.is.or(generation);
    let condition = Condition::generations(conditions);
    context.store().lock().remove_object(name, &request.object, &condition).map_err(GcsRefusal::from)?;
    Ok(())
}

pub(super) async fn list_objects(
    context: CallContext,
    request: proto::ListObjectsRequest,
) -> Result<proto::ListObjectsResponse, Status> {
    let name = bucket(&request.parent)?;
    if !request.match_glob.is_empty() || !request.filter.is_empty() {
        return Err(Status::unimplemented("Globs and filters are not implemented here."));
    }
    let limit = number(request.page_size.into(), "The page's size")?;
    context.admit("storage.v2.ListObjects", name, &request.prefix).await?;
    let listing = context.store().list_google(
        name,
        &ListParameters {
            prefix: &request.prefix,
            delimiter: Some(&request.delimiter),
            token: Some(request.page_token.as_str()).filter(|token| !token.is_empty()),
            limit: usize::try_from(limit).ok().filter(|limit| *limit > 0),
            start: &request.lexicographic_start,
            end: Some(&request.lexicographic_end),
            includes_prefixes: request.include_trailing_delimiter,
        },
    )?;
    Ok(proto::ListObjectsResponse {
        objects: listing.objects.iter().map(|found| object(name, found)).collect(),
        prefixes: listing.prefixes,
        next_page_token: listing.next.unwrap_or_default(),
    })
}

/// The requested bytes of an object of this size.
fn range(offset: i64, limit: i64, size: u64) -> Result<std::ops::Range<u64>, Status> {
    let start = match u64::try_from(offset) {
        Ok(start) if start > size => {
            return Err(Status::out_of_range(format!("The offset {start} is behind the end, at {size}.")));
        }
        Ok(start) => start,
        // A negative offset counts from the end, at most back to the start.
        Err(_) => size.saturating_sub(offset.unsigned_abs()),
    };
    let limit = number(limit, "The limit")?;
    let end = if limit == 0 { size } else { start.saturating_add(limit).min(size) };
    Ok(start..end)
}

pub(super) async fn read_object(
    context: CallContext,
    request: proto::ReadObjectRequest,
) -> Result<Answers<proto::ReadObjectResponse>, Status> {
    let name = bucket(&request.bucket)?;
    let (generation, conditions) = (generation(request.generation)?, generations_of!(request)?);
    context.admit("storage.v2.ReadObject", name, &request.object).await?;
    let found = context.store().find_google(name, &request.object, generation, &conditions)?;
    let range = range(request.read_offset, request.read_limit, found.size)?;
    let head = proto::ReadObjectResponse {
        checksummed_data: None,
        object_checksums: Some(checksums(&found)),
        content_range: Some(proto::ContentRange {
            start: signed(range.start),
            end: signed(range.end),
            complete_length: signed(found.size),
        }),
        metadata: Some(object(name, &found)),
    };
    let bytes = storage::read(&found.pieces, range);
    let data = bytes
        .map_ok(|mut bytes| {
            let mut messages = Vec::new();
            while !bytes.is_empty() {
                let content = bytes.split_to(bytes.len().min(LARGEST_DATA));
                let crc32c = Some(crc32c(&content));
                messages.push(Ok(proto::ReadObjectResponse {
                    checksummed_data: Some(proto::ChecksummedData { content, crc32c }),
                    ..proto::ReadObjectResponse::default()
                }));
            }
            stream::iter(messages)
        })
        .map_err(|error| Status::internal(error.to_string()))
        .try_flatten();
    Ok(stream::once(async { Ok(head) }).chain(data).boxed())
}
