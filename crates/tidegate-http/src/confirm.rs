//! Confirms the size of an object that the store has just written.

use std::time::Duration;

use tidegate_core::backend::{Attempt, Backend, WriteOptions};
use tidegate_core::types::checksum::Checksum;
use tidegate_core::types::object::Object;

/// Longest wait for the store's description after a write. Short, because the write's deadline is still running: if
/// it expired here, all bytes would be sent again.
pub const CONFIRMING: Duration = Duration::from_secs(5);

/// The store's description of a successful write of `size` bytes. If its answer has no checksum of the whole object,
/// the store is asked for the object's size, so that the size is the store's word and not ours.
///
/// Of an object without bytes nothing can be missing or damaged, so the store is not asked.
///
/// The write has already succeeded. The store's description is used only if it is of this very write, and not if the
/// object was replaced or removed meanwhile. If the question fails, the answer to the write stands, with our size.
/// `unkept` is called if the description is of this very write, and the store keeps no checksum of our algorithm. A
/// composite checksum shows that the store keeps checksums.
pub async fn confirmed(
    store: &impl Backend,
    object: Object,
    size: u64,
    checksum: Option<&Checksum>,
    options: &WriteOptions,
    attempt: Attempt,
    unkept: impl FnOnce(),
) -> Object {
    let told = Object { size, ..object };
    if size == 0 || checksum.is_some_and(|checksum| told.matches(checksum).is_some()) {
        return told;
    }
    let there = match tokio::time::timeout(CONFIRMING, store.head(&told.key, attempt)).await {
        Ok(Ok(there)) => there,
        Ok(Err(fault)) => {
            tracing::debug!(key = told.key, %fault, "the size of what was written is not known");
            return told;
        }
        Err(_) => return told,
    };
    let same_token = there.token.is_some() && there.token == options.token;
    if !same_token && (there.etag.is_none() || there.etag != told.etag) {
        return told;
    }
    // With the same bytes, an object of another writer can have the same ETag.
    let is_ours = same_token || options.token.is_none();
    let has_checksum =
        there.has_composite_checksum || checksum.is_none_or(|ours| there.matches(ours).is_some());
    if is_ours && !has_checksum {
        unkept();
    }
    Object { size: there.size, crc64nvme: there.crc64nvme, crc32c: there.crc32c, ..told }
}
