//! Copies that the store makes itself: their source and their progress.

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;

use super::{Attempt, Fault, FaultKind, WriteOptions};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::Object;

/// Copies that a store makes itself, each in one request.
#[async_trait]
pub trait ServerCopy: Debug + Send + Sync {
    /// Copies an object of the same store (same endpoint, maybe another bucket) to `key`. The object may have at most
    /// [`Capabilities::max_copy`](super::Capabilities::max_copy) bytes. The copy carries the attributes and the token
    /// of `options`, and the source's tags if `options` has none. `cursor` continues an earlier request for the same
    /// copy that returned `Copied::Going`.
    ///
    /// [`FaultKind::Replaced`] if the source key no longer has the object that `from` describes.
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault>;
}

/// The source of a copy within a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The address of its bucket or root, as in [`Backend::location`](super::Backend::location).
    pub location: String,
    /// Its key in that bucket or root.
    pub key: String,
    /// The object as it was described. A copy is of this object, or fails with [`FaultKind::Replaced`].
    pub object: Object,
    /// Whether a copy for which no tags are given gets the source's tags; otherwise the copy has none.
    pub keeps_tags: bool,
}

impl CopySource {
    /// The source of a copy that keeps the tags.
    pub fn new(location: impl Into<String>, key: impl Into<String>, object: Object) -> Self {
        Self { location: location.into(), key: key.into(), object, keeps_tags: true }
    }

    /// The object's checksum by the store, if it has one; preferably of `algorithm`.
    pub fn checksum(&self, algorithm: Algorithm) -> Option<Checksum> {
        let told = |algorithm| {
            let text = match algorithm {
                Algorithm::Crc64Nvme => self.object.crc64nvme.as_deref(),
                Algorithm::Crc32c => self.object.crc32c.as_deref(),
            }?;
            Checksum::from_base64(algorithm, text, self.object.size)
        };
        let all = [algorithm, Algorithm::Crc64Nvme, Algorithm::Crc32c];
        all.into_iter().find_map(told)
    }
}

/// The progress of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The copy is complete.
    Whole(Box<Object>),
    /// The store continues when it is asked again with `cursor`.
    Going {
        /// The position, in the store's own form.
        cursor: String,
        /// Bytes copied so far.
        bytes: u64,
    },
}

/// Refuses a range that is empty or ends past the object's end.
pub fn check_range(from: &CopySource, range: &Range<u64>) -> Result<(), Fault> {
    if range.start < range.end && range.end <= from.object.size {
        return Ok(());
    }
    let size = from.object.size;
    let message = format!("bytes {}..{} are no part of an object of {size} bytes", range.start, range.end);
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Turns "not found" into `Replaced`, for a copy of one particular object.
pub fn gone(mut fault: Fault) -> Fault {
    if fault.kind == FaultKind::NotFound {
        fault.kind = FaultKind::Replaced;
        fault.message = format!("the object was replaced or removed while it was copied: {}", fault.message);
    }
    fault
}

/// As `gone`, also for an unmet condition, where the only condition was on the source.
pub fn gone_or_other(mut fault: Fault) -> Fault {
    if fault.kind == FaultKind::Exists {
        fault.kind = FaultKind::NotFound;
    }
    gone(fault)
}
