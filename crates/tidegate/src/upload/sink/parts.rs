//! Stores parts in a session that takes them in any order.

use std::ops::Range;

use crate::backend::{CopySource, FaultKind, PartSource, Receipt, Session};
use crate::engine::limiter::Permit;
use crate::memory::payload::Payload;
use crate::types::error::{ErrorKind, Operation, Result};
use crate::upload::publish::kept;
use crate::upload::session::Upload;

impl Upload {
    /// Stores one part, with retries.
    pub(in crate::upload) async fn part(
        &self,
        number: u32,
        range: Range<u64>,
        payload: Payload,
        permit: Option<Permit>,
    ) -> Result<Receipt> {
        let session = self.session().await?;
        let receipt = self
            .requests
            .send_part(&payload, permit, self.hedge, |payload, attempt| {
                let (session, offset) = (&session, range.start);
                self.given_up.watch(async move {
                    let parts = self.backend.need_parts()?;
                    parts.part(session, number, offset, payload.into(), attempt).await
                })
            })
            .await;
        let receipt = match receipt {
            Err(failure) if failure.fault.kind == FaultKind::NotAStore => {
                self.listed_part(&session, number, &payload).await.ok_or(failure)
            }
            sent => sent,
        };
        let receipt = receipt
            .map_err(|failure| self.failed(failure, Operation::Part).at_part(number, range.clone()))?;
        if receipt.checksum.is_none() {
            let message = "the receipt has no checksum of the bytes that were sent";
            return Err(self.error(ErrorKind::Integrity, Operation::Part, message).at_part(number, range));
        }
        self.stored(Operation::Part, (receipt.number, receipt.size), number, range)?;
        Ok(receipt)
    }

    /// Has the store copy one part.
    pub(in crate::upload) async fn copy_part(
        &self,
        from: &CopySource,
        number: u32,
        range: Range<u64>,
        permit: Permit,
    ) -> Result<Receipt> {
        let session = self.session().await?;
        let copy = |attempt| {
            let (session, offset) = (&session, range.start);
            let source = PartSource::CopyOf(from, range.clone());
            self.given_up.watch(async move {
                self.backend.need_parts()?.part(session, number, offset, source, attempt).await
            })
        };
        let sent = self.requests.send(Operation::Copy, None, Some(permit), copy).await;
        let part =
            sent.map_err(|failure| self.failed(failure, Operation::Copy).at_part(number, range.clone()))?;
        self.stored(Operation::Copy, (part.number, part.size), number, range)?;
        Ok(part)
    }

    /// The receipt of a part that the session lists, where the answer to the part's own request proves
    /// nothing.
    async fn listed_part(&self, session: &Session, number: u32, payload: &Payload) -> Option<Receipt> {
        let list = |attempt| async move { self.backend.need_parts()?.stored_parts(session, attempt).await };
        // If that fails as well, the first failure is reported.
        let listed = self.requests.send(Operation::List, None, None, list).await.ok()?;
        let mut copies = listed.into_iter().filter(|part| part.number == number && !part.etag.is_empty());
        let checksum = Some(payload.checksum()?);
        let sent = Receipt { number, size: payload.len(), etag: String::new(), checksum };
        copies.find_map(|there| kept(&sent, &there, self.points.are_shared()))
    }

    /// Counts a part as acknowledged. Fails where the number or size that the store reports is not what was
    /// sent.
    fn stored(&self, operation: Operation, told: (u32, u64), number: u32, range: Range<u64>) -> Result<()> {
        let bytes = range.end - range.start;
        if told != (number, bytes) {
            // With a different part the object would never be whole.
            let message = format!("the receipt is one of part {} with {} bytes", told.0, told.1);
            return Err(self.error(ErrorKind::Integrity, operation, message).at_part(number, range));
        }
        self.requests.progress.acknowledged(bytes);
        self.requests.progress.parts_stored(1);
        Ok(())
    }
}
