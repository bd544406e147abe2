//! Blocks of bytes in the memory store, with their checksums and ETags.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use super::MemoryPart;
use crate::backend::{Fault, FaultKind, Receipt};
use crate::memory::payload::Payload;
use crate::types::checksum::{Algorithm, Checksum, Hasher};
use crate::types::object::Object;

/// Bytes are kept in blocks of about this size, in bytes.
const BLOCK: usize = 256 << 10;

/// Copies a payload's bytes into blocks, and checks them against its checksum.
pub(super) async fn take_in(payload: &Payload) -> Result<(Vec<Bytes>, Checksum), Fault> {
    let mut hasher = Hasher::new(payload.algorithm());
    let mut blocks = Vec::new();
    let mut block = BytesMut::new();
    let mut stream = payload.stream();
    while let Some(piece) = stream.next().await {
        let piece =
            piece.map_err(|error| Fault::new(FaultKind::Source, error.to_string()).with_source(error))?;
        hasher.update(&piece);
        block.extend_from_slice(&piece);
        if block.len() >= BLOCK {
            blocks.push(block.split().freeze());
        }
    }
    if !block.is_empty() {
        blocks.push(block.freeze());
    }
    let checksum = hasher.finish();
    if payload.checksum().is_some_and(|claimed| claimed != checksum) {
        return Err(Fault::new(
            FaultKind::Integrity,
            "BadDigest: the bytes are not those that the checksum is of",
        ));
    }
    Ok((blocks, checksum))
}

pub(super) fn describe(checksum: &Checksum, parts: Option<usize>) -> Object {
    let mut object =
        Object { size: checksum.covers(), etag: Some(etag(checksum, parts)), ..Object::default() };
    match checksum.algorithm() {
        Algorithm::Crc64Nvme => object.crc64nvme = Some(checksum.base64()),
        Algorithm::Crc32c => object.crc32c = Some(checksum.base64()),
    }
    object
}

/// A quoted ETag made from the content; with `parts`, it ends with their number, as on S3.
pub(super) fn etag(checksum: &Checksum, parts: Option<usize>) -> String {
    let parts = parts.map_or_else(String::new, |parts| format!("-{parts}"));
    format!("\"{:016x}{:016x}{parts}\"", checksum.value(), checksum.covers())
}

/// The receipt of a part that was sent.
pub(super) fn sent(number: u32, checksum: Checksum) -> Receipt {
    Receipt { number, size: checksum.covers(), etag: etag(&checksum, None), checksum: Some(checksum) }
}

/// The checksum of all parts together; `None` if a part has another algorithm.
pub(super) fn joined(parts: &[&MemoryPart], algorithm: Algorithm) -> Option<Checksum> {
    parts.iter().try_fold(algorithm.empty(), |sum, part| {
        (part.checksum.algorithm() == algorithm).then(|| sum.then(&part.checksum))
    })
}

/// The bytes of `blocks` within `range`.
pub(super) fn cut(blocks: &[Bytes], range: &Range<u64>) -> Vec<Bytes> {
    let mut offset = 0_u64;
    let mut pieces = Vec::new();
    for block in blocks {
        let len = block.len() as u64;
        let from = range.start.saturating_sub(offset).min(len) as usize;
        let to = range.end.saturating_sub(offset).min(len) as usize;
        if from < to {
            pieces.push(block.slice(from..to));
        }
        offset += len;
    }
    pieces
}
