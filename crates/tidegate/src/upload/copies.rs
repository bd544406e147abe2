//! Completes an upload with the copies of parts that the store has kept.
//!
//! A part may have been sent twice: as a hedge, or again after a request that was given up. The store keeps
//! the copy that arrives last, and where copies of the same bytes have different tags, our receipt may be of
//! the other copy. The store compares the tags, so nothing wrong is published: it refuses the completion, and
//! is asked which copies it has.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tracing::debug;

use super::state::Upload;
use crate::backend::{Fault, FaultKind, Receipt, Session, StoredPart};
use crate::engine::request::{Failure, Made};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::error::Operation;
use crate::types::object::Object;

/// The parts that a session still has, of those that it had acknowledged.
enum Kept {
    /// All parts, each as the copy that is there.
    Copies(Vec<Receipt>),
    /// This part is missing, or has other bytes.
    Lacks(u32),
    /// The store does not list the parts of a session.
    Unknown,
}

impl Upload {
    /// Completes `session` from `parts`. Where the store refuses, because it has other copies than those that
    /// were acknowledged last, completes with the tags of the copies that it has. Each copy can arrive only
    /// once, so this ends; a store that keeps changing its answer is asked as often as a failed request is
    /// retried.
    pub(super) async fn publish(
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
                    if (made.in_doubt || self.may_be_published) && self.backend.capabilities().tokens =>
                {
                    let message = "the store has answered that the object is published, and it is not there";
                    let (fault, attempts) = (Fault::new(FaultKind::NoSession, message), made.attempts);
                    let elapsed = began.elapsed();
                    return Err(Failure {
                        fault,
                        attempts,
                        elapsed,
                        in_doubt: true,
                        late: true,
                        ran_into: true,
                        unseen: true,
                    });
                }
                Ok(made) => return Ok(made),
                Err(failure) => failure.after(before.take()),
            };
            left = left.saturating_sub(1);
            if failure.fault.kind != FaultKind::PartMismatch || left == 0 {
                return Err(failure);
            }
            match self.kept(session, &parts).await {
                Ok(Kept::Copies(kept)) if kept != parts => (parts, before) = (kept, Some(failure)),
                Ok(Kept::Copies(_)) => {
                    // The session is not lost: the same parts, sent again, would be refused again.
                    failure.fault.kind = FaultKind::Invalid;
                    let message = &failure.fault.message;
                    failure.fault.message = format!("the store refuses the parts that it has: {message}");
                    return Err(failure);
                }
                Ok(Kept::Unknown) => return Err(failure),
                Ok(Kept::Lacks(number)) => {
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

    /// The receipt of a part that the session lists, where the answer to the part's own request proves
    /// nothing.
    pub(super) async fn listed_part(
        &self,
        session: &Session,
        number: u32,
        payload: &Payload,
    ) -> Option<Receipt> {
        let list = |attempt| async move { self.backend.need_parts()?.stored_parts(session, attempt).await };
        // If that fails as well, the first failure is reported.
        let listed = self.requests.send(Operation::List, None, None, list).await.ok()?;
        let there = listed.into_iter().find(|part| part.number == number && !part.etag.is_empty())?;
        let checksum = Some(payload.checksum()?);
        kept(&Receipt { number, size: payload.len(), etag: String::new(), checksum }, &there)
    }

    /// Asks the store which of these parts it has now.
    async fn kept(&self, session: &Session, parts: &[Receipt]) -> Result<Kept, Failure> {
        let list = |attempt| async move { self.backend.need_parts()?.stored_parts(session, attempt).await };
        let listed = match self.requests.send(Operation::List, None, None, list).await {
            Ok(listed) => listed,
            Err(failure) if failure.fault.kind == FaultKind::Unsupported => return Ok(Kept::Unknown),
            Err(failure) => return Err(failure),
        };
        let listed: BTreeMap<u32, StoredPart> = listed.into_iter().map(|part| (part.number, part)).collect();
        let there =
            |part: &Receipt| listed.get(&part.number).and_then(|there| kept(part, there)).ok_or(part.number);
        let kept: Result<Vec<Receipt>, u32> = parts.iter().map(there).collect();
        Ok(kept.map_or_else(Kept::Lacks, Kept::Copies))
    }
}

/// The receipt of the listed copy, if it has the same bytes as far as both checksums tell.
fn kept(receipt: &Receipt, there: &StoredPart) -> Option<Receipt> {
    let sums = receipt.checksum.as_ref().zip(there.checksum.as_ref());
    let agrees = sums.is_none_or(|(ours, theirs)| ours.compare(theirs) != Some(false));
    if there.size != receipt.size || !agrees {
        return None;
    }
    // Some listings quote tags, others do not.
    let same = there.etag.trim_matches('"') == receipt.etag.trim_matches('"');
    let etag = if same { &receipt.etag } else { &there.etag };
    Some(Receipt { etag: etag.clone(), ..receipt.clone() })
}
