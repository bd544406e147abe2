//! Uploads in blocks ("Put Block", "Put Block List").
//!
//! The service has no upload sessions. A session is random bytes in the ids of its blocks; opening it asks only whether
//! the blob has uncommitted blocks. A session ends when any writer commits the blob, which discards the blocks that the
//! commit does not name, or a week after its last block was sent ("Put Block").

use std::collections::HashMap;

use bytes::Bytes;
use http::Method;

use super::attributes::{from_headers, to_headers};
use super::block_list::{Block, BlockList, ListOf, block_list};
use super::blocks::UploadBlocks;
use super::checksum_entry::ChecksumEntry;
use super::compared::{ComparedContent, write};
use super::request::AzureRequest;
use super::{Azure, AzureContainer};
use tidegate_core::backend::{
    Attempt, Fault, FaultKind, Feature, Held, Receipt, Session, StoredPart, WriteOptions,
};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;
use tidegate_http::confirm::CONFIRMING;
use tidegate_http::proof::written;

/// The most blocks that a blob is committed of ("Scalability and performance targets for Blob Storage").
pub(super) const MOST: u32 = 50_000;

/// Why no session is aborted, for users.
pub(super) const NO_ABORT: &str = "Azure Blob Storage has no abort: it discards uncommitted blocks itself, a week after \
                                   the last of them was sent, or when the blob is written";

pub(super) async fn open(container: &AzureContainer, key: &str, attempt: Attempt) -> Result<Session, Fault> {
    let there = match uncommitted(container, key, attempt).await {
        // Credentials that may only write (`sp=cw`): mostly there are no other blocks, and ids of the usual length fit.
        Err(fault) if fault.kind == FaultKind::Denied => Vec::new(),
        there => there?,
    };
    let upload = UploadBlocks::new(there.first().map(|block| block.id.as_str()))?;
    Ok(Session { key: key.to_owned(), id: upload.session_id() })
}

/// The blob's uncommitted blocks; none if there is no such blob.
async fn uncommitted(container: &AzureContainer, key: &str, attempt: Attempt) -> Result<Vec<Block>, Fault> {
    match block_list(container, key, ListOf::Uncommitted, attempt).await {
        Ok(list) => Ok(list.blocks),
        Err(fault) if fault.kind == FaultKind::NotFound && fault.answered => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

pub(super) async fn part(
    container: &AzureContainer,
    session: &Session,
    number: u32,
    payload: Payload,
    attempt: Attempt,
) -> Result<Receipt, Fault> {
    let upload = UploadBlocks::of(session)?;
    if !(1..=MOST).contains(&number) {
        let message = format!("a blob has blocks 1 to {MOST}, and no block {number}");
        return Err(Fault::new(FaultKind::Invalid, message));
    }
    let checksum = super::checksum_of(&payload).await?;
    let (id, size) = (upload.id(number, &checksum), payload.len());
    // A block has at least one byte; one without bytes is left out of the commit.
    if size > 0 {
        let url = container.url.blob(&session.key, &[("blockid", &id), ("comp", "block")])?;
        let request = || AzureRequest::new(Method::PUT, url.clone(), attempt);
        write(&container.shared, request, ComparedContent::Payload(payload, checksum)).await?;
    }
    Ok(Receipt { number, size, etag: id, checksum: Some(checksum) })
}

/// The uncommitted blocks of a session, with their parts' numbers. A part that was sent with several contents has
/// several.
pub(super) async fn stored_parts(
    container: &AzureContainer,
    session: &Session,
    attempt: Attempt,
) -> Result<Vec<StoredPart>, Fault> {
    let upload = UploadBlocks::of(session)?;
    let named = |block: Block| {
        let name = upload.read(&block.id)?;
        let checksum = Some(name.checksum(block.size).base64());
        Some(StoredPart { number: name.number, size: block.size, etag: block.id, checksum })
    };
    let blocks = uncommitted(container, &session.key, attempt).await?;
    let mut parts: Vec<_> = blocks.into_iter().filter_map(named).collect();
    parts.sort_by_key(|part| part.number);
    Ok(parts)
}

pub(super) async fn held(
    container: &AzureContainer,
    session: &Session,
    attempt: Attempt,
) -> Result<Held, Fault> {
    let parts = stored_parts(container, session, attempt).await?;
    if parts.is_empty() {
        return Err(Fault::new(FaultKind::NoSession, "the blob has no uncommitted blocks of this upload"));
    }
    let bytes = parts.iter().map(|part| part.size).sum();
    Ok(Held { parts: Some(parts.len() as u64), bytes, initiator: None })
}

/// The checksum of all parts together. Fails if they are not the whole object with the checksum `whole`: the service
/// compares only each block.
fn combined(parts: &[Receipt], whole: Option<&Checksum>) -> Result<Checksum, Fault> {
    let invalid = |message: String| Fault::new(FaultKind::Invalid, message);
    if parts.is_empty() {
        return Err(invalid("an object has at least one part".to_owned()));
    }
    if parts.len() > MOST as usize {
        return Err(Fault::new(FaultKind::TooLarge, format!("a blob has {MOST} blocks at most")));
    }
    if !parts.is_sorted_by(|one, next| one.number < next.number) {
        return Err(invalid("the parts are not in ascending order".to_owned()));
    }
    let mut all = Algorithm::Crc64Nvme.empty();
    for part in parts {
        let checksum = part.checksum.filter(|checksum| checksum.algorithm() == all.algorithm());
        all = all.then(&checksum.ok_or_else(|| invalid(format!("part {} has no checksum", part.number)))?);
    }
    match whole {
        Some(whole) if whole.covers() != all.covers() => {
            Err(invalid(format!("the parts have {} bytes, and the object {}", all.covers(), whole.covers())))
        }
        Some(whole) if *whole != all => {
            let message =
                format!("the checksum of the parts together is {all}, that of the object is {whole}");
            Err(Fault::new(FaultKind::Integrity, message))
        }
        _ => Ok(all),
    }
}

/// The document that names the blocks. `Uncommitted`, because a block of the blob as it is now may have the same id.
fn document(parts: &[&Receipt]) -> Bytes {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for part in parts {
        text.extend(["<Uncommitted>", &part.etag, "</Uncommitted>"]);
    }
    text.push_str("</BlockList>");
    text.into()
}

pub(super) async fn complete(
    azure: &Azure,
    session: &Session,
    parts: &[Receipt],
    checksum: Option<&Checksum>,
    options: &WriteOptions,
    attempt: Attempt,
) -> Result<Object, Fault> {
    let container = &azure.container;
    let upload = UploadBlocks::of(session)?;
    let whole = combined(parts, checksum)?;
    if let Some(part) = parts.iter().find(|part| upload.read(&part.etag).is_none()) {
        let message = format!("the receipt of part {} names no block of this upload", part.number);
        return Err(Fault::new(FaultKind::PartMismatch, message));
    }
    let parts: Vec<&Receipt> = parts.iter().filter(|part| part.size > 0).collect();
    if parts.is_empty() {
        // A list of no blocks would be taken for an object as well, but is never sent: see `NO_ABORT`.
        return super::put_blob(
            azure,
            &session.key,
            Payload::from_memory(Vec::new(), whole),
            options,
            attempt,
        )
        .await;
    }
    let url = container.url.blob(&session.key, &[("comp", "blocklist")])?;
    let headers = to_headers(options, Some(&ChecksumEntry::of_blocks(whole)))?;
    let request = || {
        let request = AzureRequest::new(Method::PUT, url.clone(), attempt).of_much_work();
        AzureRequest { headers: headers.clone(), ..request }
    };
    let answer = match write(&container.shared, request, ComparedContent::Text(document(&parts))).await {
        Ok(answer) => answer,
        Err(fault) if fault.kind == FaultKind::PartMismatch => {
            return Err(not_there(container, session, &parts, fault, attempt).await);
        }
        Err(fault) => return Err(fault),
    };
    written(&answer.headers, b"")?;
    let told = Object {
        size: whole.covers(),
        token: options.token.clone(),
        attributes: options.attributes.clone(),
        ..from_headers(&session.key, &answer.headers)
    };
    let listed = block_list(container, &session.key, ListOf::Committed, attempt);
    match tokio::time::timeout(CONFIRMING, listed).await {
        Ok(Ok(list)) => {
            let object = confirmed(told, &parts, whole, &list)?;
            // The ids in the list have the checksums that were sent; a server that compares none confirms nothing.
            let has_compared = !container.shared.facts.lacks(Feature::ComparedChecksums);
            Ok(Object { crc64nvme: object.crc64nvme.filter(|_| has_compared), ..object })
        }
        Ok(Err(fault)) => {
            tracing::debug!(key = told.key, %fault, "the blocks of what was published are not known");
            Ok(told)
        }
        Err(_) => Ok(told),
    }
}

/// Compares what was published with the parts. A blob with another ETag is another writer's, from after ours.
fn confirmed(told: Object, parts: &[&Receipt], whole: Checksum, there: &BlockList) -> Result<Object, Fault> {
    if there.etag != told.etag {
        return Ok(told);
    }
    let sent = parts.iter().map(|part| (part.etag.as_str(), part.size));
    if !there.blocks.iter().map(|block| (block.id.as_str(), block.size)).eq(sent) {
        // Not to be tried again: the blocks are gone, and the blob has our token.
        let message =
            "the store has published other blocks than those that the commit named: remove the blob";
        return Err(Fault::new(FaultKind::Corrupted, message));
    }
    let size = there.size.unwrap_or(told.size);
    Ok(Object { size, crc64nvme: Some(whole.base64()), ..told })
}

/// The fault of a commit that the service refused, because it does not have the blocks.
async fn not_there(
    container: &AzureContainer,
    session: &Session,
    parts: &[&Receipt],
    mut fault: Fault,
    attempt: Attempt,
) -> Fault {
    let there = match stored_parts(container, session, attempt).await {
        Ok(there) => there,
        Err(unlisted) => {
            tracing::debug!(fault = %unlisted, "the blocks that the blob has are not known");
            return fault;
        }
    };
    let sizes: HashMap<&str, u64> = there.iter().map(|block| (block.etag.as_str(), block.size)).collect();
    let missing = parts.iter().find(|part| sizes.get(part.etag.as_str()) != Some(&part.size));
    match missing {
        Some(_) if there.is_empty() => {
            fault.kind = FaultKind::NoSession;
            fault.message = format!(
                "the uncommitted blocks of this upload are gone, because the blob was written by another commit or the \
                 blocks have expired: {}",
                fault.message
            );
        }
        Some(part) => fault.message = format!("the block of part {} is gone: {}", part.number, fault.message),
        None => {}
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(number: u32, bytes: &[u8]) -> Receipt {
        let checksum = Some(Checksum::of(Algorithm::Crc64Nvme, bytes));
        Receipt { number, size: bytes.len() as u64, etag: format!("b{number}"), checksum }
    }

    #[test]
    fn parts_that_are_not_the_whole_are_refused_before_the_commit() {
        let parts = [receipt(1, b"one"), receipt(3, b"two")];
        let whole = |bytes| Checksum::of(Algorithm::Crc64Nvme, bytes);
        assert_eq!(combined(&parts, Some(&whole(b"onetwo"))).unwrap(), whole(b"onetwo"));
        assert_eq!(combined(&parts, None).unwrap(), whole(b"onetwo"));
        let kind = |parts: &[Receipt], bytes| combined(parts, Some(&whole(bytes))).unwrap_err().kind;
        assert_eq!(kind(&parts, b"onetwX"), FaultKind::Integrity);
        assert_eq!(kind(&parts, b"onetwo!"), FaultKind::Invalid);
        assert_eq!(kind(&[], b""), FaultKind::Invalid);
        assert_eq!(kind(&[parts[1].clone(), parts[0].clone()], b"twoone"), FaultKind::Invalid);
        assert_eq!(kind(&[Receipt { checksum: None, ..receipt(1, b"one") }], b"one"), FaultKind::Invalid);
    }

    #[test]
    fn what_was_published_is_compared_unless_another_writer_came_after() {
        let parts = [receipt(1, b"one"), receipt(2, b"two")];
        let parts: Vec<&Receipt> = parts.iter().collect();
        let whole = Checksum::of(Algorithm::Crc64Nvme, b"onetwo");
        let told = Object { size: 6, etag: Some("\"1\"".into()), ..Object::default() };
        let blocks =
            |ids: &[&str]| ids.iter().map(|id| Block { id: (*id).into(), size: 3 }).collect::<Vec<_>>();
        let list = |etag: &str, ids: &[&str]| BlockList {
            blocks: blocks(ids),
            etag: Some(etag.into()),
            size: Some(6),
        };
        let object = confirmed(told.clone(), &parts, whole, &list("\"1\"", &["b1", "b2"])).unwrap();
        assert_eq!(object.matches(&whole), Some(true));
        for other in [&["b1"][..], &["b2", "b1"], &["b1", "b2", "b3"], &[]] {
            let fault = confirmed(told.clone(), &parts, whole, &list("\"1\"", other)).unwrap_err();
            assert!(!fault.kind.is_retriable(), "{fault}");
        }
        let replaced = confirmed(told.clone(), &parts, whole, &list("\"2\"", &["c1"])).unwrap();
        assert_eq!(replaced, told);
    }
}
