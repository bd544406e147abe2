//! Bytes that a producer gives at once: copied into slabs, or shared.
//!
//! `Bytes` does not say how large the allocation is that it is a slice of, and a slice keeps all of that alive: a
//! shared slice of 64 KiB may keep 16 MiB, which no budget would know of. So small pieces are copied, unless their
//! producer says that its buffers are no larger than what it gives.

use bytes::Bytes;

/// A piece is shared from this size on.
const SHARE: usize = 1 << 20;

/// The same, where the producer knows its buffers: to copy less than this costs no more than to share it.
const SHARE_KNOWN: usize = 64 << 10;

/// A piece from a producer, as far as it is not taken yet.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) bytes: Bytes,
    /// Whether it is shared. A piece that was shared at its beginning is shared to its end: it is one allocation.
    pub(super) is_shared: bool,
}

impl Given {
    /// A slice of a buffer of any size.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { is_shared: bytes.len() >= SHARE, bytes }
    }

    /// All of its buffer, or most of it.
    pub(super) fn shared(bytes: Bytes) -> Self {
        Self { is_shared: bytes.len() >= SHARE_KNOWN, bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}
