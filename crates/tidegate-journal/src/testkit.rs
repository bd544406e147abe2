//! A disk that loses power and fails, for tests.
#![allow(dead_code, missing_docs, clippy::unwrap_used, reason = "only tests use this")]

pub(crate) mod disk;
mod power;

pub use power::SimDisk;
pub(super) use power::simulated;
