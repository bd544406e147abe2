//! Trees of objects: what the command line `tidegate` and the Python package compare and copy, by the same code.
//!
//! Nothing here prints, or keeps anything from one call to the next.

pub mod attributes;
pub mod copy_through;
pub mod listing;
pub mod merge;
