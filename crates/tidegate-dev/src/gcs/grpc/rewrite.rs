//! Copies objects over gRPC.

use tonic::Status;

use super::convert::{attributes, bucket, generations, generations_of, number, object, signed};
use super::{CallContext, proto};
use crate::gcs::rewrite::Copy;

pub(super) async fn rewrite_object(
    context: CallContext,
    request: proto::RewriteObjectRequest,
) -> Result<proto::RewriteResponse, Status> {
    let (source, target) = (bucket(&request.source_bucket)?, bucket(&request.destination_bucket)?);
    let conditions = generations(
        request.if_source_generation_match,
        request.if_source_generation_not_match,
        request.if_source_metageneration_match,
        request.if_source_metageneration_not_match,
    )?;
    let generation = number(request.source_generation, "The generation")?;
    let most = number(request.max_bytes_rewritten_per_call, "The number of bytes")?;
    context.admit("storage.v2.RewriteObject", target, &request.destination_name).await?;
    let copy = Copy {
        source: (source, &request.source_object),
        generation: Some(generation).filter(|generation| *generation != 0),
        conditions,
        bucket: target,
        key: &request.destination_name,
        generations: generations_of!(request)?,
        attributes: request.destination.clone().map(attributes),
        token: Some(request.rewrite_token.as_str()).filter(|token| !token.is_empty()),
        most: Some(most).filter(|most| *most > 0),
    };
    let rewritten = context.store().rewrite_google(copy).await?;
    Ok(proto::RewriteResponse {
        total_bytes_rewritten: signed(rewritten.bytes),
        object_size: signed(rewritten.size),
        done: rewritten.object.is_some(),
        rewrite_token: rewritten.token.unwrap_or_default(),
        resource: rewritten.object.map(|copied| object(target, &copied)),
    })
}
