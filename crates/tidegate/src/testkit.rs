//! What tests of several modules stand on.

pub(crate) mod bytes;
pub(crate) mod figures;
pub(crate) mod paused_disk;
pub(crate) mod scripted;
pub(crate) mod small_disk;
