//! The memory budget, the payloads of requests, the spool (local disk for bytes when the budget is used up), and the
//! relief that ends waits for memory.

pub(crate) mod budget;
pub mod payload;
pub(crate) mod relief;
pub mod spool;
