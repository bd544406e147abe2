//! Completing with the copies that the store has kept.
//!
//! A part may have been sent twice: as a hedge, or again after a request that was given up. Whichever
//! copy arrives last is the one that the store has, and where tags differ between copies of the same
//! bytes, the receipt that we hold may be of the other one. The store compares, so nothing wrong is
//! published: it refuses, and is asked what it has.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tracing::debug;

use super::upload::Upload;
use crate::backend::{Fault, FaultKind, Receipt, Session, StoredPart};
use crate::checksum::Checksum;
use crate::error::Operation;
use crate::object::Object;
use crate::request::{Failure, Made};

/// What a session has of the parts that it had acknowledged.
enum Kept {
    /// The receipts of the copies that are there.
    Copies(Vec<Receipt>),
    /// Not this one, or not its bytes.
    Lacks(u32),
    /// The store does not tell.
    Unknown,
}

impl Upload {
    /// Asks for the completion of `session` from `parts`; with the tags of the copies that the store
    /// has, where it has others than those that were acknowledged last. Each copy can arrive once, so
    /// this ends; a store that never stops changing its mind is asked as often as one that fails.
    pub(super) async fn publish(
        &self,
        session: &Session,
        mut parts: Vec<Receipt>,
        checksum: &Checksum,
    ) -> Result<Made<Object>, Failure> {
        let began = Instant::now();
        let mut before: Option<Failure> = None;
        let mut left = self.requests.retry.policy.attempts;
        loop {
            let complete = || self.backend.complete(session, &parts, checksum, &self.options);
            let sent = self.requests.make(Operation::Complete, None, None, complete).await;
            let mut failure = match sent.map(|made| made.after(before.as_ref())) {
                // It is asked for the object, where it keeps what that is known by: a store that was stopped
                // while it completed may take that for done, or one that is completing it yet for another
                // process (versitygw 1.8.0 does).
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
                    // No session is lost: whoever sends it all again is refused again.
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
                    // That the listing is in doubt says nothing of the completion.
                    return Err(Failure { fault, attempts, elapsed, ..failure });
                }
            }
            debug!(object = %self.requests.object, "completing with the copies that the store has kept");
        }
    }

    /// What the store has now of these parts.
    async fn kept(&self, session: &Session, parts: &[Receipt]) -> Result<Kept, Failure> {
        let list = || self.backend.parts(session);
        let listed = match self.requests.send(Operation::List, None, None, list).await {
            Ok(listed) => listed,
            Err(failure) if failure.fault.kind == FaultKind::Unsupported => return Ok(Kept::Unknown),
            Err(failure) => return Err(failure),
        };
        let listed: BTreeMap<u32, StoredPart> = listed.into_iter().map(|part| (part.number, part)).collect();
        let kept = |receipt: &Receipt| {
            let there = listed.get(&receipt.number);
            there.and_then(|there| kept(receipt, there)).ok_or(receipt.number)
        };
        let kept: Result<_, u32> = parts.iter().map(kept).collect();
        Ok(kept.map_or_else(Kept::Lacks, Kept::Copies))
    }
}

/// The receipt of the copy that is there, if it is one of the same bytes.
fn kept(receipt: &Receipt, there: &StoredPart) -> Option<Receipt> {
    let agrees = there.checksum.as_ref().is_none_or(|sum| receipt.checksum.agrees_with(sum));
    if there.size != receipt.size || !agrees {
        return None;
    }
    // Listings quote tags, or do not.
    let same = there.etag.trim_matches('"') == receipt.etag.trim_matches('"');
    let etag = if same { receipt.etag.clone() } else { there.etag.clone() };
    Some(Receipt { etag, ..receipt.clone() })
}
