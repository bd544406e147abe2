//! Sorted tables in an object store, and their compaction in constant memory: an example of Tidegate.
//!
//! A database of log-structured merge trees writes sorted tables, and now and then merges some of them into new
//! ones. Done by hand, that holds whole tables in memory. Here it is a pipeline under one memory budget: tables are
//! read as streams of blocks, ahead of the merge ([`TableReader`]); merged by [`tidegate::MergeStream`]; written as
//! blocks into objects that are uploaded meanwhile ([`TableWriter`]); and while one output's last parts are on their
//! way the next has begun ([`Outputs`]).
//!
//! - [`mod@format`]: the bytes of a table, no I/O; [`TableBuilder`] makes them.
//! - [`Plan`]: which tables may be merged, and which tombstones may be dropped, no I/O.
//! - [`compact`] and [`build`]: what the program `compaction` does.
//!
//! What tables a database consists of is for its manifest to say, which this example does not have: a compaction
//! leaves its inputs where they are, and its outputs are elsewhere.

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
pub use entry::Entry;
pub use error::{Error, Result};
pub use outputs::{Outputs, Way, Written};
pub use plan::{Plan, Summary};
pub use reader::{Entries, TableReader};
pub use writer::TableWriter;
