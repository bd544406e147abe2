//! Publishes an object: in one request, or from the parts of a session.
//!
//! A part may have been sent twice: as a hedge, or again after a request that was given up. The store keeps
//! the copy that arrives last, and where copies of the same bytes have different tags, our receipt may be of
//! the other copy. The store compares the tags, so nothing wrong is published: it refuses the completion, and
//! is asked which copies it has.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tracing::debug;

use super::session::Upload;
use crate::backend::{Fault, FaultKind, Receipt, Session, StoredPart};
use crate::engine::request::{Doubt, Failure, Made};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::error::{Operation, Result};
use crate::types::object::Object;

/// The parts that a session still has, of those that it had acknowledged.
pub(super) enum RemainingParts {
    /// All parts, each as the copy that is there.
    Copies(Vec<Receipt>),
    /// This part is missing, or has other bytes.
    Lacks(u32),
    /// The store does not list the parts of a session.
    Unknown,
}

impl Upload {
    /// Writes the whole object in one request.
    pub(crate) async fn put(&self, payload: Payload) -> Result<Object> {
        let began = Instant::now();
        let put = |attempt| {
            self.publishing.watch(self.backend.put(&self.key, payload.clone(), &self.options, attempt))
        };
        let (object, attempts) = match self.requests.make(Operation::Put, Some(&payload), None, put).await {
            Ok(made) => (made.answer, made.attempts),
            Err(failure) if failure.doubt > Doubt::None || self.persistence().may_be_published() => {
                let (size, checksum) = (payload.len(), payload.checksum());
                let attempts = failure.attempts;
                (Box::pin(self.settle(failure, Operation::Put, size, checksum)).await?, attempts)
            }
            Err(failure) => return Err(self.failed(failure, Operation::Put)),
        };
        self.requests.progress.acknowledged(payload.len());
        self.verify(object, payload.len(), payload.checksum(), Operation::Put)
            .map_err(|error| error.after(attempts, began.elapsed()))
    }

    /// Publishes the object from its parts. The checksum of the whole is not always known of copied parts.
    pub(crate) async fn complete(&self, parts: Vec<Receipt>, checksum: Option<Checksum>) -> Result<Object> {
        let session = self.session().await?;
        if self.is_appended(&session)
            && let Some(whole) = checksum
        {
            let number = parts.last().map_or(1, |part| part.number);
            return self.end_appended(number, whole).await;
        }
        let began = Instant::now();
        let size = parts.iter().map(|part| part.size).sum();
        let (object, attempts) = match self.publish(&session, parts, checksum).await {
            Ok(made) => (made.answer, made.attempts),
            // A session that is gone or lacks parts may have been completed by this very attempt: something
            // between here and the store may have sent the request twice.
            Err(failure)
                if failure.doubt > Doubt::None
                    || matches!(failure.fault.kind, FaultKind::NoSession | FaultKind::PartMismatch)
                    || self.persistence().may_be_published() =>
            {
                let attempts = failure.attempts;
                (Box::pin(self.settle(failure, Operation::Complete, size, checksum)).await?, attempts)
            }
            Err(failure) => return Err(self.failed(failure, Operation::Complete)),
        };
        self.session_ended().await;
        self.verify(object, size, checksum, Operation::Complete)
            .map_err(|error| error.after(attempts, began.elapsed()))
    }

    /// Completes `session` from `parts`. Where the store refuses, because it has other copies than those that
    /// were acknowledged last, completes with the tags of the copies that it has. Each copy can arrive only
    /// once, so this ends; a store that keeps changing its answer is asked as often as a failed request is
    /// retried.
    async fn publish(
        &self,
        session: &Session,
        mut parts: Vec<Receipt>,
        checksum: Option<Checksum>,
    ) -> Result<Made<Object>, Failure> {
        let began = Instant::now();
        let mut before: Option<Failure> = None;
        let mut left = self.requests.retry.policy.attempts;
        loop {
            let complete = |attempt| {
                let (parts, checksum) = (&parts, checksum.as_ref());
                self.publishing.watch(async move {
                    let store = self.backend.need_parts()?;
                    store.complete(session, parts, checksum, &self.options, attempt).await
                })
            };
            let sent = self.requests.make(Operation::Complete, None, None, complete).await;
            let mut failure = match sent.map(|made| made.after(before.as_ref())) {
                // Where the store keeps writer tokens, it is asked for the object: a store that was stopped
                // while it completed may report that as done, and so may one that is still completing for
                // another process (versitygw 1.8.0 does).
                Ok(made)
                    if (made.doubt > Doubt::None || self.persistence().may_be_published())
                        && self.backend.capabilities().tokens =>
                {
                    let message = "the store has answered that the object is published, and it is not there";
                    let (fault, attempts) = (Fault::new(FaultKind::NoSession, message), made.attempts);
                    return Err(Failure { fault, attempts, elapsed: began.elapsed(), doubt: Doubt::Unseen });
                }
                Ok(made) => return Ok(made),
                Err(failure) => failure.after(before.take()),
            };
            left = left.saturating_sub(1);
            if failure.fault.kind != FaultKind::PartMismatch || left == 0 {
                return Err(failure);
            }
            match self.kept(session, &parts).await {
                Ok(RemainingParts::Copies(kept)) if kept != parts => (parts, before) = (kept, Some(failure)),
                Ok(RemainingParts::Copies(_)) => {
                    // The session is not lost: the same parts, sent again, would be refused again.
                    failure.fault.kind = FaultKind::Invalid;
                    let message = &failure.fault.message;
                    failure.fault.message = format!("the store refuses the parts that it has: {message}");
                    return Err(failure);
                }
                Ok(RemainingParts::Unknown) => return Err(failure),
                Ok(RemainingParts::Lacks(number)) => {
                    let lacks = format!("the session has lost part {number}, which it had acknowledged");
                    failure.fault.message = format!("{lacks}: {}", failure.fault.message);
                    return Err(failure);
                }
                Err(unlisted) => {
                    let Failure { mut fault, attempts, elapsed, .. } = unlisted;
                    fault.message = format!("{}; listing the parts: {}", failure.fault, fault.message);
                    // A doubtful listing says nothing about the completion.
                    return Err(Failure { fault, attempts, elapsed, ..failure });
                }
            }
            debug!(object = %self.requests.object, "completing with the copies that the store has kept");
        }
    }

    /// Asks the store which of these parts it has now.
    pub(super) async fn kept(&self, session: &Session, parts: &[Receipt]) -> Result<RemainingParts, Failure> {
        let list = |attempt| async move { self.backend.need_parts()?.stored_parts(session, attempt).await };
        let listed = match self.requests.send(Operation::List, None, None, list).await {
            Ok(listed) => listed,
            Err(failure) if failure.fault.kind == FaultKind::Unsupported => {
                return Ok(RemainingParts::Unknown);
            }
            Err(failure) => return Err(failure),
        };
        let mut copies = BTreeMap::<u32, Vec<StoredPart>>::new();
        for part in listed {
            copies.entry(part.number).or_default().push(part);
        }
        // Of several writers, each may have sent a part of this number: only what proves the bytes counts.
        let is_shared = self.points.are_shared();
        let there = |part: &Receipt| {
            let mut copies = copies.get(&part.number).into_iter().flatten();
            copies.find_map(|there| kept(part, there, is_shared)).ok_or(part.number)
        };
        let kept: Result<Vec<Receipt>, u32> = parts.iter().map(there).collect();
        Ok(kept.map_or_else(RemainingParts::Lacks, RemainingParts::Copies))
    }
}

/// The receipt of the listed copy, if it has the same bytes as far as both checksums tell. With `is_shared`, another writer
/// may have sent it: then the same tag or the same checksum must say that.
pub(super) fn kept(receipt: &Receipt, there: &StoredPart, is_shared: bool) -> Option<Receipt> {
    let sums = receipt.checksum.as_ref().zip(there.checksum.as_ref());
    let compared = sums.and_then(|(ours, theirs)| ours.compare(theirs));
    // Some listings quote tags, others do not.
    let same = there.etag.trim_matches('"') == receipt.etag.trim_matches('"');
    let is_proven = same || compared == Some(true);
    if there.size != receipt.size || compared == Some(false) || is_shared && !is_proven {
        return None;
    }
    let etag = if same { &receipt.etag } else { &there.etag };
    Some(Receipt { etag: etag.clone(), ..receipt.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::checksum::Algorithm;

    #[test]
    fn a_part_that_another_writer_may_have_sent_counts_only_if_that_is_proven() {
        let sum = |bytes: &[u8]| Checksum::of(Algorithm::Crc64Nvme, bytes);
        let receipt = Receipt { number: 1, size: 3, etag: "a".to_owned(), checksum: Some(sum(b"abc")) };
        let listed = |etag: &str, checksum: Option<Checksum>| {
            let part = StoredPart::new(1, 3, etag);
            StoredPart { checksum: checksum.map(|sum| sum.base64()), ..part }
        };
        for (there, alone, shared) in [
            (listed("a", None), true, true),
            (listed("\"a\"", None), true, true),
            (listed("b", None), true, false),
            (listed("b", Some(sum(b"abc"))), true, true),
            (listed("b", Some(sum(b"xyz"))), false, false),
            (listed("a", Some(sum(b"xyz"))), false, false),
        ] {
            let counts = |is_shared| kept(&receipt, &there, is_shared).is_some();
            assert_eq!((counts(false), counts(true)), (alone, shared), "{there:?}");
        }
    }
}
