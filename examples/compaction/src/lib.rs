//! Sorted tables in an object store, and their compaction in constant memory: an example of Tidegate.
//!
//! A database built on log-structured merge trees writes sorted tables and merges some of them into new ones
//! from time to time. Written by hand, a merge often holds whole tables in memory. Here it is a pipeline under
//! one memory budget: [`TableReader`] reads tables as streams of blocks, ahead of the merge;
//! [`tidegate::merge::MergeStream`] merges them; [`TableWriter`] writes blocks into objects, which are uploaded
//! meanwhile; and while the last parts of one output are in flight, [`Outputs`] starts the next.
//!
//! - [`mod@format`]: the bytes of a table, without I/O; [`TableBuilder`] builds them.
//! - [`MergePlan`]: which tables may be merged and which tombstones may be dropped, without I/O.
//! - [`compact`] and [`build`]: the commands of the program `compaction`.
//!
//! A database's manifest says which tables it consists of. This example has no manifest: a compaction leaves
//! its inputs in place and writes its outputs elsewhere.

pub mod build;
pub mod builder;
pub mod compact;
pub mod entry;
mod error;
pub mod format;
pub mod outputs;
pub mod plan;
pub mod reader;
#[cfg(test)]
mod samples;
pub mod writer;

pub use builder::TableBuilder;
pub use compact::Compacted;
pub use entry::TableEntry;
pub use error::{CompactionError, Result};
pub use outputs::{Outputs, TableWay, WrittenTable};
pub use plan::{MergePlan, TableSummary};
pub use reader::{TableEntries, TableReader};
pub use writer::TableWriter;
