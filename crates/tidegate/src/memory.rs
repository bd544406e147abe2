//! The memory budget, the bytes that it grants, and the local disk that takes them when it is used up.

pub(crate) mod budget;
pub mod payload;
pub mod spool;
