//! Describes, reads and removes objects over gRPC.

use std::ops::Range;

use futures::stream;

use super::call::Answers;
use super::convert::{object, signed, size};
use super::{Grpc, proto};
use crate::fault::About;
use tidegate_core::backend::{Attempt, Body, Fault, FaultKind, not_removed, replaced, same_or_replaced};
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;
use tidegate_http::{BodyFailure, download};

fn odd(message: &'static str) -> Fault {
    Fault::new(FaultKind::Transient, message)
}

impl Grpc {
    pub(crate) async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        let request = proto::GetObjectRequest {
            bucket: self.bucket.to_string(),
            object: key.to_owned(),
            ..proto::GetObjectRequest::default()
        };
        object(self.caller.ask("GetObject", About::Object, &request, attempt).await?)
    }

    pub(crate) async fn delete(
        &self,
        key: &str,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<(), Fault> {
        let request = proto::DeleteObjectRequest {
            bucket: self.bucket.to_string(),
            object: key.to_owned(),
            if_generation_match: same.and_then(|same| same.version.as_ref()?.parse().ok()),
            ..proto::DeleteObjectRequest::default()
        };
        match self.caller.ask::<()>("DeleteObject", About::Object, &request, attempt).await {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(()),
            answer => answer.map_err(|fault| not_removed(fault, same)),
        }
    }

    pub(crate) async fn get(
        &self,
        key: &str,
        asked: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        if let Some(range) = asked.clone().filter(Range::is_empty) {
            // A `read_limit` of 0 means no limit.
            return download::nothing(self.head(key, attempt).await?, range, same);
        }
        let range = asked.unwrap_or(0..u64::MAX);
        let (read_offset, end) = (signed(range.start), signed(range.end));
        let request = proto::ReadObjectRequest {
            bucket: self.bucket.to_string(),
            object: key.to_owned(),
            read_offset,
            if_generation_match: same.and_then(|same| same.version.as_ref()?.parse().ok()),
            read_limit: if end == i64::MAX { 0 } else { end - read_offset },
            ..proto::ReadObjectRequest::default()
        };
        let request = super::frame::whole(&request);
        let mut answers: Answers<proto::ReadObjectResponse> = self
            .caller
            .call("ReadObject", About::Object, request, BodyFailure::default(), attempt)
            .await
            .map_err(replaced(same))?;
        let first = answers
            .next()
            .await
            .map_err(replaced(same))?
            .ok_or_else(|| odd("the store's answer has no message"))?;
        let described =
            first.metadata.clone().ok_or_else(|| odd("the store does not describe the object"))?;
        let object = same_or_replaced(object(described)?, same)?;
        let whole = object.size;
        let sent = match &first.content_range {
            Some(sent) => size(sent.start)?..size(sent.end)?,
            // May be missing for a whole object, and for an empty one.
            None => 0..whole,
        };
        let range = download::within(range, whole)?;
        if sent != range {
            let message = format!(
                "the store sent bytes {}..{} of {whole} where {}..{} were asked for",
                sent.start, sent.end, range.start, range.end
            );
            return Err(Fault::new(FaultKind::Transient, message));
        }
        let pieces = stream::try_unfold((answers, Some(first)), |(mut answers, first)| async move {
            let message = match first {
                Some(first) => Some(first),
                None => answers.next().await?,
            };
            let Some(message) = message else { return Ok(None) };
            // While the store looks for more, it sends messages without bytes to show that it is at work.
            let bytes = message.checksummed_data.map(checked).transpose()?.unwrap_or_default();
            Ok(Some((bytes, (answers, None))))
        });
        let stream = download::exactly(range.end - range.start, pieces);
        Ok(Body { object, range, ignored_range: false, stream })
    }
}

/// A message's bytes; fails if they do not match its checksum.
fn checked(data: proto::ChecksummedData) -> Result<bytes::Bytes, Fault> {
    let ours = Checksum::of(Algorithm::Crc32c, &data.content).value();
    match data.crc32c.map(u64::from).filter(|theirs| *theirs != ours) {
        None => Ok(data.content),
        Some(theirs) => {
            let message = format!("the store's crc32c of the bytes is {theirs:#010x}, ours is {ours:#010x}");
            Err(Fault::new(FaultKind::Integrity, message))
        }
    }
}
