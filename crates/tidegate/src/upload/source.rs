//! Where the bytes of an upload come from.

pub(super) mod buffer;
pub(super) mod copy;
pub(super) mod file;
pub(super) mod journal;
pub(super) mod streamed;
