//! What a store has of a write that it has carried out.

use std::time::Duration;

use super::{Backend, WriteOptions};
use crate::types::checksum::Checksum;
use crate::types::object::Object;

/// How long a store is asked what it has of a write that succeeded. Short, so that the question does not
/// use up the write's own time and have all bytes sent again.
const CONFIRMING: Duration = Duration::from_secs(5);

/// What the store has of a write of `size` bytes that it has carried out. Where its answer has no checksum
/// of the whole, it is asked for the object's size, so that the size is its own word and not ours.
///
/// The write is a success by then, and stays one: what the question finds counts only where it is of
/// this very write, and not where another has replaced or removed the object meanwhile; where it
/// finds nothing, for whatever reason, the store's success is all there is to go by.
pub(super) async fn confirmed(
    store: &impl Backend,
    object: Object,
    size: u64,
    checksum: Option<&Checksum>,
    options: &WriteOptions,
) -> Object {
    let told = Object { size, ..object };
    if checksum.is_some_and(|checksum| told.matches(checksum).is_some()) {
        return told;
    }
    let there = match tokio::time::timeout(CONFIRMING, store.head(&told.key)).await {
        Ok(Ok(there)) => there,
        Ok(Err(fault)) => {
            tracing::debug!(key = told.key, %fault, "the size of what was written is not known");
            return told;
        }
        Err(_) => return told,
    };
    let same_token = there.token.is_some() && there.token == options.token;
    if same_token || (there.etag.is_some() && there.etag == told.etag) {
        return Object { size: there.size, crc64nvme: there.crc64nvme, crc32c: there.crc32c, ..told };
    }
    told
}
