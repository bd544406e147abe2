//! Measurements of Tidegate.
//!
//! `tidegate-bench performance` ([`performance`]) runs whole commands, as a person would run them, against the embedded
//! server, a process of its own. The kernel reports the cost of each run: wall time, CPU seconds and peak memory of
//! exactly that process ([`measure`]). The server reports the requests ([`embedded`]).
//!
//! `tidegate-bench hedge` looks inside a command: it uploads through the library, to see the time of each part
//! ([`hedge`]).
//!
//! `tidegate-bench a`, `b`, `c` and `d` re-run published tables. Tables a and c upload objects whole and in
//! parts ([`parts`]). Table b compares ways to write a stream, each in a process of its own ([`journal`]).
//! Table d makes requests over prefixes that each have a limit ([`prefixes`]); `examples/compaction` is its merge of
//! sorted tables.
//!
//! `growth` measures time and memory by size ([`mod@growth`]), and `all` runs all of these ([`published`]).
//!
//! `crash` kills processes that upload through a journal and counts what is lost ([`crash`]), and `writers` keeps
//! thousands of writers open at once ([`writers`]).
//!
//! `results/BENCHMARKS.md` in this crate explains every number and has the latest results.

pub mod certificate;
mod content;
pub mod crash;
pub mod embedded;
pub mod growth;
pub mod hedge;
pub mod http;
pub mod interrupt;
pub mod journal;
pub mod machine;
pub mod measure;
pub mod parts;
pub mod performance;
pub mod prefixes;
pub mod process;
mod producer;
pub mod published;
pub mod scratch;
pub mod sign;
pub mod size;
pub mod stats;
pub mod table;
pub mod toxiproxy;
pub mod writers;

/// An error that ends a run, as one sentence.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
