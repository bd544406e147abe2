//! What tests of several modules stand on.
#![allow(missing_docs, clippy::unwrap_used, reason = "only tests use this")]

pub mod bytes;
pub mod figures;
pub mod paused_disk;
pub mod samples;
pub mod scripted;
pub mod small_disk;
