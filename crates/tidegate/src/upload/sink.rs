//! Where the bytes of an upload go: to a session that takes parts, or to one that is appended to.

pub(super) mod append;
pub(super) mod order;
mod parts;
