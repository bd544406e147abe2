//! Completing with the copies that the store has kept.
//!
//! A part may have been sent twice: as a hedge, or again after a request that was given up. Whichever
//! copy arrives last is the one that the store has, and where tags differ between copies of the same
//! bytes, the receipt that we hold may be of the other one. The store compares, so nothing wrong is
//! published: it refuses, and is asked what it has.

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
    /// Copied by the store; with the checksum that it has told of all their bytes.
    Copied(Vec<StoredPart>, Option<Checksum>),
}

impl Parts {
    /// Bytes of all together.
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

    /// The same parts, as the session lists them; the number of one that it has not, or not its bytes.
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

/// What a session has of the parts that it had acknowledged.
enum Kept {
    /// The copies that are there.
    Copies(Parts),
    /// Not this one, or not its bytes.
    Lacks(u32),
    /// The store does not tell.
    Unknown,
}

impl Upload {
    /// Asks for the completion of `session` from `parts`; with the tags of the copies that the store
    /// has, where it has others than those that were acknowledged last. Each copy can arrive once, so
    /// this ends; a store that never stops changing its mind is asked as often as one that fails.
    pub(super) async fn publish(&self, session: &Session, mut parts: Parts) -> Result<Made<Object>, Failure> {
        let began = Instant::now();
        let mut before: Option<Failure> = None;
        let mut left = self.requests.retry.policy.attempts;
        loop {
            let complete = || self.publishing.watch(parts.complete(self, session));
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

    /// The receipt of a part that the session lists, where the answer to the request that sent it proves nothing.
    pub(super) async fn listed_part(
        &self,
        session: &Session,
        number: u32,
        payload: &Payload,
    ) -> Option<Receipt> {
        let list = || self.backend.parts(session);
        // Where that fails as well, the first failure is the one to tell.
        let listed = self.requests.send(Operation::List, None, None, list).await.ok()?;
        let there = listed.into_iter().find(|part| part.number == number && !part.etag.is_empty())?;
        let sent =
            Receipt { number, size: payload.len(), etag: String::new(), checksum: payload.checksum()? };
        kept(&sent, &there)
    }

    /// What the store has now of these parts.
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

/// The receipt of the copy that is there, if it is one of the same bytes.
fn kept(receipt: &Receipt, there: &StoredPart) -> Option<Receipt> {
    let agrees = there.checksum.as_ref().is_none_or(|sum| receipt.checksum.compare(sum) != Some(false));
    if there.size != receipt.size || !agrees {
        return None;
    }
    Some(Receipt { etag: tag(&receipt.etag, there), ..receipt.clone() })
}

/// The same of a part that the store has copied.
fn kept_copy(part: &StoredPart, there: &StoredPart) -> Option<StoredPart> {
    let agrees =
        part.checksum.as_ref().zip(there.checksum.as_ref()).is_none_or(|(ours, theirs)| ours == theirs);
    let is_same = there.size == part.size && agrees;
    is_same.then(|| StoredPart { etag: tag(&part.etag, there), ..part.clone() })
}

/// The tag of a copy that is there. Listings quote tags, or do not.
fn tag(known: &str, there: &StoredPart) -> String {
    let same = there.etag.trim_matches('"') == known.trim_matches('"');
    if same { known } else { &there.etag }.to_owned()
}
