//! The memory budget, the payloads of requests, the spool (local disk for bytes when the budget is used up), the
//! relief that ends waits for memory, and a sort that continues on disk.

pub mod budget;
pub mod external_sort;
pub mod payload;
pub mod relief;
pub mod spool;
