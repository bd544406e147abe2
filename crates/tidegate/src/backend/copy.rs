//! Copies that the store makes itself: what is copied, and how far one has come.

use std::ops::Range;

use super::{Fault, FaultKind, StoredPart};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::object::Object;

/// An object that is copied within a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// Where its bucket or root is, as [`Backend::location`](super::Backend::location) has it.
    pub location: String,
    /// Its key there.
    pub key: String,
    /// The object as it was described: a copy is of that one, or [`FaultKind::Replaced`].
    pub object: Object,
}

impl CopySource {
    /// The checksum of its bytes that the store tells, of `algorithm` where it has that.
    pub(crate) fn checksum(&self, algorithm: Algorithm) -> Option<Checksum> {
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

/// How far a copy has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All of it is there: the object.
    Whole(Box<Object>),
    /// The store goes on where it is asked again with `cursor`.
    Going {
        /// Where it stands, in the store's own words.
        cursor: String,
        /// Bytes that were copied so far.
        bytes: u64,
    },
}

/// What a backend answers that copies nothing.
pub(super) fn unsupported() -> Fault {
    Fault::new(FaultKind::Unsupported, "the store makes no copies itself")
}

/// Refuses to copy a part that has no bytes, or bytes that there are not.
pub(super) fn check_range(from: &CopySource, range: &Range<u64>) -> Result<(), Fault> {
    if range.start < range.end && range.end <= from.object.size {
        return Ok(());
    }
    let size = from.object.size;
    let message = format!("bytes {}..{} are no part of an object of {size} bytes", range.start, range.end);
    Err(Fault::new(FaultKind::Invalid, message))
}

/// Bytes of all parts together.
pub(super) fn size_of(parts: &[StoredPart]) -> u64 {
    parts.iter().map(|part| part.size).sum()
}

/// The fault of a request that was to copy this very object, where the store says that there is none.
pub(super) fn gone(mut fault: Fault) -> Fault {
    if fault.kind == FaultKind::NotFound {
        fault.kind = FaultKind::Replaced;
        fault.message = format!("the object was replaced or removed while it was copied: {}", fault.message);
    }
    fault
}

/// The same, where the only condition was that the source has this object.
pub(super) fn gone_or_other(mut fault: Fault) -> Fault {
    if fault.kind == FaultKind::Exists {
        fault.kind = FaultKind::NotFound;
    }
    gone(fault)
}
