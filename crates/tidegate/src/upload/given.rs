//! Bytes that a producer gives at once: copied into slabs, or shared.
//!
//! `Bytes` does not say how large its allocation is, and a slice keeps the whole allocation alive: a shared
//! slice of 64 KiB may keep 16 MiB, which no budget would know of. So small pieces are copied, unless their
//! producer says that its buffers are no larger than the pieces.

use bytes::Bytes;

/// A piece is shared from this size on.
const SHARE: usize = 1 << 20;

/// The same, where the producer knows its buffers: copying less than this costs no more than sharing it.
const SHARE_KNOWN: usize = 64 << 10;

/// The rest of a producer's piece that is not taken yet.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) bytes: Bytes,
    /// Whether the piece is shared: from its beginning to its end, because it is one allocation.
    pub(super) is_shared: bool,
}

impl Given {
    /// A piece of a buffer of any size.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { is_shared: bytes.len() >= SHARE, bytes }
    }

    /// A piece that is all of its buffer, or most of it.
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
