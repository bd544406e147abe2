//! The memory budget, the payloads of requests, and the spool: local disk for bytes when the budget is used up.

pub(crate) mod budget;
pub mod payload;
pub mod spool;
