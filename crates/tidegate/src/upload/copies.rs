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

/// The parts of an object, whole and in ascending order.
#[derive(Debug, PartialEq)]
pub(super) enum Parts {
    /// Sent from here; with the checksum of all their bytes.
    Sent(Vec<Receipt>, Checksum),
    /// Copied by the store; with the checksum that the store has reported of all their bytes.
    Copied(Vec<StoredPart>, Option<Checksum>),
}

impl Parts {
    /// Bytes of all parts together.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Sent(_, checksum) => checksum.covers(),
            Self::Copied(parts, _) => parts.iter().map(|part| part.size).sum(),
        }
    }

    pub(super) fn checksum(&self) -> Option<Checksum> {
        match self {
            Self::Sent(_, checksum) => Some(*checksum),
            Self::Copied(_, checksum) => *checksum,
        }
    }

    async fn complete(&self, upload: &Upload, session: &Session) -> Result<Object, Fault> {
        let (backend, options) = (&upload.backend, &upload.options);
        match self {
            Self::Sent(parts, checksum) => backend.complete(session, parts, checksum, options).await,
            Self::Copied(parts, checksum) => {
                backend.complete_copy(session, parts, checksum.as_ref(), options).await
            }
        }
    }

    /// The same parts with the tags that the session lists; the error is the number of a part that is missing
    /// or has other bytes.
    fn kept(&self, listed: &BTreeMap<u32, StoredPart>) -> Result<Self, u32> {
        Ok(match self {
            Self::Sent(parts, checksum) => {
                let kept = |part: &Receipt| {
                    listed.get(&part.number).and_then(|there| kept(part, there)).ok_or(part.number)
                };
                Self::Sent(parts.iter().map(kept).collect::<Result<_, _>>()?, *checksum)
            }
            Self::Copied(parts, checksum) => {
                let kept = |part: &StoredPart| {
                    listed.get(&part.number).and_then(|there| kept_copy(part, there)).ok_or(part.number)
                };
                Self::Copied(parts.iter().map(kept).collect::<Result<_, _>>()?, *checksum)
            }
        })
    }
}

/// The parts that a session still has, of those that it had acknowledged.
enum Kept {
    /// All parts, each as the copy that is there.
    Copies(Parts),
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
    pub(super) async fn publish(&self, session: &Session, mut parts: Parts) -> Result<Made<Object>, Failure> {
        let began = Instant::now();
        let mut before: Option<Failure> = None;
        let mut left = self.requests.retry.policy.attempts;
        loop {
            let complete = || self.publishing.watch(parts.complete(self, session));
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
        let list = || self.backend.parts(session);
        // If that fails as well, the first failure is reported.
        let listed = self.requests.send(Operation::List, None, None, list).await.ok()?;
        let there = listed.into_iter().find(|part| part.number == number && !part.etag.is_empty())?;
        let sent =
            Receipt { number, size: payload.len(), etag: String::new(), checksum: payload.checksum()? };
        kept(&sent, &there)
    }

    /// Asks the store which of these parts it has now.
    async fn kept(&self, session: &Session, parts: &Parts) -> Result<Kept, Failure> {
        let list = || self.backend.parts(session);
        let listed = match self.requests.send(Operation::List, None, None, list).await {
            Ok(listed) => listed,
            Err(failure) if failure.fault.kind == FaultKind::Unsupported => return Ok(Kept::Unknown),
            Err(failure) => return Err(failure),
        };
        let listed: BTreeMap<u32, StoredPart> = listed.into_iter().map(|part| (part.number, part)).collect();
        Ok(parts.kept(&listed).map_or_else(Kept::Lacks, Kept::Copies))
    }
}

/// The receipt of the listed copy, if it has the same bytes.
fn kept(receipt: &Receipt, there: &StoredPart) -> Option<Receipt> {
    let agrees = there.checksum.as_ref().is_none_or(|sum| receipt.checksum.compare(sum) != Some(false));
    if there.size != receipt.size || !agrees {
        return None;
    }
    Some(Receipt { etag: tag(&receipt.etag, there), ..receipt.clone() })
}

/// The same for a part that the store has copied.
fn kept_copy(part: &StoredPart, there: &StoredPart) -> Option<StoredPart> {
    let agrees =
        part.checksum.as_ref().zip(there.checksum.as_ref()).is_none_or(|(ours, theirs)| ours == theirs);
    let is_same = there.size == part.size && agrees;
    is_same.then(|| StoredPart { etag: tag(&part.etag, there), ..part.clone() })
}

/// The tag of the listed copy. Some listings quote tags, others do not.
fn tag(known: &str, there: &StoredPart) -> String {
    let same = there.etag.trim_matches('"') == known.trim_matches('"');
    if same { known } else { &there.etag }.to_owned()
}
